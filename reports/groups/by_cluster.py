"""Groups of one name in several clusters of a capture: each is a group of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kafkascope.reports.columns.clusters import Clusters
from kafkascope.reports.groups.history import GroupHistory, GroupLog
from kafkascope.reports.groups.one_group import analyze_group


def analyze_groups(log: GroupLog, clusters: Clusters) -> Iterator[tuple[GroupLog, GroupHistory]]:
    """What became of the group in each cluster.

    A broker whose cluster nobody told is of the first one in which the group was heard of: mostly that of the broker
    that a client asked for its coordinator.
    """
    if clusters.home is None:
        yield log, analyze_group(log)
        return
    of = clusters.of_broker
    spoken_to = dict.fromkeys(message.broker for message in log.messages)
    ids = list(dict.fromkeys(of[broker] for broker in spoken_to if broker in of)) or [clusters.home]
    for cluster in ids:
        messages = [message for message in log.messages if of.get(message.broker, ids[0]) == cluster]
        ended = {place: end for place, end in log.ended.items() if of.get(end.broker, ids[0]) == cluster}
        history = analyze_group(replace(log, messages=messages, ended=ended))
        name = clusters.group(log.group_id, cluster)
        for event in history.events:
            event.group_id = name
        for rebalance in history.rebalances:
            rebalance.group_id = name
        yield replace(log, group_id=name, messages=messages, ended=ended), history
