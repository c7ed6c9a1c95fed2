"""A capture of two clusters that have a group and a topic of one name: each is told as if it were alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kafkascope
from kafkascope.capture import Capture
from tests.kafkascope.joined_captures import SECOND, Record, records_of, write
from tests.kafkascope.test_parity import same_tables
from tests.paths import PCAPS

FIRST, SECOND_ID = (
    b"MkU3OEVBNTcwNTJENDM2Qg",
    b"QkJCQkJCQkJCQkJCQkJCQg",
)  # as long: the bytes of the recording are changed
OTHER = f"shop@{SECOND_ID.decode()}"
# What hangs on other packets of the capture, or on when it begins.
_ELSEWHERE = {"file", "connection", "packet", "first_packet", "number", "evidence", "connections"}


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The captures of two clusters with three brokers and three, each alone and both together."""
    folder = tmp_path_factory.mktemp("clusters")
    header, one = records_of(PCAPS / "broker-paused" / "capture.pcap.gz")
    _, two = records_of(PCAPS / "client-cut" / "capture.pcap.gz")
    earlier = 133 * SECOND  # so that they are at the same time
    other: list[Record] = [(at - earlier, size, data.replace(FIRST, SECOND_ID)) for at, size, data in two]
    both = sorted(one + other, key=lambda record: record[0])
    found = {"one": one, "other": other, "both": both}
    return {name: write(folder / f"{name}.pcap", header, packets) for name, packets in found.items()}


@pytest.fixture(scope="module")
def captures(paths: dict[str, str]) -> dict[str, Capture]:
    return {name: kafkascope.read(path) for name, path in paths.items()}


@pytest.fixture(scope="module")
def both(captures: dict[str, Capture]) -> Capture:
    return captures["both"]


def rows(capture: Capture, table: str, group: str) -> list[dict[str, Any]]:
    """Rows about a group, but for what hangs on the rest of the capture."""
    found = [row for row in capture.arrow(table).to_pylist() if row["group_id"] == group]
    return sorted((kept(row | {"group_id": None}) for row in found), key=str)


def kept(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: kept(member) for name, member in value.items() if name not in _ELSEWHERE}
    return [kept(member) for member in value] if isinstance(value, list) else value


@pytest.mark.parametrize("table", ["rebalances", "group_events", "lag", "rereads"])
@pytest.mark.parametrize(("name", "group"), [("one", "shop"), ("other", OTHER)])
def test_a_group_is_told_as_if_its_cluster_were_alone(
    captures: dict[str, Capture], both: Capture, table: str, name: str, group: str
) -> None:
    alone = rows(captures[name], table, "shop")
    assert rows(both, table, group) == alone
    assert alone or table == "rereads"


def test_incidents_and_findings_name_the_right_one(both: Capture) -> None:
    kinds = {(row["kind"], OTHER in row["headline"]) for row in both.arrow("incidents").to_pylist()}
    assert kinds == {("broker_stalled", False), ("client_unreachable", True)}
    subjects = {(row["kind"], row["subject"]) for row in both.arrow("findings").to_pylist()}
    assert ("member_lost", f"group {OTHER}") in subjects
    assert ("heartbeat_held_up", "group shop") in subjects


def test_all_ways_give_the_same(paths: dict[str, str], both: Capture, spark: Any, tmp_path: Path) -> None:
    from kafkascope import in_process
    from kafkascope.spark import analyze

    in_process.analyze([paths["both"]], str(tmp_path / "here"))
    analyze([paths["both"]], str(tmp_path / "there"), spark=spark, split_bytes=300_000, partitions=5)
    for out in ("here", "there"):
        same_tables(both, tmp_path / out)


def test_groups_as_they_are_read(paths: dict[str, str]) -> None:
    command = [sys.executable, "-m", "kafkascope", "sniff", "-r", paths["both"], "--groups"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [line.split()[1:4] for line in shown.splitlines() if " REBALANCE " in line]
    generations = ["?→1", "1→2", "2→3", "3→4"]
    for group in ("shop", OTHER):
        assert [place for name, _, place in lines if name == group] == generations
