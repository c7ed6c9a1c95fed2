"""The reference has a line for each thing that results may name."""

from __future__ import annotations

import re

import pytest

from kafkascope.decoders.errors import Error
from kafkascope.reports.vocabulary.events import ClusterEventKind, EventKind
from kafkascope.reports.vocabulary.finding_kinds import FINDING_KINDS
from kafkascope.reports.vocabulary.incident_kinds import INCIDENT_KINDS
from kafkascope.reports.vocabulary.issue_kinds import ISSUE_KINDS
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS, ASKED
from kafkascope.reports.vocabulary.thresholds import THRESHOLDS
from kafkascope.reports.vocabulary.triggers import TRIGGERS
from tests.paths import ROOT
from tools import reference

PAGES = reference.pages()
ROW = re.compile(r"^\| (.+) \|$", re.MULTILINE)


def rows(text: str) -> list[list[str]]:
    return [re.split(r" (?<!\\)\| ", row[1]) for row in ROW.finditer(text)]


@pytest.mark.parametrize("name", ALL_SCHEMAS | ASKED)
def test_every_table_has_its_columns_with_their_meanings(name: str) -> None:
    section = PAGES["tables.md"].split(f"\n### {name}\n")[1].split("\n### ")[0]
    cells = {row[0]: row[1:] for row in rows(section)}
    assert {f"`{column}`" for column in (ALL_SCHEMAS | ASKED)[name].names} <= cells.keys()
    assert all(meaning.strip() for column, (_, meaning) in cells.items() if column != "column")


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("incidents.md", list(INCIDENT_KINDS)),
        ("findings.md", [*FINDING_KINDS, *THRESHOLDS]),
        ("groups.md", [*TRIGGERS, *EventKind]),
        ("clusters.md", list(ClusterEventKind)),
        ("issues.md", list(ISSUE_KINDS)),
        ("command_line.md", ["--debug", "--master URL", "--format html\\|json\\|md"]),
    ],
)
def test_every_kind_and_option_has_its_line(page: str, names: list[str]) -> None:
    told = {row[0]: row[1:] for row in rows(PAGES[page])}
    for name in names:
        assert told[f"`{name}`"][0].strip()


def test_every_error_has_its_line_with_advice() -> None:
    told = {row[1]: row for row in rows(PAGES["errors.md"])}
    for error in Error:
        assert told[f"`{error}`"][3:] == [error.meaning, error.advice if error.code else ""]


def test_links_between_texts_lead_to_pages_that_are_there() -> None:
    listed = set(re.findall(r": (\w+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert listed == set(PAGES)
    for text in PAGES.values():
        assert set(re.findall(r"\]\(([\w.]+\.md)", text)) <= set(PAGES)
