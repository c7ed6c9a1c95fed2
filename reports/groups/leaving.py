"""Who left a group and why, who has no place in it any more, and who is silent: the rules that the protocols share.

A member of the classic protocol says the same in a classic group and in one with epochs (KIP-848), and is understood
by the same rules in both.
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.words import in_seconds
from kafkascope.reports.groups.body import Json, rows, text
from kafkascope.reports.groups.history import GroupLog
from kafkascope.reports.groups.messages import Message
from kafkascope.reports.vocabulary.events import EventKind
from kafkascope.reports.vocabulary.triggers import Trigger
from kafkascope.sniffer.units import MILLISECOND_NS

NOT_A_MEMBER = frozenset({Error.UNKNOWN_MEMBER_ID, Error.GROUP_ID_NOT_FOUND})
"""Errors that tell a member that it was taken out of the group."""
FENCED = NOT_A_MEMBER | {
    Error.FENCED_INSTANCE_ID,
    Error.FENCED_MEMBER_EPOCH,
    Error.STALE_MEMBER_EPOCH,
    Error.ILLEGAL_GENERATION,
}
"""Errors that tell a member that the group went on without it, or that another took its place."""
NOT_HERE = frozenset({Error.NOT_COORDINATOR, Error.COORDINATOR_NOT_AVAILABLE, Error.COORDINATOR_LOAD_IN_PROGRESS})
"""Errors that send a member to another coordinator."""

# How the reasons of KIP-800 are understood, first match first. Java: ConsumerCoordinator and KafkaAdminClient, which
# writes its words before those of the administrator.
_REASONS: tuple[tuple[re.Pattern[str], Trigger], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), trigger)
    for pattern, trigger in (
        (r"removed by an admin", Trigger.REMOVED_BY_ADMIN),
        (r"poll timeout", Trigger.POLL_TIMEOUT),
        (r"unsubscribe", Trigger.UNSUBSCRIBED),
    )
)


_MISSED = 2.5  # heartbeats: one may be late, and a second one lost


@dataclass(frozen=True, slots=True)
class AllowedSilence:
    """How long (ns) a member may say nothing before it is worth telling, and why so long."""

    ns: int
    why: str

    def remark(self, begun: int, until: int, *, is_over: bool) -> str | None:
        """What to say of a time without a word, if it is longer than allowed; is_over: the member spoke again."""
        if until - begun <= self.ns:
            return None
        return f"{'' if is_over else 'at least '}{in_seconds((until - begun) / MILLISECOND_NS, 3)}; {self.why}"


def by_session(session_timeout_ms: int) -> AllowedSilence:
    """As long as its session lasts."""
    return AllowedSilence(session_timeout_ms * MILLISECOND_NS, f"its session timeout is {session_timeout_ms} ms")


def by_heartbeats(interval_ms: int, why: str) -> AllowedSilence:
    """Until more heartbeats are missing than may be late or lost."""
    return AllowedSilence(int(interval_ms * _MISSED) * MILLISECOND_NS, why)


def heard_later(log: GroupLog) -> set[str]:
    """Members that speak, leave or are taken out when the group has changed its protocol: that tells what they do."""
    named = [each for message in log.later for each in (message.request, message.response)]
    named += [each for body in named for each in rows(body.get("members"))]
    return {text(each.get("memberId")) for each in named} - {""}


def refused_as(error: str, otherwise: EventKind) -> EventKind:
    """The name of the event that a refused request is: another one than usual, if the error says that more is wrong."""
    if error in FENCED:
        return EventKind.FENCED
    return EventKind.COORDINATOR_UNAVAILABLE if error in NOT_HERE else otherwise


def who_leaves(request: Json, response: Json) -> list[Json]:
    """The members of a LeaveGroup; where the capture cut the request, those that its answer names (version 3 on)."""
    if "memberId" in request:
        return [request]
    return rows(request.get("members")) or rows(response.get("members"))


def trigger_by_reason(reason: str) -> Trigger | None:
    """What the reason of a LeaveGroup says; None: no more than that the member left, or nothing."""
    return next((trigger for pattern, trigger in _REASONS if pattern.search(reason)), None)


def left_by_itself(
    leave: Message,
    reason: str,
    *,
    names_id: bool,
    connections: Container[int],
    client_id: str | None,
    host: str | None,
) -> bool:
    """Whether a LeaveGroup came from the member that it takes out, as far as reason, connections and clients tell.

    The connections, the client id and the host are those of the member; names_id is whether the request names it by
    its member id.
    """
    said = trigger_by_reason(reason)
    if said is not None:
        return said is not Trigger.REMOVED_BY_ADMIN
    if leave.connection in connections:
        return True
    if not names_id:
        return False  # a member names itself by its id: instance ids alone are an administrator's way
    if host and leave.client not in ("", host):
        return False
    return leave.client_id is None or client_id is None or leave.client_id.startswith(client_id)
