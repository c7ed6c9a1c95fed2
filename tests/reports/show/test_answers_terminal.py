from __future__ import annotations

import dataclasses
import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import dataset as ds
from rich.console import Console

from kafkascope.reports.answers.answers import answers
from kafkascope.reports.incidents.incident import incident_table
from kafkascope.reports.show.answers_terminal import show
from kafkascope.reports.vocabulary.tables import FINDINGS, LATENCY
from tests.reports.show.made_incidents import DOWN, incidents_table
from tests.reports.show.page.made_tables import (
    SUMMARY,
    everything,
    finding_table,
    group_tables,
    latency_row,
    latency_table,
    tables_of,
)


def shown(tables: Mapping[str, ds.Dataset], summary: Mapping[str, Any] = SUMMARY, width: int = 120) -> str:
    stream = io.StringIO()
    show(answers(tables, summary), Console(file=stream, width=width, highlight=False))
    return stream.getvalue()


def test_findings_come_first_and_all_fits_in_two_screens() -> None:
    text = shown(everything())
    order = [
        "5 findings",
        "orders-app  classic",
        "JoinGroup",
        "NOT_LEADER_OR_FOLLOWER",
        "ordinary in a handshake",
        "lag ",
    ]
    order += ["not seen or not understood"]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert len(text.splitlines()) <= 80


def test_a_packet_that_shows_several_things_is_named_once() -> None:
    [row] = finding_table(1).to_pylist()
    seen = row["evidence"][0]
    row["evidence"] = [seen | {"packet": packet} for packet in (202, 370, 202, 410)]
    table = pa.Table.from_pylist([row], schema=FINDINGS)
    assert ", packets 202, 370, 410" in shown(everything() | tables_of(findings=table))


def test_a_thousand_groups_and_findings_are_cut_and_counted() -> None:
    rebalances, events = group_tables(1_000, 1, 1)
    tables = everything() | tables_of(rebalances=rebalances, group_events=events, findings=finding_table(1_000))
    text = shown(tables)
    assert len(text.splitlines()) <= 120
    assert "and 992 more, in the report" in text
    assert "and 990 more" in text


def test_incidents_come_before_the_findings_that_they_do_not_explain() -> None:
    text = shown(everything() | tables_of(incidents=incidents_table(12)))
    order = [
        "broker 2 (10.0.0.2) went away",
        "4 leaders moved · certain",
        "→ Look at the log.",
        "and 4 more incidents, in the report",
        "findings besides",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert "nothing is wrong in this capture" not in text
    assert "\u202e" not in text


def test_without_trouble_what_was_looked_at_is_said() -> None:
    text = shown(tables_of(incidents=incidents_table(0)))
    assert "nothing is wrong in this capture: 40,225 exchanges on 41 connections" in text
    without = SUMMARY | {"exchanges": {}}
    assert "nothing can be said of incidents" in shown(tables_of(incidents=incidents_table(0)), without)
    assert "broker 2 (10.0.0.2) went away" in shown(tables_of(incidents=incidents_table(1)), without)


def test_findings_that_an_incident_explains_are_not_told_again() -> None:
    tables = tables_of(findings=finding_table(3))
    of_findings = answers(tables, SUMMARY).findings
    assert of_findings is not None
    explaining = dataclasses.replace(DOWN, findings=frozenset({of_findings.shown[0].id}))
    text = shown(tables | tables_of(incidents=incident_table([explaining])))
    assert "2 findings besides" in text
    assert of_findings.shown[0].title not in text


def test_text_of_the_capture_cannot_steer_the_terminal() -> None:
    text = shown(everything())
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[bold]" not in text


def test_a_capture_without_anything_has_a_summary_too() -> None:
    assert "no problem was found" not in shown({}, {})
    nothing = tables_of(findings=everything()["findings"].schema.empty_table())
    assert "no problem was found" in shown(nothing)
    assert "no problem was found" not in shown(nothing, SUMMARY | {"exchanges": {}})
    assert "123,456 packets" in shown({})


def test_80_columns_are_enough_for_latency() -> None:
    row = latency_row("OffsetForLeaderEpoch", None, "total", 1, np.array([123_456.0, 400.0]))
    slow = latency_row("OffsetForLeaderEpoch", None, "slow", 1, np.array([1_500.0, 1_400.0]))
    long_names = tables_of(latency=pa.concat_tables([latency_table(), pa.Table.from_pylist([row, slow], LATENCY)]))
    lines = shown(long_names, width=80).splitlines()
    assert max(map(len, lines)) <= 80
    told = {line.split()[0]: line for line in lines if line.split()}
    for api in ("OffsetForLeaderEpoch", "Fetch", "Produce", "Heartbeat", "JoinGroup", "Metadata"):
        assert api in told
    assert "2 min 3 s" in told["OffsetForLeaderEpoch"]
    assert "waiting" in told["Fetch"]
    assert "broker" in told["Produce"]
    assert "slow" not in "\n".join(lines)
