"""Brokers that nobody asked for anything as they went away: by their own connections, which ended all at once.

A broker that leads nothing has no clients, so nothing is due of it, and nobody tries it again. But it fetches from
other brokers, and tells a controller that it is there; when its process ends, its kernel closes these connections.
Of a controller that follows another one this is one connection: it is gone if others look for it then, in vain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain

from kafkascope.reports.columns.text import address
from kafkascope.reports.incidents.brokers.away import is_off
from kafkascope.reports.incidents.brokers.followers import asking, follower
from kafkascope.reports.incidents.runs import in_runs
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row, silence_row
from kafkascope.reports.incidents.who_is_who import Node
from kafkascope.reports.vocabulary.broker_client_ids import follower_node
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.sniffer.units import SECOND_NS

_AT_ONCE_NS = SECOND_NS  # connections of a process that ends; one that is started anew takes longer to open some


def departed(signs: Signs) -> list[tuple[str, Row]]:
    """Silences, as the table has them, of brokers whose connections to others all ended by themselves at one moment.

    Each with the address that these came from: under which name it is listed is not always seen.

    To two others at least, so that it was not one of these that went, or else with connects to it that fail then. They
    end with the first connection that is opened again: from another address, as a container has, if it leads to one of
    the same brokers.
    """
    failed: dict[str, list[Row]] = defaultdict(list)
    for row in signs.failed_connects:
        if row["opened"] is not None:
            failed[signs.where(address(row["broker"], row["broker_port"]))].append(row)
    return [
        (host, silence)
        for by_host in signs.once(asking).values()
        for host, rows in by_host.items()
        for silence in _silences(signs, rows, [*chain.from_iterable(by_host.values())], failed[host])
    ]


def announced(signs: Signs) -> Iterator[tuple[str, Row]]:
    """Silences, as the table has them, of brokers that said that they go, and that were taken out of service then.

    Each with its address. Who would miss it may be gone itself, and what it closes on request it closes one by one.
    """
    takes = int(threshold("shutdown_takes") * SECOND_NS)
    for row in signs.events:
        if row["event"] != "shutdown_announced":
            continue
        node = Node(row["cluster_id"], str(row["node_id"]))
        places = signs.listed_as(node)
        off = next((one for one in signs.events_of(node, row["at"], row["at"] + takes) if is_off(one, node)), None)
        if places and off is not None:
            host = signs.where(places[0])
            yield host, silence_row(host, off["at"], signs.end) | {"until": None}


def _silences(signs: Signs, rows: Sequence[Row], of_node: Sequence[Row], failed: Sequence[Row]) -> Iterator[Row]:
    """Those of one broker, by all its connections.

    of_node: those of all that have its node id, wherever; failed: connects to its address.
    """
    by_itself = [row for row in rows if row["closed"] is not None and row["closed_by"] == "client"]
    in_order = sorted(by_itself, key=lambda row: (row["closed"], row["connection"]))
    for run in in_runs(in_order, lambda run, row: row["closed"] - run[0]["closed"] <= _AT_ONCE_NS):
        fetched = next((row for row in run if follower_node(row["client_id"])), None)
        first, last = run[0]["closed"], run[-1]["closed"]
        others = {(row["broker"], row["broker_port"]) for row in run}
        goes_on = any((row["opened"] or 0) <= last and (row["closed"] or signs.end) > last for row in rows)
        if goes_on:
            continue
        again = (
            row
            for row in of_node
            if (row["opened"] or 0) > last
            and (row["client"] == run[0]["client"] or (row["broker"], row["broker_port"]) in others)
        )
        back = min(again, key=lambda row: row["opened"], default=None)
        until = signs.end if back is None else back["opened"]
        sought = [row for row in failed if first <= row["opened"] <= until]
        if len(sought) < threshold("failed_connects") and (fetched is None or len(others) <= 1):
            continue
        if until - last >= (_AT_ONCE_NS if back is not None else threshold("awaited") * SECOND_NS):
            host = run[0]["client"]
            if fetched is not None:
                leader = signs.where(address(fetched["broker"], fetched["broker_port"]))
                host = follower(signs, fetched["client"], fetched["client_id"], leader, first)
            yield silence_row(host, first, until) | {
                "until": back and back["opened"],
                "ended": len(run),
                "reset": sum(row["how_closed"] == "rst" for row in run),
                "refused": sum(row["connect"] == "refused" for row in sought),
                "unanswered": sum(row["connect"] == "unanswered" for row in sought),
                "first_failed": sought[0]["opened"] if sought else None,
                "failed_packet": sought[0]["connection"] if sought else None,
                "back_connection": back and back["connection"],
                "back_by": back and "as_client",
            }
