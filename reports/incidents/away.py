"""Whether a cluster went on without a broker, and brokers that were gone before the capture began."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pyarrow.compute as pc

from kafkascope.reports.columns.text import address, address_alone
from kafkascope.reports.incidents.signs import Life, Node, Row, Signs
from kafkascope.reports.vocabulary.tables import SILENCES
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

LEADER_MOVES = frozenset({"leader_changed", "leader_lost", "leader_elected"})


def is_off(event: Row, node: Node) -> bool:
    """Whether an event says that a broker was taken off its cluster's list, or out of service."""
    return event["event"] in ("broker_unlisted", "broker_fenced") and str(event["node_id"]) == node.id


def missed(signs: Signs, where: str, since: int) -> bool:
    """Whether the cluster went on without a broker: it was taken off the list, or its partitions led elsewhere."""
    node = signs.node(where, since)
    if node is None:
        return False
    return any(
        is_off(row, node)
        or (row["event"] in LEADER_MOVES and row["before"] == node.id)
        or (row["event"] == "isr_shrunk" and node.id in {*_ids(row["before"])} - {*_ids(row["after"])})
        for row in signs.events_of(node, since - 10 * SECOND_NS, since + 60 * SECOND_NS)
    )


def _ids(told: str | None) -> list[str]:
    """Node ids of ``1,2,3``."""
    return told.split(",") if told else []


def gone_before(signs: Signs) -> Iterator[Row]:
    """Silences, as the table has them, of brokers that clients could not connect to before any data came from them.

    They begin with the first connect that failed. Only of brokers that their cluster listed, and then did without: else
    it may be that they are listed where they are not.
    """
    failed: dict[str, list[Row]] = defaultdict(list)
    for row in signs.failed_connects:
        if row["opened"] is not None:
            failed[signs.where(address(row["broker"], row["broker_port"]))].append(row)
    for where, rows in sorted(failed.items()):
        rows.sort(key=lambda row: (row["opened"], row["connection"]))
        first = rows[0]
        if len(rows) < threshold("failed_connects") or not missed(signs, where, first["opened"]):
            continue
        heard = _first_data(signs, where)
        before = [row for row in rows if heard is None or row["opened"] < heard]
        if len(before) < threshold("failed_connects"):
            continue
        yield dict.fromkeys(SILENCES.names, 0) | {
            "host": where,
            "since": first["opened"],
            "until": heard,
            "duration_ms": ((signs.end if heard is None else heard) - first["opened"]) / MILLISECOND_NS,
            "waiting_clients": [],
            "refused": sum(row["connect"] == "refused" for row in before),
            "unanswered": sum(row["connect"] == "unanswered" for row in before),
            "first_failed": first["opened"],
            "failed_packet": first["connection"],
            "first_packet": first["connection"],
            "back_connection": None,
            "back_by": None,
        }


def _first_data(signs: Signs, where: str) -> int | None:
    """When a broker first sent data, to the tenth of a second; None if it sent none."""
    host = address_alone(where)
    mine = (pc.field("host") == host) & (pc.field("sender") == "broker") & pc.field("at").is_valid()
    if where != host:
        mine &= pc.field("broker") == where
    rows = signs.batches("tcp_health", ("at", "payload_in"), mine)
    sent = (tenth for batch in rows for row in batch.to_pylist() for tenth in Life(row).tenths("payload_in"))
    return min(sent, default=None)
