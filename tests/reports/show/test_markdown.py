from __future__ import annotations

import itertools

from kafkascope.reports.answers.answers import answers
from kafkascope.reports.show.markdown import ROWS, escaped, post_mortem
from tests.reports.show.made_incidents import incidents_table
from tests.reports.show.page.made_tables import SUMMARY, everything, tables_of


def test_the_post_mortem_tells_everything_incidents_first() -> None:
    text = post_mortem(answers(everything(), SUMMARY), "An incident")
    heads = [line for line in text.splitlines() if line.startswith("## ")]
    assert heads == [
        "## Incidents",
        "## Findings",
        "## Groups and rebalances",
        "## Latency",
        "## Errors",
        "## Lag",
        "## Throughput",
        "## Coverage",
    ]
    assert "**What to do:** Raise max.poll.interval.ms" in text
    assert "(packet 4711)" in text
    assert "### Group orders-app (classic)" in text
    assert "| NOT\\_LEADER\\_OR\\_FOLLOWER | Fetch | 45 |" in text
    assert "Other" not in text.split("## Latency")[1].split("## Errors")[0]


def test_text_of_the_capture_marks_nothing_up() -> None:
    text = post_mortem(answers(everything(), SUMMARY))
    outside = "".join(part for i, part in enumerate(text.split("```")) if i % 2 == 0)
    assert "<" not in outside
    assert "\u202e" not in text
    assert text.count("```") % 2 == 0
    assert escaped("a|b\n*c* [d](e) `f` <g>") == "a\\|b \\*c\\* \\[d\\]\\(e\\) \\`f\\` &lt;g&gt;"


def test_tables_have_as_many_cells_in_every_row() -> None:
    lines = post_mortem(answers(everything(), SUMMARY)).splitlines()
    in_tables = [pair for pair in itertools.pairwise(lines) if all(line.startswith("|") for line in pair)]
    assert len(in_tables) > 20
    for before, line in in_tables:
        assert before.replace("\\|", "").count("|") == line.replace("\\|", "").count("|"), line


def test_what_is_absent_is_said() -> None:
    assert post_mortem(answers({}, {})).count("There is no table") == 8


def test_an_incident_has_its_cost_its_evidence_and_what_to_do() -> None:
    text = post_mortem(answers(everything() | tables_of(incidents=incidents_table()), SUMMARY))
    section = text.split("## Incidents")[1].split("## Findings")[0]
    assert "### 1. critical: broker 2 \\(10.0.0.2\\) went away" in section
    assert "**What it cost:** 4 leaders moved" in section
    assert "**What to do:** Look at the log." in section
    assert "- 07:02:10.000 connects refused (packet 77)" in section
    assert "- not announced" in section
    assert "- How sure: certain" in section
    assert "Nothing is wrong in this capture" not in section


def test_without_trouble_what_was_looked_at_is_said() -> None:
    text = post_mortem(answers(tables_of(incidents=incidents_table(0)), SUMMARY))
    assert "Nothing is wrong in this capture: 40,225 exchanges on 41 connections show none of the" in text
    assert "it cannot show what 3 connections with TLS say nor what happened before" in text


def test_without_kafka_there_may_be_incidents_all_the_same() -> None:
    """Such as of clients that begin TLS where it is not expected."""
    nothing, some = (
        post_mortem(answers(tables_of(incidents=incidents_table(count)), SUMMARY | {"exchanges": {}}))
        for count in (0, 1)
    )
    unknown = "No Kafka exchange was seen, so nothing can be said of incidents"
    assert unknown in nothing
    assert unknown not in some
    assert "### 1. " in some.partition("## Incidents")[2].partition("## Findings")[0]


def test_more_incidents_than_are_shown_are_counted() -> None:
    text = post_mortem(answers(tables_of(incidents=incidents_table(ROWS + 3)), SUMMARY))
    assert "And 3 more, in the table incidents." in text
    assert "more, in the table incidents" not in post_mortem(
        answers(tables_of(incidents=incidents_table(ROWS)), SUMMARY)
    )
