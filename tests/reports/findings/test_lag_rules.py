"""Rules about lag: where each begins to speak, that it is silent below, and what it says."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from kafkascope.reports.findings.finding import Finding, Observation
from kafkascope.reports.findings.lag_rules import lag_findings
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.tables import FORGOTTEN_COMMITS, LAG, REREADS
from kafkascope.reports.vocabulary.thresholds import threshold

SECOND = 1_000_000_000
READER = {"group_id": "g", "client_id": "c", "topic": "t", "partition": 0, "fetches": 1}


def findings(
    lag: list[dict[str, Any]], rereads: list[dict[str, Any]], forgotten: Sequence[dict[str, Any]] = ()
) -> list[Finding]:
    tables = (
        pa.Table.from_pylist([READER | row for row in rows], schema=schema)
        for rows, schema in ((lag, LAG), (rereads, REREADS), (forgotten, FORGOTTEN_COMMITS))
    )
    return lag_findings(*tables)


def kinds(lag: list[dict[str, Any]], rereads: list[dict[str, Any]]) -> list[str]:
    return [finding.kind for finding in findings(lag, rereads)]


@pytest.mark.parametrize(
    ("column", "kind"), [("fetch_stuck_ms", "consumer_stuck"), ("commit_stuck_ms", "commits_stopped")]
)
def test_a_reader_is_stuck_after_half_a_minute(column: str, kind: str) -> None:
    row = {"at": 0, "width_ms": 60_000, "lag": 5}
    assert kinds([row | {column: 30_000}], []) == [kind]
    assert kinds([row | {column: 29_999}], []) == []


def test_who_takes_a_partition_over_that_stands_still_is_not_told_of_at_once() -> None:
    stood = [{"at": n * 5 * SECOND, "width_ms": 5000, "lag": 5, "commit_stuck_ms": 5000 * n} for n in range(30)]

    def clients(taken_over: int) -> list[list[str]]:
        rows = [row | {"client_id": "a" if n < taken_over else "b"} for n, row in enumerate(stood)]
        return [finding.client_ids for finding in findings(rows, [])]

    assert clients(25) == [["a"]]
    assert clients(24) == [["a"], ["b"]]  # for half a minute
    assert clients(6) == [["b"]]


@pytest.mark.parametrize(("seconds", "grown", "found"), [(60, 1_000, ["lag_growing"]), (59, 1_000, []), (60, 999, [])])
def test_lag_that_grows_by_a_thousand_in_a_minute_is_growing(seconds: int, grown: int, found: list[str]) -> None:
    begin = 100 * SECOND
    rows = [{"at": begin + seconds * SECOND * part // 2, "lag": 7 + grown * part // 2} for part in range(3)]
    assert kinds(rows, []) == found


@pytest.mark.parametrize(("records", "found"), [(500, ["read_again"]), (499, [])])
def test_a_thousand_records_that_are_read_again_are_told(records: int, found: list[str]) -> None:
    rows = [{"at": place * SECOND, "from_offset": 3, "records": part} for place, part in enumerate((500, records))]
    assert kinds([], rows) == found


def without_advice(found: list[Finding]) -> list[Finding]:
    assert all(finding.advice for finding in found)
    return [dataclasses.replace(finding, advice="") for finding in found]


def seen(text: str, seconds: float) -> Observation:
    return Observation(text, None, int(seconds * SECOND))


@pytest.mark.parametrize(
    ("column", "kind", "does", "severity"),
    [
        (
            "fetch_stuck_ms",
            "consumer_stuck",
            "asks for the same offset again and again, and there is more",
            Severity.CRITICAL,
        ),
        ("commit_stuck_ms", "commits_stopped", "does not commit, and there is more", Severity.WARNING),
    ],
)
def test_stuck_readers_as_a_whole(column: str, kind: str, does: str, severity: Severity) -> None:
    offsets = {"fetch_offset": 7, "committed_offset": None, "end_offset": 1000}
    rows: list[dict[str, Any]] = [
        {"at": 100 * SECOND, "width_ms": 10_000, column: 40_000},
        {"at": 110 * SECOND, "width_ms": 10_000, column: 60_000} | offsets,
        {"at": 120 * SECOND, "width_ms": 10_000, column: 50_000},
        {"at": 30 * SECOND, "width_ms": 10_000, column: 30_000, "partition": 2},
        {"at": 50 * SECOND, "width_ms": 10_000, column: 50_000, "partition": 2} | offsets,
        {"at": 50 * SECOND, "width_ms": 10_000, column: 30_000, "client_id": None},
        {"at": 50 * SECOND, "width_ms": 10_000, column: 30_000, "group_id": None},
    ]
    at_offsets = "fetched up to 7, committed unknown, end 1000"
    assert without_advice(findings(rows, [])) == [
        Finding(
            severity,
            kind,
            f"? {does}: t 0, for 30 s",
            "group g",
            30 * SECOND,
            60 * SECOND,
            [seen("t-0: after 30 s fetched up to unknown, committed unknown, end unknown", 50)],
            "",
            0.2,
        ),
        Finding(
            severity,
            kind,
            f"c {does}: t 0,2, for 60 s",
            "group g",
            10 * SECOND,
            120 * SECOND,
            [seen(f"t-0: after 60 s {at_offsets}", 110), seen(f"t-2: after 50 s {at_offsets}", 50)],
            "",
            0.333,
            client_ids=["c"],
        ),
    ]


@pytest.mark.parametrize("fetches", [0, None])
def test_who_does_not_read_any_more_is_not_said_to_stop_committing(fetches: int | None) -> None:
    rows = [
        {"at": n * 10 * SECOND, "width_ms": 10_000, "commit_stuck_ms": n * 10_000, "fetches": 1 if n < 5 else fetches}
        for n in range(10)
    ]
    assert findings([row | {"fetches": fetches} for row in rows], []) == []  # as a tool that asks what is committed
    assert findings(rows[:3] + [row | {"fetches": fetches} for row in rows[3:]], []) == []  # left before it was told
    (found,) = findings(rows, [])
    assert found.title == "c does not commit, and there is more: t 0, for 40 s"  # as long as it read
    assert found.until == 50 * SECOND


def test_what_is_said_of_one_reader_is_not_said_of_the_next() -> None:
    row = {"at": 50 * SECOND, "width_ms": 10_000, "commit_stuck_ms": 30_000}
    found = findings([row | {"client_id": name, "fetches": fetches} for name, fetches in (("a", 0), ("b", 5))], [])
    assert [one.client_ids for one in found] == [["b"]]


def lagging(*lags: int | None, **more: Any) -> list[dict[str, Any]]:
    """Spans of twenty seconds with a lag each."""
    return [{"at": place * 20 * SECOND, "width_ms": 20_000, "lag": lag} | more for place, lag in enumerate(lags)]


@pytest.mark.parametrize(
    ("lags", "grows"),
    [
        ((0, 300, 600, 1_000), True),
        ((0, 300, 600, 999), False),
        ((0, None, 300, None, 600, 1_000), True),
        ((0, 0, 0, 1_000), False),  # a burst
        ((0, 300, 300, 1_000), False),
        ((0, 50, 49, 2_000, 2_000, 2_000), True),
        ((0, 50, 0, 2_000, 2_000, 2_000), False),  # had caught up in the second third
        ((0, 50, 40, 200, 39, 2_000), False),
        ((0, 50, 40, 200, 41, 2_000), True),
        ((600, 700, 800, 1_599), False),
    ],
)
def test_lag_that_grows_has_no_third_in_which_it_was_caught_up(lags: tuple[int | None, ...], grows: bool) -> None:
    assert kinds(lagging(*lags), []) == ["lag_growing"] * grows


def test_two_moments_are_not_enough_to_grow() -> None:
    assert kinds([{"at": 0, "lag": 0}, {"at": 90 * SECOND, "lag": 5_000}], []) == []


def test_growing_lag_as_a_whole() -> None:
    rows: list[dict[str, Any]] = [
        *lagging(10, 1_000, 2_000, 4_010, client_id="d", partition=1),
        *lagging(0, 3_000, 6_000, 7_000)[1:],
        {"at": 80 * SECOND, "lag": 9_000, "client_id": "e"},
        *lagging(5, 5, 5, 5, partition=2, client_id="f"),
        *lagging(0, 3_000, 6_000, 9_000, group_id=None),
        *lagging(0, 10_000, 20_000, 30_000, topic="u", client_id=None),
    ]
    assert without_advice(findings(rows, [])) == [
        Finding(
            Severity.WARNING,
            "lag_growing",
            "t: the group falls behind, by 10,000 records in 60 s to 13,010",
            "group g",
            0,
            80 * SECOND,
            [seen("t-0: lag 3,000, then 9,000 (e)", 80), seen("t-1: lag 10, then 4,010 (d)", 60)],
            "",
            0.333,
            client_ids=["c", "d", "e"],
        ),
        Finding(
            Severity.WARNING,
            "lag_growing",
            "u: the group falls behind, by 30,000 records in 60 s to 30,000",
            "group g",
            0,
            60 * SECOND,
            [seen("u-0: lag 0, then 30,000 (?)", 60)],
            "",
            0.6,
        ),
    ]


def test_records_read_again_as_a_whole() -> None:
    rows: list[dict[str, Any]] = [
        {"at": 15 * SECOND, "from_offset": 9, "records": 1_000, "client_id": "d"},
        {"at": 16 * SECOND, "from_offset": 9, "records": 1_000, "client_id": None},
        {"at": 10 * SECOND, "from_offset": 3, "records": 4_000, "partition": 1},
        {"at": 20 * SECOND, "from_offset": 4, "records": 4_000},
        {"at": 20 * SECOND, "from_offset": 4, "records": 999, "topic": "u"},
        {"at": 0, "from_offset": 4, "records": 999, "group_id": "h"},
    ]
    had = "that the group had had"
    assert without_advice(findings([], rows)) == [
        Finding(
            Severity.INFO,
            "read_again",
            "t: 10,000 records were read again, 4 times",
            "group g",
            10 * SECOND,
            20 * SECOND,
            [
                seen(f"t-{partition}: {client} was sent {records} records from offset {offset} on {had}", at)
                for partition, client, records, offset, at in (
                    (1, "c", "4,000", 3, 10),
                    (0, "c", "4,000", 4, 20),
                    (0, "d", "1,000", 9, 15),
                    (0, "?", "1,000", 9, 16),
                )
            ],
            "",
            0.333,
            client_ids=["c", "d"],
        )
    ]


def test_commits_that_are_gone_as_a_whole() -> None:
    row: dict[str, Any] = {"at": 60 * SECOND, "committed_at": 0, "committed_offset": 20}
    rows = [
        row | {"read_from": 90, "passed_over": 70},
        row | {"read_from": None, "passed_over": None, "partition": 1},
        row | {"read_from": 20, "passed_over": 0, "partition": 2},  # nothing is lost by it
        row | {"committed_offset": None, "committed_at": None, "read_from": 9, "partition": 3},  # nothing is gone
    ]
    told = "c was told that nothing is committed, where 20 had been, and read from"
    assert without_advice(findings([], [], rows)) == [
        Finding(
            Severity.CRITICAL,
            "commits_forgotten",
            "what was committed of t 0-1 was gone when it was asked for: 70 records were passed over",
            "group g",
            60 * SECOND,
            60 * SECOND,
            [seen(f"t-0: {told} 90 on", 60), seen(f"t-1: {told} unknown on", 60)],
            "",
            round(70 / (70 + 20 * threshold("reread_records")), 3),
            client_ids=["c"],
        )
    ]
    assert findings([], [], rows[1:2])[0].severity == Severity.WARNING


@pytest.mark.parametrize(
    ("lag", "said"),
    [
        ([{"at": 0, "fetch_offset": 9}], True),
        ([{"at": 0, "fetch_offset": 9, "committed_offset": 7}], False),
        ([{"at": 0, "fetch_offset": 9}, {"at": 1, "partition": 1, "committed_offset": 7}], False),
        ([{"at": 0, "fetch_offset": 9, "group_id": "h"}], False),  # what this one commits the capture may lack
        ([], False),
    ],
)
def test_who_commits_nothing_reads_again_for_that(lag: list[dict[str, Any]], said: bool) -> None:
    (found,) = findings(lag, [{"at": SECOND, "from_offset": 3, "records": 5_000}])
    assert found.title.endswith("; the group commits nothing") == said
    assert ("enable.auto.commit" in found.advice) == said
