"""TLS from the command line and in notebooks: key logs beside a capture, and in it; in process and on Spark."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kafkascope
from kafkascope.engine import EngineOptions
from kafkascope.reading import Listening
from kafkascope.sniffer.columns import Packets
from kafkascope.sniffer.issues import Issue
from kafkascope.sniffer.origins import NO_ORIGINS
from kafkascope.sniffer.session import SessionOptions
from kafkascope.sniffer.sources.files import open_capture
from tests import needs
from tests.kafkascope.conftest import Command
from tests.kafkascope.test_parity import same_tables
from tests.paths import PCAPS
from tests.sniffer.sources.written_captures import Pcapng

STORY = PCAPS / "clients_tls"
HEX = re.compile("\t?[0-9a-f]+")
CAPTURE, KEY_LOG, WITH_SECRETS = STORY / "capture.pcap", STORY / "tls.keylog", STORY / "with-secrets.pcapng"


def test_a_key_log_beside_a_capture_is_as_good_as_in_it(command: Command) -> None:
    beside = command("sniff", "-r", str(CAPTURE), "--tls-keylog", str(KEY_LOG), "--json", "--records")
    inside = command("sniff", "-r", str(WITH_SECRETS), "--json", "--records")
    assert beside.returncode == inside.returncode == 0
    lines, others = ([json.loads(line) for line in one.stdout.splitlines()] for one in (beside, inside))
    assert {line.pop("file") for line in lines} == {str(CAPTURE)}
    assert {line.pop("file") for line in others} == {str(WITH_SECRETS)}
    assert lines == others
    assert len(lines) == 68
    assert Counter(line["outcome"] for line in lines) == {"answered": 66, "unanswered": 2}


def test_without_a_key_log_nothing_is_opened(command: Command) -> None:
    done = command("sniff", "-r", str(CAPTURE))
    assert "java-plaintext-to-tls" in done.stdout
    assert len(done.stdout.splitlines()) == 1


def test_what_shows_without_keys_is_what_they_open() -> None:
    """Turns are requests, or fewer where several are sent at once; names and dates are those of the certificate."""
    shut, opened = kafkascope.read(CAPTURE).connections, kafkascope.read(WITH_SECRETS).connections
    both = shut.merge(opened[["connection", "exchanges", "tls_opened"]], on="connection", suffixes=("", "_with_keys"))
    known = both[both.tls_opened_with_keys.fillna(False) & (both.exchanges_with_keys > 0)]
    assert len(known) == 21
    assert (known.tls_requests - known.exchanges_with_keys).between(-1, 0).all()
    assert (known.tls_requests == known.exchanges_with_keys).sum() >= 19
    refused = shut[shut.tls_alert == "bad_certificate"]
    assert set(refused.tls_alert_by) == {"broker"}
    names = shut[shut.tls_version == "TLS 1.2"].tls_certificate_names
    assert {tuple(one) for one in names} == {("lab-broker", "10.77.58.11")}


def test_what_shows_without_keys_is_said(command: Command) -> None:
    said = command("sniff", "-r", str(CAPTURE), "--port", "9096").stderr
    assert re.search("port 9096: [0-9]+ connections with TLS, [0-9]+ requests.* answers in .* ms [(]inferred", said)


def test_what_is_opened_is_what_tshark_opens() -> None:
    """As many bytes of each connection, both ways."""
    needs.needs("tshark")
    as_tls = [part for port in (9095, 9096, 9097) for part in ("-d", f"tcp.port=={port},tls")]
    command = ["tshark", "-r", str(CAPTURE), "-o", f"tls.keylog_file:{KEY_LOG}", *as_tls]

    def tshark(*arguments: str) -> list[str]:
        return subprocess.run([*command, *arguments], capture_output=True, text=True, check=True).stdout.splitlines()

    streams: dict[int, str] = {}
    for line in tshark("-T", "fields", "-e", "frame.number", "-e", "tcp.stream"):
        number, stream = line.split("\t")
        streams.setdefault(int(number), stream)
    capture = kafkascope.read(CAPTURE, tls_keylog=KEY_LOG)
    sizes = capture.exchanges.groupby("connection")[["request_bytes", "response_bytes"]].sum()
    ours = {number: sorted(row) for number, row in zip(sizes.index, sizes.values.tolist(), strict=True)}
    ours = {number: row for number, row in ours.items() if min(row)}  # one client spoke in the clear, to no avail
    stream = ""
    theirs = {streams[number]: [0, 0] for number in ours}
    for line in tshark("-q", *(word for one in theirs for word in ("-z", f"follow,tls,raw,{one}"))):
        if line.startswith("Filter: tcp.stream eq "):
            stream = line.split()[-1]
        elif HEX.fullmatch(line):
            theirs[stream][line.startswith("\t")] += len(line.strip()) // 2
    assert {number: sorted(theirs[streams[number]]) for number in ours} == ours
    assert len(ours) == 21


def test_spark_opens_with_a_key_log_what_one_process_does(spark: Any, tmp_path: Path) -> None:
    from kafkascope.spark import analyze

    here = kafkascope.read(CAPTURE, tls_keylog=KEY_LOG, records=True)
    assert len(here.records) == 145
    options = EngineOptions(session=SessionOptions(key_logs=(str(KEY_LOG),)))
    analyze(
        [str(CAPTURE)],
        str(tmp_path / "out"),
        spark=spark,
        records=True,
        options=options,
        split_bytes=65536,
        partitions=3,
    )
    same_tables(here, tmp_path / "out")


class Replayed:
    """The recording as a live source, and its key log as clients write it: a session's lines come some packets late."""

    def __init__(self, key_log: Path, late: int) -> None:
        self.issues: list[Issue] = []
        self.is_partial = self.is_behind = False
        self.cut = 0
        self.origins = NO_ORIGINS
        self._key_log = key_log
        self._late = late
        self._packets = 0

    def __iter__(self) -> Iterator[Packets]:
        lines: dict[bytes, list[bytes]] = {}  # of each session
        for line in KEY_LOG.read_bytes().splitlines(keepends=True):
            lines.setdefault(line.split()[1], []).append(line)
        written = bytearray()
        due: list[tuple[int, bytes]] = []
        for packets in open_capture(str(CAPTURE), batch_bytes=1 << 12):
            self._packets = int(packets.number[-1])
            data = packets.data.tobytes()
            for random in [one for one in lines if bytes.fromhex(one.decode()) in data]:
                due.append((self._packets + self._late, b"".join(lines.pop(random))))
            for moment, text in tuple(due):
                if moment <= self._packets:
                    due.remove((moment, text))
                    for part in (text[:99], text[99:]):
                        written += part
                        self._key_log.write_bytes(written)
            yield packets

    def statistics(self) -> tuple[int, int]:
        return self._packets, 0

    def stop(self) -> None:
        """It ends by itself."""

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("late", [0, 5])
def test_live_a_key_log_is_followed(tmp_path: Path, late: int) -> None:
    """What comes of it is what a key log gives that is there from the beginning."""
    log = tmp_path / "keys"
    options = EngineOptions(views=frozenset(), session=SessionOptions(key_logs=(str(log),)))
    columns = ["connection", "number", "api", "outcome", "requested", "answered", "request_packet", "response"]

    def rows(tables: Iterable[pa.Table]) -> list[dict[str, Any]]:
        found = pa.concat_tables(tables).select(columns).to_pylist()
        return sorted(found, key=lambda row: (row["connection"], row["number"]))

    with Listening(Replayed(log, late), options) as listening:  # type: ignore[arg-type]
        live = rows(batch.tables["exchanges"] for batch in listening.batches() if "exchanges" in batch.tables)
        assert not any("key log" in remark for remark in listening.remarks() if "encrypted with TLS" not in remark)
    assert live == rows([kafkascope.read(CAPTURE, tls_keylog=KEY_LOG, answers=False).arrow("exchanges")])


def test_secrets_in_mid_file_open_the_same_everywhere(spark: Any, tmp_path: Path) -> None:
    """Those of a session stand behind its first packets, as programs that write both as they go put them."""
    from kafkascope.spark import analyze

    path = tmp_path / "late.pcapng"
    path.write_bytes(with_secrets_behind(300))
    here = kafkascope.read(path, records=True)
    opened = here.connections[(here.connections.exchanges > 0) & (here.connections.broker_port != 9092)]
    assert (opened.connection < 300).any()
    assert 8 < len(opened) < 22
    for split_bytes in (65536, 1 << 22):
        out = tmp_path / str(split_bytes)
        analyze([str(path)], str(out), spark=spark, records=True, split_bytes=split_bytes, partitions=2)
        same_tables(here, out)


def with_secrets_behind(packets: int) -> bytes:
    """The recording with its key log behind so many packets."""
    data = WITH_SECRETS.read_bytes()
    blocks, secrets, seen, position = [], b"", 0, 0
    while position < len(data):
        kind, size = (int.from_bytes(data[at : at + 4], "little") for at in (position, position + 4))
        block = data[position : position + size]
        position += size
        if kind == 10:
            secrets = block
            continue
        blocks.append(block)
        seen += kind == 6
        if kind == 6 and seen == packets:
            blocks.append(secrets)
    assert secrets == Pcapng().secrets(0x544C534B, KEY_LOG.read_bytes())
    return b"".join(blocks)


@pytest.mark.parametrize("text", [b"", b"CLIENT_RANDOM 00 11\nrubbish\n"])
def test_a_key_log_without_its_secrets_is_said_to_have_none(command: Command, tmp_path: Path, text: bytes) -> None:
    (tmp_path / "keys").write_bytes(text)
    done = command("sniff", "-r", str(CAPTURE), "--tls-keylog", str(tmp_path / "keys"))
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 1
    assert ("a line of a key log is not LABEL" in done.stderr) == bool(text)
    assert "cannot be read; the key log that was given does not open them" in done.stderr
    issues = kafkascope.read(CAPTURE, tls_keylog=tmp_path / "keys").issues
    assert (issues.kind == "tls_not_opened").sum() > 60


def test_a_key_log_that_is_not_there_is_named(command: Command, tmp_path: Path) -> None:
    done = command("sniff", "-r", str(CAPTURE), "--tls-keylog", str(tmp_path / "none"))
    assert done.returncode == 1
    assert f"{tmp_path / 'none'}: no such file" in done.stderr
