"""Live capture of real clients on the loopback of a network namespace of its own."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

import kafkascope
from kafkascope.out.stored import stored
from kafkascope.sniffer.sources.cutting import CUT_BYTES
from tests.needs import needs, needs_network_namespaces
from tests.paths import ROOT
from tests.patience import PATIENCE_S, wait_until

BIN = Path(sys.executable).parent
CLIENTS = (sys.executable, "-m", "tests.kafkascope.live_clients")


# Two servers with TLS: two connections to the first, one to the second.
TLS_CONVERSATION = """
import json, socket, ssl, sys, threading
serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
serving.load_cert_chain(*sys.argv[1:])
asking = ssl.create_default_context(cafile=sys.argv[1])
asking.check_hostname = False
listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
def answer(listener):
    with serving.wrap_socket(listener.accept()[0], server_side=True) as connection:
        connection.sendall(connection.recv(100))
for listener in (listeners[0], *listeners):
    thread = threading.Thread(target=answer, args=[listener])
    thread.start()
    with asking.wrap_socket(socket.create_connection(listener.getsockname())) as connection:
        connection.sendall(b"a secret")
        assert connection.recv(100) == b"a secret"
    thread.join()
print(json.dumps([listener.getsockname()[1] for listener in listeners]), flush=True)
sys.stdin.read()
"""

# A ring of two pages, and more packets than it can hold before anybody looks into it.
BURST = """
import json, socket, struct, sys, time
from kafkascope.engine import EngineOptions
from kafkascope.reading import Listening
from kafkascope.sniffer.sources import live, ring
ring.BLOCK_BYTES, ring.LEAST_BLOCKS = 4096, 2
ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 1040, 0, 0, 64, 6, 0, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
tcp = struct.pack(">HHIIBBHHH", 40000, 9092, 1, 1, 0x50, 16, 65535, 0, 0)
packet = bytes(12) + b"\\x08\\x00" + ip + tcp + bytes(1000)
clock = iter([0, 0.5, 1]).__next__
little = live.LiveOptions(buffer_bytes=4096)
with live.LiveSource(["veth0"], little) as source, socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
    sender.bind(("veth1", 0))
    listening = Listening(source, EngineOptions(), clock)
    told = []
    def burst(total):
        for _ in range(100):
            sender.send(packet)
        while source.statistics()[0] < total:
            pass
        told.append([loss.text for loss in listening.losses()])
    burst(100)
    burst(200)
    burst(300)
    dropped = source.dropped
    issues = [[issue.kind, issue.count, issue.at is not None] for issue in source.issues]
print(json.dumps([dropped, told, issues]))
"""

# A burst for which there is no room, then packets until they come cut, then until they come whole again.
CUT = """
import json, socket, sys
from kafkascope import privileges
from kafkascope.sniffer.sources import cutting, live, ring
ring.BLOCK_BYTES, ring.LEAST_BLOCKS, cutting.LEAST_S = 4096, 2, 0
live.rehearse()  # without rights, modules may be out of reach
packet = bytes.fromhex(sys.argv[1]) + bytes(1000)
seen = []
with live.LiveSource(["veth0"], live.LiveOptions(buffer_bytes=4096)) as source:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind(("veth1", 0))
        privileges.give_up(None)
        for _ in range(100):
            sender.send(packet)
        for packets in source:
            seen += packets.captured[packets.original == len(packet)].tolist()  # others are the system's own
            if source.cut:
                source.statistics()
            if source.cut and seen[-1] == len(packet):
                source.stop()
            else:
                sender.send(packet)
    issues = [[issue.kind, issue.count] for issue in source.issues if issue.kind == "packets_cut"]
print(json.dumps([len(packet), seen, source.cut, issues]))
"""

# Whoever iterates is slow: ten packets come meanwhile, each in a batch, and many more after listening ended.
SLOW = """
import json, socket, sys, time
from kafkascope.sniffer.sources import live
packet = bytes.fromhex(sys.argv[1]) + bytes(1000)
mine = lambda packets: int((packets.original == len(packet)).sum())
with live.LiveSource(["veth0"]) as source, socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
    sender.bind(("veth1", 0))
    batches = iter(source)
    next(batches)
    for n in range(10):
        sender.send(packet)
        while sum(batch.used > len(packet) for batch in tuple(source._waiting._batches)) <= n:  # others are small
            time.sleep(0.01)
    together = [mine(next(batches)), mine(next(batches))]
    source.stop()
    source._reader.join()
    received, dropped = source.statistics()
    for _ in range(100_000):
        sender.send(packet)
    later = [now - before for now, before in zip(source.statistics(), (received, dropped))]
print(json.dumps([together, later]))
"""

# The clock is set back by an hour between two packets.
SET_BACK = """
import json, socket, sys
from kafkascope.sniffer.sources import live
packet = bytes.fromhex(sys.argv[1]) + bytes(1000)
read, hour = live.packets_of, 0
def packets_of(*block):
    at, *rest = read(*block)
    return at - hour, *rest
live.packets_of = packets_of
told = []
with live.LiveSource(["veth0"]) as source, socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
    sender.bind(("veth1", 0))
    batches = iter(source)
    for hour in (0, 3600 * 10**9):
        sender.send(packet)
        while not any(next(batches).original == len(packet)):
            pass
        told.append([issue.detail for issue in source.issues if issue.kind == "time_goes_back"])
print(json.dumps(told))
"""

# Of a packet with 1,000 bytes of data: Ethernet, IP and TCP.
HEADERS = f"{'00' * 12}0800" + f"4500{1040:04x}0000000040060000{'0a000001'}{'0a000002'}" + "9c402384"
HEADERS += f"{'00000001' * 2}5010ffff00000000"

PACKET = """
import socket
ip = bytes.fromhex("450000280000000040060000 0a000001 0a000002")
tcp = bytes.fromhex("9c40 2384 00000001 00000001 5010ffff 00000000")
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
    sender.bind(("veth1", 0))
    sender.send(bytes(12) + b"\\x08\\x00" + ip + tcp)
"""

# sniff, with room for few lines that wait for whoever reads them.
LITTLE_ROOM = """
from functools import partial
from kafkascope import outlet
from kafkascope.cli import sniff_main
outlet.Outlet = partial(outlet.Outlet, most_bytes=1000)
sniff_main()
"""

# The Python API: stops by itself when it has seen enough, and leaves neither thread nor socket behind.
IN_PYTHON = """
import json, os, sys, threading
import kafkascope
kafkascope.live("lo").close()
exchanges = kafkascope.live("lo")
print("listening on lo", file=sys.stderr, flush=True)
seen = []
for exchange in exchanges:
    if exchange.row["issue"]:
        continue  # librdkafka's mock broker answers ApiVersions in a layout of its own
    sides = [side for side in (exchange.request, exchange.response) if side]
    seen.append([exchange.api, exchange.version, [side.hex() for side in sides], list(exchange.topics)])
    if exchange.api == "LeaveGroup":
        break
exchanges.close()
left = [thread.name for thread in threading.enumerate() if thread.name.startswith("kafkascope")]
names = os.listdir("/proc/self/fd")
left += [name for name in names if os.path.realpath("/proc/self/fd/" + name).rpartition("/")[2].startswith("socket:")]
print(json.dumps([seen, left]))
"""


# sniff, which says of each module that it looks for once rights are given up: it may be out of reach then.
SNIFF_WITHOUT_LATE_IMPORTS = (
    sys.executable,
    "-c",
    """
import sys
from kafkascope import cli, privileges
def give_up(user, give_up=privileges.give_up):
    try:
        return give_up(user)
    finally:
        sys.addaudithook(lambda event, what: event == "import" and print("late import", what, file=sys.stderr))
privileges.give_up = give_up
cli.sniff_main()
""",
)


# sniff that ends before there are packets, and so need not be ready for them.
UNREHEARSED_SNIFF = (
    sys.executable,
    "-c",
    "from kafkascope import cli, sniffing; sniffing.rehearse = lambda options: None; cli.sniff_main()",
)


class Host:
    """A network namespace, and the processes that run in it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, *command: str, **more: Any) -> subprocess.Popen[bytes]:
        streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        # ip netns exec becomes the command: signals reach it.
        process: subprocess.Popen[bytes]
        process = subprocess.Popen(["ip", "netns", "exec", self.name, *command], **(streams | more))
        self.processes.append(process)
        return process

    def sniff(self, *arguments: str, **more: Any) -> subprocess.Popen[bytes]:
        """Started, and listening."""
        return self.listening(str(BIN / "sniff"), *arguments, **more)

    def listening(self, *command: str, **more: Any) -> subprocess.Popen[bytes]:
        """A command that listens, from when it does."""
        return until_it_listens(self.start(*command, **more))

    def tcpdump(self, *arguments: str, **more: Any) -> subprocess.Popen[bytes]:
        process = self.start("tcpdump", "-Z", "root", "-i", "lo", "-U", *arguments, **more)
        assert b"listening on" in line_of(process.stderr)
        return process

    def cluster(self) -> Cluster:
        """A cluster with nobody at work yet."""
        process = self.start(*CLIENTS, "wait", cwd=ROOT)
        return Cluster(process, json.loads(line_of(process.stdout))["brokers"])

    def clients(self, *what: str) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
        """Clients that have done their work and are still there; with produce, no consumer."""
        process = self.start(*CLIENTS, *what, cwd=ROOT)
        return process, json.loads(line_of(process.stdout))

    def sniffs(self, *arguments: list[str]) -> list[subprocess.Popen[bytes]]:
        """Several, started at once, and listening."""
        return [until_it_listens(one) for one in [self.start(str(BIN / "sniff"), *of_one) for of_one in arguments]]


@dataclass
class Cluster:
    """Brokers, and the process that has them and will be their clients."""

    process: subprocess.Popen[bytes]
    brokers: list[str]

    def work(self) -> None:
        """Produce and consume, to the end."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()
        assert json.loads(line_of(self.process.stdout))["produced"]
        leave(self.process)


def until_it_listens(process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    line = line_of(process.stderr)
    if b"compiling kernels" in line:
        line = line_of(process.stderr)
    assert b"listening on" in line, process.args
    return process


def packets_captured(remarks: str) -> int:
    found = re.search(r"([\d,]+) packets captured", remarks)
    assert found, remarks
    return int(found[1].replace(",", ""))


def line_of(stream: Any) -> bytes:
    """The next line, unless the deadline comes first; read byte by byte, so that nothing hides in a buffer."""
    end = time.monotonic() + PATIENCE_S
    line = b""
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([stream], [], [], max(0, end - time.monotonic()))
        assert ready, f"no whole line in time, only {line!r}"
        byte = os.read(stream.fileno(), 1)
        if not byte:
            break
        line += byte
    return line


def leave(process: subprocess.Popen[bytes]) -> None:
    """Let clients end, and their connections with them."""
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors.decode()


def ended(process: subprocess.Popen[bytes], number: int) -> tuple[list[dict[str, Any]], str]:
    """End by a signal: what is shown from here on, and the remarks."""
    process.send_signal(number)
    output, remarks = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, remarks.decode()
    return [json.loads(line) for line in output.decode().splitlines()], remarks.decode()


def end_tcpdump(tcpdump: subprocess.Popen[bytes], capture: Path, packets: int) -> None:
    """End it when it has written as many packets: a signal loses what it has not yet taken from the kernel."""
    wait_until(lambda: kafkascope.read(str(capture)).summary["packets"] >= packets, "tcpdump writes all packets")
    tcpdump.send_signal(signal.SIGINT)
    tcpdump.communicate(timeout=PATIENCE_S)


@pytest.fixture
def host() -> Iterator[Host]:
    needs_network_namespaces()
    needs("tcpdump", "setpriv", "prlimit", "openssl")
    name = f"kscope-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    host = Host(name)
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        for link in (["add", "veth0", "type", "veth", "peer", "name", "veth1"], ["set", "veth0", "up"]):
            subprocess.run(["ip", "-n", name, "link", *link], check=True)
        yield host
    finally:
        for process in host.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()
        subprocess.run(["ip", "netns", "delete", name], check=True)


@pytest.fixture
def of_nobody() -> Iterator[Path]:
    """A directory that whoever root becomes can write to: those of pytest are closed to others."""
    with TemporaryDirectory() as name:
        shutil.chown(name, "nobody")
        yield Path(name)


def produced_records(exchanges: list[dict[str, Any]]) -> list[list[Any]]:
    """Topic, partition, offset, key, value of each produced record; the answer tells the base offset."""
    return sorted(
        [record["topic"], record["partition"], record["offset"], record["key"], record["value"]]
        for exchange in exchanges
        if exchange["api"] == "Produce"
        for record in exchange["records"]
    )


def same_exchanges(live: list[dict[str, Any]], capture: Path) -> None:
    """Exchanges shown live are those of the file, which another program wrote of the same packets."""
    tables = kafkascope.read(str(capture))
    connections = tables.connections.set_index("connection")
    in_file = tables.exchanges.join(connections, on="connection", rsuffix="_of_connection")
    expected = {}
    for row in in_file.to_dict("records"):
        ends = (f"{row['client']}:{row['client_port']}", f"{row['broker']}:{row['broker_port']}")
        expected[(*ends, row["number"])] = row
    shown = {(row["client"], row["broker"], row["number"]): row for row in live}
    assert len(shown) == len(live)
    assert sorted(shown) == sorted(expected)
    for key, exchange in shown.items():
        other = expected[key]
        for name in ("api", "api_version", "correlation_id", "outcome", "decoded", "request_bytes", "issue"):
            assert exchange[name] == (None if pd.isna(other[name]) else other[name]), (key, name)
        for name in ("request", "response"):
            assert exchange[name] == (None if pd.isna(other[name]) else json.loads(other[name])), (key, name)
        for name in ("requested", "response_done"):
            assert (exchange[name] is None) == pd.isna(other[name])
            if exchange[name] is not None:
                ours, theirs = (pd.to_datetime(moment, utc=True) for moment in (exchange[name], other[name]))
                assert abs(ours - theirs) < pd.Timedelta("1ms"), (key, name)


def test_all_that_clients_exchange_is_shown_as_from_a_file_whatever_signal_ends_it(host: Host, tmp_path: Path) -> None:
    capture = tmp_path / "lo.pcap"
    tcpdump = host.tcpdump("-w", str(capture))
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    sniffs = host.sniffs(*[["--iface", "lo", "--json", "--records"]] * len(numbers))
    clients, done = host.clients()
    # Shown while traffic goes on: the last of the consumer's requests, before anything is ended.
    before: list[list[dict[str, Any]]] = [[] for _ in sniffs]
    for sniff, lines in zip(sniffs, before, strict=True):
        while not lines or lines[-1]["api"] != "LeaveGroup":
            lines.append(json.loads(line_of(sniff.stdout)))
    assert clients.poll() is None
    leave(clients)
    told = [ended(sniff, number) for sniff, number in zip(sniffs, numbers, strict=True)]
    end_tcpdump(tcpdump, capture, packets_captured(told[0][1]))
    for lines, (rest, remarks) in zip(before, told, strict=True):
        lines += rest
        assert produced_records(lines) == done["produced"]
        assert {"JoinGroup", "SyncGroup", "Fetch", "OffsetCommit"} <= {line["api"] for line in lines}
        assert " packets captured, 0 dropped by the kernel" in remarks
        assert packets_captured(remarks) == kafkascope.read(str(capture)).summary["packets"]  # each once, as in tcpdump
        assert f"{len(lines)} exchanges: " in remarks
        assert "1 group: readers" in remarks
        assert "Traceback" not in remarks
        same_exchanges(lines, capture)


def test_exchanges_are_had_in_python_until_the_loop_ends(host: Host) -> None:
    listening = host.listening(sys.executable, "-c", IN_PYTHON, cwd=ROOT)
    clients, _ = host.clients()
    leave(clients)
    output, errors = listening.communicate(timeout=PATIENCE_S)
    assert listening.returncode == 0, errors.decode()
    seen, left = json.loads(output)
    assert left == []
    assert {"Produce", "Fetch", "JoinGroup", "LeaveGroup"} <= {api for api, *_ in seen}
    for api, version, sides, topics in seen:
        request = kafkascope.decode_request(bytes.fromhex(sides[0]))
        assert (request.api, request.version) == (api, version)
        assert bool(topics) or api not in ("Produce", "Fetch")
        for side in sides[1:]:
            assert kafkascope.decode_response(bytes.fromhex(side), api, version).body is not None


def test_a_port_is_filtered_by_the_kernel(host: Host) -> None:
    """Two clusters are there before anyone listens; one is listened to while both work."""
    first, second = host.cluster(), host.cluster()
    ports = [{address.rpartition(":")[2] for address in cluster.brokers} for cluster in (first, second)]
    assert not ports[0] & ports[1]
    every = host.sniff("--iface", "lo", "--json", env=os.environ | {"PYTHONUNBUFFERED": "1"})
    # Its pipe is full, and a write not done, when the signal comes: nothing may be lost.
    assert every.stdout is not None
    fcntl.fcntl(every.stdout, fcntl.F_SETPIPE_SZ, 4096)
    one = host.sniff("--iface", "lo", "--json", *(word for port in sorted(ports[0]) for word in ("--port", port)))
    for cluster in (first, second):
        cluster.work()
    shown_of_all, remarks_of_all = ended(every, signal.SIGINT)
    shown, remarks = ended(one, signal.SIGINT)
    by_port = Counter(line["broker"].rpartition(":")[2] for line in shown)
    by_port_of_all = Counter(line["broker"].rpartition(":")[2] for line in shown_of_all)
    assert set(by_port_of_all) == ports[0] | ports[1]
    assert by_port == {port: count for port, count in by_port_of_all.items() if port in ports[0]}, remarks
    # What the filter leaves out does not come as far as the program.
    assert 0 < packets_captured(remarks) < packets_captured(remarks_of_all)


def test_ports_with_tls_are_told_at_the_end(host: Host, tmp_path: Path) -> None:
    context = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=broker", "-days", "2")
    files = ("-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "certificate.pem"))
    subprocess.run(["openssl", *context, *files], check=True, capture_output=True)
    sniff = host.sniff("--iface", "lo", "--json")
    clients, _ = host.clients("produce")
    server = host.start(sys.executable, "-c", TLS_CONVERSATION, *map(str, (files[3], files[1])))
    ports = json.loads(line_of(server.stdout))
    leave(server)
    leave(clients)
    shown, remarks = ended(sniff, signal.SIGINT)
    assert len(shown) > 10
    assert f"3 connections are encrypted with TLS, to ports {ports[0]}, {ports[1]}: what is in them" in remarks
    assert not {str(port) for port in ports} & {line["broker"].rpartition(":")[2] for line in shown}


def test_several_interfaces_are_one_capture(host: Host) -> None:
    several = (["--iface", "lo", "--iface", "veth0"], ["--iface", "any"], ["--iface", "lo", "--iface", "any"])
    sniffs = host.sniffs(*(["--json", "--records", *interfaces] for interfaces in several))
    clients, done = host.clients()
    leave(clients)
    for sniff in sniffs:
        shown, remarks = ended(sniff, signal.SIGINT)
        assert produced_records(shown) == done["produced"], sniff.args
        answered = [line for line in shown if line["outcome"] != "unanswered"]
        assert all(line["outcome"] == "answered" for line in answered)
        assert "0 dropped by the kernel" in remarks


def test_tcpdump_through_a_pipe_shows_exchanges_while_it_is_open(host: Host) -> None:
    sniff = host.start(str(BIN / "sniff"), "-r", "-", "--json", "--records")
    assert sniff.stdin is not None
    tcpdump = host.tcpdump("-w", "-", stdout=sniff.stdin)
    sniff.stdin.close()
    sniff.stdin = None
    clients, done = host.clients()
    lines: list[dict[str, Any]] = []
    while not lines or lines[-1]["api"] != "LeaveGroup":
        lines.append(json.loads(line_of(sniff.stdout)))
    assert tcpdump.poll() is None
    leave(clients)
    tcpdump.send_signal(signal.SIGINT)
    output, remarks = sniff.communicate(timeout=PATIENCE_S)
    assert sniff.returncode == 0, remarks.decode()
    lines += [json.loads(line) for line in output.decode().splitlines()]
    assert produced_records(lines) == done["produced"]


def test_a_reader_that_goes_ends_it_quietly_without_more_traffic(host: Host) -> None:
    sniff = host.sniff("--iface", "lo")
    host.start(*CLIENTS, cwd=ROOT)
    assert b"ApiVersions" in line_of(sniff.stdout)
    assert sniff.stdout is not None
    sniff.stdout.close()
    sniff.stdout = None
    _, remarks = sniff.communicate(timeout=PATIENCE_S)
    assert sniff.returncode == 0
    assert remarks == b""


def test_a_reader_that_pauses_loses_lines_that_are_counted_and_no_packets(host: Host) -> None:
    sniff = host.listening(sys.executable, "-c", LITTLE_ROOM, "--iface", "lo", "--json")
    assert sniff.stdout is not None
    fcntl.fcntl(sniff.stdout, fcntl.F_SETPIPE_SZ, 4096)
    clients, _ = host.clients()
    leave(clients)
    lines, remarks = ended(sniff, signal.SIGINT)
    losses = [line for line in lines if "issue" in line and "api" not in line]
    assert {loss["issue"] for loss in losses} == {"lines_left_out"}
    lost = sum(loss["count"] for loss in losses)
    assert lost == losses[-1]["in_all"] > 0
    assert f"{lost} lines left out: the output was read too slowly" in remarks
    assert f"{len(lines) - len(losses) + lost} exchanges: " in remarks
    assert "0 dropped by the kernel" in remarks


def test_it_ends_after_a_duration(host: Host) -> None:
    sniff = host.sniff("--iface", "lo", "--json", "--duration", "1s")
    output, remarks = sniff.communicate(timeout=PATIENCE_S)
    assert sniff.returncode == 0
    assert output == b""
    assert b"0 packets captured" in remarks


def test_enough_exchanges_end_it(host: Host) -> None:
    sniff = host.sniff("--iface", "lo", "-c", "3")
    host.start(*CLIENTS, cwd=ROOT)
    output, _ = sniff.communicate(timeout=PATIENCE_S)
    assert sniff.returncode == 0
    assert output.count(b"\n") == 3


def test_an_interface_that_goes_away_ends_it(host: Host) -> None:
    sniff = host.sniff("--iface", "veth0")
    subprocess.run(["ip", "-n", host.name, "link", "delete", "veth0"], check=True)
    _, remarks = sniff.communicate(timeout=PATIENCE_S)
    assert sniff.returncode == 3
    assert b"veth0: the interface is gone; effect: packets of it are missing from then on" in remarks


def test_one_of_two_interfaces_that_goes_away_is_told_and_the_other_goes_on(host: Host) -> None:
    sniff = host.sniff("--iface", "lo", "--iface", "veth0", "--json")
    subprocess.run(["ip", "-n", host.name, "link", "delete", "veth0"], check=True)
    told = json.loads(line_of(sniff.stdout))
    assert (told["issue"], told["detail"]) == ("interface_failed", "veth0: the interface is gone")
    clients, _ = host.clients("produce")
    leave(clients)
    sniff.send_signal(signal.SIGINT)
    output, remarks = sniff.communicate(timeout=PATIENCE_S)
    assert b'"api":"Produce"' in output
    assert b"veth0: the interface is gone" in remarks
    assert sniff.returncode == 3


def test_an_interface_that_comes_up_again_is_heard_again(host: Host) -> None:
    for name in ("veth1", "veth0"):
        subprocess.run(["ip", "-n", host.name, "link", "set", name, "up"], check=True)
    sniff = host.sniff("--iface", "veth0", "-f", "ip", "--json")
    for state in ("down", "up"):
        subprocess.run(["ip", "-n", host.name, "link", "set", "veth0", state], check=True)
    host.start(sys.executable, "-c", PACKET).communicate(timeout=PATIENCE_S)
    shown, remarks = ended(sniff, signal.SIGINT)
    assert [(one["issue"], one["detail"]) for one in shown] == [("interface_failed", "veth0: Network is down")]
    assert "veth0: Network is down" in remarks
    assert packets_captured(remarks) == 1


def test_packets_are_written_to_files_that_follow_each_other_while_they_are_shown(host: Host, of_nobody: Path) -> None:
    sniff = host.sniff("--iface", "lo", "--json", "-w", str(of_nobody / "lo.pcapng"), "-G", "2s")
    clients, _ = host.clients()
    leave(clients)
    shown, remarks = ended(sniff, signal.SIGINT)
    files = sorted(map(str, of_nobody.iterdir()))
    assert len(files) > 1  # the consumer waits three seconds to join
    assert kafkascope.read(files).summary["packets"] == packets_captured(remarks)
    in_files = kafkascope.read(files).exchanges
    assert sorted(in_files["correlation_id"].dropna()) == sorted(line["correlation_id"] for line in shown)


def test_tables_that_were_rolled_are_whole_when_it_is_killed_and_go_on_as_a_run_of_their_own(
    host: Host, of_nobody: Path
) -> None:
    out = of_nobody / "out"
    sniff = host.start(*SNIFF_WITHOUT_LATE_IMPORTS, "--iface", "lo", "--tables", str(out), "--every", "1s")
    assert b"listening on lo, as nobody;" in line_of(sniff.stderr)
    clients, _ = host.clients("produce")
    while b" 0 packets" in (line := line_of(sniff.stdout)) or not stored(str(out)).summary["exchanges"]:
        assert line, "it ended before there were tables with exchanges"
    sniff.kill()
    _, remarks = sniff.communicate(timeout=PATIENCE_S)
    assert b"late import" not in remarks
    leave(clients)
    assert "Produce" in pq.read_table(out / "tables" / "exchanges")["api"].to_pylist()
    again = host.sniff("--iface", "lo", "--tables", str(out), "--duration", "1s")
    output, remarks = again.communicate(timeout=PATIENCE_S)
    assert output.endswith(b" 0 packets, 0 incidents, 2 runs\n"), remarks
    assert [run.summary["captures"] for run in stored(str(out)).runs()] == [["lo"], ["lo"]]


def test_a_file_that_cannot_be_written_to_is_told_and_the_rest_goes_on(host: Host, of_nobody: Path) -> None:
    file = str(of_nobody / "lo.pcapng")
    sniff = host.listening("prlimit", "--fsize=4000", str(BIN / "sniff"), "--iface", "lo", "--json", "-w", file)
    clients, _ = host.clients()
    leave(clients)
    sniff.send_signal(signal.SIGINT)
    output, remarks = sniff.communicate(timeout=PATIENCE_S)
    assert sniff.returncode == 1
    lines = [json.loads(line) for line in output.decode().splitlines()]
    losses = [line for line in lines if line.get("issue") == "capture_not_written"]
    assert "File too large" in losses[0]["detail"]
    assert {"Produce", "Fetch", "LeaveGroup"} <= {line.get("api") for line in lines}
    assert f"packets were not written to {file}: File too large".encode() in remarks


def test_the_network_namespace_of_a_container_is_listened_to(host: Host) -> None:
    cluster = host.cluster()
    sniffs = []
    for where in (["--netns", host.name], ["--pid", str(cluster.process.pid)]):
        command = [str(BIN / "sniff"), "--iface", "lo", *where, "--json", "--records"]
        sniffs.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    host.processes += sniffs
    for sniff in sniffs:
        until_it_listens(sniff)
    cluster.work()
    for sniff in sniffs:
        shown, remarks = ended(sniff, signal.SIGINT)
        assert {line["broker"] for line in shown} == set(cluster.brokers)
        assert {"Produce", "Fetch", "LeaveGroup"} <= {line["api"] for line in shown}
        assert "0 dropped by the kernel" in remarks


def test_only_what_matches_a_filter_is_heard(host: Host) -> None:
    cluster = host.cluster()
    one, _ = cluster.brokers
    sniff = host.sniff("--iface", "lo", "--json", "-f", f"port {one.rpartition(':')[2]}")
    everything = host.sniff("--iface", "any", "--json", "-f", "port not 1")
    cluster.work()
    assert {line["broker"] for line in ended(sniff, signal.SIGINT)[0]} == {one}
    assert {line["broker"] for line in ended(everything, signal.SIGINT)[0]} == set(cluster.brokers)


def test_what_is_no_filter_is_told(host: Host) -> None:
    sniff = host.start(str(BIN / "sniff"), "--iface", "lo", "-f", "prot 9092")
    _, remarks = sniff.communicate(timeout=PATIENCE_S)
    assert sniff.returncode == 2
    assert b"syntax error" in remarks
    assert b"Traceback" not in remarks


def test_of_packets_that_are_cut_headers_are_shown(host: Host) -> None:
    sniff = host.sniff("--iface", "lo", "--json", "-s", "140")
    clients, _ = host.clients("produce")
    leave(clients)
    shown, _ = ended(sniff, signal.SIGINT)
    produced = [line for line in shown if line["api"] == "Produce"]
    assert {line["outcome"] for line in produced} == {"answered"}
    assert {line["decoded"] for line in produced} == {"header"}
    assert all(" bytes are there" in line["issue"] for line in produced)


def test_with_the_interface_open_rights_are_given_up(host: Host, of_nobody: Path) -> None:
    sniff = host.start(
        *SNIFF_WITHOUT_LATE_IMPORTS, "--iface", "lo", "--json", "-w", f"{of_nobody}/lo.pcapng", "-G", "1s"
    )
    assert b"listening on lo, as nobody;" in line_of(sniff.stderr)
    clients, _ = host.clients("produce")
    leave(clients)
    assert json.loads(line_of(sniff.stdout))["api"] == "ApiVersions"
    nobody = pwd.getpwnam("nobody").pw_uid
    for thread in Path(f"/proc/{sniff.pid}/task").iterdir():
        status = dict(line.split(":\t") for line in (thread / "status").read_text().splitlines())
        assert {int(user) for user in status["Uid"].split()} == {nobody}
        assert all(int(status[name], 16) == 0 for name in ("CapEff", "CapPrm", "CapAmb"))
    shown, remarks = ended(sniff, signal.SIGINT)
    assert {"Metadata", "Produce"} <= {line["api"] for line in shown}
    assert "Traceback" not in remarks
    assert "late import" not in remarks
    assert {file.stat().st_uid for file in of_nobody.iterdir()} == {nobody}


def test_what_would_fail_is_told_before_anything_is_captured(host: Host, tmp_path: Path) -> None:
    of_root = tmp_path / "of_root"
    of_root.write_text("")
    of_root.chmod(0o600)
    (strange := tmp_path / "strange").mkdir()
    (strange / "file").touch()
    told = {
        ("-w", str(of_root)): (1, "packets cannot be written there (Permission denied)"),
        ("--user", "no-such-user"): (2, "--user no-such-user: rights cannot be given up (there is no such user)"),
        ("--tls-keylog", str(of_root)): (1, "the key log cannot be read (Permission denied)"),
        ("--tables", str(tmp_path / "out")): (2, "--tables: the user nobody may not write to /"),
        ("--tables", str(strange), "--user", "root"): (2, "strange has file, which no analysis made"),
        ("--tables", "s3://bucket/out"): (2, "tables of an interface go to a local directory only"),
        ("--incidents", "--alert", f"{of_root} now"): (2, "the user nobody may not run it"),
    }
    sniffs = [host.start(*UNREHEARSED_SNIFF, "--iface", "lo", *arguments) for arguments in told]
    for sniff, (status, text) in zip(sniffs, told.values(), strict=True):
        _, remarks = sniff.communicate(timeout=PATIENCE_S)
        assert (sniff.returncode, text in remarks.decode()) == (status, True), remarks
        assert b"listening" not in remarks
        assert b"Traceback" not in remarks


def test_what_the_kernel_drops_is_told_while_it_happens(host: Host) -> None:
    subprocess.run(["ip", "-n", host.name, "link", "set", "veth1", "up"], check=True)
    process = host.start(sys.executable, "-c", BURST)
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors.decode()
    dropped, (first, soon, later), issues = json.loads(output)
    assert 270 < dropped < 300  # two blocks hold three packets each
    assert re.match(r"the kernel dropped 9\d packets \(9\d in all, 9\d\.\d %\): they come faster", first[0])
    assert soon == []
    assert re.fullmatch(r"the kernel dropped 200 packets \(29\d in all, 9\d\.\d %\)", later[0])
    assert issues == [["kernel_drops", dropped, True]]


def test_when_it_cannot_keep_up_the_kernel_cuts_packets_and_they_are_counted(host: Host) -> None:
    subprocess.run(["ip", "-n", host.name, "link", "set", "veth1", "up"], check=True)
    process = host.start(sys.executable, "-c", CUT, HEADERS)
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors.decode()
    whole, captured, cut, issues = json.loads(output)
    assert list(dict.fromkeys(captured)) == [whole, CUT_BYTES]
    assert captured[-1] == whole  # and whole again in the end
    assert cut == captured.count(CUT_BYTES) == sum(count for _, count in issues)


def test_who_is_slow_takes_what_waits_at_once_and_what_comes_after_the_end_does_not_count(host: Host) -> None:
    subprocess.run(["ip", "-n", host.name, "link", "set", "veth1", "up"], check=True)
    process = host.start(sys.executable, "-c", SLOW, HEADERS)
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors.decode()
    assert json.loads(output) == [[10, 0], [0, 0]]


def test_a_clock_that_is_set_back_meanwhile_is_told(host: Host) -> None:
    subprocess.run(["ip", "-n", host.name, "link", "set", "veth1", "up"], check=True)
    process = host.start(sys.executable, "-c", SET_BACK, HEADERS)
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors.decode()
    before, (after,) = json.loads(output)
    assert before == []
    assert re.fullmatch(r"a packet is 3,(600|599)\.\d{3} s older than one before it", after)


def test_kernels_are_compiled_before_it_listens_and_an_interrupt_ends_that(host: Host, tmp_path: Path) -> None:
    sniff = host.start(str(BIN / "sniff"), "--iface", "lo", env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)})
    assert b"compiling kernels" in line_of(sniff.stderr)
    sniff.send_signal(signal.SIGINT)
    assert sniff.communicate(timeout=PATIENCE_S) == (b"", b"")
    assert sniff.returncode == -signal.SIGINT  # for a shell: 130


def test_without_the_right_it_says_what_to_do(host: Host) -> None:
    sniff = host.start("setpriv", "--bounding-set", "-net_raw", str(BIN / "sniff"), "--iface", "lo")
    output, remarks = sniff.communicate(timeout=PATIENCE_S)
    assert sniff.returncode == 1
    assert output == b""
    assert b"CAP_NET_RAW" in remarks
    assert b"sudo tcpdump" in remarks
    assert b"setcap" not in remarks  # of an interpreter that all share
    assert b"Traceback" not in remarks


def test_an_unknown_interface_is_told_with_those_there_are(host: Host) -> None:
    sniff = host.start(str(BIN / "sniff"), "--iface", "eth77")
    _, remarks = sniff.communicate(timeout=PATIENCE_S)
    assert sniff.returncode == 1
    assert b"eth77" in remarks
    assert b"veth0" in remarks
    assert b"Traceback" not in remarks
