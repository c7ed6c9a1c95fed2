"""Live for half an hour under load with faults: is memory flat, and is anything missed that the kernel delivered?

    sudo make soak                                  # 30 minutes
    sudo python -m tools.soak --minutes 3 --rate 5 --directory /tmp/soak

A real broker (tools/real_broker.py) and clients of librdkafka, each in a network namespace, with a link between them: a
producer of RATE megabytes a second, and two consumers of a group, one of which leaves and comes back. Every half minute
something breaks for some seconds, in turns: the link carries half of what is sent and loses the rest, the broker's
interface goes down, the broker is killed. `sniff --json -w` listens on the broker's interface all the time, without
rights, as it does by default.

Each packet that the kernel delivered is in the files that -w writes, so what was shown live must be what `sniff -r`
shows of these files, but for as many bodies as it said that it skipped for want of time. Memory is flat if the median
of its last third is no more than a tenth above that of the middle third. Status 0 if all of it holds, 1 if not.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import cycle
from pathlib import Path

from tools.real_broker import NoJarsError, RealBroker, fetched_jars

SNIFF = [str(Path(sys.executable).parent / "sniff")]
FAULT_EVERY_S = 30
SAMPLE_EVERY_S = 1
FILE_MB = 500
PATIENCE_S = 300
CLIENTS = """
import sys, threading, time
from confluent_kafka import Consumer, Producer
address, rate = sys.argv[1], float(sys.argv[2]) * 1e6
common = {"bootstrap.servers": address, "log_level": 0}
over = threading.Event()
def produce():
    producer = Producer(common | {"client.id": "load", "linger.ms": 5, "queue.buffering.max.messages": 20_000})
    value, sent, begun = bytes(place % 251 for place in range(1000)), 0, time.monotonic()
    while not over.wait(0.005):
        while sent < rate * (time.monotonic() - begun):
            sent += len(value)
            try:
                producer.produce("orders", value)
            except BufferError:  # while the broker is away
                break
        producer.poll(0)
def consume(name, stays):
    while not over.is_set():
        consumer = Consumer(common | {"client.id": name, "group.id": "readers", "session.timeout.ms": 10_000})
        consumer.subscribe(["orders"])
        until = time.monotonic() + stays
        while not over.is_set() and time.monotonic() < until:
            consumer.consume(1000, timeout=0.2)
        consumer.close()
threads = [threading.Thread(target=produce)]
threads += [threading.Thread(target=consume, args=of) for of in (("steady", float("inf")), ("restless", 45))]
for thread in threads:
    thread.start()
sys.stdin.read()
over.set()
for thread in threads:
    thread.join(60)
"""


@dataclass(frozen=True, slots=True)
class Link:
    """Two namespaces with a cable between them."""

    broker: str
    clients: str
    interface: str  # of the broker

    def within(self, name: str) -> list[str]:
        """Words before a command that is to run there."""
        return ["ip", "netns", "exec", name]

    def ip(self, *words: str) -> None:
        """Change something on the broker's side."""
        subprocess.run(["ip", "-n", self.broker, *words], check=True)

    def narrow(self, megabits: float) -> None:
        """From here on packets of clients wait for each other, and those for which there is no room are lost."""
        shape = ["rate", f"{megabits:.3f}mbit", "burst", "16kb", "limit", "64kb"]
        self._queue("replace", "tbf", *shape)

    def widen(self) -> None:
        """As it was."""
        self._queue("delete")

    def _queue(self, change: str, *what: str) -> None:
        command = ["tc", "qdisc", change, "dev", "soak1", "root", *what]
        subprocess.run([*self.within(self.clients), *command], check=True)


@contextmanager
def link() -> Iterator[Link]:
    """Namespaces that are gone afterwards."""
    name = f"kafkascope-soak-{os.getpid()}"
    one = Link(f"{name}-b", f"{name}-c", "soak0")
    try:
        for side in (one.broker, one.clients):
            subprocess.run(["ip", "netns", "add", side], check=True)
            subprocess.run(["ip", "-n", side, "link", "set", "lo", "up"], check=True)
        one.ip("link", "add", one.interface, "type", "veth", "peer", "name", "soak1", "netns", one.clients)
        one.ip("address", "add", "10.77.0.1/24", "dev", one.interface)
        one.ip("link", "set", one.interface, "up")
        subprocess.run(["ip", "-n", one.clients, "address", "add", "10.77.0.2/24", "dev", "soak1"], check=True)
        subprocess.run(["ip", "-n", one.clients, "link", "set", "soak1", "up"], check=True)
        yield one
    finally:
        for side in (one.broker, one.clients):
            subprocess.run(["ip", "netns", "delete", side], check=False)


class Watched:
    """A process that listens: what it remarks, and its memory."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.memory_mb: list[float] = []
        self.remarks: list[str] = []
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def until_it_listens(self) -> None:
        """Wait, so that it hears what topics are called before it meets their ids: `sniff -r` looks ahead for that."""
        while not any("listening on" in remark for remark in self.remarks):
            if self.process.poll() is not None:
                raise RuntimeError(f"it ended: {''.join(self.remarks)}")
            time.sleep(SAMPLE_EVERY_S)

    def sample(self) -> None:
        """Note what it has of memory now."""
        found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text())
        if found:
            self.memory_mb.append(int(found[1]) / 1e3)

    def wait(self) -> int:
        """Its status, when all that it said is read."""
        status = self.process.wait(PATIENCE_S)
        self._thread.join(PATIENCE_S)
        return status

    def _listen(self) -> None:
        for line in self.process.stderr or ():
            self.remarks.append(line.decode())
            print(f"  {line.decode().rstrip()}", file=sys.stderr, flush=True)


def exchanges(lines: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Each exchange shown, wherever it was read from, and what stands for it; other lines tell what was lost."""
    for line in lines:
        shown = json.loads(line)
        if "api" in shown:
            text = json.dumps(shown | {"file": None}).encode()
            yield text, blake2b(text, digest_size=12).digest()


@dataclass(frozen=True, slots=True)
class Fault:
    """What breaks."""

    what: str
    begin: Callable[[], object]
    end: Callable[[], object]
    seconds: float


def faults(one: Link, broker: RealBroker, rate: float) -> Iterator[Fault]:
    """One after the other, for ever."""
    set_link = partial(one.ip, "link", "set", one.interface)
    yield from cycle(
        [
            Fault("the link loses packets", partial(one.narrow, 8 * rate / 2), one.widen, 10),
            Fault("the interface is down", partial(set_link, "down"), partial(set_link, "up"), 5),
            Fault("the broker is killed", broker.kill, broker.start, 2),
        ]
    )


def work(seconds: float, watched: Watched, breaking: Iterable[Fault]) -> None:
    """Let time pass and things break."""
    begun = time.monotonic()

    def wait(until: float) -> None:
        while (now := time.monotonic()) < until:
            watched.sample()
            time.sleep(min(SAMPLE_EVERY_S, until - now))

    for fault in breaking:
        wait(time.monotonic() + FAULT_EVERY_S)
        if time.monotonic() - begun >= seconds:
            return
        print(f"{time.monotonic() - begun:6.0f} s, {watched.memory_mb[-1]:.0f} MB: {fault.what}", flush=True)
        fault.begin()
        wait(time.monotonic() + fault.seconds)
        fault.end()


@dataclass(frozen=True, slots=True)
class Soaked:
    """What came of it."""

    statuses: tuple[int, int]  # of listening, and of reading the files
    capture_bytes: int
    exchanges: int  # of the files
    of_files_alone: int
    live_alone: list[str]
    bodies_skipped: int
    memory_mb: list[float]

    @property
    def thirds(self) -> list[float]:
        """The median of the memory in each third of the time."""
        third = len(self.memory_mb) // 3
        return [statistics.median(self.memory_mb[place * third :][:third]) for place in range(3)]

    @property
    def is_well(self) -> bool:
        """Whether memory is flat, and all was shown."""
        same = self.of_files_alone == len(self.live_alone) == self.bodies_skipped
        return same and self.exchanges > 0 and not any(self.statuses) and self.thirds[2] <= 1.1 * self.thirds[1]

    def lines(self) -> Iterator[str]:
        """All of it for people."""
        yield f"{self.exchanges:,} exchanges in {self.capture_bytes / 1e6:,.0f} MB of files; statuses {self.statuses}"
        yield (
            f"not the same live and of files: {len(self.live_alone):,} and {self.of_files_alone:,}; "
            f"bodies that were skipped, as it said: {self.bodies_skipped:,}"
        )
        yield from self.live_alone[:1]
        first, middle, last = self.thirds
        yield f"memory of each third: {first:.0f}, {middle:.0f}, {last:.0f} MB; at most {max(self.memory_mb):.0f}"
        yield "well" if self.is_well else "NOT WELL"


def soak(directory: Path, minutes: float, rate: float) -> Soaked:
    """Listen, work, break things, compare. Raises NoJarsError."""
    fetched_jars()
    captured = directory / "captured"
    captured.mkdir()
    for place in (directory, captured):  # for whoever root becomes
        place.chmod(0o777)
    shown_live = directory / "live.jsonl"
    pipe = subprocess.PIPE
    with link() as one:
        broker = RealBroker(directory, 9092, 9093, "10.77.0.1", one.within(one.broker))
        sniff = [*SNIFF, "-i", one.interface, "--json", "-w", str(captured / "live.pcapng"), "-C", str(FILE_MB)]
        with shown_live.open("wb") as output:
            watched = Watched(subprocess.Popen([*one.within(one.broker), *sniff], stdout=output, stderr=pipe))
        try:
            watched.until_it_listens()
            broker.start()
            command = [*one.within(one.clients), sys.executable, "-c", CLIENTS, broker.address, str(rate)]
            with subprocess.Popen(command, stdin=pipe) as clients:
                work(60 * minutes, watched, faults(one, broker, rate))
                clients.communicate(timeout=PATIENCE_S)
        finally:
            broker.stop()
            watched.process.send_signal(signal.SIGINT)
            status = watched.wait()
    files = sorted(map(str, captured.iterdir()))
    reading = subprocess.Popen([*SNIFF, *(word for file in files for word in ("-r", file)), "--json"], stdout=pipe)
    of_files = Counter(digest for _, digest in exchanges(reading.stdout or ()))
    total, live_alone = of_files.total(), list[str]()
    with shown_live.open("rb") as lines:
        for text, digest in exchanges(lines):
            of_files[digest] -= 1
            if of_files[digest] < 0:
                live_alone.append(text.decode())
    skipped = re.findall(r"were skipped \(([\d,]+) in all\)", "".join(watched.remarks))
    return Soaked(
        statuses=(status, reading.wait()),
        capture_bytes=sum(os.path.getsize(file) for file in files),
        exchanges=total,
        of_files_alone=(+of_files).total(),
        live_alone=live_alone,
        bodies_skipped=int(skipped[-1].replace(",", "")) if skipped else 0,
        memory_mb=watched.memory_mb,
    )


def main() -> int:
    """Soak, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=float, default=2, help="megabytes a second")
    parser.add_argument(
        "--directory", type=Path, help="an empty one, with room for the capture, where all of it is kept"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        try:
            found = soak(arguments.directory or Path(temporary), arguments.minutes, arguments.rate)
        except NoJarsError as error:
            print(error, file=sys.stderr)
            return 1
    print("\n".join(found.lines()))
    return 0 if found.is_well else 1


if __name__ == "__main__":
    sys.exit(main())
