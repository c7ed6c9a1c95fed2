"""What is said of exchanges at the end of listening."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from kafkascope.decoders.limits import Limits
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind
from kafkascope.seen import Seen
from tests.kafkascope.test_incident_watch import DOWN

SCHEMA = pa.schema(
    [("api", pa.string()), ("error_code", pa.int16()), ("error", pa.string()), ("group_id", pa.string())]
)


def table(*rows: tuple[str | None, int | None, str | None, str | None]) -> dict[str, pa.Table]:
    return {"exchanges": pa.table([list(column) for column in zip(*rows, strict=True)], schema=SCHEMA)}


def test_exchanges_errors_and_groups_are_counted() -> None:
    seen = Seen()
    seen.observe(table(("Fetch", 0, "NONE", None), ("Heartbeat", 27, "REBALANCE_IN_PROGRESS", "a\x1b[2J")))
    seen.observe({})
    seen.observe(table(("Fetch", None, None, "b"), (None, None, None, None)))
    assert list(seen.lines()) == [
        "4 exchanges: Fetch 2, Heartbeat 1, unknown 1",
        "1 exchange with an error: REBALANCE_IN_PROGRESS 1",
        "2 groups: a\N{REPLACEMENT CHARACTER}[2J, b",
        "incidents were not looked for: --incidents, --tables, --metrics and --top do",
    ]


def test_incidents_are_counted_once_and_those_that_go_on() -> None:
    seen = Seen()
    stalled = replace(DOWN, kind=IncidentKind.BROKER_STALLED)
    seen.tell([DOWN, stalled], [DOWN, stalled])
    seen.tell([stalled], [DOWN])
    assert list(seen.lines())[-1] == "3 incidents: broker_stalled 2, broker_down 1; 1 not over"
    seen.tell([], [])
    assert list(seen.lines())[-1] == "3 incidents: broker_stalled 2, broker_down 1"


def test_that_there_was_no_incident_is_said() -> None:
    seen = Seen()
    seen.tell([], [])
    assert list(seen.lines()) == ["0 exchanges", "0 incidents"]


def test_of_nothing_nothing_more_is_said() -> None:
    assert list(Seen().lines()) == ["0 exchanges"]


def test_no_more_groups_are_counted_than_the_limit_says() -> None:
    seen = Seen(Limits(groups=1))
    for group in "ab":
        seen.observe(table(("Heartbeat", 0, None, group)))
    assert list(seen.lines())[1] == "1 group or more (--limit groups=1): a"


def test_many_names_are_counted_not_listed() -> None:
    seen = Seen()
    seen.observe(table(*((f"Api{number}", 0, None, f"group-{number}") for number in range(10))))
    first, groups, _ = seen.lines()
    assert first.startswith("10 exchanges: Api0 1, ")
    assert first.endswith("Api7 1, others 2")
    assert groups.endswith("group-7 and 2 more")
