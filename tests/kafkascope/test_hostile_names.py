"""Names chosen to harm those who look at them: in every way to look at a capture they are harmless and short."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pyarrow import dataset as ds
from rich.console import Console

import kafkascope
from kafkascope.capture import Capture
from kafkascope.reports.answers.answers import Answers, answers
from kafkascope.reports.columns.shown import LONGEST_TEXT
from kafkascope.reports.show import as_json, markdown
from kafkascope.reports.show import summary_terminal as terminal
from kafkascope.reports.show.answers_terminal import show
from kafkascope.reports.show.page.data import page_data
from kafkascope.reports.show.page.page import page
from tests.kafkascope import hostile_captures
from tests.kafkascope.conftest import Command
from tests.kafkascope.hostile_captures import LONGEST, Names, capture

SNIFF = [[], ["-v"], ["-x"], ["--records"], ["--json", "--records"], ["--groups"], ["--groups", "--json"]]
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
STEERING, LONG = Names.steering(), Names.long()
MANY = LONGEST // 2
SPACED = Names("g " * MANY, "t " * MANY, "c d " * 250, "m " * MANY, "m " * MANY)


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[Names, str]:
    place = tmp_path_factory.mktemp("hostile")
    return {
        names: _written(place / f"group {i}\x1b[2J.pcap", names) for i, names in enumerate((STEERING, LONG, SPACED))
    }


def _written(path: Path, names: Names) -> str:
    path.write_bytes(capture(names))
    return str(path)


@cache
def read(file: str) -> Capture:
    found = kafkascope.read(file)
    assert isinstance(found, Capture)
    return found


def answered(found: Capture) -> Answers:
    return answers({name: ds.dataset(found.arrow(name)) for name in found.tables}, found.summary)


def shown_to_people(found: Capture) -> Iterator[tuple[str, str]]:
    """Every text that a library call gives to be looked at, with its name."""
    group = found.group(found.rebalances.group_id.iloc[0])
    yield "explanation", group.explain(1)
    yield "another explanation", repr(group.explain())
    for one in (found, group, found.exchange(2)):
        yield f"repr of {type(one).__name__}", repr(one)
    for one in (found, group):
        yield f"HTML of {type(one).__name__}", one._repr_html_()
    drawn = [found.latency(), found.throughput(), found.errors_histogram(), found.lag(), found.incidents]
    figures = [group.timeline(), *(one.plot() for one in (*drawn, found.clients, found.topology()))]
    yield "figures", "\n".join(text for one in figures for text in _texts(json.loads(one.to_json())))
    for name, show_all in (("answers", lambda to: show(answered(found), to)), ("summary", _summary(found))):
        to = io.StringIO()
        show_all(Console(file=to, width=120))
        yield name, to.getvalue()
    yield "Markdown", markdown.post_mortem(answered(found), found.source)
    yield "page's data", "\n".join(_texts(page_data(answered(found))))
    with pytest.raises(KeyError) as error:
        found.group("missing")
    yield "exception", str(error.value)


def _summary(found: Capture) -> Any:
    return lambda to: terminal.summary(found.summary, to)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


def test_no_text_for_people_holds_what_steers_or_hides(files: dict[Names, str]) -> None:
    shown = list(shown_to_people(read(files[STEERING])))
    assert len(shown) > 3
    for name, text in shown:
        assert not HIDDEN.search(text), name
        assert len(text) > 50, name


def test_what_is_said_of_a_capture_without_incidents_steers_nothing(command: Command, tmp_path: Path) -> None:
    """The gravest finding of such a capture is named there."""
    file = _written(tmp_path / "1.pcap", Names.steering(client_id=f"client\nforged{hostile_captures.STEERING}"))
    told = answered(read(file)).nothing_wrong
    assert "but: client" in told
    assert not HIDDEN.search(told)
    assert "\n" not in told
    done = command("sniff", "-r", file, "--incidents")
    assert done.stderr.count("\n") == 1
    done = command("kafkascope", "analyze", file, "-o", str(tmp_path / "out"), "--in-process")
    assert "but: client" in done.stdout
    assert not HIDDEN.search(done.stdout)


@pytest.mark.parametrize("names", [LONG, SPACED])
def test_long_names_are_short_where_people_look(files: dict[Names, str], names: Names) -> None:
    found = read(files[names])
    assert set(found.rebalances.group_id) == {names.group}
    for name, text in shown_to_people(found):
        if "DecodedExchange" not in name:  # shows bodies, whole
            assert max(map(len, text.split("\n"))) <= 5 * LONGEST_TEXT, name
    assert len(page(answered(found))) < 400_000


@pytest.mark.parametrize("flags", SNIFF)
def test_sniff_writes_nothing_that_steers_or_hides(files: dict[Names, str], command: Command, flags: list[str]) -> None:
    done = command("sniff", "-r", files[STEERING], *flags)
    assert done.returncode == 0
    assert done.stdout.count("\n") > 10
    assert not HIDDEN.search(done.stdout)


@pytest.mark.parametrize("flags", [[], ["-v"], ["--groups"]])
@pytest.mark.parametrize("names", [LONG, SPACED])
def test_lines_stay_short(files: dict[Names, str], command: Command, flags: list[str], names: Names) -> None:
    lines = command("sniff", "-r", files[names], *flags).stdout.split("\n")
    assert len(lines) > 10
    assert max(map(len, lines)) < LONGEST_TEXT


@pytest.mark.parametrize("names", [STEERING, LONG])
def test_json_has_every_name_as_it_is(files: dict[Names, str], command: Command, names: Names) -> None:
    lines = command("sniff", "-r", files[names], "--json", "--records").stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    assert {row["group_id"] for row in rows} == {names.group, None}
    assert {topic for row in rows for topic in row["topics"]} == {names.topic}
    join = next(row for row in rows if row["api"] == "JoinGroup")
    assert join["response"]["members"][0]["metadata"]["topics"] == [names.topic]
    assert {record["topic"] for row in rows for record in row["records"]} == {names.topic}
    assert {record["value"] for row in rows for record in row["records"]} == {names.value, names.group}
    of_groups = command("sniff", "-r", files[names], "--groups", "--json").stdout.splitlines()
    assert {json.loads(line)["group_id"] for line in of_groups} == {names.group}
    found, out = read(files[names]), io.StringIO()
    as_json.write({name: ds.dataset(found.arrow(name)) for name in found.tables}, found.summary, out)
    assert not HIDDEN.search(out.getvalue())
    assert {row["group_id"] for row in json.loads(out.getvalue())["rebalances"]} == {names.group}


def test_a_finding_leads_to_its_group_whatever_its_name(files: dict[Names, str]) -> None:
    for names in (STEERING, LONG):
        data = page_data(answered(read(files[names])))
        of_group = [row for row in data["findings"]["rows"] if row["subject"].startswith("group ")]
        assert of_group
        assert {row["group"] for row in of_group} == {0}


def test_a_hostile_file_name_does_not_steer_remarks(command: Command, tmp_path: Path) -> None:
    place = str(tmp_path / "a\x1b[2J\u202e\nb.pcap")
    done = command("sniff", "-r", place)
    assert done.returncode == 1
    assert not HIDDEN.search(done.stderr)
    assert done.stderr.count("\n") == 1
    Path(place).write_bytes(b"\xd4\xc3\xb2\xa1")
    assert not HIDDEN.search(command("sniff", "-r", place).stderr)
