from __future__ import annotations

import itertools

from kafkascope.reports.answers.answers import answers
from kafkascope.reports.show.markdown import escaped, post_mortem
from tests.reports.show.page.made_tables import SUMMARY, everything


def test_the_post_mortem_tells_everything_findings_first() -> None:
    text = post_mortem(answers(everything(), SUMMARY), "An incident")
    heads = [line for line in text.splitlines() if line.startswith("## ")]
    assert heads == [
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
    for before, line in itertools.pairwise(lines):
        if before.startswith("|") and line.startswith("|"):
            assert before.replace("\\|", "").count("|") == line.replace("\\|", "").count("|"), line


def test_what_is_absent_is_said() -> None:
    assert post_mortem(answers({}, {})).count("There is no table") == 7
