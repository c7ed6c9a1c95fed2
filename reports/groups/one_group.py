"""What became of a group, whatever protocols its members spoke."""

from __future__ import annotations

import logging
from collections.abc import Callable

from kafkascope.reports.groups.group_wide import group_wide
from kafkascope.reports.groups.history import GroupHistory, GroupLog, Rebalance
from kafkascope.reports.groups.migration import by_protocol

_LOG = logging.getLogger(__name__)

# Each tells its part of a group from all of the group's messages.
_PROTOCOLS: tuple[Callable[[GroupLog], GroupHistory], ...] = (group_wide, by_protocol)


def analyze_group(log: GroupLog) -> GroupHistory:
    """The events and rebalances of one group, in order of time."""
    if _LOG.isEnabledFor(logging.DEBUG):
        count = sum(len(message.times) for message in log.messages)
        _LOG.debug("group %s: understood from %d messages", log.group_id, count)
    history = GroupHistory()
    for protocol in _PROTOCOLS:
        found = protocol(log)
        history.events += found.events
        history.rebalances += found.rebalances
    history.events.sort(key=lambda event: (event.at, event.packet or 0))
    history.rebalances.sort(key=lambda rebalance: (rebalance.started or rebalance.stable or 0, rebalance.to_generation))
    if _LOG.isEnabledFor(logging.DEBUG):
        for rebalance in history.rebalances:
            _log_readings(rebalance)
    return history


def _log_readings(rebalance: Rebalance) -> None:
    """Log what a rebalance was taken for, and each reading with what spoke for it."""
    name = f"group {rebalance.group_id}, {rebalance.from_generation or '?'} to {rebalance.to_generation}"
    _LOG.debug("%s: %s, %s", name, rebalance.trigger, rebalance.certainty)
    for one in rebalance.evidence:
        said = "rejected" if one.rejected else "chosen"
        place = "no packet" if one.packet is None else f"packet {one.packet}"
        _LOG.debug("%s: %s, %s, weight %.2f, %s: %s", name, said, one.trigger, one.weight, place, one.text)
