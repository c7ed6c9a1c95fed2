"""How the process of a command ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

ENDS = """
import atexit, sys
from kafkascope.program import ended

class Left:
    def __del__(self):
        print("Python is taken apart", flush=True)

left = Left()
atexit.register(print, "what is registered is done")

def command():
    print("said", end=" ")
    {end}

ended(command)
"""


@pytest.mark.parametrize(
    ("end", "status", "said"),
    [
        ("pass", 0, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit(True)", 1, ""),
        ("sys.exit('why')", 1, "why\n"),
        ("sys.stdout.close()", 0, ""),
    ],
)
def test_it_ends_without_taking_python_apart(end: str, status: int, said: str) -> None:
    made = subprocess.run([sys.executable, "-c", ENDS.format(end=end)], capture_output=True, text=True, check=False)
    assert made.returncode == status
    if "close" not in end:
        assert (made.stdout, made.stderr) == ("said what is registered is done\n", said)


def test_a_fault_of_our_own_is_shown() -> None:
    script = ENDS.format(end="raise RuntimeError('ours')")
    made = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert made.returncode == 1
    assert made.stderr.endswith("RuntimeError: ours\n")
