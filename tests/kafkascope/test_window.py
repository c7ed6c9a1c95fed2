"""A window of packets is as good as a file that has these packets alone, but for their numbers."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

import kafkascope
from tests.kafkascope.conftest import Command
from tests.paths import PCAPS

SILENT = PCAPS / "killed-silent" / "capture.pcap"
FIELDS = "requested,client,api,api_version,client_id,latency_ms,error,group_id,issue"


def records(capture: bytes) -> list[bytes]:
    """The packets of a pcap file, each with its header."""
    found, at = [], 24
    while at < len(capture):
        size = 16 + struct.unpack("<I", capture[at + 8 : at + 12])[0]
        found.append(capture[at : at + size])
        at += size
    return found


@pytest.mark.parametrize("window", [["--packets", "401-900"], ["--since", "05:57:05", "--until", "+4.5s"]])
def test_sniff_shows_what_is_in_a_file_of_these_packets(command: Command, tmp_path: Path, window: list[str]) -> None:
    whole = SILENT.read_bytes()
    packets = records(whole)
    if window[0] == "--packets":
        inside = packets[400:900]
    else:
        times = [seconds + micro / 1e6 for seconds, micro in (struct.unpack("<II", one[:8]) for one in packets)]
        five_past = times[0] - times[0] % 86400 + 5 * 3600 + 57 * 60 + 5
        inside = [one for one, at in zip(packets, times, strict=True) if five_past <= at < times[0] + 4.5]
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(whole[:24] + b"".join(inside))
    ended = command("sniff", "-r", str(SILENT), *window, "--fields", FIELDS)
    assert ended.returncode == 0
    assert ended.stdout
    assert ended.stdout == command("sniff", "-r", str(cut), "--fields", FIELDS).stdout
    assert f"{len(packets) - len(inside):,} packets outside of the window" in ended.stderr


def test_names_that_are_told_outside_of_the_window_are_known(command: Command) -> None:
    ended = command("sniff", "-r", str(SILENT), "--packets", "668-700", "--fields", "topics")
    assert "orders" in ended.stdout
    assert "id:" not in ended.stdout


@pytest.mark.parametrize("story", ["mixed-versions", "connect", "streams-classic"])
def test_what_members_of_groups_say_is_read_without_their_joins(story: str) -> None:
    """Old versions of SyncGroup tell neither protocol nor assignor: --names and --ask need not tell them either."""
    columns = ["requested", "client_id", "correlation_id", "request", "response"]
    [capture] = (PCAPS / story).glob("capture.pcap*")

    def syncs(packets: str) -> pd.DataFrame:
        exchanges = kafkascope.read(capture, answers=False, packets=packets).exchanges
        return exchanges[(exchanges.api == "SyncGroup") & exchanges.request_packet.notna()]

    whole = syncs("1-")
    packets = whole.request_packet.tolist()
    for cut in (packets[0], packets[len(packets) // 2]):
        late = syncs(f"{cut}-")
        assert len(late) > 1
        assert {*late[columns].itertuples(index=False)} <= {*whole[columns].itertuples(index=False)}
    assert late.response.str.contains("_definition").any()


def test_a_window_without_packets_says_what_there_is(command: Command) -> None:
    ended = command("sniff", "-r", str(SILENT), "--since", "23:00")
    assert (ended.returncode, ended.stdout) == (0, "")
    assert "no packets in the window; they are of 2026-11-21 05:57:0" in ended.stderr


@pytest.mark.parametrize("option", ["--since=+1s", "--until=05:00", "--packets=1-2"])
def test_an_interface_has_no_window(command: Command, option: str) -> None:
    ended = command("sniff", "-i", "lo", option)
    assert ended.returncode == 2
    assert "--duration TIME" in ended.stderr


def test_what_is_no_window_is_refused(command: Command) -> None:
    ended = command("kafkascope", "analyze", str(SILENT), "-o", "never", "--since", "yesterday")
    assert ended.returncode == 2
    assert "--since: 'yesterday' is no time" in " ".join(ended.stderr.replace("│", " ").split())


def test_rows_keep_the_numbers_of_the_whole_capture() -> None:
    whole = kafkascope.read(SILENT, answers=False)
    part = kafkascope.read(SILENT, answers=False, packets=(600, 900))
    assert part.exchanges.request_packet.dropna().between(600, 900).all()
    assert (part.summary["packets"], part.summary["window"]["left_out"]) == (301, whole.summary["packets"] - 301)
    assert "capture.pcap (packets 600-900) · " in repr(part)
    assert " · 301 packets · " in repr(part)
    both = part.exchanges.merge(whole.exchanges, on=["request_packet", "response_packet", "api", "latency_ms"])
    assert len(both) == 50


@pytest.mark.parametrize(
    "file", [pytest.param("killed-silent/capture.pcap", marks=pytest.mark.deep), "clients_tls/with-secrets.pcapng"]
)
def test_spark_has_the_same_window(file: str, spark: Any, tmp_path: Path, command: Command) -> None:
    from kafkascope.engine import EngineOptions
    from kafkascope.sniffer.packet_window import PacketWindow
    from kafkascope.spark import analyze

    path, here, there = str(PCAPS / file), tmp_path / "here", tmp_path / "there"
    ended = command("kafkascope", "analyze", path, "-o", str(here), "--in-process", "--since=+2s", "--until=+7s")
    assert "packets outside of the window (since +2s, until +7s) left out" in ended.stdout
    options = EngineOptions(window=PacketWindow.of("+2s", "+7s"))
    analyze([path], str(there), spark=spark, options=options, split_bytes=65536, partitions=2)
    summaries = [json.loads((out / "summary.json").read_text()) | {"run": None} for out in (here, there)]
    assert summaries[0] == summaries[1]
    assert summaries[0]["window"]["left_out"] > 0
    for name in ("exchanges", "connections", "issues"):
        rows = [pq.read_table(out / "tables" / name).drop_columns("run").to_pylist() for out in (here, there)]
        assert sorted(map(str, rows[0])) == sorted(map(str, rows[1]))
