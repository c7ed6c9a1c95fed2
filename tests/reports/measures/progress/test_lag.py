"""Lag against what brokers and groups said, told one by one; and what is made of its parts."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kafkascope.reports.columns.views import Known, keys_together
from kafkascope.reports.measures.progress import lag as lag_module
from kafkascope.reports.measures.progress.lag import WIDTHS
from kafkascope.reports.measures.progress.positions import SPAN, Part
from kafkascope.reports.measures.progress.readers import Speakers
from kafkascope.reports.views import progress
from kafkascope.reports.views.progress import ProgressView
from kafkascope.reports.vocabulary.tables import FINDINGS, LAG, POSITIONS
from kafkascope.sniffer.columns import I64
from tests.reports.captured_tables import captured, observed
from tests.steps import steps

SECOND = 1_000_000_000


def lag_of(capture: str) -> pa.Table:
    return ProgressView().result(observed(ProgressView(), capture), Known())["lag"]


def nanoseconds(table: pa.Table) -> list[dict[str, Any]]:
    whole = pa.schema([pa.field(f.name, pa.int64() if pa.types.is_timestamp(f.type) else f.type) for f in table.schema])
    rows: list[dict[str, Any]] = table.cast(whole).to_pylist()
    return rows


@pytest.mark.parametrize("capture", ["eager-three-joins", "killed-consumer", "transactions", "mixed-versions"])
def test_offsets_are_those_said_last_before_the_end_of_the_span(capture: str) -> None:
    tables, _ = captured(capture, ProgressView.needs)
    ends: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    for row in nanoseconds(tables["partitions"]):
        if row["error"] == "NONE" and row["high_watermark"] is not None and row["high_watermark"] >= 0:
            ends[row["topic"], row["partition"]].append((row["at"], row["high_watermark"]))
    for row in nanoseconds(tables["batches"]):
        if row["direction"] == "produce" and row["last_offset"] is not None:
            ends[row["topic"], row["partition"]].append((row["at"], row["last_offset"] + 1))
    commits: dict[Any, list[tuple[int, int, int, int | None]]] = defaultdict(list)
    for row in nanoseconds(tables["told_offsets"]):
        if row["error"] == "NONE" and row["group_id"] is not None:
            commits[row["group_id"], row["topic"], row["partition"]].append(
                (row["at"], row["connection"], row["number"], row["offset"])
            )
    seen = 0
    for row in nanoseconds(lag_of(capture)):
        until = row["at"] + row["width_ms"] * 1_000_000
        partition = row["topic"], row["partition"]
        known = [offset for at, offset in ends[partition] if at < until]
        assert row["end_offset"] == max(known, default=None), row
        if row["group_id"] is not None:
            said = [one for one in commits[row["group_id"], *partition] if one[0] < until]
            committed = max(said)[-1] if said else None
            assert row["committed_offset"] == committed, row
            if committed is not None and known:
                assert row["lag"] == max(known) - committed
                seen += 1
    assert seen > 15


def test_readers_are_found_by_whom_they_commit_for() -> None:
    lag = lag_of("transactions")
    readers = {(row["group_id"], row["client_id"]) for row in lag.to_pylist()}
    assert {("rc", "c1"), ("ru", "c2"), ("copy", "eos1")} <= readers
    assert all(row["fetch_offset"] <= row["end_offset"] for row in lag.to_pylist() if row["fetch_offset"] is not None)


def test_a_share_group_has_no_lag() -> None:
    rows = [row for row in lag_of("share-group").to_pylist() if row["group_id"] == "sharers"]
    assert len(rows) > 10
    for row in rows:
        assert row["end_offset"] is not None
        assert row["lag"] is row["fetch_lag"] is row["committed_offset"] is row["fetch_offset"] is None
    assert sum(row["fetches"] for row in rows) > 100


@pytest.mark.parametrize("capture", ["connect", "streams-classic", "eager-three-joins", "cooperative-sticky"])
def test_nobody_is_stuck_where_all_is_well(capture: str) -> None:
    rows = lag_of(capture).to_pylist()
    # In streams-classic an instance is killed within a transaction; readers wait until the broker has aborted it.
    assert max(row["fetch_stuck_ms"] or 0 for row in rows) < (8000 if capture == "streams-classic" else 1000)
    assert max(row["commit_stuck_ms"] or 0 for row in rows) <= 5000


def test_replicas_are_no_readers() -> None:
    lag = lag_of("zk-2.8.2")
    clients = set(lag["client_id"].to_pylist())
    assert clients
    assert not any("fetcher" in client for client in clients if client)


def rows(*given: dict[str, Any]) -> pa.Table:
    """Rows of one topic, each at a second given as at."""
    filled = []
    for number, row in enumerate(given, 1):
        at = int(row["at"] * SECOND)
        filled.append(
            {"topic": "t", "partition": 0, "client": "h", "client_id": "c", "connection": 1, "count": 1}
            | {"span": at - at % SPAN, "first_at": at, "last_at": at, "first_number": number, "last_number": number}
            | {name: value for name, value in row.items() if name != "at"}
        )
    return pa.Table.from_pylist(filled, schema=POSITIONS)


def fetch(at: float, asked: int, position: int, end: int, **more: Any) -> dict[str, Any]:
    since = int(at * SECOND) if end > asked else None
    return {"at": at, "kind": "fetch", "first_offset": asked, "last_offset": asked, "position": position} | {
        "end_offset": end,
        "same_since": since,
        **more,
    }


def end(at: float, offset: int, **more: Any) -> dict[str, Any]:
    return {"at": at, "kind": "end", "end_offset": offset, **more}


def commit(at: float, offset: int | None, group: str = "g", **more: Any) -> dict[str, Any]:
    return {"at": at, "kind": "commit", "group_id": group, "last_offset": offset, **more}


def lag(*given: dict[str, Any]) -> list[dict[str, Any]]:
    table = ProgressView().result(rows(*given), Known()).get("lag", LAG.empty_table())
    assert table.schema == LAG
    return nanoseconds(table)


def test_a_group_that_commits_nothing_more_is_stuck_for_as_long_as_there_is_more() -> None:
    found = lag(commit(1, 5), end(2, 5), end(11, 9), commit(12, 5), end(21, 20), commit(26, 20), end(31, 22))
    assert [(row["at"] // SECOND, row["lag"], row["commit_stuck_ms"]) for row in found] == [
        (0, 0, 0),
        (10, 4, 0),
        (20, 15, 10_000),
        (25, 0, 0),
        (30, 2, 0),
    ]


def test_a_reader_that_asks_for_one_offset_again_and_again_is_stuck_if_there_was_more() -> None:
    waits = lag(commit(1, 5), *(fetch(at, 5, 5, 5) for at in (1, 6, 11)), fetch(12, 5, 6, 6))
    assert [row["fetch_stuck_ms"] for row in waits] == [0, 0, 0]
    stuck = lag(commit(1, 5), fetch(2, 5, 5, 5), *(fetch(at, 5, 5, 9) for at in (4, 6, 11)), fetch(16, 9, 9, 9))
    assert [row["fetch_stuck_ms"] for row in stuck] == [0, 2000, 7000, 0]
    # What comes is thrown away: the same records once more each time.
    thrown = lag(commit(1, 5), *(fetch(at, 5, 9, 9) for at in (2, 6, 11)))
    assert [row["fetch_stuck_ms"] for row in thrown] == [0, 4000, 9000]
    # A new process that begins at the start has just begun.
    anew = lag(commit(1, 5), *(fetch(at, 0, 9, 9, connection=at) for at in (2, 6, 11)))
    assert [row["fetch_stuck_ms"] for row in anew] == [0, 0, 0]


def test_offsets_that_nobody_committed_are_null() -> None:
    found = lag(commit(1, None, kind="committed"), fetch(2, 3, 7, 9), end(2, 9))
    assert [(row["committed_offset"], row["lag"], row["fetch_lag"]) for row in found] == [(None, None, 2)]


def test_a_reader_without_a_group_has_rows_of_its_own() -> None:
    found = lag(fetch(1, 0, 4, 9), fetch(2, 4, 9, 9, client_id="other"), end(1, 9), end(12, 12))
    assert [(row["group_id"], row["client_id"], row["fetch_lag"], row["lag"]) for row in found] == [
        (None, "c", 5, None),
        (None, "other", 0, None),
    ]


@pytest.mark.parametrize(
    ("at", "group"), [(4, "a"), (7, "a"), (15, None), (22, "b"), (30, "b"), (0.5, None)], ids=lambda value: str(value)
)
def test_a_client_of_two_groups_reads_for_the_one_it_speaks_for_at_the_time(at: float, group: str | None) -> None:
    said = [commit(1, 1, "a"), commit(5, 2, "a"), commit(14, 3, "a"), commit(14, 1, "b"), commit(16, 5, "a")]
    said += [commit(20, 4, "b"), commit(25, 4, "b")]
    commits = rows(*said)
    assert Speakers.of(commits).groups_of(rows(fetch(at, 0, 1, 1)), commits).to_pylist() == [group]


def test_who_speaks_for_one_group_reads_for_it_wherever_it_speaks_of_another_partition() -> None:
    commits = rows(commit(1, 1, "a", partition=3), commit(1, 1, "b", client_id="other", partition=3))
    fetches = rows(fetch(5, 0, 1, 1), fetch(5, 0, 1, 1, client_id="nobody"))
    assert Speakers.of(commits).groups_of(fetches, rows()).to_pylist() == ["a", None]


def test_long_captures_get_wider_spans_and_not_more_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    given = [row for at in range(0, 4000, 5) for row in (commit(at, at), end(at, at + 3, partition=0))]
    found = lag(*given)
    width = found[0]["width_ms"] * 1_000_000
    assert width in WIDTHS
    assert 4000 * SECOND // width < lag_module.MOST_SPANS
    assert {row["lag"] for row in found} == {3}
    monkeypatch.setattr(lag_module, "MOST_ROWS", 20)
    few = lag(*given)
    assert len(few) <= 20
    assert {row["lag"] for row in few} == {3}
    assert sum(row["commits"] for row in few) == sum(row["commits"] for row in found) == 800


def test_nothing_gives_nothing() -> None:
    assert ProgressView().result(POSITIONS.empty_table(), Known()) == {}
    assert lag(end(1, 5)) == []


def history_of(topic: str, spans: int) -> list[dict[str, Any]]:
    """A group that falls behind and reads again, and a client that reads for one of two groups, on two partitions."""
    told = []
    for place in range(spans):
        at = 10 * place
        asked = 40 * (place // 2) if place % 5 else 0
        told += [end(at, 9000 * place, partition=partition) for partition in (0, 1)]
        told += [commit(at, 10 * place, "ab"[place % 2]), commit(at, 10 * place, partition=1, client_id="other")]
        told += [fetch(at, asked, asked + 40, 9000 * place), fetch(at, 7, 7, 9, partition=1, client_id="other")]
        first = 30_000 * (place % 4)
        told.append(fetch(at, first, first + 30_000, 200_000, partition=2, client_id="other"))
    return [row | {"topic": topic} for row in told]


def test_topics_together_give_what_each_gives_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_module, "MOST_ROWS", 200)
    histories = [history_of(topic, spans) for topic, spans in (("a", 30), ("b", 3), ("c", 120), ("d", 45))]
    histories.append([end(1, 5) | {"topic": "e"}])
    mixed = rows(*(row for given in histories for row in given))
    alone = [ProgressView().result(mixed.filter(pc.equal(mixed["topic"], topic)), Known()) for topic in "abcde"]
    shuffled = mixed.take(pa.array(Random(3).sample(range(len(mixed)), len(mixed))))
    together = ProgressView().result(shuffled, Known())
    for name in ("lag", "rereads"):
        assert together[name].equals(pa.concat_tables([one[name] for one in alone if name in one]))
    found = [row for one in alone for row in one.get("findings", FINDINGS.empty_table()).to_pylist()]
    assert sorted(map(str, together["findings"].to_pylist())) == sorted(map(str, found))
    assert {row["kind"] for row in found} == {"consumer_stuck", "lag_growing", "read_again"}
    assert len(set(together["lag"]["width_ms"].to_pylist())) > 1


def test_a_topic_in_parts_gives_what_it_gives_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_module, "MOST_ROWS", 200)
    given = rows(*history_of("a", 60), *history_of("b", 12))
    whole = ProgressView().result(given, Known())
    seen = []
    in_parts = partial(keys_together, at_once=20)

    def counted(part: Part, widths: I64) -> pa.Table:
        seen.append(sum(table.num_rows for table in part))
        return lag_module.lag_table(part, widths)

    monkeypatch.setattr(progress, "ROWS_AT_ONCE", 20)
    monkeypatch.setattr(progress, "keys_together", in_parts)
    monkeypatch.setattr(progress, "lag_table", counted)
    assert ProgressView().result(given, Known()) == whole
    assert len(seen) == 6  # three partitions of two topics
    assert {"lag", "rereads", "findings"} <= whole.keys()
    assert len(set(whole["lag"]["width_ms"].to_pylist())) == 2


def test_many_topics_cost_little_more_than_few() -> None:
    def steps_for(topics: int) -> int:
        given = rows(*(row for number in range(topics) for row in history_of(f"t{number}", 1)))
        return steps(lambda: ProgressView().result(given, Known()))

    steps_for(400)  # makes what is made when it is first asked for
    assert steps_for(400) < 2 * steps_for(50)
