"""Findings about one group, from its messages and from what became of it."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

from kafkascope.decoders.errors import ADVICE_BY_KIND, Error
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import in_seconds
from kafkascope.reports.findings import (
    assignment_rules,
    join_rules,
    pause_rules,
    storm_rules,
    streams_rules,
    timeout_rules,
)
from kafkascope.reports.findings.finding import Finding, Observation
from kafkascope.reports.findings.group import COMMITS, Group, began_at, first_packet, group_finding, observed
from kafkascope.reports.groups.history import GroupHistory, GroupLog, Rebalance
from kafkascope.reports.groups.leaving import FENCED
from kafkascope.reports.groups.messages import Message
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.thresholds import threshold


def group_findings(log: GroupLog, history: GroupHistory) -> list[Finding]:
    """All findings about a group."""
    group = Group(log, history)
    return [finding for rule in _RULES for finding in rule(group)]


_MOST_CHANGES = 4  # of a group's protocol, in a title


def _slow_rebalances(group: Group) -> Iterator[Finding]:
    slow = [r for r in group.rebalances if (r.last_by_ms or 0) >= 1000 * threshold("slow_member") and r.last_client_id]
    by_client: dict[str, list[Rebalance]] = defaultdict(list)
    for rebalance in slow:
        by_client[rebalance.last_client_id or "?"].append(rebalance)
    for client, rebalances in sorted(by_client.items()):
        longest = max(r.last_by_ms or 0 for r in rebalances)
        yield group_finding(
            group,
            Severity.WARNING,
            "slow_to_join",
            f"All others waited for {client} up to {in_seconds(longest)} in {counted(len(rebalances), 'rebalance')}",
            [
                Observation(
                    f"generation {r.to_generation}: {client} came {in_seconds(r.last_by_ms or 0)} after all others",
                    first_packet(r),
                    began_at(r),
                )
                for r in rebalances
            ],
            "A member joins again when its application polls next: shorten what it does between polls.",
            longest / (longest + 3000 * threshold("slow_member")),
            clients=[r.last_client_id for r in rebalances],
        )


def _commits_refused(group: Group) -> Iterator[Finding]:
    refused: dict[str, list[Message]] = defaultdict(list)
    for message in group.log.messages:
        if message.api in COMMITS and message.error is not None:
            refused[message.client_id or "?"].append(message)
    for client, messages in sorted(refused.items()):
        if len(messages) < threshold("commits_refused"):
            continue
        errors = Counter(m.error or "" for m in messages)
        listed = ", ".join(f"{error} {n} times" for error, n in errors.most_common())
        stranger = all(m.api == "OffsetCommit" and m.request.get("memberId") == "" for m in messages)
        yield group_finding(
            group,
            Severity.WARNING,
            "commit_refused",
            f"{client}: {len(messages)} commits{' of no member' if stranger else ''} refused ({listed})",
            [observed(m, f"{m.api} answered {m.error}") for m in messages],
            _advice_on_commits(errors.most_common(1)[0][0], stranger=stranger),
            len(messages) / (len(messages) + 5),
            clients=[m.client_id for m in messages],
        )


def _advice_on_commits(error: str, *, stranger: bool) -> str:
    """What to do about commits that are refused; stranger: nobody commits them as a member."""
    if error not in FENCED | {Error.REBALANCE_IN_PROGRESS}:
        known = Error.__members__.get(error)
        return known.advice if known is not None else ADVICE_BY_KIND[False]
    if stranger:
        return (
            "It commits for the group without being a member, as one does that assigns partitions to itself, and while "
            "others are members that is refused: give it a group.id of its own."
        )
    return (
        "It commits as a member that it is no longer: what it works on has been given to somebody else and will be "
        "done twice. It must poll() to join again; commit in the rebalance listener before partitions are taken."
    )


def _protocols(group: Group) -> Iterator[Finding]:
    changes = [(old, new) for old, new in itertools.pairwise(group.rebalances) if old.protocol != new.protocol]
    if not changes:
        return
    way = " → ".join([changes[0][0].protocol, *(new.protocol for _, new in changes[:_MOST_CHANGES])])
    way += f" and {len(changes) - _MOST_CHANGES} more" if len(changes) > _MOST_CHANGES else ""
    yield group_finding(
        group,
        Severity.INFO,
        "protocol_changed",
        f"The group changed its protocol: {way}",
        [
            Observation(
                f"{old.protocol} up to {old.to_generation}, {new.protocol} from {new.to_generation} on",
                first_packet(new),
                new.started,
            )
            for old, new in changes
        ],
        "Ordinary while members are restarted one by one with another group.protocol (KIP-848): with the first of the "
        "new protocol the group changes, with the last of it that goes it changes back. When all are restarted, look "
        "that none is left with the old setting.",
        0.3,
    )


def _coordinator(group: Group) -> Iterator[Finding]:
    moves = [e for e in group.history.events if e.event == "coordinator_moved"]
    distinct = {e.detail: e for e in reversed(moves)}
    if not distinct:
        return
    times = sorted(distinct.values(), key=lambda e: e.at)
    yield group_finding(
        group,
        Severity.WARNING if len(times) >= threshold("coordinator_moves") else Severity.INFO,
        "coordinator_moved",
        f"The group's coordinator moved{'' if len(times) == 1 else f' {len(times)} times'}",
        [Observation(e.detail or "another broker is coordinator", e.packet, e.at) for e in times],
        "Ordinary when brokers are restarted one by one; if none was, look at the leader of the group's partition of "
        "__consumer_offsets.",
        len(times) / (len(times) + 4),
    )


_RULES: tuple[Callable[[Group], Iterator[Finding]], ...] = (
    storm_rules.storm,
    timeout_rules.poll_timeouts,
    timeout_rules.rebalance_timeouts,
    timeout_rules.members_lost,
    timeout_rules.session_timeouts,
    timeout_rules.heartbeats_held_up,
    pause_rules.members_paused,
    join_rules.instance_ids,
    join_rules.joins_refused,
    streams_rules.topics_unfit,
    streams_rules.shut_down,
    join_rules.configurations_apart,
    assignment_rules.eager_assignor,
    assignment_rules.idle_members,
    assignment_rules.uneven_shares,
    assignment_rules.partitions_unowned,
    _slow_rebalances,
    _commits_refused,
    _protocols,
    _coordinator,
)
