"""What the page shows, before it is a page."""

from __future__ import annotations

import dataclasses

import pytest

from kafkascope.reports.answers.answers import answers
from kafkascope.reports.answers.coverage import IssueAnswer
from kafkascope.reports.show.page.data import page_data


@pytest.mark.parametrize(
    ("kinds", "value", "note", "tone"),
    [
        ([], "0", "nothing lost or undecoded", "good"),
        (["duplicate_packet"], "0", "nothing lost or undecoded", "good"),
        (["duplicate_packet", "tcp_gap", "undecodable_body"], "6", "tcp gap", "warn"),
    ],
)
def test_what_takes_nothing_from_the_results_is_no_hole(kinds: list[str], value: str, note: str, tone: str) -> None:
    found = dataclasses.replace(answers({}, {}), issues=[IssueAnswer(kind, 3) for kind in kinds])
    (tile,) = (one for one in page_data(found)["tiles"] if one["name"] == "holes in the capture")
    assert (tile["value"], tile["note"], tile["tone"]) == (value, note, tone)
