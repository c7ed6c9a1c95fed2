"""``kafkascope warm``: what would make the first runs after installation slow, done at once.

Kernels are compiled, as the first command that needs them would do it; and the classes that Spark loads are kept in an
archive of the JVM's (class data sharing), which takes a quarter off the time of a small analysis.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from kafkascope import in_process
from kafkascope.capture import read
from kafkascope.decoders.pseudonyms import Pseudonyms
from kafkascope.program import INCOMPLETE, Remark
from kafkascope.progress import ProgressBar
from kafkascope.rehearsal import Rehearsal
from kafkascope.scrubbing import scrub
from kafkascope.sniff_options import JSON, LINES, TREE, Display, SniffOptions
from kafkascope.sniffer.link import RAW_IP
from kafkascope.sniffer.units import SECOND_NS
from kafkascope.sniffing import rehearse
from kafkascope.spark import tasks
from kafkascope.spark.sessions import JVM_OPTIONS, Java, SparkUnavailableError, find_java, kept_classes
from kafkascope.temporary import TemporaryDirectory

Write = Callable[[Iterable[tuple[int, bytes]]], bytes]

_DISPLAYS = (
    Display(style=LINES),
    Display(style=TREE, records=True),
    Display(style=JSON, records=True),
    Display(groups=True),
    Display(incidents=True),
)


def run(remark: Remark) -> int:
    """Do what is not done yet; returns the exit status."""
    with TemporaryDirectory() as directory:
        capture, other = directory / "rehearsal.pcap", directory / "rehearsal.pcapng"
        capture.write_bytes(as_pcap(rehearsed()))
        other.write_bytes(as_pcapng(rehearsed()))
        for display in _DISPLAYS:
            rehearse(SniffOptions(display=display))
        in_process.analyze([str(capture), str(other)], f"{directory}/here", records=True)
        # Files that are cut, as where tcpdump was killed, need kernels of their own: what goes on behind is looked for.
        cut = [directory / f"cut{path.suffix}" for path in (capture, other)]
        for path, whole in zip(cut, (capture, other), strict=True):
            path.write_bytes(whole.read_bytes()[:-10])
        _ = read([str(path) for path in cut]).clients
        scrub([str(capture)], f"{directory}/scrubbed.pcapng", Pseudonyms(""))
        tasks.rehearse()
        remark("kernels are compiled")
        try:
            java = find_java()
            classes = kept_classes(java)
        except (SparkUnavailableError, ModuleNotFoundError) as error:
            remark(f"analyze on Spark is left out: {error}")
            return 0
        if classes.exists():
            remark(f"Spark's classes are kept in {classes}")
            return 0
        with ProgressBar("keep Spark's classes"):
            failure = _keep(classes, java, capture)
    if failure:
        remark(f"Spark's classes could not be kept, which costs some seconds at each start: {failure}")
        return INCOMPLETE
    remark(f"Spark's classes are kept in {classes} ({classes.stat().st_size >> 20} MB)")
    return 0


def rehearsed() -> Iterator[tuple[int, bytes]]:
    """The packets of the rehearsal with their times in nanoseconds."""
    for packets in Rehearsal():
        data = packets.data.tobytes()
        for at, start, size in zip(packets.at.tolist(), packets.start.tolist(), packets.captured.tolist(), strict=True):
            yield at, data[start : start + size]


def as_pcap(packets: Iterable[tuple[int, bytes]]) -> bytes:
    """A pcap file with times in nanoseconds."""
    parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, RAW_IP)]
    for at, data in packets:
        parts.append(struct.pack("<IIII", *divmod(at, SECOND_NS), len(data), len(data)) + data)
    return b"".join(parts)


def as_pcapng(packets: Iterable[tuple[int, bytes]]) -> bytes:
    """A pcapng file of one section and one interface, whose times are microseconds."""
    parts = [
        _block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)),
        _block(1, struct.pack("<HHI", RAW_IP, 0, 0)),
    ]
    for at, data in packets:
        high, low = divmod(at // 1000, 1 << 32)
        parts.append(_block(6, struct.pack("<IIIII", 0, high, low, len(data), len(data)) + data))
    return b"".join(parts)


def _block(kind: int, body: bytes) -> bytes:
    padded = body + bytes(-len(body) % 4)
    size = struct.pack("<I", len(padded) + 12)
    return struct.pack("<I", kind) + size + padded + size


def _keep(classes: Path, java: Java, capture: Path) -> str | None:
    """Let the JVM of an analysis write what classes it loaded into an archive; returns what went wrong, if anything.

    The archive is put in place as a whole. Of those of other runtimes, releases and virtual
    environments the newest stays, for whoever uses two by turns: each is 160 MB.
    """
    made = capture.with_name("spark.jsa")
    command = [sys.executable, "-m", "kafkascope", "analyze", str(capture), "--records", "-o", f"{capture}.out"]
    command += ["--master", "local[2]"]
    environment = os.environ | {"SPARK_SUBMIT_OPTS": f"{JVM_OPTIONS} -XX:ArchiveClassesAtExit={made}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode or not made.exists():
        return (done.stderr.strip().splitlines() or [f"{java.path} wrote no archive"])[-1]
    try:
        classes.parent.mkdir(parents=True, exist_ok=True)
        others = sorted(classes.parent.glob("spark-*.jsa"), key=lambda other: other.stat().st_mtime_ns)
        for other in others[:-1]:
            other.unlink()
        with tempfile.NamedTemporaryFile(dir=classes.parent, delete=False) as whole:
            whole.write(made.read_bytes())
        os.replace(whole.name, classes)
    except OSError as error:
        return str(error)
    return None
