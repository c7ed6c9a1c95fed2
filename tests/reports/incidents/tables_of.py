"""Tables in the form that rules of incidents read, row by row: what is not given is null, or zero, or empty.

Times are seconds since `BEGIN`, and become nanoseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import dataset as ds

from kafkascope.reports.columns.arrow import numbered
from kafkascope.reports.columns.words import iso_time
from kafkascope.reports.incidents.incident import Incident, incident_of
from kafkascope.reports.incidents.rules import conclusions
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS

SECOND = 1_000_000_000
BEGIN = 1_790_000_000 * SECOND
LASTS = 300.0  # seconds of the capture

B1, B2 = "10.0.0.1", "10.0.0.2"  # brokers 1 and 2
H1, H2 = "10.0.1.1", "10.0.1.2"  # hosts of clients

Row = dict[str, Any]


def at(seconds: float) -> int:
    """A time as tables have it."""
    return BEGIN + round(seconds * 1_000_000) * 1000


def seconds(time: int | None) -> float | None:
    """The reverse."""
    return None if time is None else round((time - BEGIN) / SECOND, 6)


def _row(table: str, times: Sequence[str], **given: Any) -> Row:
    """A row whose numbers are zero unless they are given."""
    empty: Row = {
        field.name: 0 if pa.types.is_int64(field.type) or pa.types.is_floating(field.type) else None
        for field in ALL_SCHEMAS[table]
    }
    assert given.keys() <= empty.keys()
    return empty | given | {name: at(given[name]) for name in times if given.get(name) is not None}


def connection(number: int, client: str = H1, broker: str = B1, client_id: str | None = "c1", **given: Any) -> Row:
    """A row of ``connections``."""
    known = {"protocol": "kafka", "how_closed": "open", "broker_port": 9092, "packets_up": 1, "packets_down": 1} | given
    known.setdefault("closed_by", known.get("reset_by") or ("client" if known["how_closed"] == "fin" else None))
    return _row(
        "connections",
        ("opened", "closed", "tls_last_answer"),
        connection=number,
        client=client,
        broker=broker,
        client_id=client_id,
        **known,
    )


def tenths(sent: Sequence[float]) -> bytes:
    """The tenths of a second, of ten seconds, in which something was sent."""
    return sum({1 << int(one * 10 + 1e-6) % 100 for one in sent}).to_bytes(13, "little")


def health(number: int, sender: str, sent: Sequence[float], data: Sequence[float], **given: Any) -> Row:
    """A row of ``tcp_health``: all that is sent lies in one span of ten seconds."""
    known = {"client": H1, "broker": f"{B1}:9092"} | given
    host = known["client"] if sender == "client" else known["broker"].rpartition(":")[0]
    (span,) = {int(one // 10) * 10 for one in (*sent, *data)}
    known = {"last_payload": max(data, default=None), "acknowledgements": len({*sent} - {*data})} | known
    return _row(
        "tcp_health",
        ("at", "first", "last", "last_payload", "unacked_since"),
        connection=number,
        sender=sender,
        host=host,
        sent_in=tenths([*sent, *data]),
        payload_in=tenths(data),
        **{"at": span, "first": min(*sent, *data, span + 10), "last": max(*sent, *data, span), **known},
    )


def silence(host: str, since: float, until: float | None, **given: Any) -> Row:
    """A row of ``silences``."""
    end = LASTS if until is None else until
    lasted = (end - since) * 1000
    known = {"waiting_clients": [], "duration_ms": lasted, "overdue_ms": lasted} | given
    return _row("silences", ("since", "until", "first_failed"), host=host, since=since, until=until, **known)


def event(kind: str, time: float, **given: Any) -> Row:
    """A row of ``cluster_events``."""
    return _row("cluster_events", ("at",), event=kind, **{"at": time, "packet": 9, "partitions": [], **given})


def listed(node_id: int, host: str, **given: Any) -> Row:
    """An event by which a cluster tells a broker's address."""
    return event("broker_listed", 0, node_id=node_id, host=f"{host}:9092", told_by=f"{host}:9092", **given)


BROKERS = [listed(1, B1), listed(2, B2)]
# The same, listed by name; and the first one, found at its address.
NAMED = [event("broker_listed", 0, node_id=n, host=f"k{n}.example:9092", told_by=f"{B1}:9092") for n in (1, 2)]
SEEN = [event("broker_found", 1, node_id=1, host=f"{B1}:9092", told_by=f"{B1}:9092")]


def group_event(kind: str, time: float, group: str = "shop", **given: Any) -> Row:
    """A row of ``group_events``."""
    return _row("group_events", ("at",), event=kind, group_id=group, **{"at": time, "packet": 8, **given})


def member(client_id: str, host: str | None = H1, member_id: str | None = None) -> Row:
    """A member of a rebalance, with the Java client."""
    named = {"member_id": member_id or f"{client_id}-id", "client_id": client_id, "host": host}
    return named | {"software": "apache-kafka-java"}


def rebalance(trigger: str, generation: int, started: float | None, group: str = "shop", **given: Any) -> Row:
    """A row of ``rebalances``, over after a second."""
    over = None if started is None else started + 1
    times = ("started", "joined", "stable", "recovered")
    known: Row = {
        "protocol": "classic",
        "certainty": "certain",
        "stable": over,
        "recovered": over,
        "unowned": [],
        "contributing": [],
        "members": [],
    }
    return _row(
        "rebalances",
        times,
        group_id=group,
        to_generation=generation,
        started=started,
        trigger=trigger,
        **known | given,
    )


def finding(kind: str, subject: str, title: str, since: float, until: float, **given: Any) -> Row:
    """A row of ``findings``."""
    seen = {"text": "seen", "packet": 7, "at": at(since)}
    known = {"id": f"{kind} {subject}", "severity": "warning", "advice": "do this", "evidence": [seen]}
    known["client_ids"] = [subject.removeprefix("client ").rpartition(" (")[0]] if subject.startswith("client ") else []
    known |= given
    return _row(
        "findings", ("since", "until"), kind=kind, subject=subject, title=title, since=since, until=until, **known
    )


def error(name: str, api: str, first: float, last: float, count: int = 1, **given: Any) -> Row:
    """A row of ``error_histogram``."""
    known = {"client_id": "c1", "broker": f"{B1}:9092", "at": first, "rest": False, "first_packet": 6} | given
    return _row(
        "error_histogram", ("at", "first", "last"), error=name, api=api, first=first, last=last, count=count, **known
    )


def exchange(number: int, api: str, requested: float, answered: float | None, **given: Any) -> Row:
    """A row of ``exchanges``."""
    latency = None if answered is None else (answered - requested) * 1000
    known = {"connection": 1, "client_id": "c1", "request_packet": number, "latency_ms": latency} | given
    return _row(
        "exchanges", ("requested", "answered"), number=number, api=api, requested=requested, answered=answered, **known
    )


def partition(api: str, time: float, topic: str = "orders", **given: Any) -> Row:
    """A row of ``partitions``: what is not given is null."""
    nulls = dict.fromkeys(ALL_SCHEMAS["partitions"].names)
    known = {"connection": 1, "number": 1, "partition": 0} | given
    return nulls | known | {"api": api, "at": at(time), "topic": topic}


def row(table: str, **given: Any) -> Row:
    """A row of any table; its times are those of `at`."""
    return _row(table, (), **given)


def begun(connection: int, time: float, offset: int = 7, client_id: str = "c1", client: str = H1) -> Row:
    """A row of ``rereads``: a member that reads on from an offset once more."""
    return row(
        "rereads",
        group_id="shop",
        topic="orders",
        partition=2,
        at=at(time),
        connection=connection,
        client_id=client_id,
        client=client,
        from_offset=offset,
        to_offset=offset + 5,
        records=5,
    )


def committed(offset: int, partition: int = 2, group: str = "shop") -> Row:
    """A row of ``lag``: what a group had committed in a span."""
    return row("lag", group_id=group, topic="orders", partition=partition, at=at(10), committed_offset=offset)


def dataset(name: str, rows: Sequence[Mapping[str, Any]]) -> ds.Dataset:
    """A table as rules get it."""
    return ds.dataset(pa.Table.from_pylist(list(rows), schema=ALL_SCHEMAS[name]))


def signs(**tables: Sequence[Mapping[str, Any]]) -> Signs:
    """Tables as rules look at them."""
    return Signs({name: dataset(name, rows) for name, rows in tables.items()})


def found(**tables: Sequence[Mapping[str, Any]]) -> list[Incident]:
    """The incidents of these tables, which are the same with each two rows in the other order."""
    summary = {"first": iso_time(BEGIN), "last": iso_time(at(LASTS))}
    made = conclusions({name: dataset(name, rows) for name, rows in tables.items()}, summary)
    assert made.keys() == {"incidents"}
    turned = {name: dataset(name, rows[::-1]) for name, rows in tables.items()}
    assert conclusions(turned, summary)["incidents"].equals(made["incidents"])
    return [incident_of(one) for one in numbered(made["incidents"]).to_pylist()]


def only(**tables: Sequence[Mapping[str, Any]]) -> Incident:
    """The one incident of these tables."""
    (one,) = found(**tables)
    return one


def names(one: Incident) -> list[str]:
    """Whom it is about."""
    return [subject.name for subject in one.subjects]


def told(*silences: Row, **tables: Any) -> list[Incident]:
    """The incidents of a cluster of two brokers."""
    return found(silences=list(silences), **{"cluster_events": BROKERS, **tables})


def tables_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Fills with the names of tables, each time that one is read."""
    read: list[str] = []
    batches = Signs.batches

    def counted(self: Signs, name: str, *args: Any) -> Iterator[pa.Table]:
        read.append(name)
        return batches(self, name, *args)

    monkeypatch.setattr(Signs, "batches", counted)
    return read


# Of a silence: a broker that is gone, and one that stands still.
GONE = {"ended": 3, "reset": 2, "ended_clients": 2}
HELD = {
    "waiting": 4,
    "waiting_connections": 2,
    "waiting_clients": ["c1", "c2"],
    "asked": 3,
    "acknowledged": 2,
    "kept": 2,
}
# Rows that many tests have: c1 on a connection, and as the member of a group.
CLIENT = connection(1)
IN_GROUP = rebalance("member_joined", 1, 5, members=[member("c1")])
