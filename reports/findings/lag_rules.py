"""Findings about what groups read of topics, from the tables of lag and what goes with it.

Rows become Python's only of those groups and topics that may be a finding: there may be a hundred thousand topics.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import dictionary_codes, equal_columns
from kafkascope.reports.columns.name_lists import in_words
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import in_seconds
from kafkascope.reports.findings.finding import Finding, Observation
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

Row = Mapping[str, Any]


def lag_findings(lag: pa.Table, rereads: pa.Table, forgotten: pa.Table) -> list[Finding]:
    """All findings about topics, by all their rows of the tables lag, rereads and forgotten_commits."""
    return [*_stuck(lag), *_growing(lag), *_read_again(rereads, lag), *_forgotten(forgotten)]


def _stuck(lag: pa.Table) -> Iterator[Finding]:
    """Members that ask for one offset again and again while there is more, or go on reading and commit nothing.

    Who does not read any more may have left, or be a tool that only asked what is committed.
    """
    enough = threshold("lag_stuck") * 1000
    for column, kind, does, advice in (
        (
            "fetch_stuck_ms",
            "consumer_stuck",
            "asks for the same offset again and again, and there is more",
            "Look at the record at this offset (kcat -o): one that cannot be deserialized or processed, and is tried "
            "without end, or kills the member each time. A reader of committed records waits there for the end of a "
            "transaction (see hanging_transaction).",
        ),
        (
            "commit_stuck_ms",
            "commits_stopped",
            "does not commit, and there is more",
            "See whether its commits are refused; if it commits by itself (enable.auto.commit is false), whether its "
            "processing gets on.",
        ),
    ):
        rows = lag.filter(pc.fill_null(pc.greater_equal(lag[column], enough), False))
        for (topic, group, client), found in _by_reader(rows):
            worst = {
                partition: max(read, key=lambda row: row[column])
                for partition, of in _by_partition(found).items()
                if _is_its_own(of, column, enough) and (read := [row for row in of if row["fetches"]])
            }
            if not worst:
                continue
            longest = max(row[column] for row in worst.values())
            where = in_words(f"{topic}-{partition}" for partition in worst)
            yield Finding(
                Severity.CRITICAL if kind == "consumer_stuck" else Severity.WARNING,
                kind,
                f"{client} {does}: {where}, for {in_seconds(longest, 0)}",
                f"group {group}",
                min(row["at"] + (row["width_ms"] - row[column]) * MILLISECOND_NS for row in worst.values()),
                max(row["at"] + row["width_ms"] * MILLISECOND_NS for row in worst.values()),
                [
                    Observation(
                        f"{topic}-{partition}: after {in_seconds(row[column], 0)} fetched up to "
                        f"{_known(row['fetch_offset'])}, committed {_known(row['committed_offset'])}, "
                        f"end {_known(row['end_offset'])}",
                        None,
                        row["at"],
                    )
                    for partition, row in sorted(worst.items())
                ],
                advice,
                round(longest / (longest + 4 * enough), 3),
                client_ids=_clients(found),
            )


def _is_its_own(rows: Sequence[Row], column: str, enough: float) -> bool:
    """Whether a reader had a partition when it had stood still for so long, or had it for so long itself."""
    first, last = rows[0], rows[-1]
    whole_ms = (last["at"] - first["at"]) / MILLISECOND_NS + last["width_ms"]
    return bool(first[column] < enough + first["width_ms"] or whole_ms >= enough)


def _growing(lag: pa.Table) -> Iterator[Finding]:
    """Readers that fall behind from span to span, in all of the capture."""
    behind = _that_grew(lag.filter(pc.and_(pc.is_valid(lag["lag"]), pc.is_valid(lag["group_id"]))))
    for (topic, group, _), found in _by_reader(behind, by_client=False):
        growing: dict[int, tuple[Row, Row]] = {}
        for partition, rows in _by_partition(found).items():
            first, last = rows[0], rows[-1]
            third = len(rows) // 3  # of fewer than three nothing is said
            least = [min(row["lag"] for row in rows[k * third : (k + 1) * third] or [last]) for k in range(3)]
            if least[0] < least[1] < least[2]:
                growing[partition] = first, last
        if not growing:
            continue
        total = sum(last["lag"] for _, last in growing.values())
        grown = total - sum(first["lag"] for first, _ in growing.values())
        seconds = max((last["at"] - first["at"]) / SECOND_NS for first, last in growing.values())
        yield Finding(
            Severity.WARNING,
            "lag_growing",
            f"{topic}: the group falls behind, by {grown:,} records in {seconds:,.0f} s to {total:,}",
            f"group {group}",
            min(first["at"] for first, _ in growing.values()),
            max(last["at"] for _, last in growing.values()),
            [
                Observation(
                    f"{topic}-{partition}: lag {first['lag']:,}, then {last['lag']:,} ({last['client_id'] or '?'})",
                    None,
                    last["at"],
                )
                for partition, (first, last) in sorted(growing.items())
            ],
            "Give the group more members (up to the number of partitions) or make processing faster; see latency for "
            "whether its fetches are slow, and the application's time between answer and next request.",
            round(grown / (grown + 20 * threshold("lag_growing_by")), 3),
            client_ids=_clients(row for rows in growing.values() for row in rows),
        )


def _read_again(rereads: pa.Table, lag: pa.Table) -> Iterator[Finding]:
    """Records that a group was sent before, and was sent again."""
    committing = {*pc.unique(lag.filter(pc.is_valid(lag["committed_offset"]))["group_id"]).to_pylist()}
    reading = {*pc.unique(lag.filter(pc.is_valid(lag["fetch_offset"]))["group_id"]).to_pylist()}
    enough = threshold("reread_records")
    series = equal_columns(np.stack([dictionary_codes(rereads[name])[0] for name in ("topic", "group_id")]))
    records = np.bincount(series, rereads["records"].to_numpy())
    for (topic, group, _), found in _by_reader(rereads.filter(pa.array(records[series] >= enough)), by_client=False):
        total = sum(row["records"] for row in found)
        worst = sorted(found, key=lambda row: (-row["records"], row["at"], row["partition"]))
        commits_nothing = group in reading - committing
        yield Finding(
            Severity.INFO,
            "read_again",
            f"{topic}: {total:,} records were read again, {counted(len(found), 'time')}"
            + ("; the group commits nothing" if commits_nothing else ""),
            f"group {group}",
            found[0]["at"],
            found[-1]["at"],
            [
                Observation(
                    f"{row['topic']}-{row['partition']}: {row['client_id'] or '?'} was sent {row['records']:,} records "
                    f"from offset {row['from_offset']} on that the group had had",
                    None,
                    row["at"],
                )
                for row in worst
            ],
            "All is read anew at each start, as nothing is committed: set enable.auto.commit, or commit when records "
            "are processed; if that is meant, all is well."
            if commits_nothing
            else "Commit more often, and in the rebalance listener before partitions are taken; make processing "
            "idempotent.",
            round(total / (total + 20 * enough), 3),
            client_ids=_clients(found),
        )


def _forgotten(forgotten: pa.Table) -> Iterator[Finding]:
    """Commits that were gone when somebody asked for them."""
    had = forgotten.filter(pc.is_valid(forgotten["committed_offset"]))
    moved = pc.fill_null(pc.not_equal(had["read_from"], had["committed_offset"]), True)
    for (topic, group, _), found in _by_reader(had.filter(moved), by_client=False):
        passed_over = sum(row["passed_over"] or 0 for row in found)
        where = in_words(f"{topic}-{row['partition']}" for row in found)
        yield Finding(
            Severity.CRITICAL if passed_over else Severity.WARNING,
            "commits_forgotten",
            f"what was committed of {where} was gone when it was asked for"
            + (f": {passed_over:,} records were passed over" if passed_over else ""),
            f"group {group}",
            found[0]["at"],
            found[-1]["at"],
            [
                Observation(
                    f"{topic}-{row['partition']}: {row['client_id'] or '?'} was told that nothing is committed, where "
                    f"{row['committed_offset']} had been, and read from {_known(row['read_from'])} on",
                    None,
                    row["at"],
                )
                for row in found
            ],
            "See who deleted the offsets, or for how long the group had no members (offsets.retention.minutes); set "
            "them anew (kafka-consumer-groups --reset-offsets) if records were passed over.",
            round(passed_over / (passed_over + 20 * threshold("reread_records")), 3),
            client_ids=_clients(found),
        )


def _that_grew(behind: pa.Table) -> pa.Table:
    """The rows of those groups and partitions whose lag grew by enough from the first to the last, in time enough."""
    if not behind.num_rows:
        return behind
    names = [dictionary_codes(behind[name])[0] for name in ("topic", "group_id")]
    partition, at, lag = (behind[name].cast(pa.int64()).to_numpy() for name in ("partition", "at", "lag"))
    series = equal_columns(np.stack([*names, partition]))
    rank = pc.sort_indices(behind, [("at", "ascending"), ("client_id", "ascending")]).to_numpy()
    order = rank[np.argsort(series[rank], kind="stable")]
    first = np.flatnonzero(np.diff(series[order], prepend=-1))
    last = np.append(first[1:], len(order)) - 1
    first, last = order[first], order[last]
    grew = (at[last] - at[first] >= threshold("lag_growing_for") * SECOND_NS) & (
        lag[last] - lag[first] >= threshold("lag_growing_by")
    )
    return behind.filter(pa.array(grew[series]))


def _clients(rows: Iterable[Row]) -> list[str]:
    return sorted({row["client_id"] for row in rows if row["client_id"]})


def _known(offset: int | None) -> str:
    return "unknown" if offset is None else str(offset)


def _by_reader(rows: pa.Table, *, by_client: bool = True) -> list[tuple[tuple[str, str, str], list[Row]]]:
    """Rows of each topic and group (and client), in order of time."""
    found: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    whole = rows.set_column(rows.schema.get_field_index("at"), "at", rows["at"].cast(pa.int64()))
    for row in whole.sort_by([("at", "ascending"), ("partition", "ascending"), ("client_id", "ascending")]).to_pylist():
        if row["group_id"] is not None:
            found[row["topic"], row["group_id"], (row["client_id"] or "?") if by_client else ""].append(row)
    return sorted(found.items())


def _by_partition(rows: Sequence[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["partition"]].append(row)
    return found
