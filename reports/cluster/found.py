"""Which brokers answer at addresses that no cluster lists: by what they do.

Clusters mostly list their brokers by names, or by addresses that are translated on the way to where a capture was made.
No message says which broker is at the other end of a connection (but for KIP-1242, Kafka 4.4). What it does tells: a
partition is written to and read from at its leader, and a group's members speak with its coordinator; both are told by
their node ids, which clients go by.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kafkascope.reports.cluster.facts import Fact, FactKind
from kafkascope.reports.cluster.places import Places
from kafkascope.reports.cluster.told import Answer, Units

_Task = tuple[str, str | int | None, int | None]
"""What is one broker's: a partition of a topic, or a group."""

_TIMES_MORE = 3
"""So many times as much must speak for the broker of an address as for the next one: a client goes by what it was told,
and a leader may have moved meanwhile."""


@dataclass(frozen=True, slots=True)
class Found:
    """A broker at an address that nobody lists, by the answer that shows it first."""

    answer: Answer
    cluster: str
    node_id: int
    does: str
    """What the broker does there."""


def found_brokers(answers: Sequence[Answer], units: Units, places: Places) -> dict[Answer, Found]:
    """Brokers at addresses that nobody lists, by the answers that show them first; each address has one, or none."""
    done = {unit: task for unit, facts in units.items() for task in _done(facts)}
    known = {fact.host for facts in units.values() for fact in facts if fact.host is not None}
    of_itself = {unit for unit, facts in units.items() if any(fact.kind is FactKind.ITSELF for fact in facts)}
    known |= {answer.broker for answer in answers if not of_itself.isdisjoint(answer.told)}
    strange = (answer for answer in answers if answer.broker not in known)
    claims = [(answer, done[unit]) for answer in strange for unit in answer.told if unit in done]
    if not claims:
        return {}
    # At addresses that nobody lists: of others it is not asked any more as soon as a task has seen the list.
    doers: dict[tuple[str, _Task], set[str]] = defaultdict(set)
    for answer, task in claims:
        doers[places.cluster(answer), task].add(answer.broker)
    given = _given(answers, units, places, {task for _, task in claims})
    votes: dict[tuple[str, str], dict[int, list[tuple[Answer, _Task]]]] = defaultdict(lambda: defaultdict(list))
    for answer, task in claims:
        cluster = places.cluster(answer)
        stays = len(doers[cluster, task]) == 1
        if (node_id := _at(given.get((cluster, task), ()), answer.at, stays=stays)) is not None:
            votes[cluster, answer.broker][node_id].append((answer, task))
    found = {}
    for (cluster, _), by_node in votes.items():
        (node_id, most), *others = Counter({node_id: len(shown) for node_id, shown in by_node.items()}).most_common(2)
        if all(most >= _TIMES_MORE * fewer for _, fewer in others):
            answer, task = by_node[node_id][0]
            found[answer] = Found(answer, cluster, node_id, _words(task))
    return found


def _done(facts: Sequence[Fact]) -> Iterator[_Task]:
    for fact in facts:
        if fact.kind is FactKind.LEADS:
            yield "partition", fact.topic, fact.partition
        elif fact.kind is FactKind.COORDINATES:
            yield "group", fact.name, None


def _given(
    answers: Sequence[Answer], units: Units, places: Places, tasks: set[_Task]
) -> Mapping[tuple[str, _Task], list[tuple[int, int]]]:
    """To whom some tasks are given, as clusters tell: times with node ids, by cluster and task."""
    telling = {unit: told for unit, facts in units.items() if (told := [*_giving(facts, tasks)])}
    found: dict[tuple[str, _Task], list[tuple[int, int]]] = defaultdict(list)
    for answer in answers:
        for unit in answer.told:
            for task, node_id in telling.get(unit, ()):
                known = found[places.cluster(answer), task]
                if not known or known[-1][1] != node_id:
                    known.append((answer.at, node_id))
    return found


def _giving(facts: Sequence[Fact], tasks: set[_Task]) -> Iterator[tuple[_Task, int]]:
    for fact in facts:
        task: _Task
        if fact.kind is FactKind.LEADER:
            task = ("partition", fact.topic, fact.partition)
        elif fact.kind is FactKind.GROUP_COORDINATOR:
            task = ("group", fact.name, None)
        else:
            continue
        if task in tasks and fact.node_id is not None and fact.node_id >= 0:
            yield task, fact.node_id


def _at(given: Sequence[tuple[int, int]], at: int, *, stays: bool) -> int | None:
    """Whose a task was at a time: as was told last, or of what a capture tells later, as it tells first.

    The latter where it is done at one address alone, and stays there: else it may have been given to another meanwhile.
    """
    place = bisect_right(given, at, key=lambda one: one[0]) - 1
    return given[max(0, place)][1] if place >= 0 or (given and stays) else None


def _words(task: _Task) -> str:
    kind, name, partition = task
    return f"leads {name}-{partition}" if kind == "partition" else f"coordinates group {name}"
