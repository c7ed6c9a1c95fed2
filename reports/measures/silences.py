"""When a broker said nothing on all its connections at once, though answers were due or connects failed.

What a broker sent is known by tenths of a second (``tcp_health``). A request is due when the time is over for which it
lets the broker wait, and the requests before it on its connection were answered, or are overdue themselves; JoinGroup
and SyncGroup may wait for others as long as they like, and are never due.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders import apis
from kafkascope.reports.columns.answered import Answered, Begun
from kafkascope.reports.columns.arrow import dictionary_codes
from kafkascope.reports.columns.parties import Ends, ExchangePlaces, clients_and_brokers
from kafkascope.reports.columns.tenths import TENTH_NS, tenths
from kafkascope.reports.vocabulary.tables import ACTIVITY, SILENCES
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.sniffer.columns import I64, Bool
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

SPAN_NS = 10 * SECOND_NS  # of tcp_health
_CLIENTS_NAMED = 20
_PATIENT = (apis.JOIN_GROUP, apis.SYNC_GROUP)  # wait for other members
_WAITING = (apis.FETCH, apis.SHARE_FETCH)  # wait for data, as long as the request says
# What a coordinator answers once replicas have what its group did, or what others of its groups did before.
_OF_GROUPS = (
    apis.OFFSET_COMMIT,
    apis.TXN_OFFSET_COMMIT,
    apis.OFFSET_FETCH,
    apis.HEARTBEAT,
    apis.CONSUMER_GROUP_HEARTBEAT,
)
_ALL = -1  # acks of a write that waits for replicas on other brokers
_KINDS = ("sent", "sent_as_client", "received", "asked", "answered", "throttled", "connection")
_OF_CONNECTIONS = ["connection", "at", "until", "how", "port", "client", "packet", "kafka", "closed_by"]
_OF_REQUESTS = ["connection", "at", "until", "how", "port", "client_id", "packet"]
_ROWS_AT_ONCE = 16_384  # with a hundred tenths each, of which there are many fewer in a capture
Row = dict[str, Any]
Gap = tuple[int, int, bool]  # its first tenth, the one behind its last, whether the broker never spoke again
_GOES_ON = 5 * SECOND_NS // TENTH_NS  # as long a process that shuts down may take, in tenths
_NONE = np.iinfo(np.int64).min
_NEVER = np.iinfo(np.int64).max


def of_health(health: pa.Table) -> pa.Table:
    """Rows of ``ACTIVITY`` of rows of ``tcp_health`` that have a time.

    What brokers sent and were sent; and what each host sent as a client, for it may be a broker, too.
    """
    health = health.filter(pc.is_valid(health["at"]))
    is_broker = pc.equal(health["sender"], "broker")
    of_brokers = _of_spans(health, *_ends(health["broker"]), pc.if_else(is_broker, "sent", "received"))
    of_clients = health.filter(pc.invert(is_broker))
    kind = pa.array(["sent_as_client"] * of_clients.num_rows, pa.string())
    return pa.concat_tables([of_brokers, _of_spans(of_clients, of_clients["host"], pa.nulls(len(kind)), kind)])


def _of_spans(health: pa.Table, host: Any, port: Any, kind: Any) -> pa.Table:
    return _table(
        health.num_rows,
        host=host,
        port=port,
        kind=kind,
        at=pc.cast(health["at"], pa.int64()),
        connection=health["connection"],
        timeouts=health["timeout_retransmits"],
        acknowledgements=health["acknowledgements"],
        packets_in=pc.cast(health["sent_in"], pa.binary()),
        payload_in=pc.cast(health["payload_in"], pa.binary()),
    )


def of_connections(connections: pa.Table) -> pa.Table:
    """Rows of ``ACTIVITY`` of rows of ``connections``."""
    failed = pc.is_in(connections["connect"], pa.array(["refused", "unanswered"]))
    by = pc.if_else(pc.equal(connections["how_closed"], "rst"), "rst", connections["how_closed"])
    return _table(
        connections.num_rows,
        host=connections["broker"],
        port=connections["broker_port"],
        kind=pa.array(["connection"] * connections.num_rows, pa.string()),
        at=pc.cast(connections["opened"], pa.int64()),
        until=pc.cast(connections["closed"], pa.int64()),
        connection=connections["connection"],
        client=connections["client"],
        packet=connections["connection"],
        how=pc.if_else(pc.fill_null(failed, False), connections["connect"], by),
        kafka=pc.equal(connections["protocol"], "kafka"),
        closed_by=connections["closed_by"],
    )


def of_exchanges(
    exchanges: pa.Table, terms: pa.Table | None, ends: Mapping[int, Ends], answered: Answered, begun: Begun
) -> pa.Table:
    """Rows of ``ACTIVITY`` of requests that waited longer than they let the broker wait, and of orders to hold back.

    And of each port at which anything was answered: what listens at others may be no broker.
    """
    return pa.concat_tables(
        [_asked(exchanges, terms, ends, answered, begun), _answering(exchanges, ends), _throttled(exchanges, ends)]
    )


def _answering(exchanges: pa.Table, ends: Mapping[int, Ends]) -> pa.Table:
    """A row for each port at which a broker answered something."""
    rows = exchanges.filter(pc.is_valid(exchanges["answered"]))
    _, brokers = clients_and_brokers(pc.unique(rows["connection"].cast(pa.int64())).drop_null().to_numpy(), ends)
    host, port = _ends(pc.unique(brokers))
    return _table(len(host), host=host, port=port, kind=pa.array(["answered"] * len(host), pa.string()))


def _throttled(exchanges: pa.Table, ends: Mapping[int, Ends]) -> pa.Table:
    """Answers that tell a client to hold back: the broker reads nothing more of it meanwhile (KIP-219)."""
    told = pc.fill_null(pc.greater(exchanges["throttle_ms"], 0), False)
    rows = exchanges.filter(pc.and_(told, pc.is_valid(exchanges["answered"])))
    answered = _numbers(rows["answered"])
    delay = (rows["throttle_ms"].to_numpy() * MILLISECOND_NS).astype(np.int64)
    _, brokers = clients_and_brokers(_numbers(rows["connection"]), ends)
    host, port = _ends(brokers)
    return _table(
        rows.num_rows,
        host=host,
        port=port,
        kind=pa.array(["throttled"] * rows.num_rows, pa.string()),
        at=pa.array(answered),
        until=pa.array(answered + delay),
        connection=rows["connection"],
    )


def _asked(
    exchanges: pa.Table, terms: pa.Table | None, ends: Mapping[int, Ends], of_answered: Answered, begun: Begun
) -> pa.Table:
    """Requests that waited longer than they let the broker wait, and those before them on their connection."""
    asked, answered = (_numbers(exchanges[name]) for name in ("request_done", "answered"))
    api = _numbers(exchanges["api_key"])
    allowed = np.zeros(len(asked), np.int64)
    replicas = np.isin(api, _OF_GROUPS)
    known = ~np.isin(api, _WAITING)
    if terms is not None:
        place = ExchangePlaces(exchanges).of(terms)
        waits = np.isin(api[place], _WAITING) & (place >= 0)
        allowed[place[waits]] = np.maximum(_numbers(terms["max_wait_ms"])[waits], 0) * MILLISECOND_NS
        known[place[waits]] = True
        writes = (place >= 0) & (api[place] == apis.PRODUCE) & (_numbers(terms["acks"]) == _ALL)
        replicas[place[writes]] = True
    patient = ~known | np.isin(api, _PATIENT)
    due = np.where(patient, _NEVER, asked + allowed)
    due = np.maximum(due, begun.earliest(exchanges, np.where(answered == _NONE, due, np.minimum(due, answered))))
    unanswered = pc.equal(exchanges["outcome"], "unanswered").to_numpy(zero_copy_only=False)
    late: Bool = (answered != _NONE) & (answered - due >= int(threshold("silence") * SECOND_NS))
    unanswered &= ~of_answered.passed_over(exchanges)
    chosen = (asked != _NONE) & (due < _NEVER) & (late | unanswered)
    rows = exchanges.filter(pa.array(chosen))
    _, brokers = clients_and_brokers(_numbers(rows["connection"]), ends)
    host, port = _ends(brokers)
    return _table(
        rows.num_rows,
        host=host,
        port=port,
        kind=pa.array(["asked"] * rows.num_rows, pa.string()),
        at=pa.array(due[chosen]),
        until=pa.array(answered[chosen], mask=answered[chosen] == _NONE),
        connection=rows["connection"],
        packet=rows["request_packet"],
        client_id=rows["client_id"],
        how=pa.array(np.where(replicas[chosen], "replicas", "broker")),
    )


def silences(rows: pa.Table) -> list[Row]:
    """Silences of one broker out of all its rows, as rows of ``SILENCES``."""
    if not pc.any(rows["kafka"]).as_py():
        return []
    of_kind = {kind: rows.filter(pc.equal(rows["kind"], kind)) for kind in _KINDS}
    sent, received, as_client_sent = of_kind["sent"], of_kind["received"], of_kind["sent_as_client"]
    spoke, spoke_on = _tenths(sent, "payload_in")
    elsewhere = _tenths(as_client_sent, "payload_in")[0]
    heard, breathed = _tenths(received, "payload_in")[0], _tenths(sent, "packets_in")[0]
    # A host acknowledges whoever it speaks with: other brokers as well, whom it asks as a client.
    alive = np.setdiff1d(np.union1d(breathed, _tenths(as_client_sent, "packets_in")[0]), elsewhere)
    if not len(spoke):
        return []
    end = int(max(breathed.max(initial=0), _tenths(received, "packets_in")[0].max(initial=0)) + 1)
    lives, first_spoke, last_spoke = _lifetimes(sent)
    # A capture that was filtered by payload has none.
    shows_acknowledgements = any(_numbers(each["acknowledgements"]).any() for each in (sent, as_client_sent))
    gaps, as_client = _ended_as_client(_gaps(spoke, end), first_spoke, last_spoke, _clients_words(as_client_sent))
    connections = of_kind["connection"].select(_OF_CONNECTIONS).to_pylist()
    of_kafka = [row for row in connections if row["kafka"]]
    opened, kafka_opened, kafka_closed = _by(connections, "at"), _by(of_kafka, "at"), _by(of_kafka, "until")
    opened_at = {row["connection"]: row["at"] for row in connections}
    ports = {*_with_data(sent)["port"].unique().to_pylist()}
    answering = {*of_kind["answered"]["port"].to_pylist()}
    waits = _waiting(of_kind["asked"], of_kind["throttled"], kafka_closed, gaps)
    sent_at, timeouts = _numbers(sent["at"]), _numbers(sent["timeouts"])
    found = []
    for (begin, over, is_last), asked_then in zip(gaps, waits, strict=True):
        since, until = begin * TENTH_NS, over * TENTH_NS
        waiting = [row for row in asked_then if row["port"] in answering]
        inside = _between(opened, "at", since, until)
        # Where it never spoke there may be no listener: such connects fail however well it is.
        failed = [row for row in inside if row["how"] in ("refused", "unanswered") and row["port"] in ports]
        turned_away = {row["connection"] for row in inside if _is_turned_away(row, until, ports)}
        ended = _between(kafka_closed, "until", since - 2 * TENTH_NS, until)
        ended = [row for row in ended if row["connection"] not in turned_away]
        if not waiting and not failed and not ended:
            continue
        near = (sent_at + SPAN_NS > since) & (sent_at < until + TENTH_NS)
        kept = (first_spoke < begin) & (last_spoke >= over)
        quiet = alive[(alive > begin) & (alive < over - 1)]
        asked = heard[(heard >= begin) & (heard < over)]
        asked = asked[(asked > begin) | ~np.isin(asked, alive)]  # in its first tenth it may have been awake
        back: int | None = None
        back_by = None
        if not is_last and over in as_client:
            back, back_by = as_client[over], "as_client"
        elif not is_last:
            back = int(spoke_on[np.searchsorted(spoke, over)])
            # Whose beginning the capture lacks is older than it, unless it shows none, as filters by payload do.
            spoke_first = int(first_spoke[np.searchsorted(lives, back)]) * TENTH_NS
            began = opened_at.get(back) or (0 if opened else spoke_first)
            back_by = "kept" if began < since else "opened"
        first_failed = min(((row["at"], row["packet"]) for row in failed), default=(None, None))
        packets = [row["packet"] for row in [*waiting, *failed] if row["packet"] is not None]
        clients = sorted({row["client_id"] for row in waiting if row["client_id"]})
        first_due = max(min((row["at"] for row in waiting), default=until), since)
        found.append(
            {
                "host": rows["host"][0].as_py(),
                "since": since,
                "until": None if is_last else until,
                "duration_ms": (until - since) / MILLISECOND_NS,
                "waiting": len(waiting),
                "waiting_replicas": sum(row["how"] == "replicas" for row in waiting),
                "waiting_connections": len({row["connection"] for row in waiting}),
                "waiting_clients": clients[:_CLIENTS_NAMED],
                "overdue_ms": (until - first_due) / MILLISECOND_NS if waiting else None,
                "asked": len(asked),
                "acknowledged": len(quiet) if shows_acknowledgements else None,
                "ended": len(ended),
                "ended_clients": len({row["client"] for row in ended}),
                "reset": sum(row["how"] == "rst" for row in ended),
                "refused": sum(row["how"] == "refused" for row in failed),
                "unanswered": sum(row["how"] == "unanswered" for row in failed),
                "turned_away": len(turned_away),
                "opened": len(_between(kafka_opened, "at", until - SECOND_NS, until + SECOND_NS)),
                "kept": int(kept.sum()),
                "timeouts": int(timeouts[near].sum()),
                "first_packet": min(packets, default=None),
                "first_failed": first_failed[0],
                "failed_packet": first_failed[1],
                "back_connection": back,
                "back_by": back_by,
            }
        )
    return found


def _is_turned_away(row: Row, until: int, ports: Collection[int]) -> bool:
    """Whether a connection that was opened in a silence was closed in it by the broker's side, without a word."""
    is_closed = row["how"] in ("fin", "rst") and row["closed_by"] == "broker" and row["until"] is not None
    return bool(is_closed and row["until"] <= until and row["port"] in ports)


class ClientsWords(NamedTuple):
    """Tenths in which a host sent data as a client, each with the connection, and when that had data first and last."""

    at: I64
    connection: I64
    first: I64
    last: I64


def _clients_words(sent: pa.Table) -> ClientsWords:
    if not sent.num_rows:
        none = np.empty(0, np.int64)
        return ClientsWords(none, none, none, none)
    connections, first, last = _lifetimes(sent)
    at, on = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for some in _some_at_a_time(sent):
        row, when = tenths(some["at"], some["payload_in"])
        at.append(when)
        on.append(_numbers(some["connection"])[row])
    connection = np.concatenate(on)
    place = np.searchsorted(connections, connection)
    return ClientsWords(np.concatenate(at), connection, first[place], last[place])


def _ended_as_client(
    gaps: Sequence[Gap], first_spoke: I64, last_spoke: I64, elsewhere: ClientsWords
) -> tuple[list[Gap], dict[int, int]]:
    """Gaps that end where it is back as a client, if that is sooner; and by the tenth in which it was, the connection.

    A broker that is back speaks to other brokers first, and clients come when it leads something again.
    """
    found, as_client = [], dict[int, int]()
    for begin, over, is_last in gaps:
        gap = begin, over, is_last
        if is_last or not ((first_spoke < begin) & (last_spoke >= over)).any():
            spoke_again = _back_as_client(elsewhere, begin)
            if spoke_again is not None and (is_last or spoke_again[0] < over):
                gap = begin, spoke_again[0], False
                as_client.update([spoke_again])
        found.append(gap)
    return found, as_client


def _gaps(spoke: I64, end: int) -> list[Gap]:
    """Times (in tenths) long enough between neighbouring tenths, and behind the last; whether it is that."""
    least = int(threshold("silence") * SECOND_NS) // TENTH_NS
    edges = np.append(spoke, end)
    there = np.flatnonzero(np.diff(edges) > least)
    return [(int(edges[i]) + 1, int(edges[i + 1]), int(i) == len(spoke) - 1) for i in there]


def _waiting(asked: pa.Table, throttled: pa.Table, closed: list[Row], gaps: Sequence[Gap]) -> list[list[Row]]:
    """Requests whose answer was due in each of the gaps for long enough, by time.

    One that was never answered waits in the first of them alone: a broker that speaks after that, on any connection,
    does not owe to it what it does later.
    """
    least = int(threshold("silence") * SECOND_NS)
    # A tenth on either side: when in it the broker spoke is not known.
    begins = [(begin - 1) * TENTH_NS for begin, *_ in gaps]
    ends = [(over + 1) * TENTH_NS for _, over, _ in gaps]
    close = {row["connection"]: row["until"] for row in closed}
    orders: dict[int, list[Row]] = {}
    for row in _by(throttled.select(_OF_REQUESTS).to_pylist(), "at"):
        orders.setdefault(row["connection"], []).append(row)
    # By connection: when each order to hold back came, and until when it or one before it holds.
    held_back = {
        connection: ([row["at"] for row in rows], list(accumulate((row["until"] for row in rows), max)))
        for connection, rows in orders.items()
    }
    found: list[list[Row]] = [[] for _ in gaps]
    for row in sorted(
        _by(asked.select(_OF_REQUESTS).to_pylist(), "at"), key=lambda row: (row["at"], row["packet"] or 0)
    ):
        over = row["until"] if row["until"] is not None else close.get(row["connection"], ends[-1] if ends else 0)
        for place in range(bisect_right(ends, row["at"]), bisect_left(begins, over)):
            if min(over, ends[place]) - max(row["at"], begins[place]) < least:
                continue
            told, until = held_back.get(row["connection"], ([], []))
            before = bisect_left(told, ends[place] - TENTH_NS)
            if not before or until[before - 1] <= begins[place] + TENTH_NS:
                found[place].append(row)
            if row["until"] is None:
                break
    return found


def _by(rows: Sequence[Row], name: str) -> list[Row]:
    """Rows that have a time of that name, by it."""
    return sorted((row for row in rows if row[name] is not None), key=lambda row: (row[name], row["connection"]))


def _between(rows: Sequence[Row], name: str, since: int, until: int) -> Sequence[Row]:
    """Of rows by the time of that name those from since to before until."""
    low = bisect_left(rows, since, key=lambda row: row[name])
    return rows[low : bisect_left(rows, until, low, key=lambda row: row[name])]


def _back_as_client(words: ClientsWords, begin: int) -> tuple[int, int] | None:
    """The first tenth in which a host, which is asked by nobody any more, sends data as a client after a pause.

    And on which connection. One from before shows it if the host goes on with it: a process that shuts down, and
    listens no more, still asks other brokers for some seconds.
    """
    counts = (words.at >= begin) & ((words.first >= begin) | (words.last - words.at >= _GOES_ON))
    after, on = _lowest(words.at[counts], words.connection[counts])
    there = np.flatnonzero(np.diff(np.concatenate([[begin], after])) >= SECOND_NS // TENTH_NS)
    return (int(after[there[0]]), int(on[there[0]])) if len(there) else None


def _tenths(rows: pa.Table, name: str) -> tuple[I64, I64]:
    """Tenths of a second since 1970 in which something was sent, each once, in order; and a connection on which.

    Of several connections it is the one with the lowest number.
    """
    found = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    for some in _some_at_a_time(rows):
        row, when = tenths(some["at"], some[name])
        found.append(_lowest(when, _numbers(some["connection"])[row]))
    return _lowest(*map(np.concatenate, zip(*found, strict=True)))


def _lowest(key: I64, value: I64) -> tuple[I64, I64]:
    """Each key once, in order, and the lowest of its values."""
    order = np.lexsort((value, key))
    found, first = np.unique(key[order], return_index=True)
    return found, value[order][first]


def _some_at_a_time(rows: pa.Table) -> Iterator[pa.Table]:
    for begin in range(0, rows.num_rows, _ROWS_AT_ONCE):
        yield rows.slice(begin, _ROWS_AT_ONCE)


def _with_data(sent: pa.Table) -> pa.Table:
    """Rows (at least one) in which data was sent."""
    return sent.filter(pc.not_equal(sent["payload_in"], bytes(len(sent["payload_in"][0].as_py()))))


def _lifetimes(sent: pa.Table) -> tuple[I64, I64, I64]:
    """Each connection, in order, with the tenth in which the broker sent its first data on it, and its last."""
    there = _with_data(sent)
    firsts, lasts = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for some in _some_at_a_time(there):
        row, when = tenths(some["at"], some["payload_in"])
        begins = np.flatnonzero(np.diff(row, prepend=-1))
        firsts.append(when[begins])
        lasts.append(when[np.append(begins[1:], len(row)) - 1])
    connections, connection = np.unique(_numbers(there["connection"]), return_inverse=True)
    first = np.full(len(connections), np.iinfo(np.int64).max)
    last = np.full(len(first), -1)
    np.minimum.at(first, connection, np.concatenate(firsts))
    np.maximum.at(last, connection, np.concatenate(lasts))
    return connections, first, last


def _ends(places: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, pa.Array]:
    """Addresses and ports of ``address:port``."""
    codes, distinct = dictionary_codes(places)
    parts = pc.extract_regex(distinct, r"^\[?(?P<host>.*?)\]?:(?P<port>[0-9]+)$")
    of_row = pa.array(codes, mask=codes < 0)
    return parts.field("host").take(of_row), parts.field("port").cast(pa.int32()).take(of_row)


def _numbers(column: pa.Array | pa.ChunkedArray) -> I64:
    return pc.fill_null(column.cast(pa.int64()), _NONE).to_numpy()  # type: ignore[no-any-return]


def _table(count: int, **columns: Any) -> pa.Table:
    arrays = [
        pc.cast(columns[field.name], field.type) if field.name in columns else pa.nulls(count, field.type)
        for field in ACTIVITY
    ]
    return pa.table(arrays, schema=ACTIVITY)


def silence_table(found: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows of ``silences``, by time."""
    ordered = sorted(found, key=lambda row: (row["since"], row["host"]))
    return pa.Table.from_pylist(ordered, schema=SILENCES)
