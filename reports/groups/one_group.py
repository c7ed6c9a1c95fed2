"""What became of a group, whatever protocols its members spoke."""

from __future__ import annotations

from collections.abc import Callable

from kafkascope.reports.groups.group_wide import group_wide
from kafkascope.reports.groups.history import GroupHistory, GroupLog
from kafkascope.reports.groups.migration import by_protocol

# Each tells its part of a group from all of the group's messages.
_PROTOCOLS: tuple[Callable[[GroupLog], GroupHistory], ...] = (group_wide, by_protocol)


def analyze_group(log: GroupLog) -> GroupHistory:
    """The events and rebalances of one group, in order of time."""
    history = GroupHistory()
    for protocol in _PROTOCOLS:
        found = protocol(log)
        history.events += found.events
        history.rebalances += found.rebalances
    history.events.sort(key=lambda event: (event.at, event.packet or 0))
    history.rebalances.sort(key=lambda rebalance: (rebalance.started or rebalance.stable or 0, rebalance.to_generation))
    return history
