"""What commands import before they show anything: each module costs time at every start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import PCAPS

MODULES = Path(__file__).with_name("sniff_modules.txt")
JOINS = PCAPS / "eager-three-joins" / "capture.pcap"
FIRST_LINE = """
import sys
from kafkascope.cli import sniff_main
try:
    sniff_main()
finally:
    for name in sys.modules:
        print("import", name, file=sys.stderr)
"""


def imported(*arguments: str) -> list[str]:
    """The modules that `sniff` has imported when it is through."""
    done = subprocess.run([sys.executable, "-c", FIRST_LINE, *arguments], capture_output=True, text=True, check=True)
    return sorted(line.removeprefix("import ") for line in done.stderr.splitlines() if line.startswith("import "))


def test_the_lines_of_a_file_need_the_modules_listed_and_no_others(pytestconfig: pytest.Config) -> None:
    modules = imported("-r", str(JOINS))
    found = "".join(f"{name}\n" for name in modules if name.startswith("kafkascope."))
    if pytestconfig.getoption("--golden"):
        MODULES.write_text(found)
    assert MODULES.read_text() == found, "make golden writes the list anew"
    assert not {"pandas", "pyspark", "jinja2", "IPython", "lark", "numba"} & {*modules}


@pytest.mark.parametrize("option", ["--groups", "--incidents", "--json"])
def test_what_is_left_out_at_first_is_there_when_it_is_needed(option: str) -> None:
    found = imported("-r", str(JOINS), option)
    assert ("kafkascope.reports.views.registry" in found) == (option != "--json")
    assert ("pandas" in found) == (option == "--incidents")


@pytest.mark.parametrize("command", [["analyze", "--in-process"], ["report"]])
def test_an_analysis_needs_no_data_frames(command: list[str], tmp_path: Path) -> None:
    words = [*command, str(JOINS), "-o", str(tmp_path / "out")]
    run = f"from kafkascope.cli import app; app({words}, standalone_mode=False)"
    code = f"{run}; import sys; print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("False\n"), done.stderr
