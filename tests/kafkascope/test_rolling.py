"""`sniff --tables`: an interface's tables are those of an analysis, however often they are renewed."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from kafkascope import in_process, rolling
from kafkascope.decoders.limits import DEFAULT, Limits
from kafkascope.engine import EngineOptions
from kafkascope.out import pipeline
from kafkascope.out.errors import OutputError
from kafkascope.out.names import run_of_part
from kafkascope.reading import Listening
from kafkascope.reports.vocabulary.tables import SCHEMAS
from kafkascope.rolling import Rolling, renewals
from kafkascope.sniffer.issues import Issue, IssueLog
from kafkascope.sniffer.origins import Origins
from kafkascope.sniffer.session import SessionOptions
from tests.kafkascope.conftest import Command
from tests.kafkascope.test_incident_watch import Replayed
from tests.kafkascope.test_parity import comparable
from tests.paths import PCAPS

SMALL = PCAPS / "net_vlan" / "capture.pcap"
JOINS = PCAPS / "eager-three-joins" / "capture.pcap"


class OfInterface(Replayed):
    """Packets of a file as those of an interface."""

    origins = Origins(["eth0"])


class Dropping(OfInterface):
    """The kernel had no room for some packets before."""

    def __init__(self, path: str, batch_bytes: int) -> None:
        super().__init__(path, batch_bytes)
        self.issues = IssueLog([Issue("kernel_drops", "no room", count=5)])


def rolled(
    out: Path,
    clock: Callable[[], float],
    capture: Path = SMALL,
    look: Callable[[], None] = lambda: None,
    made: type[OfInterface] = OfInterface,
    run_bytes: int = DEFAULT.run_bytes,
    out_runs: int = DEFAULT.out_runs,
) -> list[str]:
    """What is told while the packets come; look is called whenever OUT was renewed."""
    told: list[str] = []
    options = EngineOptions(session=SessionOptions(limits=Limits(run_bytes=run_bytes, out_runs=out_runs)))
    with Listening(made(str(capture), 60_000), options) as listening:  # type: ignore[arg-type]
        for lines in renewals(listening, str(out), 1.0, told.append, clock):
            told += lines
            if lines:
                look()
        told += [line for line in listening.remarks() if "incident" in line]
    return told


def table(out: Path, name: str) -> pa.Table:
    found = comparable(name, pq.read_table(out / "tables" / name))
    return found.drop_columns(["file"]) if "file" in found.column_names else found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one analysis of the file makes."""
    out = tmp_path_factory.mktemp("whole") / "out"
    in_process.analyze([str(JOINS)], str(out))
    return out


def test_renewed_again_and_again_they_are_those_of_one_analysis(whole: Path, tmp_path: Path) -> None:
    out, seconds = tmp_path / "out", count()

    def look() -> None:
        exchanges = table(out, "exchanges")
        assert len(exchanges.group_by(["connection", "number"]).aggregate([])) == len(exchanges)

    *told, remark = rolled(out, lambda: next(seconds), JOINS, look)
    packets = [int(line.split()[1].replace(",", "")) for line in told]
    assert 0 < packets[0] < packets[-1] == json.loads((whole / "summary.json").read_text())["packets"]
    assert packets == sorted(packets)
    assert remark == "0 incidents"
    assert {path.name for path in out.iterdir()} == {"tables", "report.html", "summary.json"}
    for name in sorted(path.name for path in (whole / "tables").iterdir()):
        assert table(out, name).equals(table(whole, name)), name
    assert json.loads((out / "summary.json").read_text())["captures"] == ["eth0"]


def test_runs_that_are_full_follow_each_other_and_each_row_is_in_one(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = rolled(out, lambda: 0.0, JOINS, run_bytes=100_000)
    runs = json.loads((out / "summary.json").read_text())["runs"]
    assert len(runs) > 1
    assert told[-2].endswith(f", {len(runs)} runs\n")
    assert sum(run["packets"] for run in runs) == json.loads((whole / "summary.json").read_text())["packets"]
    for name in {path.name for path in (whole / "tables").iterdir()} & SCHEMAS.keys() - {"issues"}:
        assert table(out, name).equals(table(whole, name)), name
    without_topics = ["ApiVersions", "Metadata", "Heartbeat", "JoinGroup"]
    asked, answers = (pq.read_table(out / "tables" / name) for name in ("exchanges", "latency"))
    asked = asked.filter(pc.field("api").isin(without_topics)).group_by("run").aggregate([([], "count_all")])
    answers = answers.filter(pc.field("api").isin(without_topics) & (pc.field("part") == "total"))
    answers = answers.group_by("run").aggregate([("count", "sum")])
    assert answers.num_rows > 1  # what is told of a run is about the rows that it has
    assert dict(zip(*answers.to_pydict().values(), strict=True)) == dict(zip(*asked.to_pydict().values(), strict=True))


def test_runs_that_are_old_are_removed(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = rolled(out, lambda: 0.0, JOINS, run_bytes=100_000, out_runs=1)
    assert len(told) > 1
    assert not [line for line in told if " runs" in line]
    kept, of_all = (json.loads((place / "summary.json").read_text()) for place in (out, whole))
    assert kept["packets"] < of_all["packets"]
    assert {run_of_part(file.name) for file in out.rglob("part-*")} == {kept["run"]}


def test_what_was_met_in_one_run_is_told_of_that_run_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    rolled(out, lambda: 0.0, JOINS, made=Dropping, run_bytes=100_000)
    assert len(json.loads((out / "summary.json").read_text())["runs"]) > 1
    rows = table(out, "issues").to_pylist()
    assert [row["count"] for row in rows if row["kind"] == "kernel_drops"] == [5]


def test_what_was_there_stays_and_two_do_not_renew_one_directory(tmp_path: Path) -> None:
    out = tmp_path / "out"
    rolled(out, lambda: 0.0)
    before = table(out, "exchanges").num_rows
    with Listening(OfInterface(str(SMALL), 60_000), EngineOptions()) as listening:  # type: ignore[arg-type]
        first = Rolling(listening, str(out), 1.0, lambda _: None, lambda: 0.0)
        with pytest.raises(OutputError, match="is being renewed"):
            Rolling(listening, str(out), 1.0, lambda _: None, lambda: 0.0)
        first.close()
    assert rolled(out, lambda: 0.0)[-2].endswith(", 2 runs\n")
    assert table(out, "exchanges").num_rows == 2 * before


@pytest.mark.parametrize("run_bytes", [DEFAULT.run_bytes, 100_000])
def test_a_renewal_that_fails_is_said_and_made_up_for(
    run_bytes: int, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, seconds, times, fill = tmp_path / "out", count(), count(), pipeline.fill

    def failing_at_first(*arguments: object, **named: object) -> object:
        if next(times) == 0:
            raise OutputError("no room")
        return fill(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(rolling, "fill", failing_at_first)
    told = rolled(out, lambda: next(seconds), JOINS, run_bytes=run_bytes)
    assert table(out, "exchanges").equals(table(whole, "exchanges"))
    assert told[0] == f"{out} is not renewed: no room"
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"file is a file; .*--user"):
        rolled(tmp_path / "file", lambda: 0.0)


def test_of_files_they_are_those_of_an_analysis(whole: Path, tmp_path: Path, command: Command) -> None:
    out = tmp_path / "out"
    done = command("sniff", "-r", str(JOINS), "--tables", str(out))
    packets = json.loads((whole / "summary.json").read_text())["packets"]
    assert (done.returncode, done.stdout) == (0, f"{out}: 1 file to {JOINS}, {packets:,} packets, 0 incidents\n")
    assert table(out, "exchanges").equals(table(whole, "exchanges"))
    again = command("sniff", "-r", str(JOINS), "--tables", str(out))
    assert again.returncode == 1
    assert "is in" in again.stderr
    refused = command("sniff", "-r", str(JOINS), "--tables", str(out), "--api", "Fetch")
    assert refused.returncode == 2
    assert "--tables has all exchanges" in refused.stderr
    assert command("sniff", "-r", str(JOINS), "--tables", str(out), "--every", "1s").returncode == 2
