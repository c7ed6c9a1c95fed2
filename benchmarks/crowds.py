"""How time and memory of all answers grow: storms, incidents, many quiet groups, what they say, many clients.

    python benchmarks/crowds.py [--kinds storm,outages,losses,impatience,groups,messages,clients] [--repeat N]

Captures of two sizes, the larger one of four times as many, are made in bench-data/ from recordings: a storm comes
again and again to the same group; brokers are killed, consumers cut off, and requests given up, an incident each time,
at other addresses; members of quiet groups, each with a group and an address of its own, join and send heartbeats and
commits at the same time; those of 2,500 groups do all of it four times, one after the other; clients ask for metadata
once. Time is that of the processor, so that others on the machine do not count. Time is to grow by four, memory by no
more than the number of groups or clients.
"""

from __future__ import annotations

import argparse
import gzip
import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from commands import ANSWER, DATA, HERE, STORM, run
from multiply import multiply, packets_of

KILLED = HERE / "pcaps" / "broker-killed" / "capture.pcap.gz"
CUT_OFF = HERE / "pcaps" / "client-cut" / "capture.pcap.gz"
IMPATIENT = HERE / "pcaps" / "short-timeout" / "capture.pcap.gz"
LAGGING = HERE / "pcaps" / "lagging" / "capture.pcap.gz"
MEMBER, VISITOR = 35_066, 35_042  # ports there: of a member of the group, and of a client that asks and goes
GROUP = b"shop"
SIZES = {
    "storm": (13, 52),  # times 388 messages of the group
    "outages": (50, 200),
    "losses": (25, 100),  # of so many hosts at most it is looked at who is cut off
    "impatience": (300, 1_200),
    "groups": (2_500, 10_000),
    "messages": (1, 4),  # times 47 of each of the fewer groups
    "clients": (25_000, 100_000),
}

NAMES = {
    "storm": "storms of one group, 388 messages each",
    "outages": "outages of brokers, one after the other",
    "losses": "consumers cut off from the network, one after the other",
    "impatience": "clients that do not wait for answers, one after the other",
    "groups": "quiet groups at once, 47 messages each",
    "messages": "times that the members of 2,500 quiet groups join and are heard of",
    "clients": "clients that come and go, with a group each",
}


def again(recording: Path, times: int, target: Path) -> None:
    """A recording so many times, one after the other."""
    multiply(recording, times * sum(map(len, packets_of(recording)[1])), target)


def groups(count: int, target: Path) -> None:
    """So many groups of one member."""
    crowd(count, MEMBER, target)


def messages(times: int, target: Path) -> None:
    """The fewer groups, whose members come again so many times."""
    crowd(SIZES["groups"][0], MEMBER, target, times)


def clients(count: int, target: Path) -> None:
    """So many clients without a group."""
    crowd(count, VISITOR, target)


MAKE: dict[str, Callable[[int, Path], None]] = {
    "storm": partial(again, STORM),
    "outages": partial(again, KILLED),
    "losses": partial(again, CUT_OFF),
    "impatience": partial(again, IMPATIENT),
    "groups": groups,
    "messages": messages,
    "clients": clients,
}


def crowd(count: int, port: int, target: Path, times: int = 1) -> None:
    """A client's connection so many times at once, with other addresses and names of groups; all of it so many times.

    Each time comes a minute after the one before, by connections from other ports.
    """
    data = gzip.decompress(LAGGING.read_bytes())
    places = (bytes([len(GROUP) + 1]) + GROUP, len(GROUP).to_bytes(2, "big") + GROUP)
    copies = np.arange(count)
    digits = np.frombuffer(b"0123456789abcdefghijklmnopqrstuvwxyz", np.uint8)
    name = digits[copies[:, None] // 36 ** np.arange(len(GROUP)) % 36]
    address = np.stack([copies >> 16, copies >> 8 & 255, copies & 255], axis=1).astype(np.uint8)
    with target.open("wb") as file:
        file.write(data[:24])
        for time, packet in product(range(times), packets(data, port)):
            rows = np.tile(np.frombuffer(packet, np.uint8), (count, 1))
            rows[:, :4] = np.array([int.from_bytes(packet[:4], "little") + 60 * time], "<u4").view(np.uint8)
            is_sender = packet[50:52] == port.to_bytes(2, "big")
            place = 50 if is_sender else 52
            rows[:, place : place + 2] = np.array([port + time], ">u2").view(np.uint8)
            client = 42 if is_sender else 46
            rows[:, client + 1 : client + 4] = address
            for named in places:
                found = packet.find(named, 70)
                while found >= 0:
                    begin = found + len(named) - len(GROUP)
                    rows[:, begin : begin + len(GROUP)] = name
                    found = packet.find(named, found + 1)
            file.write(rows.tobytes())


def packets(data: bytes, port: int) -> list[bytes]:
    """The TCP packets of a pcap file from and to a port, with their headers in the file."""
    found, at, wire = [], 24, port.to_bytes(2, "big")
    while at < len(data):
        size = 16 + int.from_bytes(data[at + 8 : at + 12], "little")
        packet, at = data[at : at + size], at + size
        if packet[28:30] == b"\x08\x00" and packet[39] == 6 and wire in (packet[50:52], packet[52:54]):
            found.append(packet)
    return found


def growth(repeat: int, kinds: Sequence[str] = tuple(SIZES)) -> list[dict[str, Any]]:
    """A row for each size of each kind; times are without the start of the program."""
    empty = [sys.executable, "-c", "import kafkascope.capture"]
    start = statistics.median(run(empty).cpu_seconds for _ in range(repeat))
    rows: list[dict[str, Any]] = []
    for kind in kinds:
        first: tuple[float, float] | None = None
        for size in SIZES[kind]:
            file = DATA / f"{kind}-{size}.pcap"
            if not file.exists():
                DATA.mkdir(exist_ok=True)
                MAKE[kind](size, file)
            runs = [run([sys.executable, "-c", ANSWER, str(file)], together=True) for _ in range(repeat)]
            seconds = statistics.median(one.cpu_seconds for one in runs) - start
            peak = statistics.median(one.peak_megabytes for one in runs)
            first = first or (seconds, peak)
            row = {"of": NAMES[kind], "so many": size, "MB of capture": round(file.stat().st_size / 1e6)}
            row |= {"CPU s": round(seconds, 2), "peak MB": round(peak)}
            row |= {"times the CPU": round(seconds / first[0], 2), "times the memory": round(peak / first[1], 2)}
            rows.append(row)
            print(row, flush=True)
    return rows


def main() -> None:
    """Measure and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default=",".join(SIZES))
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    growth(arguments.repeat, arguments.kinds.split(","))


if __name__ == "__main__":
    main()
