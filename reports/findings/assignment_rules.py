"""Findings about who in a group owns how many partitions, and when nobody does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from kafkascope.reports.columns.name_lists import in_words, listed
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import in_milliseconds, in_seconds
from kafkascope.reports.findings.finding import Finding, Observation
from kafkascope.reports.findings.group import Group, first_packet, group_finding
from kafkascope.reports.groups.assignments import EAGER
from kafkascope.reports.groups.history import Member, Rebalance
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.sniffer.units import SECOND_NS


def eager_assignor(group: Group) -> Iterator[Finding]:
    """Groups that stop altogether in each rebalance, as their assignor takes all partitions away."""
    eager = [r for r in group.rebalances if r.protocol == "classic" and r.assignor in EAGER]
    stopped = [r for r in eager[1:] if (r.unowned_ms or 0) >= threshold("eager_unowned") and len(r.members) > 1]
    if len(stopped) < threshold("eager_rebalances"):
        return
    total = sum(r.unowned_ms or 0 for r in stopped)
    yield group_finding(
        group,
        Severity.INFO,
        "eager_assignor",
        f"The eager assignor {stopped[-1].assignor} stopped all partitions in {len(stopped)} rebalances, "
        f"{in_seconds(total)} in all",
        [
            Observation(
                f"generation {r.to_generation}: {counted(len(r.unowned), 'partition')} without owner for up to "
                f"{in_milliseconds(r.unowned_ms or 0)}, {len(r.moved)} moved",
                first_packet(r),
                r.started,
            )
            for r in stopped
        ],
        "Use CooperativeStickyAssignor (Java 2.4+, librdkafka 1.6+; roll twice), or group.protocol=consumer with "
        "brokers of 4.0: only partitions that move stop.",
        0.5,
    )


def idle_members(group: Group) -> Iterator[Finding]:
    """Members for which no partition was left, in the generation that lasted longest."""
    settled = [r for r in group.rebalances if r.stable and r.protocol in ("classic", "consumer") and r.members]
    if not settled:
        return
    ended = max((message.over for message in group.log.messages), default=settled[-1].stable or 0)
    ends = [*(later.started or later.stable or 0 for later in settled[1:]), ended]
    lasted = [end - (r.stable or 0) for r, end in zip(settled, ends, strict=True)]
    longest = max(lasted)
    if longest < threshold("idle_members") * SECOND_NS:
        return
    rebalance = settled[lasted.index(longest)]
    by_topics: dict[tuple[str, ...], list[Member]] = defaultdict(list)
    for member in rebalance.members:
        by_topics[tuple(sorted(member.subscription))].append(member)
    for topics, members in sorted(by_topics.items()):
        counts = [None if member.assignment is None else len(member.assignment) for member in members]
        idle = sorted(m.client_id or m.member_id for m, count in zip(members, counts, strict=True) if count == 0)
        if {*counts} != {0, 1}:
            continue
        partitions = counts.count(1)
        yield group_finding(
            group,
            Severity.INFO,
            "members_idle",
            f"{len(idle)} of {len(members)} members {'has' if len(idle) == 1 else 'have'} nothing to do: there "
            f"{'is' if partitions == 1 else 'are'} {counted(partitions, 'partition')}",
            [
                Observation(
                    f"generation {rebalance.to_generation}, topics {listed(topics, 20)}: none for {listed(idle, 20)}",
                    first_packet(rebalance),
                    rebalance.stable,
                )
            ],
            "Nothing, if they are a reserve. For more throughput give the topic more partitions (records of a key go "
            "to another one then), or have each member process records in parallel.",
            0.3,
            (rebalance.stable, (rebalance.stable or 0) + longest),
            clients=idle,
        )


def uneven_shares(group: Group) -> Iterator[Finding]:
    """Members that own many more partitions than others."""
    settled = [r for r in group.rebalances if r.stable and r.protocol in ("classic", "consumer") and len(r.members) > 1]
    if not settled or not _all_given_out(settled[-1]):
        return
    last = settled[-1]
    alike: dict[tuple[str, ...], list[Member]] = defaultdict(list)
    for member in last.members:
        if member.assignment is not None:
            alike[tuple(sorted(member.subscription))].append(member)
    for subscription, members in sorted(alike.items()):
        owned = sorted((len(m.assignment or []), m.client_id or m.member_id) for m in members)
        (fewest, poor), (most, rich) = owned[0], owned[-1]
        total = sum(n for n, _ in owned)
        if most - fewest < 2 or most < threshold("uneven_factor") * fewest:
            continue
        idle = [name for n, name in owned if n == 0]
        yield group_finding(
            group,
            Severity.WARNING if total >= len(members) else Severity.INFO,
            "uneven_assignment",
            f"{rich} has {most} partitions, {poor} {fewest if fewest else 'none'}"
            + (f"; {len(idle)} of {len(members)} members have nothing to do" if len(idle) > 1 else ""),
            [
                Observation(
                    f"generation {last.to_generation}, assignor {last.assignor}, topics {listed(subscription, 20)}: "
                    + ", ".join(f"{name} {n}" for n, name in owned),
                    first_packet(last),
                    last.stable,
                )
            ],
            "The range assignor gives each topic's first partitions to the first members: with several topics of few "
            "partitions use a sticky or uniform assignor. Members beyond the number of partitions stay idle.",
            0.5,
            (last.stable, None),
        )


def _all_given_out(rebalance: Rebalance) -> bool:
    """Whether what members gave up is with others, and not still to be given out, as it is in a second phase."""
    before = {partition for member in rebalance.members for partition in member.assignment_before or ()}
    return before <= {partition for member in rebalance.members for partition in member.assignment or ()}


def partitions_unowned(group: Group) -> Iterator[Finding]:
    """Partitions that nobody owned for long."""
    long = [
        (r, u)
        for r in group.rebalances
        for u in r.unowned
        if u.ms >= threshold("unowned_partition") * 1000 and r.members
    ]
    if not long:
        return
    worst = max(u.ms for _, u in long)
    partitions = sorted({u.partition for _, u in long})
    yield group_finding(
        group,
        Severity.WARNING,
        "partition_unowned",
        f"{counted(len(partitions), 'partition')} had no owner for up to {in_seconds(worst)}: {in_words(partitions)}",
        [
            Observation(
                f"{u.partition}: nobody's for {in_seconds(u.ms)}, generation {r.to_generation} ({r.trigger})",
                first_packet(r),
                u.since,
            )
            for r, u in sorted(long, key=lambda item: -item[1].ms)
        ],
        "See the rebalance's trigger and whom the others waited for; nothing is read from a partition meanwhile.",
        worst / (worst + 3000 * threshold("unowned_partition")),
    )
