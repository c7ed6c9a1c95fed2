"""Whether a cluster went on without a broker, and brokers that were gone before the capture began."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import among
from kafkascope.reports.columns.tenths import TENTH_NS, tenths
from kafkascope.reports.columns.text import address, address_alone
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row, silence_row
from kafkascope.reports.incidents.who_is_who import Node
from kafkascope.reports.vocabulary.broker_client_ids import is_of_broker
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.sniffer.units import SECOND_NS

_LEADER_MOVES = frozenset({"leader_changed", "leader_lost", "leader_missing", "leader_elected"})


def is_off(event: Row, node: Node) -> bool:
    """Whether an event says that a broker was taken off its cluster's list, or out of service."""
    return event["event"] in ("broker_unlisted", "broker_fenced") and str(event["node_id"]) == node.id


def is_left_out(event: Row, node: Node) -> bool:
    """Whether an event says that a broker leads nothing any more, or is in sync of nothing."""
    return (
        is_off(event, node)
        or (event["event"] in _LEADER_MOVES and event["before"] == node.id)
        or (event["event"] == "isr_shrunk" and node.id in {*_ids(event["before"])} - {*_ids(event["after"])})
    )


def missed(signs: Signs, where: str, since: int) -> bool:
    """Whether the cluster went on without a broker: it was taken off the list, or its partitions led elsewhere."""
    node = signs.node(where, since)
    if node is None:
        return False
    return any(
        is_left_out(row, node) or (row["event"] == "broker_missing" and str(row["node_id"]) == node.id)
        for row in signs.events_of(node, since - 10 * SECOND_NS, since + 60 * SECOND_NS)
    )


def _ids(told: str | None) -> list[str]:
    """Node ids of ``1,2,3``."""
    return told.split(",") if told else []


def gone_before(signs: Signs) -> list[Row]:
    """Silences, as the table has them, of brokers that clients could not connect to before any data came from them.

    They begin with the first connect that failed. Only of brokers that their cluster listed, and then did without, or
    that other brokers could not reach either: else it may be that they are listed where they are not.
    """
    found = []
    failed: dict[str, list[Row]] = defaultdict(list)
    for row in signs.failed_connects:
        if row["opened"] is not None:
            failed[signs.where(address(row["broker"], row["broker_port"]))].append(row)
    often = {where: rows for where, rows in sorted(failed.items()) if len(rows) >= threshold("failed_connects")}
    first_data = _first_data(signs, often)
    for where, rows in often.items():
        rows.sort(key=lambda row: (row["opened"], row["connection"]))
        first, heard = rows[0], first_data.get(where)
        before = [row for row in rows if heard is None or row["opened"] < heard]
        if len(before) < threshold("failed_connects"):
            continue
        if not missed(signs, where, first["opened"]) and not _sought_by_brokers(signs, where, before):
            continue
        silence = silence_row(where, first["opened"], signs.end if heard is None else heard) | {
            "until": heard,
            "refused": sum(row["connect"] == "refused" for row in before),
            "unanswered": sum(row["connect"] == "unanswered" for row in before),
            "first_failed": first["opened"],
            "failed_packet": first["connection"],
            "first_packet": first["connection"],
        }
        found.append(silence)
    return found


def _sought_by_brokers(signs: Signs, where: str, failed: Sequence[Row]) -> bool:
    """Whether a broker that a cluster tells of is where other brokers could not connect to it either."""
    return signs.node(where, failed[0]["opened"]) is not None and any(
        signs.is_broker(row["client"], None) and row["client"] != row["broker"] for row in failed
    )


def _first_data(signs: Signs, places: Collection[str]) -> dict[str, int]:
    """When brokers first sent data, also as clients of others, to the tenth of a second; without those that sent none.

    Several are at one address if they have a port, and which of them was a client is not known.
    """
    if not places:
        return {}
    hosts = sorted({address_alone(place) for place in places})
    names = {name for client, _, name, _ in signs.parties if name and client in places and is_of_broker(name)}
    of_brokers = pc.field("sender") == "broker"
    if names:
        theirs = among("client", hosts) & among("client_id", names)
        asks = [batch["connection"] for batch in signs.batches("connections", ["connection"], theirs)]
        of_brokers |= pc.field("connection").isin([number for column in asks for number in column.to_pylist()])
    where = among("host", hosts) & pc.field("at").is_valid() & of_brokers
    found: dict[str, int] = {}
    for batch in signs.batches("tcp_health", ("host", "broker", "sender", "at", "payload_in"), where):
        row, tenth = tenths(batch["at"], batch["payload_in"])
        sent = batch.select(["host", "broker", "sender"]).take(pa.array(row)).append_column("tenth", pa.array(tenth))
        for one in sent.group_by(["host", "broker", "sender"]).aggregate([("tenth", "min")]).to_pylist():
            for place in (one["host"], *([one["broker"]] if one["sender"] == "broker" else [])):
                at = one["tenth_min"] * TENTH_NS
                found[place] = min(found.get(place, at), at)
    return found
