"""Listening to an interface beside tcpdump and tshark: drops, time of the processor, memory, what it costs clients.

    sudo python benchmarks/live.py [--rates 20,50,100] [--seconds 10] [--listeners tcpdump,tshark,sniff,...] [--write]

In a network namespace of its own a producer of librdkafka writes records of 1 kB, RATE megabytes a second (0: as fast
as it can), over loopback to librdkafka's mock of two brokers, which speaks the real protocol. One program listens at a
time, its output thrown away. CPU is user and system time of that program and its children while the producer works, in
percent of a core; memory is the most that each of its processes had, together; the producer's rate is what it came to.
--write keeps the figures: in BENCHMARKS.md, and as a line of benchmarks/history.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import page
from commands import HERE, SNIFF

OURS = [sys.executable, "-c", SNIFF, "-i", "lo"]
LISTENERS: dict[str, list[str]] = {
    "none": [],
    "tcpdump": ["tcpdump", "-Z", "root", "-i", "lo", "-w", "/dev/null"],
    "tshark": ["tshark", "-i", "lo", "-Y", "kafka", "-T", "fields", "-e", "kafka.api_key", "-e", "kafka.client_id"],
    "sniff": OURS,
    "sniff -s 200": [*OURS, "-s", "200"],
    "sniff --json --records": [*OURS, "--json", "--records"],
    "sniff --groups": [*OURS, "--groups"],
    "sniff --incidents": [*OURS, "--incidents"],
}
LOAD = """
import json, sys, time
from confluent_kafka import Producer
rate, seconds, value = float(sys.argv[1]) * 1e6, float(sys.argv[2]), bytes(place % 251 for place in range(1000))
producer = Producer({"test.mock.num.brokers": 2, "client.id": "load", "linger.ms": 5, "log_level": 0, "acks": 1,
                     "batch.size": 1_000_000, "queue.buffering.max.messages": 100_000})
print(json.dumps([broker.port for broker in producer.list_topics(timeout=60).brokers.values()]), flush=True)
sys.stdin.readline()
begun, sent = time.monotonic(), 0
while (passed := time.monotonic() - begun) < seconds:
    while not rate or sent < rate * passed:
        try:
            producer.produce("orders", value)
        except BufferError:
            producer.poll(0.01)
            break
        sent += len(value)
    producer.poll(0 if not rate else 0.002)
producer.flush()
print(json.dumps(sent / 1e6 / (time.monotonic() - begun)), flush=True)
sys.stdin.readline()
"""
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PATIENCE_S = 120


@dataclass(frozen=True, slots=True)
class Heard:
    """What came of a listener."""

    produced_megabytes_a_second: float
    cpu_percent: float
    peak_megabytes: float
    captured: int | None
    dropped: int | None


@contextmanager
def namespace() -> Iterator[list[str]]:
    """Words before a command that let it run in a network namespace of its own, where loopback is up."""
    name = f"kafkascope-bench-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        yield ["ip", "netns", "exec", name]
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)


def family(process: int) -> list[int]:
    """A process and those that it has started."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [process, *(one for child in children for one in family(int(child)))]


def cpu_seconds(processes: list[int]) -> float:
    """What processes have used so far."""
    fields = [Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split() for one in processes]
    return sum(int(of[11]) + int(of[12]) for of in fields) * TICK_S


def peak_megabytes(processes: list[int]) -> float:
    """The most memory that processes have had."""
    texts = [Path(f"/proc/{one}/status").read_text() for one in processes]
    return sum(int(found[1]) for text in texts if (found := re.search(r"VmHWM:\s+(\d+)", text))) / 1e3


def number(pattern: str, text: str) -> int | None:
    """The number that is first found, the last time."""
    found = re.findall(pattern, text)
    return int(found[-1].replace(",", "")) if found else None


def listen(within: list[str], listener: list[str], rate: float, seconds: float) -> Heard:
    """One listener through one load."""
    load = subprocess.Popen(
        [*within, sys.executable, "-c", LOAD, str(rate), str(seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert load.stdin is not None
    assert load.stdout is not None
    ports = json.loads(load.stdout.readline())
    if listener[:1] == ["tshark"]:  # it takes nothing for Kafka but what goes to port 9092
        listener = [*listener, *(word for port in ports for word in ("-d", f"tcp.port=={port},kafka"))]
    said: list[str] = []
    process = None
    if listener:
        environment = os.environ | {"PYTHONPATH": str(HERE)}
        process = subprocess.Popen(
            [*within, *listener],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=HERE,
        )
        assert process.stderr is not None
        while not re.search("listening on|Capturing on", said[-1] if said else ""):
            said.append(process.stderr.readline())
        time.sleep(1)  # tshark says so before it does
    processes = family(process.pid) if process else []
    before = cpu_seconds(processes)
    begun = time.monotonic()
    load.stdin.write("go\n")
    load.stdin.flush()
    produced = json.loads(load.stdout.readline())
    time.sleep(1)  # for what is still on its way through the listener
    cpu = (cpu_seconds(processes) - before) / (time.monotonic() - begun - 1)
    peak = peak_megabytes(processes)
    load.communicate("end\n")
    if process:
        process.send_signal(signal.SIGINT)
        said.append(process.communicate(timeout=PATIENCE_S)[1])
    text = "".join(said)
    captured = number(r"([\d,]+) packets captured", text)
    dropped = number(r"([\d,]+)(?: packets)? dropped", text)
    return Heard(produced, 100 * cpu, peak, captured, dropped)


def cells(rate: float, listener: str, heard: Heard) -> dict[str, str | float]:
    """What came of a listener, by the head of the column."""
    return {
        "MB/s": f"{rate:g}" if rate else "most",
        "listener": f"`{listener}`",
        "CPU %": round(heard.cpu_percent),
        "peak MB": round(heard.peak_megabytes),
        "packets": "" if heard.captured is None else f"{heard.captured:,}",
        "dropped": "" if heard.dropped is None else f"{heard.dropped:,}",
        "produced MB/s": round(heard.produced_megabytes_a_second, 1),
    }


SAID = (
    "Listening to loopback, while a producer writes so many MB/s to two brokers on the same machine: `most` is as fast "
    "as it can, so that producer, brokers and listener share the cores (`python benchmarks/live.py --help`)."
)


def main() -> None:
    """Measure, print rows as they come, and keep them with --write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", default="20,50,100,0")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--listeners", default="none,tcpdump,tshark,sniff", help=f"of: {', '.join(LISTENERS)}")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write BENCHMARKS.md, and a line of the history")
    arguments = parser.parse_args()
    rows: list[dict[str, str | float]] = []
    with namespace() as within:
        for rate in map(float, arguments.rates.split(",")):
            for _ in range(arguments.repeat):
                for name in arguments.listeners.split(","):
                    rows.append(cells(rate, name, listen(within, LISTENERS[name], rate, arguments.seconds)))
                    shown = page.table(rows).splitlines()
                    print("\n".join(shown if len(rows) == 1 else shown[-1:]), flush=True)
    if arguments.write:
        page.keep("Live", SAID, rows)


if __name__ == "__main__":
    main()
