"""Which broker coordinated a group when, by what brokers answered; and when another one loaded the group."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from kafkascope.decoders.errors import Error
from kafkascope.reports.groups.history import GroupLog
from kafkascope.reports.groups.leaving import FENCED

_LOADING = Error.COORDINATOR_LOAD_IN_PROGRESS
_MOVED = frozenset({Error.NOT_COORDINATOR, _LOADING})
_HERE = FENCED | {Error.REBALANCE_IN_PROGRESS, Error.MEMBER_ID_REQUIRED}  # who answers so coordinates the group
_OF_COORDINATORS = frozenset({"JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "LeaveGroup"})


@dataclass(slots=True)
class Tenure:
    """The time in which one broker is known to have coordinated the group, by what it answered."""

    broker: str
    first: int
    last: int
    in_vain: int | None = None  # when it was first asked something after that which it did not answer
    told: list[tuple[int, str, str]] = field(default_factory=list)  # who answered before, and with which error, to wait


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Another coordinator loads the group, or the same one anew after it had lost it; when, is not on the wire as such.

    It was after `low` and not after `high`; `at` is when it likely was.
    """

    old: str
    new: str
    low: int
    at: int
    high: int


def tenures_of(log: GroupLog) -> list[Tenure]:
    """Who coordinated the group, one after the other; a broker again if it had lost the group meanwhile.

    A broker may have several addresses. Who goes on to answer on a connection, as before another address did, is the
    same one.
    """
    found: list[Tenure] = []
    of: dict[int, int] = {}  # places in it, by connection
    told: list[tuple[int, str, str]] = []
    answered = [each for each in log.messages if each.api in _OF_COORDINATORS and each.answered is not None]
    for message in sorted(answered, key=lambda each: each.answered or 0):
        assert message.answered is not None
        if message.error in _MOVED:
            told.append((message.answered, message.broker, message.error or ""))
        elif not message.error or message.error in _HERE:
            place = of.get(message.connection, len(found) - 1)
            lost = bool(found) and any(broker == found[-1].broker for _, broker, _ in told)
            if place + 1 < len(found) and not lost:
                del found[place + 1 :]
                of = {connection: min(each, place) for connection, each in of.items()}
            elif not found or lost or (message.connection not in of and message.broker != found[-1].broker):
                first = max([message.at, *(each.last for each in found[-1:]), *(at for at, *_ in told)])
                found.append(Tenure(message.broker, first, message.answered, told=told))
            of[message.connection] = len(found) - 1
            found[-1].last = max(found[-1].last, message.over)
            told = []
    unanswered = [each for each in log.messages if each.outcome == "unanswered"]
    for old, new in pairwise(found):
        asked = [each.at for each in unanswered if each.broker == old.broker and old.last < each.at < new.first]
        old.in_vain = min(asked, default=None)
    return found


def taken_over(tenures: Sequence[Tenure], since: int, until: int) -> TakeOver | None:
    """How the group first came to another coordinator after a moment at which it had one.

    None, too, if nothing tells that its old one was gone by another moment.
    """
    place = bisect_right(tenures, since, key=lambda tenure: tenure.first)
    if not 0 < place < len(tenures):
        return None
    old, new = tenures[place - 1], tenures[place]
    # Who does not coordinate a group any more knows that another broker was chosen for it, which loads it then.
    not_yet = [at for at, broker, error in new.told if broker == new.broker or error == _LOADING]
    lost = [at for at, broker, _ in new.told if broker == old.broker]
    gone = min([new.first, *(at for at, *_ in new.told)] + ([] if old.in_vain is None else [old.in_vain]))
    if not old.last < until or gone > until:
        return None
    low = max([old.last, *not_yet])
    return TakeOver(old.broker, new.broker, low, max(low, min(lost, default=low)), new.first)
