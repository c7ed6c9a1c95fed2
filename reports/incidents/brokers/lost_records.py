"""Records that were confirmed and are gone: a broker gives their offsets to others.

A partition's leader gives each offset once. Where two batches that were both confirmed have an offset in common, the
later leader did not have the earlier batch: it was elected though it was not in sync, or had been lost before the
followers had what acks=1 confirmed, or a disk is gone. No error says so. Left out is a batch that was sent again
(its answer has the offset that it got the first time), and a topic that was made anew: a log that begins at 0 is taken
for that of another topic, unless its topic has the same id before and after.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import among, changes, dictionary_codes, integers
from kafkascope.reports.columns.name_lists import in_words as partitions_in_words
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.series import in_groups
from kafkascope.reports.columns.text import address, counted
from kafkascope.reports.columns.words import clock
from kafkascope.reports.groups.body import body_of, text
from kafkascope.reports.groups.body import rows as bodies
from kafkascope.reports.incidents.incident import Effect, Incident, Weighed, every, in_words
from kafkascope.reports.incidents.planned.changes import changes_made, named_in
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import MOST_ROWS, Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_WIDTH = 2 * SECOND_NS  # of spans; a leader that is gone is followed by another after some seconds
_MOST_SPANS = 1_000_000
_LOOKED_AT = 100  # offsets at the beginning of what may have been given twice; some of the batches may not be captured
_SPAN = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("base", pa.int64()),  # the first offset that was given in a span
        ("last", pa.int64()),
        ("span", pa.int64()),
    ]
)
_ACKS = re.compile(r'"acks": (-?[0-9]{1,5})\b')
_BATCH = (
    "connection",
    "number",
    "at",
    "topic",
    "partition",
    "base_offset",
    "last_offset",
    "producer_id",
    "producer_epoch",
    "base_sequence",
)
_CONFIRMED = (pc.field("direction") == "produce") & pc.field("base_offset").is_valid() & pc.field("at").is_valid()
_IN_SYNC = (
    "Have only replicas in sync elected (unclean.leader.election.enable=false), with three replicas of which two have "
    "each record before it is confirmed (min.insync.replicas=2, acks=all). What is gone has to be written again; "
    "readers may have seen it."
)
_ACKS_ONE = (
    "Set acks=all with min.insync.replicas=2: acks=1 confirms what the leader alone has, and it dies with it. What is "
    "gone has to be written again; readers may have seen it."
)


@dataclass(frozen=True, slots=True)
class Loss:
    """Confirmed records of a partition that are gone: an earlier batch, and the one that got one of its offsets."""

    topic: str
    partition: int
    earlier: Row
    later: Row
    end: int  # behind the last offset that had been confirmed before

    @property
    def records(self) -> int:
        """How many, at least."""
        return int(self.end - self.later["base_offset"])

    @property
    def places(self) -> set[tuple[str, bool]]:
        """The brokers that had confirmed them, and that lack them."""
        return {(self.earlier["place"], False), (self.later["place"], True)}


def lost(signs: Signs) -> Iterator[Incident]:
    """Incidents of records that are gone: one for all that the same brokers had confirmed, or lack, within a minute."""
    runs: list[list[Loss]] = []
    for loss in sorted(_losses(signs), key=lambda one: (one.later["at"], one.topic, one.partition)):
        for run in reversed(runs):
            is_soon = loss.later["at"] - run[-1].later["at"] <= threshold("one_trouble") * SECOND_NS
            if is_soon and any(loss.places & one.places for one in run):
                run.append(loss)
                break
        else:
            runs.append([loss])
    yield from (_lost(signs, run) for run in runs)


def _losses(signs: Signs) -> Iterator[Loss]:
    twice = _given_twice(signs)
    rows = list(_batches_in(signs, twice)) if twice else []
    connections = signs.connections_by_number(sorted({row["connection"] for row in rows}))
    logs: dict[tuple[str, int, object], list[Row]] = defaultdict(list)
    for row in rows:
        if (connection := connections.get(row["connection"])) is None:
            continue
        place = address(connection["broker"], connection["broker_port"])
        who = connection["client"], connection["client_id"]
        if (cluster := _cluster(signs, place, who, row["at"])) is not None:
            of_log = logs[row["topic"], row["partition"], cluster]
            of_log.append(row | {"place": place, "client_id": connection["client_id"]})
    anew = {topic: _made_anew(signs, topic) for topic in {topic for topic, _, _ in logs}}
    for (topic, partition, _), of_log in sorted(logs.items(), key=str):
        for earlier, later in _confirmed_twice(of_log, anew[topic], signs.once(_topics_of_one_id).get(topic)):
            ranges = twice[topic, partition]
            end = 1 + min(high for low, high in ranges if low <= later["last_offset"] and later["base_offset"] <= high)
            yield Loss(topic, partition, earlier, later, end)


def _given_twice(signs: Signs) -> dict[tuple[str, int], list[tuple[int, int]]]:
    """By topic and partition: ranges of offsets that were given, and may have been given once more in a later span.

    Most are none: batches of two producers at the edge of a span.
    """
    spans = _spans(signs).sort_by([(name, "ascending") for name in ("topic", "partition", "span")])
    if not spans.num_rows:
        return {}
    base, last = integers(spans["base"]), integers(spans["last"])
    begins = changes(np.stack([dictionary_codes(spans["topic"])[0], integers(spans["partition"])]))
    anew = ~begins & (base == 0)  # a log that begins at 0 is another one, as a rule
    again = spans.filter(pa.array(anew))
    same = signs.once(_topics_of_one_id) if again.num_rows else {}
    for row, topic in zip(np.flatnonzero(anew).tolist(), again["topic"].to_pylist(), strict=True):
        anew[row] = topic not in same
    begins |= anew
    heights, height = np.unique(np.where(anew, -1, last), return_inverse=True)
    highest = heights[np.maximum.accumulate(np.cumsum(begins) * len(heights) + height) % len(heights)]
    before = np.where(begins, -1, np.append(-1, highest[:-1]))
    back = np.flatnonzero(base <= before)
    found: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for row, high in zip(spans.take(pa.array(back)).to_pylist(), before[back].tolist(), strict=True):
        found[row["topic"], row["partition"]].append((row["base"], high))
    return found


def _spans(signs: Signs) -> pa.Table:
    """Rows of _SPAN: what was given in each partition; spans become wider where they would be too many."""
    spans, width = _SPAN.empty_table(), _WIDTH
    columns = ("topic", "partition", "at", "base_offset", "last_offset")
    for batch in signs.batches("batches", columns, _CONFIRMED & pc.field("topic").is_valid()):
        named = batch.select(["topic", "partition", "base_offset", "last_offset"]).rename_columns(_SPAN.names[:4])
        more = _summed(named.append_column("span", pc.divide(batch["at"], width)).cast(_SPAN))
        spans = pa.concat_tables([spans, more])
        if spans.num_rows > _MOST_SPANS:
            spans = _summed(spans)
        while spans.num_rows > _MOST_SPANS // 2:
            width *= 2
            spans = _summed(spans.set_column(4, "span", pc.divide(spans["span"], 2)))
    return _summed(spans)


def _summed(rows: pa.Table) -> pa.Table:
    summed = rows.group_by(["topic", "partition", "span"]).aggregate([("base", "min"), ("last", "max")])
    return summed.select(["topic", "partition", "base_min", "last_max", "span"]).rename_columns(_SPAN.names)


def _merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges of which none overlaps another, ascending."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], high)
        else:
            merged.append((low, high))
    return merged


def _batches_in(signs: Signs, twice: Mapping[tuple[str, int], Sequence[tuple[int, int]]]) -> Iterator[Row]:
    """Batches at the beginning of these ranges, and of their logs; no more than `MOST_ROWS`."""
    left = MOST_ROWS
    where = _CONFIRMED & among("topic", sorted({topic for topic, _ in twice}))
    merged = {log: np.array(_merged(ranges), np.int64).T for log, ranges in twice.items()}
    for batch in signs.batches("batches", _BATCH, where):
        base, last = integers(batch["base_offset"]), integers(batch["last_offset"])
        partitions, of_row = in_groups(batch, ["topic", "partition"])
        chosen = np.zeros(batch.num_rows, np.bool_)
        for number, one in enumerate(partitions.to_pylist()):
            if (ranges := merged.get((one["topic"], one["partition"]))) is not None:
                low, high = ranges[0], np.minimum(ranges[1], ranges[0] + _LOOKED_AT)
                rows = np.flatnonzero(of_row == number)
                place = np.searchsorted(high, base[rows])
                chosen[rows] = (np.append(low, np.iinfo(np.int64).max)[place] <= last[rows]) | (base[rows] == 0)
        some = batch.filter(pa.array(chosen))
        if some.num_rows > left:
            signs.left_out.add("batches")
        yield from some.slice(0, left).to_pylist()
        left -= min(some.num_rows, left)


def _cluster(signs: Signs, place: str, client: tuple[str, str | None], at: int) -> object:
    """Of which cluster a broker is; where nobody named it, a producer and those that it writes to; None: not known."""
    where = signs.where(place)
    if (node := signs.node(where, at)) is not None and node.cluster_id is not None:
        return node.cluster_id
    return None if where in signs.takeovers else client


def _made_anew(signs: Signs, topic: str) -> list[int]:
    """When a topic of this name was deleted or made."""
    return [
        row["requested"]
        for row in signs.once(changes_made)
        if row["api"] in ("DeleteTopics", "CreateTopics") and topic in {name for _, name in named_in(row["request"])}
    ]


def _topics_of_one_id(signs: Signs) -> dict[str, tuple[int, int]]:
    """Topics that had one id whenever clients were told it, and when they were first and last: it was not made anew."""
    where = (pc.field("api") == "Metadata") & pc.field("answered").is_valid()
    ids: dict[str, set[str]] = defaultdict(set)
    times: dict[str, list[int]] = defaultdict(list)
    for row in signs.rows("exchanges", ("answered", "response"), where):
        for topic in bodies(body_of(row["response"]).get("topics")):
            name = text(topic.get("name"))
            ids[name].add(text(topic.get("topicId")) or _NO_ID)  # it is not there, or who tells it knows no ids
            times[name].append(row["answered"])
    return {
        name: (min(times[name]), max(times[name]))
        for name, told in ids.items()
        if len(told - {_NO_ID}) == len(told) == 1
    }


def _confirmed_twice(
    rows: Sequence[Row], anew: Sequence[int], one_id: tuple[int, int] | None
) -> Iterator[tuple[Row, Row]]:
    """Batches of a partition with an offset in common, the earlier and the later; each loss once.

    one_id: when clients were told the one id of its topic first and last: behind a batch of another log they need it
    before they write to this one.
    """
    log: list[Row] = []  # batches by offset, none of which overlaps another
    for row in sorted(rows, key=lambda row: (row["at"], row["connection"], row["number"], row["base_offset"])):
        is_same = log and one_id is not None and one_id[0] <= log[-1]["at"] <= one_id[1]
        if not row["base_offset"] and not is_same:  # the log of another topic of that name
            log = [row]
            continue
        place = bisect_left(log, row["base_offset"], key=itemgetter("last_offset"))
        if place == len(log) or log[place]["base_offset"] > row["last_offset"]:
            log.insert(place, row)  # behind all, or into a hole
            continue
        earlier = log[place]
        if _is_again(earlier, row):
            continue
        if not any(earlier["at"] <= at <= row["at"] for at in anew):
            yield earlier, row
        log[place:] = [row]  # what lay behind is gone


def _is_again(earlier: Row, row: Row) -> bool:
    """Whether a batch is one that was sent before: its producer numbers them."""
    names = ("producer_id", "producer_epoch", "base_sequence")
    return row["producer_id"] is not None and all(row[name] == earlier[name] for name in names)


def _lost(signs: Signs, run: Sequence[Loss]) -> Incident:
    first = run[0]
    since = first.later["at"]
    topics = sorted({loss.topic for loss in run})
    partitions = partitions_in_words(f"{loss.topic}-{loss.partition}" for loss in run)
    records = min(sum(loss.records for loss in run), np.iinfo(np.int64).max)
    givers = sorted({signs.where(loss.earlier["place"]) for loss in run})
    places = sorted({signs.where(loss.later["place"]) for loss in run})
    names = sorted({loss.earlier["client_id"] for loss in run if loss.earlier["client_id"]})
    lacking = listed([signs.broker_words(one, since) for one in places])
    if len(places) == 1:
        does, it, gives = "lacks", "it", "it gives"
    else:
        does, it, gives = "lack", "they", "they give"
    who = it if givers == places else listed([signs.broker_words(one, first.earlier["at"]) for one in givers])
    effects = (Effect("records", f"at least {counted(records, 'confirmed record')} lost", records),)
    return Incident(
        kind=IncidentKind.RECORDS_LOST,
        severity=Severity.CRITICAL,
        certainty=Certainty.CERTAIN,
        subjects=(
            *every(Role.TOPIC, topics),
            *(subject for place in places for subject in signs.broker(place, since)),
            *every(Role.CLIENT, names),
        ),
        started=since,
        ended=run[-1].later["at"],
        headline=f"{lacking} {does} records of {partitions} that {who} had confirmed: from {clock(since)} on {gives} "
        "their offsets to others" + in_words(effects),
        evidence=tuple(
            Weighed(
                f"{loss.topic}-{loss.partition}: offset {loss.later['base_offset']} was given to a batch of "
                f"{loss.later['client_id'] or '?'}, though {loss.earlier['base_offset']} to "
                f"{loss.earlier['last_offset']} had been confirmed to {loss.earlier['client_id'] or '?'} at "
                f"{clock(loss.earlier['at'])}, and all up to {loss.end - 1} since",
                None,
                loss.later["at"],
                0.95,
            )
            for loss in run
        ),
        advice=_ACKS_ONE if _acks(signs, run) == {1} else _IN_SYNC,
        cost_ms=sum(loss.later["at"] - loss.earlier["at"] for loss in run) / MILLISECOND_NS,  # of work that is gone
        effects=effects,
    )


def _acks(signs: Signs, run: Sequence[Loss]) -> set[int]:
    """How many replicas those wanted to have the records who wrote them; without those of whom it is not known."""
    numbers = {(loss.earlier["connection"], loss.earlier["number"]) for loss in run}
    where = (pc.field("api") == "Produce") & pc.field("connection").isin(sorted({one for one, _ in numbers}))
    found = set()
    for row in signs.rows("exchanges", ("connection", "number", "request"), where):
        if (row["connection"], row["number"]) in numbers and (told := _ACKS.search(row["request"] or "")):
            found.add(int(told[1]))
    return found
