"""`kafkascope scrub`: a capture of which the same is found out, and that has nothing of what the first one held."""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import kafkascope
from kafkascope.decoders.pseudonyms import Pseudonyms
from kafkascope.scrubbing import scrub
from kafkascope.sniffer.sources.files import open_capture
from tests.kafkascope.conftest import Command
from tests.kafkascope.damaged_captures import FILE_HEADER, RECORD_HEADER, record_offsets
from tests.kafkascope.test_anonymize import KEY, files, names_of, read
from tests.kafkascope.test_secrets import SECRETS, leaked, made
from tests.needs import needs
from tests.paths import PCAPS

# All codecs, magic 0 and 1, tokens, names of topics out of the metadata log and other protocols, lost packets.
STORIES = ["clients_codecs", "clients_old_formats", "clients_sasl_v0", "connect", "net_capture_drops"]
BLANKED = {"records": ["key", "value", "headers"], "connections": ["protocol"]}  # what is not Kafka is not told


def scrubbed(path: str | Path, out: Path) -> Path:
    scrub([str(path)], str(out), Pseudonyms(KEY))
    return out


def rows(table: pa.Table, name: str) -> Counter[str]:
    left_out = {"file", *BLANKED.get(name, ())}
    return Counter(map(repr, table.select([one for one in table.column_names if one not in left_out]).to_pylist()))


def same_but_for_content(before: kafkascope.Capture, out: Path) -> None:
    after = kafkascope.read(out, records=True)
    assert set(after.tables) == set(before.tables)
    for name in before.tables:
        assert rows(after.arrow(name), name) == rows(before.arrow(name), name), name


@pytest.mark.parametrize("name", STORIES)
def test_tables_are_those_of_pseudonyms(name: str, tmp_path: Path) -> None:
    """Incidents and findings among them."""
    before = read(name, KEY)
    assert before.arrow("exchanges").num_rows > 50
    same_but_for_content(before, scrubbed(files(name)[0], tmp_path / "out.pcapng"))


@pytest.mark.deep
@pytest.mark.parametrize("name", sorted(path.name for path in PCAPS.iterdir() if path.is_dir()))
def test_tables_of_every_recording_are(name: str, tmp_path: Path) -> None:
    if name in ("clients_tls", "refused"):
        pytest.skip("what TLS hides is not in what is written")
    same_but_for_content(read(name, KEY), scrubbed(files(name)[0], tmp_path / "out.pcapng"))


def cut(data: bytes, snap_bytes: int, left_out: frozenset[int]) -> bytes:
    """A capture without some packets, and with so many bytes of the others."""
    made = data[:FILE_HEADER]
    begin = FILE_HEADER
    for number, end in enumerate(record_offsets(data)):
        content = data[begin + RECORD_HEADER : end][:snap_bytes]
        if number not in left_out:
            header = data[begin : begin + 8] + len(content).to_bytes(4, "little") + data[begin + 12 : begin + 16]
            made += header + content
        begin = end
    return made


@pytest.mark.parametrize(("snap_bytes", "lost"), [(1 << 16, 0.03), (100, 0)])
def test_tables_of_damaged_captures_are(snap_bytes: int, lost: float, tmp_path: Path) -> None:
    """Messages that lack bytes end where they ended; what nobody could read is not to be read."""
    data = (PCAPS / "transactions" / "capture.pcap").read_bytes()
    luck = random.Random(5)
    left_out = frozenset(number for number in range(len(record_offsets(data))) if luck.random() < lost)
    path = tmp_path / "damaged.pcap"
    path.write_bytes(cut(data, snap_bytes, left_out))
    before = kafkascope.read(path, records=True, anonymize=KEY)
    assert before.arrow("issues").num_rows > 10
    same_but_for_content(before, scrubbed(path, tmp_path / "out.pcapng"))


@pytest.mark.parametrize("name", ["clients_codecs", "clients_old_formats", "clients_tls", "connect"])
def test_nothing_is_left(name: str, tmp_path: Path) -> None:
    written = scrubbed(files(name)[0], tmp_path / "out.pcapng").read_bytes()
    names = names_of(name)
    assert len(names) > 3
    assert leaked(names, written) == []
    secrets = json.loads((PCAPS / name / "truth.json").read_text()).get("secrets", [])
    assert not [secret for secret in secrets if secret.encode() in written]


def test_no_secret_is_left(tmp_path: Path) -> None:
    path = tmp_path / "secrets.pcap"
    path.write_bytes(made())
    secrets = {place: secret.encode() for place, secret in SECRETS.items()}
    assert len(leaked(secrets, path.read_bytes())) > 10
    assert leaked(secrets, scrubbed(path, tmp_path / "out.pcapng").read_bytes()) == []


@pytest.mark.parametrize("seed", range(3))
def test_damage_does_no_harm(seed: int, tmp_path: Path) -> None:
    data = bytearray((PCAPS / "clients_sasl" / "capture.pcap").read_bytes()[:120_000])
    luck = random.Random(seed)
    for _ in range(300):
        data[luck.randrange(24, len(data))] = luck.randrange(256)
    path = tmp_path / "damaged.pcap"
    path.write_bytes(data)
    written = scrubbed(path, tmp_path / "out.pcapng").read_bytes()
    assert [name for name, content in names_of("clients_sasl").items() if content in written] == []
    assert b"alice" not in written
    assert kafkascope.read(tmp_path / "out.pcapng").arrow("exchanges").num_rows > 50


def test_packets_are_as_long_and_as_late_and_their_checksums_right(tmp_path: Path) -> None:
    needs("tshark")
    path = files("net_noise")[0]
    out = scrubbed(path, tmp_path / "out.pcapng")
    columns = ["frame.number", "frame.time_epoch", "frame.len", "frame.cap_len", "tcp.seq_raw", "tcp.flags", "udp.port"]
    shown = ["-T", "fields", *(part for column in columns for part in ("-e", column))]
    before, after = (tshark(str(one), *shown) for one in (path, out))
    assert before == after
    assert before.count("\n") > 100
    protocols = ("ip", "tcp", "udp", "icmp", "icmpv6")
    checked = [part for one in protocols[:3] for part in ("-o", f"{one}.check_checksum:TRUE")]
    wrong = " or ".join(f"{one}.checksum.status == 0" for one in protocols)
    assert tshark(str(out), *checked, "-Y", wrong) == ""
    assert tshark(str(out), *checked, "-Y", "tcp.checksum.status == 1").count("\n") > 100


def tshark(path: str, *options: str) -> str:
    return subprocess.run(["tshark", "-r", path, *options], capture_output=True, text=True, check=True).stdout


def test_one_key_gives_one_file(command: Command, tmp_path: Path) -> None:
    (path,) = files("clients_codecs")
    written = []
    for number, key in enumerate(("one", "one", "other", None)):
        out = tmp_path / f"{number}.pcapng"
        asked = () if key is None else ("--anonymize", key)
        assert command("kafkascope", "scrub", path, "-o", str(out), *asked).returncode == 0
        written.append(out.read_bytes())
    assert written[0] == written[1]
    assert len({*written[1:]}) == 3


def test_files_become_one(tmp_path: Path) -> None:
    data = (PCAPS / "clients_codecs" / "capture.pcap").read_bytes()
    middle = record_offsets(data)[500]
    for name, content in (("1.pcap", data[:middle]), ("2.pcap", data[:FILE_HEADER] + data[middle:])):
        (tmp_path / name).write_bytes(content)
    one = scrubbed(files("clients_codecs")[0], tmp_path / "one.out")
    scrub([str(tmp_path / "*.pcap")], str(tmp_path / "out.pcapng"), Pseudonyms(KEY))
    assert (tmp_path / "out.pcapng").read_bytes() == one.read_bytes()


def test_it_says_what_it_did(command: Command, tmp_path: Path) -> None:
    done = command("kafkascope", "scrub", *files("clients_tls"), "-o", str(tmp_path / "out.pcapng"))
    assert "TLS cannot be opened" in done.stdout
    done = command("kafkascope", "scrub", *files("net_noise"), "-o", str(tmp_path / "out.pcapng"))
    assert "440 Kafka frames" in done.stdout
    assert "25,266 of 92,791 bytes" in done.stdout
    assert "http (8)" in done.stdout


def test_what_cannot_be_done_is_said(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    path.write_bytes((PCAPS / "clients_codecs" / "capture.pcap").read_bytes())
    for asked, status, said in (
        ((str(path), "-o", str(path)), 2, "give another name"),
        (("-", "-o", "out.pcapng"), 2, "give files"),
        (("nowhere.pcap", "-o", str(tmp_path / "out.pcapng")), 1, "nowhere.pcap"),
    ):
        done = command("kafkascope", "scrub", *asked)
        assert (done.returncode, done.stdout) == (status, "")
        assert said in done.stderr
    with open_capture(str(path)) as capture:
        assert sum(len(packets.number) for packets in capture) == 1176
    assert not (tmp_path / "out.pcapng").exists()
