"""`kafkascope doctor` on machines on which something is wrong."""

from __future__ import annotations

import ctypes
import json
import re
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kafkascope import doctor
from kafkascope.decoders.machine_code import files
from tests.kafkascope.conftest import Command
from tests.needs import needs

linux = pytest.mark.skipif(sys.platform != "linux", reason="what Linux tells of its devices")


def found(what: str, interface: str | None = None) -> list[doctor.Check]:
    return [check for check in doctor.checks(interface) if check.what == what]


def interface(place: Path, state: str, **counters: int) -> str:
    (place / "eth7" / "statistics").mkdir(parents=True)
    (place / "eth7" / "operstate").write_text(f"{state}\n")
    (place / "eth7" / "mtu").write_text("1500\n")
    for name in ("rx_packets", "rx_dropped", "rx_missed_errors", "rx_fifo_errors"):
        (place / "eth7" / "statistics" / name).write_text(f"{counters.get(name, 0)}\n")
    return "eth7"


def test_each_line_says_how_it_is_and_what_is_broken_is_a_status(command: Command) -> None:
    shown = command("kafkascope", "doctor", "--json")
    lines = [json.loads(line) for line in shown.stdout.splitlines()]
    assert {"Python", "kernels", "disk"} <= {line["what"] for line in lines}
    assert shown.returncode == any(line["state"] == "broken" for line in lines)
    text = command("kafkascope", "doctor").stdout
    assert all(f"{line['state']:<8}{line['what']}: " in text for line in lines)
    assert all(line["advice"] in text for line in lines)


def test_what_is_missing_says_how_to_mend_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = tmp_path / "meminfo"
    memory.write_text("MemTotal: 2000000 kB\nMemAvailable:    900000 kB\n")
    monkeypatch.setattr(doctor, "_MEMORY", memory)
    monkeypatch.setattr(doctor, "LEAST_DISK", 1 << 62)
    monkeypatch.setattr(doctor, "find_spec", lambda name: None if name == "textual" else name)
    monkeypatch.setattr(files, "is_kept", lambda kernel: False)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    [java], [disk], [available], [top], [kernels] = map(found, ("Java", "disk", "memory", "top", "kernels"))
    assert java.state is doctor.State.BROKEN
    assert f"JAVA_HOME is {tmp_path}" in java.found
    assert "apt install" in java.advice
    assert disk.state is available.state is top.state is kernels.state is doctor.State.WARNING
    assert "TMPDIR" in disk.advice
    assert available.found.startswith("0.9 GB")
    assert top.advice == "pip install 'kafkascope[top]'"
    assert kernels.advice == "kafkascope warm"


@linux
def test_who_may_not_capture_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(socket, "socket", refused)
    check = doctor._rights()
    assert check.state is doctor.State.BROKEN
    assert "sudo" in check.advice


@linux
def test_of_an_interface_its_drops_and_its_state_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_INTERFACES", tmp_path)
    name = interface(tmp_path, "up", rx_packets=1_000_000, rx_dropped=400, rx_missed_errors=1000)
    up, drops = found(f"interface {name}", name)
    assert up.state is doctor.State.OK
    assert "MTU 1500" in up.found
    assert drops.found.startswith("dropped 1,400 of 1,000,000 packets")
    assert found(f"interface {name}", "any") == [up, drops]
    (tmp_path / name / "operstate").write_text("down\n")
    [down] = found(f"interface {name}", name)
    assert (down.state, down.advice) == (doctor.State.BROKEN, f"ip link set {name} up")
    assert found(f"interface {name}", "any") == []
    [missing] = found("interface ../eth7", "../eth7")
    assert missing.advice == "one of: eth7, any"


@linux
def test_offloads_are_those_that_ethtool_tells() -> None:
    needs("ethtool")
    told = subprocess.run(["ethtool", "-k", "lo"], capture_output=True, text=True, check=True).stdout
    on = dict(re.findall(r"^([\w-]+): (on|off)", told, re.MULTILINE))
    names = {
        "TSO": "tcp-segmentation-offload",
        "GSO": "generic-segmentation-offload",
        "GRO": "generic-receive-offload",
        "LRO": "large-receive-offload",
    }
    assert doctor._offloads("lo") == [short for short, name in names.items() if on[name] == "on"]


@linux
@pytest.mark.parametrize(("status", "found_of_clock"), [(0x2001, "synchronised"), (0x40, "nobody keeps it right")])
def test_a_clock_that_nobody_keeps_right_is_told(
    status: int, found_of_clock: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Libc:
        def adjtimex(self, timex: Any) -> int:
            timex.raw = struct.pack("Ii4qi", 0, 0, 0, 0, 0, 0, status).ljust(len(timex), b"\0")  # linux/timex.h
            return 0

    source = tmp_path / "clocksource"
    source.write_text("hpet\n")
    monkeypatch.setattr(doctor, "_CLOCK_SOURCE", source)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Libc())
    assert [check.found for check in doctor._clock()] == [found_of_clock, "hpet"]
