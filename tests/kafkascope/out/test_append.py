"""A later capture beside an earlier one in one directory: rows of both, told apart, and the answers of each."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafkascope import in_process
from kafkascope.decoders.limits import Limits
from kafkascope.engine import EngineOptions
from kafkascope.out.errors import OutputError
from kafkascope.out.output import Layout, Output
from kafkascope.out.stored import Stored, stored
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS
from kafkascope.sniffer.session import SessionOptions
from kafkascope.spark import analyze
from tests.kafkascope.conftest import Command
from tests.kafkascope.test_parity import comparable
from tests.paths import PCAPS

EARLIER, LATER, TINY = (str(PCAPS / name / "capture.pcap") for name in ("killed-silent", "rebalance-storm", "net_vlan"))


def files(out: Path) -> dict[str, bytes]:
    """All that users see of a directory."""
    found = (path for path in out.rglob("*") if path.is_file() and not path.relative_to(out).parts[0].startswith("."))
    return {str(path.relative_to(out)): path.read_bytes() for path in found}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Stored]:
    """Each capture in a directory of its own."""
    place = tmp_path_factory.mktemp("alone")
    for name, capture in (("earlier", EARLIER), ("later", LATER)):
        in_process.analyze([capture], str(place / name), records=True)
    return {name: stored(str(place / name)) for name in ("earlier", "later")}


@pytest.mark.parametrize("on_spark", [False, pytest.param(True, marks=pytest.mark.deep)])
@pytest.mark.parametrize("by_hour", [False, True])
def test_each_run_has_the_rows_and_answers_that_it_has_alone(
    on_spark: bool, by_hour: bool, alone: dict[str, Stored], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    in_process.analyze([EARLIER], str(out), records=True, append=True, by_hour=by_hour)
    before = files(out)
    if on_spark:
        analyze([LATER], str(out), records=True, append=True, spark=request.getfixturevalue("spark"), partitions=3)
    else:
        in_process.analyze([LATER], str(out), records=True, append=True)
    after = files(out)
    assert all(after[name] == content for name, content in before.items() if name.startswith("tables/"))
    directory = stored(str(out))
    runs = directory.runs()
    captures = [run.summary["captures"] for run in runs]
    assert captures == [["killed-silent/capture.pcap"], ["rebalance-storm/capture.pcap"]]
    for run, one in zip(runs, alone.values(), strict=True):
        assert {**run.summary, "run": None} == {**one.summary, "run": None}
        for name in ALL_SCHEMAS:
            mine, theirs = (comparable(name, of.tables[name].to_table()) for of in (run, one))
            assert mine.equals(theirs), name
    both = pq.read_table(out / "tables" / "exchanges")
    assert set(both["run"].to_pylist()) == {run.summary["run"] for run in runs}
    assert len(both) == sum(of.tables["exchanges"].count_rows() for of in alone.values())
    # Numbers of connections are those of a run: alone they do not tell connections apart.
    connections = pq.read_table(out / "tables" / "connections").to_pylist()
    assert len({row["connection"] for row in connections}) < len(connections)
    assert len({(row["run"], row["connection"]) for row in connections}) == len(connections)
    if by_hour:
        hours = {path.parent.name for path in (out / "tables" / "exchanges").rglob("*.parquet")}
        assert hours == {"hour=05", "hour=06"}  # without being told again
    report = (out / "report.html").read_text()
    assert report.count('<script type="application/json"') == 2
    for one in alone.values():
        answers = (Path(one.place) / "report.html").read_text().partition('id="answers">')[2].partition("</script>")[0]
        assert answers in report


def test_what_is_there_already_is_refused_by_name(command: Command, tmp_path: Path) -> None:
    out, copy = tmp_path / "out", tmp_path / "copy.pcap"
    copy.write_bytes(Path(EARLIER).read_bytes())
    append = ("kafkascope", "analyze", "-o", str(out), "--in-process", "--append")
    assert command(*append, EARLIER).returncode == 0
    before = files(out)
    refused = command(*append, str(copy), LATER)
    assert refused.returncode == 2
    assert f"{copy} is in {out} already, as {EARLIER} of run " in refused.stderr
    assert files(out) == before
    forced = command(*append, "--force", str(copy))
    assert forced.returncode == 0
    assert f"{out} has 2 runs now" in forced.stdout.replace("\n", " ")
    packets = json.loads(before["summary.json"])["packets"]
    assert [run.summary["packets"] for run in stored(str(out)).runs()] == [packets] * 2
    assert command(*append, "--overwrite", LATER).returncode == 2
    assert command("kafkascope", "analyze", "-o", str(out), "--in-process", "--force", LATER).returncode == 2


def test_the_report_again_is_the_same(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for capture in (EARLIER, LATER):
        in_process.analyze([capture], str(out), append=True)
    written = (out / "report.html").read_text()
    assert command("kafkascope", "report", str(out)).returncode == 0
    assert (out / "report.html").read_text() == written
    lines = command("kafkascope", "report", str(out), "--format", "md").stdout.splitlines()
    titles = [line.partition(",")[0] for line in lines if line.startswith("# ")]
    assert titles == ["# killed-silent/capture.pcap", "# rebalance-storm/capture.pcap"]
    runs = objects(command("kafkascope", "report", str(out), "--format", "json").stdout)
    assert [run["summary"]["run"] for run in runs] == [run.summary["run"] for run in stored(str(out)).runs()]


def test_of_many_runs_the_page_has_the_latest(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = EngineOptions(session=SessionOptions(limits=Limits(page_runs=2)))
    for capture in (EARLIER, LATER, TINY):
        in_process.analyze([capture], str(out), append=True, options=options)
    written = (out / "report.html").read_text()
    assert command("kafkascope", "report", str(out), "--limit", "page_runs=2").returncode == 0
    assert (out / "report.html").read_text() == written
    titles = re.findall(r"<option[^>]*>([^,<]*)", written)
    assert titles == ["rebalance-storm/capture.pcap", "net_vlan/capture.pcap"]
    assert written.count('<script type="application/json"') == 2
    assert "<p>1 earlier run: in the tables, and not on this page" in written
    assert command("kafkascope", "report", str(out)).returncode == 0
    assert "not on this page" not in (out / "report.html").read_text()


def objects(text: str) -> Iterator[Any]:
    """JSON objects one after the other, each on lines of its own, as jq reads them."""
    decoder = json.JSONDecoder()
    while text:
        value, end = decoder.raw_decode(text)
        yield value
        text = text[end:].lstrip()


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """OUT as it was before a second run, and what a kill before each of that run's renames in it leaves on the disk."""
    out, copies = tmp_path_factory.mktemp("killed") / "out", list[Path]()

    def copied() -> None:
        copies.append(Path(shutil.copytree(out, out.with_name(str(len(copies))))))

    class Copying:
        def __init__(self, system: Any) -> None:
            self._system = system

        def __getattr__(self, name: str) -> Any:
            return getattr(self._system, name)

        def move(self, source: str, target: str) -> None:
            if str(out) in (os.path.dirname(target), os.path.dirname(source)):  # what users see
                copied()
            self._system.move(source, target)

    exchange = Output._exchange

    def copying(self: Output, *arguments: Any) -> None:
        self._system = Copying(self._system)
        exchange(self, *arguments)

    in_process.analyze([EARLIER], str(out))
    copied()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Output, "_exchange", copying)
        in_process.analyze([LATER], str(out), append=True)
    return {"before": copies[:1], "left": copies[1:]}


@pytest.mark.parametrize("moves", range(6))
def test_one_that_is_killed_leaves_what_was_there(moves: int, killed: dict[str, list[Path]]) -> None:
    """At once, if it was before the new is put in place; amid that, which is six renames, with the next run."""
    [before], left = killed["before"], killed["left"]
    assert len(left) == 6
    out = left[moves]
    assert sorted(path.name for path in out.iterdir()) != ["report.html", "summary.json", "tables"]
    assert (files(out) == files(before)) == (not moves)
    output = Output(str(out), append=True)
    output.begin(["issues"])
    output.abort()
    assert files(out) == files(before)
    assert sorted(path.name for path in out.iterdir()) == ["report.html", "summary.json", "tables"]


def test_a_directory_that_is_not_alike_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    in_process.analyze([EARLIER], str(out), microseconds=True, report=False)
    with pytest.raises(OutputError, match="was made without --by-hour"):
        Output(str(out), append=True, layout=Layout(by_hour=True))
    assert Output(str(out), append=True).layout == Layout(microseconds=True)
    summary = json.loads((out / "summary.json").read_text())
    for wrong, said in (
        (json.dumps(summary | {"schema_version": 4}), "another version of kafkascope"),
        (json.dumps(summary | {"run": "20000101T000000Z-00000000"}), "lacks tables"),
        ("[]", "another version"),
        ("{", "summary.json: "),
    ):
        (out / "summary.json").write_text(wrong)
        with pytest.raises(OutputError, match=said):
            Output(str(out), append=True)
    (out / "summary.json").unlink()
    with pytest.raises(OutputError, match="no analysis ended there"):
        Output(str(out), append=True)


def test_files_that_cannot_be_linked_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    in_process.analyze([EARLIER], str(out), records=True, report=False)
    before = files(out)

    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refused)
    in_process.analyze([LATER], str(out), records=True, append=True, report=False)
    after = files(out)
    assert all(after[name] == content for name, content in before.items() if name.startswith("tables/"))
    assert {path.stat().st_mode & 0o777 for path in (out / "tables" / "records").iterdir()} == {0o600}


def test_where_files_cannot_be_linked_at_all_the_summary_tells_which_runs_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on object stores: files of a run that was killed are among those of the others until the next one comes."""
    out = tmp_path / "out"
    in_process.analyze([EARLIER], str(out), report=False)
    (part,) = (out / "tables" / "exchanges").iterdir()
    stray = part.with_name("part-00000-20000101T000000Z-00000000-0123456789abcdef.parquet")
    stray.write_bytes(part.read_bytes())
    commit = Output.commit

    def elsewhere(self: Output, *arguments: Any) -> None:
        self._is_local = False
        commit(self, *arguments)

    monkeypatch.setattr(Output, "commit", elsewhere)
    output = Output(str(out), append=True)
    assert [run["run"] for run in output.earlier] == [stored(str(out)).summary["run"]]
    in_process.analyze([LATER], str(out), append=True, report=False)
    assert not stray.exists()
    assert part.exists()
    assert [run.tables["exchanges"].count_rows() for run in stored(str(out)).runs()] == [825, 985]
