"""The unit file starts what there is, with one right."""

from __future__ import annotations

import shlex
from configparser import ConfigParser

from tests.kafkascope.conftest import Command
from tests.needs import needs_root
from tests.paths import ROOT

UNIT = ROOT / "tools" / "kafkascope.service"


def service() -> dict[str, str]:
    unit = ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(UNIT)
    return dict(unit["Service"])


def test_its_command_is_understood_up_to_the_interface(command: Command) -> None:
    needs_root()
    program, *arguments = shlex.split(service()["ExecStart"])
    assert program.endswith("/sniff")
    arguments[arguments.index("any")] = "nosuch0"
    arguments[arguments.index("127.0.0.1:9464")] = "127.0.0.1:0"
    ended = command("sniff", *arguments)
    assert ended.returncode not in (0, 2), ended.stderr
    assert "nosuch0" in ended.stderr


def test_it_has_one_right_and_no_way_to_more() -> None:
    told = service()
    assert told["AmbientCapabilities"] == told["CapabilityBoundingSet"] == "CAP_NET_RAW"
    assert told["NoNewPrivileges"] == told["DynamicUser"] == "yes"
    assert "AF_PACKET" in told["RestrictAddressFamilies"].split()
