"""`kafkascope annotate`: the same packets, with our words beside them, as Wireshark reads them."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import kafkascope
from kafkascope.annotating import Placed, annotate
from kafkascope.engine import EngineOptions
from kafkascope.reports.show.packet_comments import PacketComments
from kafkascope.sniffer.columns import Packets
from kafkascope.sniffer.sources.files import open_capture
from tests.kafkascope.conftest import Command
from tests.needs import needs
from tests.paths import PCAPS

STORY = PCAPS / "killed-consumer" / "capture.pcap"
FORMATS = PCAPS / "net_formats"
INCIDENT = (
    "incident 1 begins (warning, likely): c2 (10.77.2.14) ended without leaving at 05:56:31.333, and was taken out "
)
SAID = {  # of STORY, by frame
    62: "JoinGroup: MEMBER_ID_REQUIRED for group pay (ordinary: A new member is given its id this way",
    65: "rebalance of group pay, generation 1, begins: member_joined of c3 (certain)",
    77: "incident 1: its host closed 3 connections of it (FIN) without a LeaveGroup before",
    791: f"{INCIDENT}of group pay after 6.0 s of silence",
    1133: "rebalance of group pay, generation 2, begins: session_timeout of c2 (likely)",
    1284: "rebalance of group pay, generation 2, ends after 1.9 s",
    2098: "incident 1 ends after 14.8 s: client_died of client c2 (10.77.2.14)",
    2951: "rebalance of group pay, generation 5, begins and ends: member_left of c3 (certain)",
}


def packets(*paths: Path) -> list[tuple[int, bytes, int, int]]:
    found = []
    with open_capture(list(map(str, paths))) as capture:
        for batch in capture:
            rows = zip(batch.at, batch.start, batch.captured, batch.original, batch.link_type, strict=True)
            for at, start, captured, original, link_type in rows:
                content = batch.data[start : start + captured].tobytes()
                found.append((int(at), content, int(original), int(link_type)))
    return found


def notes(path: Path) -> list[tuple[int, str]]:
    with open_capture(str(path)) as capture:
        for _ in capture:
            pass
        return [(note.packet, note.text) for note in capture.files[0].notes]


def tshark(path: Path, *options: str) -> str:
    needs("tshark")
    return subprocess.run(["tshark", "-r", str(path), *options], capture_output=True, text=True, check=True).stdout


def test_wireshark_shows_comments_at_their_packets_and_names_of_hosts(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    done = command("kafkascope", "annotate", str(STORY), str(out))
    assert done.returncode == 0
    assert done.stdout == f"{out}: 2,986 packets, 31 comments, names of 5 hosts\n"
    shown = tshark(out, "-Y", "frame.comment", "-T", "fields", "-e", "frame.number", "-e", "frame.comment")
    comments = dict(line.split("\t") for line in shown.splitlines())
    assert {number: text in comments[str(number)] for number, text in SAID.items()} == dict.fromkeys(SAID, True)
    assert all(text.startswith("kafkascope: ") for text in comments.values())
    hosts = tshark(out, "-q", "-z", "hosts")
    assert {"10.77.2.11\tbroker-1", "10.77.2.12\tp1", "10.77.2.14\tc2"} < set(hosts.splitlines())


@pytest.mark.parametrize(
    "paths",
    [
        [STORY],
        [FORMATS / "comment.pcapng.gz"],
        [FORMATS / "two-sections.pcapng.gz"],
        [FORMATS / "any-sll2.pcap.gz"],
        [FORMATS / f"rotated-0{number}.pcap" for number in (4, 2, 1, 3)],
        [PCAPS / "net_ipv6" / "capture.pcap"],
    ],
    ids=str,
)
def test_packets_are_as_they_were(paths: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    done = annotate(list(map(str, paths)), str(out), EngineOptions())
    written = packets(out)
    assert written == packets(*paths)
    assert (done.packets, done.comments) == (len(written), len(notes(out)))
    assert done.comments > 5


@pytest.mark.parametrize("name", ["broker-killed/capture.pcap.gz", "clients_tls/with-secrets.pcapng"])
def test_tables_are_as_they_were(name: str, tmp_path: Path) -> None:
    """Secrets of TLS in the capture are kept, so what they open is read."""
    out = tmp_path / "out.pcapng"
    annotate([str(PCAPS / name)], str(out), EngineOptions())
    before, after = kafkascope.read(PCAPS / name), kafkascope.read(out)
    assert before.arrow("exchanges").num_rows
    for table in before.tables:
        rows = [
            Counter(map(repr, found.drop_columns([one for one in found.column_names if one == "file"]).to_pylist()))
            for found in (before.arrow(table), after.arrow(table))
        ]
        assert rows[0] == rows[1], table


def test_comments_of_the_capture_are_kept_and_ours_come_once(tmp_path: Path) -> None:
    first, second = tmp_path / "first.pcapng", tmp_path / "second.pcapng"
    annotate([str(FORMATS / "comment.pcapng.gz")], str(first), EngineOptions())
    assert (5, "lab comment on frame 5") in notes(first)
    annotate([str(first)], str(second), EngineOptions())
    assert second.read_bytes() == first.read_bytes()


def test_moments_go_to_the_next_packet_and_none_is_lost_silently() -> None:
    said = PacketComments(
        of_packets={2: ["of two"]}, of_times=[(15, "a"), (20, "b"), *[(25, str(n)) for n in range(30)]]
    )
    said.of_times.append((99, "never"))
    placed = Placed(said, ())
    none = np.zeros(2, np.int32)
    found = [
        placed.of(
            Packets(np.zeros(0, np.uint8), np.array(number), np.array(at), none.astype(np.int64), none, none, none)
        )
        for number, at in (([1, 2], [10, 20]), ([3, 4], [5, 30]))  # a clock that goes back
    ]
    assert found == [{2: ["a", "b", "of two"]}, {4: [str(n) for n in range(20)]}]
    assert [line.partition(" ")[0] for line in placed.remarks()] == ["10", "1"]


def test_what_is_not_kept_is_said(command: Command, tmp_path: Path) -> None:
    needs("text2pcap")
    named, out = tmp_path / "named.pcapng", tmp_path / "out.pcapng"
    made = ["text2pcap", "-q", "-N", "eth7", "-T", "1,9092", "-", str(named)]
    subprocess.run(made, input="0000 00 01 02 03\n", text=True, check=True, capture_output=True)
    done = command("kafkascope", "annotate", str(named), str(out))
    assert done.stdout == f"{out}: 1 packet, 1 comment, names of 0 hosts\n"
    ((packet, text),) = notes(out)  # text2pcap's own, of the file as such
    assert packet == 1
    assert text.startswith(f"comment of {named}: ")
    assert "packets do not say any more by which interface they came (eth7)" in done.stderr
    assert packets(out) == packets(named)


def test_what_makes_no_sense_is_refused(command: Command, tmp_path: Path) -> None:
    there = tmp_path / "there.pcap"
    there.write_bytes(STORY.read_bytes())
    for asked, said in {
        (str(there),): "is read, but where to write?",
        (str(STORY), str(there)): f"is there already; -o {there}",
        (str(there), "-o", str(there)): "is one of the captures that are to be read",
        (str(tmp_path / "none"), "-o", str(tmp_path / "out")): "no such file",
        ("-", "-o", str(tmp_path / "out")): "a pipe does not allow",
        (
            str(FORMATS / "capture.pcap.gz"),
            str(FORMATS / "client-raw.pcap"),
            "-o",
            str(tmp_path / "out"),
        ): "give them to annotate one at a time",
    }.items():
        done = command("kafkascope", "annotate", *asked)
        assert done.returncode in (1, 2)
        assert said in " ".join(done.stderr.replace("│", " ").split()), asked
    assert [path.name for path in tmp_path.iterdir()] == ["there.pcap"]
    assert there.read_bytes() == STORY.read_bytes()
