"""`sniff -r FILE ... -w OUT`: the connections of what matches, or what matches alone."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kafkascope
from kafkascope.matching import CARRIED, Matching
from kafkascope.rewriting import written_anew
from kafkascope.sniffer.sources.files import open_capture
from kafkascope.sniffer.sources.live_options import Rotation
from tests.kafkascope.conftest import Command
from tests.kafkascope.test_annotating import notes, packets, tshark
from tests.needs import needs
from tests.paths import PCAPS

STORY = PCAPS / "killed-consumer" / "capture.pcap"
SHOWN = ("--fields", "requested,client,api,latency_ms,client_id,response_bytes,error,outcome")


def chosen(path: Path, matching: Matching) -> set[int]:
    with open_capture(str(path)) as capture:
        return {number for batch in capture for number in matching.of(batch).number.tolist()}


@pytest.mark.parametrize("name", ["net_odd_tcp", "net_ipv6"])
def test_connections_are_the_streams_of_wireshark(name: str) -> None:
    """Ports that are used again among them."""
    needs("tshark")
    (path,) = (PCAPS / name).glob("capture.pcap*")
    told = tshark(path, "-T", "fields", "-e", "frame.number", "-e", "tcp.stream")
    streams = defaultdict(set)
    for number, stream in (line.split("\t") for line in told.splitlines()):
        streams[stream].add(int(number))
    of = {number: stream for stream in streams.values() for number in stream}
    read = kafkascope.read(path)
    exchanges, connections = read.arrow("exchanges").select(CARRIED), read.arrow("connections")
    assert exchanges.num_rows
    for connection in pc.unique(exchanges["connection"]).to_pylist():
        mine = exchanges.filter(pc.equal(exchanges["connection"], connection))
        assert chosen(path, Matching(mine, connections, alone=False)) == of[connection]


@pytest.mark.parametrize("alone", [[], ["--write-only"]])
@pytest.mark.parametrize(
    ("name", "filters"),
    [
        ("killed-consumer", ["--client-id", "c2"]),
        ("killed-consumer", ["-Y", "api == LeaveGroup or error"]),
        ("clients_librdkafka", ["--api", "Fetch", "--since", "+5s"]),
    ],
)
def test_what_matched_is_found_in_what_was_written(
    name: str, filters: list[str], alone: list[str], command: Command, tmp_path: Path
) -> None:
    (path,) = map(str, (PCAPS / name).glob("capture.pcap*"))
    out = tmp_path / "out.pcapng"
    assert command("sniff", "-r", path, *filters, *alone, "-w", str(out)).returncode == 0
    where = [part for part in filters if part not in ("--since", "+5s")]
    before = command("sniff", "-r", path, *filters, *SHOWN).stdout
    assert before.count("\n") > 5
    assert command("sniff", "-r", str(out), *where, *SHOWN).stdout == before
    others = len(command("sniff", "-r", str(out), *SHOWN).stdout) - len(before)
    assert others == 0 if alone else others >= 0
    assert set(packets(out)) < set(packets(Path(path)))


def test_exchanges_alone_are_no_more_than_their_packets(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    done = command("sniff", "-r", str(STORY), "--api", "LeaveGroup", "--write-only", "-w", str(out))
    assert done.stdout == f"{out}: 6 of 2,986 packets, 6 comments, names of 5 hosts\n"
    assert "7 comments left out: of what is written no packet is near their moment" in done.stderr
    assert [text.partition(", generation")[2] for _, text in notes(out)] == [
        " 3, ends after 1.5 s",
        " 4, begins: member_left of c2 (certain)",
        ' 4: LeaveGroup of c2 with the reason "the consumer is being closed"',
        " 4, ends after 1.2 s",
        " 5, begins and ends: member_left of c3 (certain)",
        ' 5: LeaveGroup of c3 with the reason "the consumer is being closed"',
    ]


def test_begins_and_ends_are_told_at_the_next_packet_that_is_written(command: Command, tmp_path: Path) -> None:
    whole, some = tmp_path / "whole.pcapng", tmp_path / "some.pcapng"
    killed = str(PCAPS / "broker-killed" / "capture.pcap.gz")
    assert command("kafkascope", "annotate", killed, "-o", str(whole)).returncode == 0
    assert command("sniff", "-r", killed, "--api", "Produce", "-w", str(some)).returncode == 0
    begins = "kafkascope: incident 1 begins"
    of_incidents = [text for _, text in notes(whole) if text.startswith(begins)]
    assert of_incidents
    assert [text for _, text in notes(some) if text.startswith(begins)] == of_incidents


def test_what_was_there_before_stays_where_files_are_cut(tmp_path: Path) -> None:
    out = tmp_path / "o.pcapng"
    out.write_text("not ours")
    with pytest.raises(KeyboardInterrupt), written_anew(str(out), Rotation(most_bytes=100_000)):
        raise KeyboardInterrupt
    assert out.read_text() == "not ours"
    with pytest.raises(KeyboardInterrupt), written_anew(str(out), Rotation()):
        raise KeyboardInterrupt
    assert not out.exists()


def test_packets_go_to_no_pipe(command: Command) -> None:
    done = command("sniff", "-r", str(STORY), "-w", "-")
    assert (done.returncode, done.stdout) == (1, "")
    assert "packets are written to files only" in done.stderr


def test_without_filters_it_is_everything_in_files_of_the_wanted_size(command: Command, tmp_path: Path) -> None:
    done = command("sniff", "-r", str(STORY), "-w", str(tmp_path / "o.pcapng"), "-b", "filesize:100", "-b", "files:3")
    assert done.returncode == 0
    files = sorted(tmp_path.iterdir())
    assert len(files) == 3
    assert all(file.stat().st_size <= 100_000 for file in files)
    written = packets(*files)
    assert written == packets(STORY)[-len(written) :]


def test_nothing_matches(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    done = command("sniff", "-r", str(STORY), "--client-id", "nobody", "-w", str(out))
    assert (done.returncode, done.stdout) == (0, f"{out}: 0 of 2,986 packets, 0 comments, names of 5 hosts\n")
    empty = pa.table({name: pa.array([], pa.int64()) for name in CARRIED})
    connections = kafkascope.read(STORY).arrow("connections")
    assert chosen(STORY, Matching(empty, connections, alone=True)) == set()
