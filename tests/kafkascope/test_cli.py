"""The commands as a user calls them."""

from __future__ import annotations

import gzip
import json
import os
import signal
import struct
import subprocess
import sys
import threading
from base64 import b64encode
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.main import get_group
from typer.testing import CliRunner

from kafkascope import cli, protocol
from kafkascope.messages import bytes_meant
from tests.decoders.written_messages import framed
from tests.kafkascope.conftest import Command
from tests.paths import PCAPS
from tests.patience import PATIENCE_S

BIN = Path(sys.executable).parent
JOINS = str(PCAPS / "eager-three-joins" / "capture.pcap")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """A command as a process of its own."""
    return subprocess.run([str(BIN / command[0]), *command[1:]], capture_output=True, text=True, check=False)


def test_sniff_prints_a_line_an_exchange(command: Command) -> None:
    done = command("sniff", "-r", JOINS)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 426
    assert sum(" JoinGroup v9 " in line for line in lines) == 11
    assert "\x1b" not in done.stdout


def test_the_two_commands_are_one() -> None:
    assert run("sniff", "-r", JOINS, "-c", "9").stdout == run("kafkascope", "sniff", "-r", JOINS, "-c", "9").stdout


def test_more_may_be_asked_for_than_there_is(command: Command) -> None:
    assert command("sniff", "-r", JOINS, "-c", "9" * 20).stdout == command("sniff", "-r", JOINS).stdout != ""


def test_standard_input_is_a_capture_too(command: Command) -> None:
    capture = Path(JOINS).read_bytes()
    from_file = command("sniff", "-r", JOINS, "--json", "--api", "Heartbeat")
    from_pipe = command("sniff", "-r", "-", "--json", "--api", "Heartbeat", data=capture)
    compressed = command("sniff", "-r", "-", "--json", "--api", "Heartbeat", data=gzip.compress(capture))
    of_pipe = from_file.stdout.replace(f'"file":"{JOINS}"', '"file":"standard input"')
    assert of_pipe == from_pipe.stdout == compressed.stdout
    assert from_file.stdout.count("\n") == 16


def begun_late(directory: Path) -> Path:
    """A capture in which the first Fetch comes before the first name of a topic."""
    data = (PCAPS / "kip848" / "capture.pcap").read_bytes()
    at = 24
    for _ in range(2400):
        at += 16 + struct.unpack_from("<I", data, at + 8)[0]
    file = directory / "cut.pcap"
    file.write_bytes(data[:24] + data[at:])
    return file


@pytest.mark.parametrize("flags", [["--json"], ["--groups"]])
def test_a_named_pipe_is_read_once(command: Command, flags: list[str], tmp_path: Path) -> None:
    """Topics that are known by id alone are looked for in the rest of a file; of a pipe there is none."""
    file, fifo = begun_late(tmp_path), tmp_path / "pipe"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=[file.read_bytes()])
    writer.start()
    piped = command("sniff", *flags, "-r", str(fifo)).stdout
    writer.join()
    whole = command("sniff", *flags, "-r", str(file)).stdout
    assert piped.count("\n") == whole.count("\n") > 50
    assert ('"id:' in piped) == (flags == ["--json"])


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["-r", "c.pcap", "-w", "x", "--duration", "1s"], "--duration: only with an interface"),
        (["-i", "lo", "-C", "5"], "-w FILE"),
        (["-i", "lo", "-w", "x", "-W", "5"], "-C MB or -G TIME"),
        (["-i", "lo", "-b", "files:5"], "-w FILE"),
        (["-i", "lo", "-w", "x", "-b", "files:5"], "-C MB or -G TIME"),
        (["-i", "lo", "-w", "x", "-b", "interval:5"], "filesize:KB, duration:SECONDS or files:N"),
        (["-i", "lo", "-w", "x", "-b", "filesize:1.5"], "filesize:KB, duration:SECONDS or files:N"),
        (["-i", "lo", "-w", "x", "-b", "filesize:0"], "a number above 0"),
        (["-i", "lo", "-w", "x", "-C", "1", "-b", "filesize:5"], "said already"),
        (["-i", "lo", "-w", "x", "--api", "Fetch"], "sniff -r FILE ... -w OUT"),
        (["-i", "lo", "-w", "x", "--write-only"], "-r FILE"),
        (["-r", "c.pcap", "--write-only"], "-r FILE"),
        (["-r", "c.pcap", "-w", "x", "--json"], "options that show do not go with it"),
        (["-i", "lo", "--netns", "a", "--pid", "1"], "not both"),
        (["-i", "lo", "--duration", "soon"], "30s, 10m or 2h"),
        (["-i", "lo", "--stats", "0s"], "30s, 10m or 2h"),
    ],
)
def test_options_of_interfaces_that_make_no_sense_are_refused(
    arguments: list[str], named: str, command: Command
) -> None:
    done = command("sniff", *arguments)
    assert done.returncode == 2
    assert named in " ".join(done.stderr.replace("│", " ").split())


def test_names_of_topics_may_come_from_elsewhere(command: Command, tmp_path: Path) -> None:
    data = begun_late(tmp_path).read_bytes()

    def piped(*flags: str) -> tuple[list[dict[str, Any]], str]:
        done = command("sniff", "-r", "-", "--json", *flags, data=data)
        assert done.returncode == 0
        return [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    shown, _ = piped()
    [by_id] = {topic for line in shown for topic in line["topics"] if topic.startswith("id:")}
    named = [line for line in shown if "orders" in line["topics"]]
    nameless = [line for line in shown if by_id in line["topics"]]
    found, remarks = piped("--topic", "orders")
    assert found == named
    assert "--names FILE or --ask BROKER" in remarks
    described = tmp_path / "topics.txt"
    described.write_text(f"Topic: orders\tTopicId: {by_id.removeprefix('id:')}\tPartitionCount: 6\n")
    found, remarks = piped("--topic", "orders", "--names", str(described))
    assert len(found) == len(named) + len(nameless)
    assert "--names" not in remarks


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--api", "joingroup"], lambda o: o["api"] == "JoinGroup"),
        (["--group", "orders-app"], lambda o: o["group_id"] == "orders-app"),
        (["--client-id", "orders-2"], lambda o: o["client_id"] == "orders-2"),
        (["--host", "10.77.1.13"], lambda o: o["client"].startswith("10.77.1.13:")),
        (["--errors"], lambda o: o["error_code"] or o["issue"]),
        (["--slower-than", "100"], lambda o: o["latency_ms"] is not None and o["latency_ms"] > 100),
        (["--topic", "orders"], lambda o: "orders" in o["topics"]),
        (["--api", "Fetch", "--client-id", "orders-1"], lambda o: (o["api"], o["client_id"]) == ("Fetch", "orders-1")),
    ],
)
def test_a_filter_shows_those_that_pass_and_no_others(command: Command, flags: list[str], expected: object) -> None:
    every = [json.loads(line) for line in command("sniff", "-r", JOINS, "--json").stdout.splitlines()]
    shown = [json.loads(line) for line in command("sniff", "-r", JOINS, "--json", *flags).stdout.splitlines()]
    assert callable(expected)
    if flags[0] == "--group":
        flags[1] = next(o["group_id"] for o in every if o["group_id"])
        shown = [json.loads(line) for line in command("sniff", "-r", JOINS, "--json", *flags).stdout.splitlines()]
        assert shown == [o for o in every if o["group_id"] == flags[1]]
    else:
        assert shown == [o for o in every if expected(o)]
    assert 0 < len(shown) < len(every)


def test_json_lines_have_decoded_bodies_and_records(command: Command) -> None:
    out = command(
        "sniff", "-r", str(PCAPS / "clients_codecs" / "capture.pcap"), "--json", "--records", "--api", "Produce"
    ).stdout
    first = json.loads(out.splitlines()[0])
    assert first["request"]["acks"] in (-1, 0, 1)
    assert first["records"][0].keys() >= {"topic", "partition", "offset", "headers"}
    assert any("key" in r or "key_hex" in r for r in first["records"])
    hidden = command(
        "sniff", "-r", str(PCAPS / "clients_codecs" / "capture.pcap"), "--json", "--records", "--no-payload", "-c", "30"
    ).stdout
    assert '"value_bytes"' in hidden
    assert '"value":' not in hidden


def test_control_records_are_shown_as_such(command: Command) -> None:
    capture = str(PCAPS / "transactions" / "capture.pcap")
    shown = command("sniff", "-r", capture, "--records").stdout
    assert (shown.count(" control COMMIT "), shown.count(" control ABORT ")) == (120, 57)
    objects = [json.loads(line) for line in command("sniff", "-r", capture, "--json", "--records").stdout.splitlines()]
    types = Counter(record.get("control_type") for exchange in objects for record in exchange["records"])
    assert (types["COMMIT"], types["ABORT"]) == (120, 57)
    assert set(types) == {None, "COMMIT", "ABORT"}


def test_fields_are_columns_with_tabs_between(command: Command) -> None:
    out = command("sniff", "-r", JOINS, "--fields", "number,api,client_id", "-c", "2").stdout
    assert out == "1\tApiVersions\torders-1\n1\tApiVersions\tp1\n"


def test_every_column_can_be_shown_alone_and_with_all_others(command: Command) -> None:
    said = command("sniff", "-r", JOINS, "--fields", "nonsense").stderr
    columns = said.split("columns are ")[1].strip().split(", ")
    assert {"topics", "client", "broker", "request"} < set(columns)
    together = command("sniff", "-r", JOINS, "--fields", ",".join(columns), "-c", "30").stdout.splitlines()
    rows = [line.split("\t") for line in together]
    for place, column in enumerate(columns):
        alone = command("sniff", "-r", JOINS, "--fields", column, "-c", "30").stdout.split("\n")
        assert alone == [*(row[place] for row in rows), ""], column
    assert any(row[columns.index("topics")] == "orders" for row in rows)


def test_the_tree_shows_every_field(command: Command) -> None:
    out = command("sniff", "-r", JOINS, "-V", "--api", "Heartbeat", "-c", "1").stdout
    for name in ("correlationId", "clientId", "groupId", "generationId", "memberId", "throttleTimeMs", "errorCode"):
        assert f"    {name}: " in out


@pytest.mark.parametrize(
    ("called", "status", "words"),
    [
        (["sniff", "-r", "missing.pcap"], 1, "no such file"),
        (["sniff"], 2, ""),
        (["sniff", "-r", JOINS, "-i", "lo"], 2, "--iface"),
        (["sniff", "-r", JOINS, "--fields", "nonsense"], 2, "there is no column 'nonsense'"),
        (["sniff", "-r", JOINS, "--fields", "latencyms"], 2, "there is no column 'latencyms'; near is latency_ms"),
        (["sniff", "-r", JOINS, "--port", "99999"], 2, "no port"),
        (["sniff", "-r", JOINS, "--limit", "conections=3"], 2, "is connections"),
        (["sniff", "-r", __file__], 1, "this is text, not a capture"),
        (["kafkascope", "decode", "--api", "Nonsense", "--version", "1", "-"], 2, "no API is called 'Nonsense'"),
        (["kafkascope", "decode", "--api", "Fetch", "--version", "99", "-"], 2, "has versions"),
        (["kafkascope", "apis", "fetc"], 2, "no API is called 'fetc'; near are Fetch, FetchSnapshot, OffsetFetch;"),
        (["kafkascope", "analyze", "missing.pcap", "-o", "/nonexistent/out"], 1, "no such file"),
    ],
)
def test_wrong_use_and_unreadable_files_are_told_apart(
    command: Command, called: list[str], status: int, words: str
) -> None:
    done = command(*called)
    assert done.returncode == status, done
    assert words in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr
    assert not done.stdout or called == ["sniff"]


def test_a_closed_pipe_ends_it_quietly() -> None:
    done = subprocess.run(
        ["bash", "-c", f"{BIN}/sniff -r {JOINS} | head -n 1"], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1


def test_records_that_are_damaged_are_told(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "damaged.pcap"
    file.write_bytes(Path(JOINS).read_bytes().replace(b"value 7 of p1", b"value 8 of p1", 1))
    done = command("sniff", "-r", str(file), "--records")
    assert "a batch whose checksum is wrong; effect: its records may be damaged" in done.stderr
    assert "checksum" not in command("sniff", "-r", JOINS, "--records").stderr


def test_frames_that_are_missing_are_told(command: Command) -> None:
    done = command("sniff", "-r", str(PCAPS / "net_capture_drops" / "capture.pcap"))
    told = "not seen or not understood: tcp gap 23, frame sync lost 15; exchanges there are missing or cut"
    assert told in done.stderr


@pytest.mark.parametrize("called", ["kafkascope apis Fetch", "sniff --help", "sniff -r {joins}"])
def test_a_reader_that_has_gone_is_no_failure(called: str) -> None:
    gone = f"{BIN}/{called.format(joins=JOINS)} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", gone], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("0\n", "")


COMMANDS = [
    f"sniff -r {JOINS}",
    f"sniff -r {JOINS} --groups --json",
    "sniff --help",
    "kafkascope --version",
    "kafkascope apis Fetch",
    "kafkascope decode --api 3 --version 0 -",
]
BODY = b"000000010003666f6f"
NO_OUTPUT = pytest.mark.parametrize(
    ("place", "words"), [(">/dev/full", "No space left on device"), (">&-", "output is closed")]
)


@NO_OUTPUT
def test_an_output_that_cannot_be_written_is_one_line_and_a_status(place: str, words: str) -> None:
    done = subprocess.run(["bash", "-c", f"{BIN}/{COMMANDS[0]} {place}"], capture_output=True, check=False)
    assert done.returncode == 1
    assert words in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("called", COMMANDS)
@NO_OUTPUT
def test_an_output_that_no_command_can_write_is_one_line_and_a_status(
    called: str, place: str, words: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, open("/dev/full", "w") as full:
        patch.setattr(sys, "stdout", full if place == ">/dev/full" else None)
        done = command(*called.split(), data=BODY)
    assert done.returncode == 1
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_standard_input_and_error_may_be_closed() -> None:
    for shell, words in (("sniff -r missing 2>&-", ""), ("sniff -r - <&-", "empty")):
        done = subprocess.run(["bash", "-c", f"{BIN}/{shell}"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert words in done.stderr
        assert "Traceback" not in done.stderr


NAME = "é日".encode()
METADATA = struct.pack(">ih", 1, len(NAME)) + NAME


def test_a_locale_without_most_characters_ends_nothing() -> None:
    def called(*words: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        command = [str(BIN / words[0]), *words[1:]]
        return subprocess.run(command, input=data, capture_output=True, check=False, env=os.environ | locale)

    locale = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    decoded = called("kafkascope", "decode", "--api", "Metadata", "--version", "0", "--json", "-", data=METADATA)
    assert json.loads(decoded.stdout) == {"topics": [{"name": "é日"}]}
    assert b"Examples" in called("sniff", "--help").stdout
    missing = called("sniff", "-r", "é日")
    assert missing.returncode == 1
    assert b"no such file" in missing.stderr
    assert b"Traceback" not in missing.stderr


def test_an_encoding_without_most_characters_ends_nothing(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, errors = tmp_path / "stdout", tmp_path / "stderr"

    def called(*words: str, data: bytes = b"") -> int:
        with (
            monkeypatch.context() as patch,
            output.open("w", encoding="ascii") as out,
            errors.open("w", encoding="ascii") as err,
        ):
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            return command(*words, data=data).returncode

    called("kafkascope", "decode", "--api", "Metadata", "--version", "0", "--json", "-", data=METADATA)
    assert json.loads(output.read_bytes()) == {"topics": [{"name": "é日"}]}
    called("kafkascope", "apis", "Heartbeat")
    assert "groupId: string" in output.read_text()
    called("sniff", "--help")
    assert "Examples" in output.read_text()
    assert called("sniff", "-r", "é日") == 1
    assert "no such file" in errors.read_text()


def test_compiling_is_told_and_an_interrupt_ends_it(tmp_path: Path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    sniff = [f"{BIN}/sniff", "-r", JOINS]
    with subprocess.Popen(sniff, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert b"compiling kernels" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.communicate() == (b"", b"")
    assert process.returncode == 130


def test_a_capture_without_kafka_says_what_it_holds(command: Command, tmp_path: Path) -> None:
    from scapy.all import DNS, IP, UDP, Ether, wrpcap

    frame = Ether(src="02:00:00:00:00:07", dst="02:00:00:00:00:08") / IP(src="10.0.0.2", dst="10.0.0.1")
    wrpcap(str(tmp_path / "dns.pcap"), [frame / UDP(dport=53) / DNS()] * 3)
    done = command("sniff", "-r", str(tmp_path / "dns.pcap"))
    assert (done.returncode, done.stdout) == (0, "")
    assert "no Kafka was found in 3 packets" in done.stderr
    assert "3 packets of UDP" in done.stderr


def test_no_kafka_on_the_ports_asked_for_is_not_taken_for_none_at_all(command: Command) -> None:
    done = command("sniff", "-r", JOINS, "--port", "1", "--port", "2")
    assert "no Kafka to the ports asked for (1, 2) was found in" in done.stderr


def test_decode_prints_json_from_hex_and_from_raw_bytes(command: Command, tmp_path: Path) -> None:
    body = bytes.fromhex("000000010003666f6f")
    (tmp_path / "body").write_bytes(body)
    decode = ("kafkascope", "decode", "--json", "--version", "0", "--api")
    from_hex = command(*decode, "metadata", "-", data=b"0x00000001 0003 66:6f:6f\n")
    from_raw = command(*decode, "3", str(tmp_path / "body"))
    assert json.loads(from_hex.stdout) == {"topics": [{"name": "foo"}]}
    assert from_raw.stdout == from_hex.stdout
    more = command(*decode, "3", "-", data=body.hex().encode() + b"ffff")
    assert (more.returncode, more.stdout) == (1, from_hex.stdout)
    assert "2 bytes left over" in more.stderr
    less = command(*decode, "3", "-", data=body.hex().encode()[:-2])
    assert less.returncode == 1
    assert "topics[0].name" in less.stderr


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("0000 0g01", "not hex: 'g' at line 1, column 7"),
        ("0000\n00 zz", "not hex: 'z' at line 2, column 4"),
        ("00000000: 0000 0001", "not hex: ':' at line 1, column 9"),  # a dump with offsets, which are no bytes
        ("0000 0", "not hex: 5 digits, and each byte has two"),
        ("hello, wörld\n", "not hex: 'h' at line 1, column 1"),
    ],
)
def test_decode_says_where_text_is_not_hex(command: Command, tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "body").write_text(text)
    done = command("kafkascope", "decode", "--api", "Metadata", "--version", "0", str(tmp_path / "body"))
    assert (done.returncode, done.stdout) == (2, "")
    assert complaint in done.stderr


HEARTBEAT = framed(bytes.fromhex("000c 0000 00000007 0002 6d65 0001 67 00000001 0001 61"))


@pytest.mark.parametrize(
    ("content", "options", "status", "said"),
    [
        (HEARTBEAT, (), 0, ""),
        (HEARTBEAT.hex().encode(), ("--api", "Heartbeat", "--version", "0", "--frame"), 0, ""),
        (b64encode(HEARTBEAT), ("--base64",), 0, ""),
        (HEARTBEAT + b"\0\7", (), 1, "2 bytes left over"),
        (HEARTBEAT[:-1], (), 1, "a frame of 22 bytes behind the first 4, 21 are there"),
        (framed(b"\3\xe7" + HEARTBEAT[6:]), (), 1, "no release knows API 999 version 0"),
        (b64encode(HEARTBEAT), (), 2, "base64 with --base64"),
        (b"=", ("--base64",), 2, "not base64: "),
        (HEARTBEAT, ("--response",), 2, "does not say what it answers"),
        (HEARTBEAT, ("--version", "1"), 2, "--version goes with --api"),
        (HEARTBEAT, ("--api", "Heartbeat"), 2, "give --version too: Heartbeat has versions 0-4"),
        (HEARTBEAT, ("--api", "Heartbeat", "--version", "1", "--frame"), 1, "the header says API 12 version 0"),
    ],
)
def test_a_frame_says_itself_what_it_is(
    command: Command, tmp_path: Path, content: bytes, options: tuple[str, ...], status: int, said: str
) -> None:
    (tmp_path / "frame").write_bytes(content)
    done = command("kafkascope", "decode", "-x", *options, str(tmp_path / "frame"))
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == bool(said) + ("21 are" in said)
    rows = [" ".join(line.split()) for line in done.stdout.splitlines()]
    if status == 2 or "header says" in said:
        assert rows == []
        return
    assert "8 4 00 00 00 07 correlationId: 7 INT32" in rows
    assert ('23 3 00 01 61 memberId: "a" STRING' in rows) == (status == 0 or "left over" in said)
    assert ("26 2 00 07 left over: no field has these bytes" in rows) == ("2 bytes left over" in said)


def test_of_a_tagged_field_that_is_there_twice_the_last_counts_as_in_kafka(command: Command, tmp_path: Path) -> None:
    fetch = "ffffffff" + "00" * 21 + "010101"
    (tmp_path / "body").write_text(f"{fetch} 04 00020278 00020279 63010a 63010b")
    options = ("--api", "Fetch", "--version", "12", str(tmp_path / "body"))
    shown = command("kafkascope", "decode", *options).stdout
    assert [" ".join(line.split()) for line in shown.splitlines()[-5:]] == [
        "28 15 _tagged_fields: 4 TAGGED_FIELDS",
        "29 4 clusterId: comes again below, which counts COMPACT_NULLABLE_STRING",
        '33 4 clusterId: "y" COMPACT_NULLABLE_STRING',
        "37 3 tag 99: comes again below, which counts TAG",
        "40 3 tag 99: 0x0b TAG",
    ]
    as_json = json.loads(command("kafkascope", "decode", "--json", *options).stdout)
    assert (as_json["clusterId"], as_json["_tags"]) == ("y", {"99": "Cw=="})


@pytest.mark.parametrize(
    ("content", "meant"),
    [
        (b"", b""),
        (b" \n", b""),
        (b"0x00 0X01 0aFF\r\n02:03", bytes.fromhex("0001 0aff 0203")),
        (b"\0abc", b"\0abc"),
        (b"\xffab", b"\xffab"),
    ],
)
def test_text_is_hex_and_all_else_is_bytes_as_they_are(content: bytes, meant: bytes) -> None:
    assert bytes_meant(content) == meant


def test_decode_hides_what_more_names_say(command: Command, tmp_path: Path) -> None:
    name, value = b"my.code", b"4711"
    config = len(name).to_bytes(2, "big") + name + b"\0" + len(value).to_bytes(2, "big") + value
    (tmp_path / "body").write_bytes(b"\0\0\0\1\2\0\1t\0\0\0\1" + config + b"\0")
    decode = ("kafkascope", "decode", "--api", "IncrementalAlterConfigs", "--version", "0", str(tmp_path / "body"))
    assert "4711" in command(*decode).stdout
    hidden = command(*decode, "--secret-name", "CODE$")
    assert "4711" not in hidden.stdout
    assert "[redacted]" in hidden.stdout
    assert "4711" in command(*decode, "--secret-name", "CODE$", "--show-secrets").stdout
    wrong = command(*decode, "--secret-name", "(")
    assert wrong.returncode == 2
    assert "no regular expression" in wrong.stderr


def test_apis_lists_every_api_and_shows_one(command: Command) -> None:
    rows = command("kafkascope", "apis").stdout.splitlines()
    assert len(rows) == 96
    out = command("kafkascope", "apis", "fetch").stdout
    assert out.startswith("Fetch key 1, versions 0-18")
    assert "Apache Kafka 3.9: versions 0-17\n" in out
    assert "Apache Kafka 0.8.2: versions 0; of releases before nothing is known\n" in out
    assert "highWatermark: int64" in out


def test_apis_tell_what_releases_know_and_what_changed(command: Command) -> None:
    by_release = command("kafkascope", "apis", "--release", "0.8.2.2").stdout.splitlines()
    assert [line.split()[:3] for line in by_release[:3]] == [
        ["key", "API", "versions"],
        ["0", "Produce", "0"],
        ["1", "Fetch", "0"],
    ]
    changed = command("kafkascope", "apis", "Fetch", "--diff", "12", "13").stdout
    assert "request v12 → v13\n  - topics[].topic: string\n  + topics[].topicId: uuid\n" in changed
    facts = json.loads(command("kafkascope", "apis", "1", "--diff", "12", "13", "--json").stdout)
    assert facts["releases"]["4.0"] == {"versions": [4, 17], "unstable": None}
    assert facts["response"][0] == {"path": "responses[].topic", "how": "removed", "what": "string"}
    layout = json.loads(command("kafkascope", "apis", "Heartbeat", "--version", "3", "--json").stdout)
    assert [field["name"] for field in layout["request"]["fields"]][-1] == "groupInstanceId"
    listed = json.loads(command("kafkascope", "apis", "--json").stdout)
    assert [api["key"] for api in listed[:3]] == [0, 1, 2]
    for wrong in (
        ["--diff", "1", "2"],
        ["--release", "0.7"],
        ["Fetch", "--diff", "1", "99"],
        ["Fetch", "--release", "2.0"],
    ):
        assert command("kafkascope", "apis", *wrong).returncode == 2


def test_help_has_examples_and_completion_is_offered(command: Command) -> None:
    for words in (
        ["sniff"],
        ["kafkascope", "sniff"],
        ["kafkascope", "analyze"],
        ["kafkascope", "decode"],
        ["kafkascope", "apis"],
    ):
        done = command(*words, "--help")
        assert done.returncode == 0
        assert "Examples" in done.stdout
    assert "--install-completion" in command("kafkascope", "--help").stdout
    assert command("kafkascope", "--version").stdout.startswith("kafkascope ")


VALUED = [
    pytest.param(command, parameter, id=f"{name} {parameter.opts[0]}")
    for name, command in sorted(get_group(cli.app).commands.items())
    for parameter in command.params
    if not getattr(parameter, "is_flag", False) and parameter.nargs <= 1
]


@pytest.mark.parametrize(("command", "empty"), VALUED)
def test_an_empty_value_is_refused_with_what_to_give(command: Any, empty: Any) -> None:
    words = []
    for parameter in command.params:
        if parameter is empty or parameter.required:
            option = [parameter.opts[0]] if parameter.param_type_name == "option" else []
            words += [*option, "" if parameter is empty else "x"]
    done = CliRunner().invoke(cli.app, [command.name, *words], env={"COLUMNS": "120"})
    assert done.exit_code == 2
    assert empty.metavar
    told = " ".join(done.stderr.replace("│", " ").split())
    assert f"it is empty; give {empty.metavar}" in told or "'' is not a valid" in told


@pytest.mark.parametrize("value", [",", "9092,"])
def test_an_empty_port_among_others_is_refused(command: Command, value: str) -> None:
    done = command("sniff", "-r", JOINS, "--port", value)
    assert (done.returncode, f"--port {value}: it has a comma too many" in done.stderr) == (2, True)
    fields = command("sniff", "-r", JOINS, "--fields", "api,")
    assert (fields.returncode, "--fields: it has a comma too many; columns are" in fields.stderr) == (2, True)


@pytest.mark.parametrize("name", sorted(get_group(cli.app).commands))
def test_help_fits_a_terminal(name: str) -> None:
    shown = CliRunner().invoke(cli.app, [name, "--help"], env={"COLUMNS": "80"})
    assert shown.exit_code == 0
    assert max(map(len, shown.stdout.splitlines())) == 80
    assert "…" not in shown.stdout


def test_interrupt_ends_it_without_a_traceback(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    command = [str(BIN / "sniff"), "-r", str(fifo)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with fifo.open("wb") as writer:
        writer.write(Path(JOINS).read_bytes()[:200_000])
        writer.flush()
        assert process.stdout is not None
        assert "ApiVersions" in process.stdout.readline()  # it shows what came, though the pipe is still open
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in errors


def test_limits_are_listed_and_told_when_they_are_reached(command: Command) -> None:
    listed = command("kafkascope", "analyze", "--limit", "help")
    assert (listed.returncode, "held_bytes=512MiB\n" in listed.stdout) == (0, True)
    codecs = str(PCAPS / "clients_codecs" / "capture.pcap")
    low = ("connections=3", "held_bytes=65536", "elements=5", "decompressed_bytes=100")
    found = command("sniff", "-r", codecs, "--json", "--records", *(f"--limit={one}" for one in low))
    assert found.returncode == 0
    for setting in low:
        assert f"(--limit {setting})" in found.stderr


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--groups", "--stats", "10s"], "--stats counts exchanges"),
        (["--incidents", "--stats", "10s"], "--stats counts exchanges"),
        (["-T", "json", "--fields", "api"], "two forms of the same lines"),
        (["-T", "fields", "-e", "api", "--fields", "client_id"], "name the same columns"),
        (["-x", "--json"], "are forms of their own"),
        (["--stats", "99999999999h"], "give a time such as 30s"),
        (["-Y", "requested > 2926-11-21T05:57:16"], "requested is a time"),
        (["-Y", "not " * 3000 + "api == Fetch"], "too many parts inside each other"),
        (["--since", "2926-11-21"], "is no time"),
    ],
)
def test_what_would_be_ignored_or_is_too_much_is_refused(command: Command, flags: list[str], words: str) -> None:
    done = command("sniff", "-r", str(PCAPS / "net_ipv6" / "capture.pcap"), *flags)
    assert done.returncode == 2
    assert words in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("host", ["fd77:64::13", "FD77:64::13", "[fd77:64::13]", "fd77:64:0:0:0:0:0:13"])
def test_an_address_is_one_however_it_is_written(command: Command, host: str) -> None:
    capture = str(PCAPS / "net_ipv6" / "capture.pcap")
    lines = command("sniff", "-r", capture, "--host", host).stdout.splitlines()
    assert lines
    assert all("[fd77:64::13]:" in line for line in lines)
    place = lines[0].split()[1]
    one = command("sniff", "-r", capture, "--connection", place).stdout.splitlines()
    assert one == [line for line in lines if place in line.split()]


def test_the_list_of_apis_has_its_keys_on_a_narrow_terminal(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = Console(width=80, color_system=None)
    monkeypatch.setattr(protocol, "_console", lambda: narrow)
    head, first, *_ = command("kafkascope", "apis").stdout.splitlines()
    assert head.split() == ["key", "API", "versions", "flexible", "unstable", "first", "last"]
    assert first.split()[:3] == ["0", "Produce", "0-13"]
    both = command("kafkascope", "apis", "Fetch", "--diff", "12", "13", "--version", "3")
    assert both.returncode == 2


@pytest.mark.parametrize("flags", [["--stats", "10s"], ["--groups"], ["-w", "none.pcapng"], ["-q"]])
def test_where_filters_let_nothing_through_it_is_said(
    command: Command, flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = command("sniff", "-r", str(PCAPS / "two-at-once" / "capture.pcap.gz"), "--group", "nope", *flags)
    assert done.returncode == 0
    assert "--group nope" in done.stderr
    assert ("there are shop, slow" in done.stderr) == (flags != ["--groups"])
