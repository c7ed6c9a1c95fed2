"""What tells that a broker is back, where nothing came from its address again."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import among
from kafkascope.reports.columns.text import address, address_alone
from kafkascope.reports.incidents.brokers.outage import Outage
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.incidents.who_is_who import Node
from kafkascope.reports.vocabulary.broker_client_ids import OF_NODES, follower_node, quorum_node
from kafkascope.sniffer.units import SECOND_NS

_ASKS = "asks"
BACK = {
    "broker_back": "it is listed again",
    "broker_registered": "a process of it has told the controller that it is there",
    "broker_unfenced": "the controller has put it into service",
    "broker_found": "it answers at another address",
    _ASKS: "it asks other brokers",
}
"""Events by which a broker is there again, and what they say; and what it does itself."""


def with_return(signs: Signs, outage: Outage) -> Outage:
    """The outage, with what tells that its broker is back where nothing came from its address again."""
    back = _back(signs, outage) if outage.gone and outage.ended is None else None
    return outage if back is None else replace(outage, ended=back["at"], back=back)


def _back(signs: Signs, outage: Outage) -> Row | None:
    """What tells that a broker is back, maybe at another address: with names, that changes with each start."""
    node = signs.node(outage.host, outage.started)
    if node is None:
        return None
    told = (
        row
        for row in signs.events_of(node, outage.started, signs.end + 1)
        if row["event"] in BACK and str(row["node_id"]) == node.id
    )
    asks = _asks(signs, outage, node) if outage.host != outage.address else None
    return min(filter(None, (next(told, None), asks)), key=lambda row: int(row["at"]), default=None)


def _asks(signs: Signs, outage: Outage, node: Node) -> Row | None:
    """The first connection on which a broker of several at one address asks others again, in the form of an event."""
    for row in signs.once(_asking).get((outage.address, node.id), ()):
        asked = signs.node(signs.where(address(row["broker"], row["broker_port"])), row["opened"])
        is_later = row["opened"] > outage.started + SECOND_NS
        if is_later and asked is not None and asked.cluster_id == node.cluster_id:
            return {"event": _ASKS, "at": row["opened"], "packet": row["connection"], "told_by": row["client_id"]}
    return None


def _asking(signs: Signs) -> dict[tuple[str, str], list[Row]]:
    """Connections of brokers that share an address, by that and by their node id, in order of time."""
    hosts = {address_alone(row["host"]) for row in signs.silences if address_alone(row["host"]) != row["host"]}
    where = among("client", hosts) & pc.match_substring_regex(pc.field("client_id"), OF_NODES)
    where &= (pc.field("exchanges") > 0) & pc.field("opened").is_valid()
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in sorted(signs.connections(where) if hosts else (), key=lambda row: int(row["opened"])):
        found[row["client"], follower_node(row["client_id"]) or quorum_node(row["client_id"]) or ""].append(row)
    return found
