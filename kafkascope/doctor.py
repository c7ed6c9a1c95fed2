"""``kafkascope doctor``: what would work on this machine, what would not, and how to mend it."""

from __future__ import annotations

import ctypes
import fcntl
import inspect
import json
import os
import platform
import shutil
import socket
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path

from kafkascope import __version__
from kafkascope.decoders.machine_code import files
from kafkascope.reports.columns.shown import shown_text
from kafkascope.sniffer.sources.ring import ANY

LEAST_DISK = 2 << 30  # bytes: below, tables of a large capture may not find room
LEAST_MEMORY = 1 << 30  # bytes: what an analysis takes at its peak, with something to spare
DROPPED_SHARE = 1e-3  # of an interface's packets: from here on they are more than a burst at some time

_INTERFACES = Path("/sys/class/net")
_CLOCK_SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
_MEMORY = Path("/proc/meminfo")
_SLOW_CLOCKS = frozenset({"acpi_pm", "hpet", "pit", "jiffies"})

# linux/sockios.h, linux/ethtool.h: which offloads there are, and the request that tells of each.
_SIOCETHTOOL = 0x8946
_OFFLOADS = {"TSO": 0x1E, "GSO": 0x23, "GRO": 0x2B}
_GET_FLAGS, _LRO_FLAG = 0x25, 1 << 15

# linux/timex.h: the status is the sixth word of struct timex; the result if nobody keeps the clock right.
_STATUS_AT, _TIMEX_BYTES, _UNSYNCHRONISED = 40, 256, 0x40

_EXTRAS = {
    "pyspark": ("spark", "analyze on Spark"),
    "plotly": ("notebook", "figures in notebooks"),
    "prometheus_client": ("metrics", "sniff --metrics"),
    "textual": ("top", "sniff --top"),
}


class State(StrEnum):
    """How something is."""

    OK = "ok"
    WARNING = "warning"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Check:
    """What was found of one thing."""

    what: str
    state: State
    found: str
    effect: str = ""  # what does not work, or not as it should
    advice: str = ""


def run(interface: str | None, *, as_json: bool, write: Callable[[str], None]) -> int:
    """Print all checks; returns the exit status: 1 if something is broken, 0 if nothing is but for warnings."""
    found = list(checks(interface))
    for check in found:
        write(json.dumps(asdict(check)) if as_json else "\n".join(_lines(check)))
    return int(any(check.state is State.BROKEN for check in found))


def checks(interface: str | None) -> Iterator[Check]:
    """Everything that is looked at; with an interface (but for any) that one, else all that are up."""
    yield _python()
    yield _kernels()
    yield from _extras()
    if find_spec("pyspark"):
        yield _java()
    yield _disk()
    if _MEMORY.exists():
        yield _memory()
    if sys.platform == "linux":
        yield _rights()
        yield from _clock()
        for name in [interface] if interface and interface != ANY else _interfaces_up():
            yield from _interface(name)


def _lines(check: Check) -> Iterator[str]:
    yield f"{check.state:<8}{check.what}: {shown_text(check.found)}"
    for name, text in (("effect", check.effect), ("mend it", check.advice)):
        if text:
            yield f"        {name}: {shown_text(text)}"


def _python() -> Check:
    return Check("Python", State.OK, f"{platform.python_version()} on {platform.platform()}; kafkascope {__version__}")


def _kernels() -> Check:
    from kafkascope.sniffer.reassembly.kernel import absorb

    place = files.places()[-1]
    if files.is_kept(inspect.unwrap(absorb)):
        return Check("kernels", State.OK, f"compiled, in {place}")
    return Check(
        "kernels",
        State.WARNING,
        f"not compiled yet; they will be kept in {place}",
        "the first run takes up to half a minute longer",
        "kafkascope warm",
    )


def _extras() -> Iterator[Check]:
    for module, (extra, what) in _EXTRAS.items():
        if find_spec(module) is None:
            yield Check(
                extra, State.WARNING, f"{module} is not installed", f"no {what}", f"pip install 'kafkascope[{extra}]'"
            )


def _java() -> Check:
    from kafkascope.spark.sessions import SparkUnavailableError, find_java

    try:
        java = find_java()
    except SparkUnavailableError as error:
        found, _, advice = str(error).partition(". ")
        return Check("Java", State.BROKEN, found, "analyze works with --in-process only", advice)
    return Check("Java", State.OK, f"{java.says.splitlines()[0]}, {java.path}")


def _disk() -> Check:
    place = tempfile.gettempdir()
    free = shutil.disk_usage(place).free
    found = f"{free / 1e9:,.1f} GB free in {place}, where tables wait"
    if free >= LEAST_DISK:
        return Check("disk", State.OK, found)
    return Check("disk", State.WARNING, found, "large captures may not find room", "TMPDIR names another place")


def _memory() -> Check:
    told = dict(line.split(":") for line in _MEMORY.read_text().splitlines())
    available = int(told["MemAvailable"].split()[0]) << 10
    found = f"{available / 1e9:,.1f} GB available, {os.cpu_count()} processors"
    if available >= LEAST_MEMORY:
        return Check("memory", State.OK, found)
    return Check("memory", State.WARNING, found, "an analysis takes up to 0.9 GB, Spark more", "end what is not needed")


def _rights() -> Check:
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
    except PermissionError:
        advice = (
            "sudo sniff --iface NAME, which is root for no longer than it takes to open it; or CAP_NET_RAW, see README"
        )
        return Check("rights", State.BROKEN, "not allowed to capture", "no live capture; files can be read", advice)
    except OSError as error:
        return Check(
            "rights", State.BROKEN, f"no packet sockets: {error.strerror}", "no live capture; files can be read"
        )
    return Check("rights", State.OK, "allowed to capture")


def _clock() -> Iterator[Check]:
    timex = ctypes.create_string_buffer(_TIMEX_BYTES)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.adjtimex(timex) >= 0:
        (status,) = struct.unpack_from("i", timex, _STATUS_AT)
        if status & _UNSYNCHRONISED:
            effect = "times may differ from those of brokers' logs and other captures; latencies are right"
            yield Check("clock", State.WARNING, "nobody keeps it right", effect, "run chrony or systemd-timesyncd")
        else:
            yield Check("clock", State.OK, "synchronised")
    source = _CLOCK_SOURCE.read_text().strip() if _CLOCK_SOURCE.exists() else ""
    if source in _SLOW_CLOCKS:
        effect = "each packet's time costs a microsecond and is coarse"
        yield Check("clock source", State.WARNING, source, effect, f"echo tsc > {_CLOCK_SOURCE}, if it is stable there")


def _interfaces_up() -> list[str]:
    return sorted(path.name for path in _INTERFACES.iterdir() if _is_up(path.name))


def _is_up(name: str) -> bool:
    state = _INTERFACES / name / "operstate"
    return state.exists() and state.read_text().strip() in {"up", "unknown"}  # unknown: loopback, tunnels


def _interface(name: str) -> Iterator[Check]:
    of = _INTERFACES / name
    what = f"interface {name}"
    if "/" in name or not of.is_dir():
        there = ", ".join(sorted(path.name for path in _INTERFACES.iterdir())) or "none"
        yield Check(what, State.BROKEN, "there is none of this name", "no live capture there", f"one of: {there}, any")
        return
    if not _is_up(name):
        state = (of / "operstate").read_text().strip()
        yield Check(what, State.BROKEN, state, "nothing is heard there", f"ip link set {name} up")
        return
    offloads = _offloads(name)
    found = f"up, MTU {(of / 'mtu').read_text().strip()}, offloads {', '.join(offloads) or 'none'}"
    effect = "packets are captured as the kernel merged them or will cut them: fewer and larger than on the wire"
    yield Check(what, State.OK, found, effect if offloads else "")
    yield from _drops(what, of / "statistics")


def _drops(what: str, counters: Path) -> Iterator[Check]:
    def of(name: str) -> int:
        return int((counters / name).read_text())

    lost, received = of("rx_dropped") + of("rx_missed_errors") + of("rx_fifo_errors"), of("rx_packets")
    if lost > DROPPED_SHARE * received:
        found = f"dropped {lost:,} of {received:,} packets since it is there, before anyone could capture them"
        advice = "ethtool -G for longer rings, more queues; unknown protocols count too"
        yield Check(what, State.WARNING, found, "gaps in captures", advice)


def _offloads(name: str) -> list[str]:
    """Offloads that are on, of those that change which packets are seen; what a driver does not tell counts as off."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:

        def told(request: int) -> int:
            value = ctypes.create_string_buffer(struct.pack("II", request, 0))
            asked = struct.pack("16sP16x", name.encode()[:15], ctypes.addressof(value))
            try:
                fcntl.ioctl(asking, _SIOCETHTOOL, asked)
            except OSError:
                return 0
            return int(struct.unpack_from("II", value)[1])

        on = [offload for offload, request in _OFFLOADS.items() if told(request)]
        return on + (["LRO"] if told(_GET_FLAGS) & _LRO_FLAG else [])
