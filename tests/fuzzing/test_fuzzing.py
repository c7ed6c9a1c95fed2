"""No input that the fuzzer makes breaks a target: a few thousand here, two million in `make check-deep`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzzing.targets import TARGETS
from tests.needs import needs_fuzzer
from tests.paths import ROOT

FAILING = """
from pathlib import Path
from tests.fuzzing.fuzz import Options, fuzz
from tests.fuzzing.targets import Target

def run(data):
    if data[:2] == b"Kf":
        {what}
    return [data[:1] == b"K"]

raise SystemExit(fuzz({{"made": Target(run, lambda: [b"abcd"], 200_000)}}, Options(Path({corpus!r}))))
"""


def fuzzed(*arguments: str) -> subprocess.CompletedProcess[str]:
    needs_fuzzer()
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        errors="replace",
        check=False,
    )


def assert_nothing_fails(corpus: Path, targets: str, times: float, *options: str) -> None:
    ended = fuzzed("-m", "tests.fuzzing.fuzz", targets, "--corpus", str(corpus), "--times", str(times), *options)
    assert ended.returncode == 0, ended.stdout[-6000:]
    _, *parts = re.split(r"^== (.+)$", ended.stdout, flags=re.MULTILINE)
    told = dict(zip(parts[::2], parts[1::2], strict=True))
    assert list(told) == (list(TARGETS) if targets == "all" else [targets])
    for name, text in told.items():
        executions = sum(map(int, re.findall(r"number_of_executed_units: (\d+)", text)))
        assert executions >= round(TARGETS[name].share * times)


def test_seeds_and_a_few_inputs_made_of_them(tmp_path: Path) -> None:
    assert_nothing_fails(tmp_path, "all", 0.003, "--slowest", "0", "--outcomes")


@pytest.mark.deep
@pytest.mark.parametrize("name", TARGETS)
def test_two_million_inputs(name: str, tmp_path: Path) -> None:
    assert sum(target.share for target in TARGETS.values()) == 1_000_000
    assert_nothing_fails(tmp_path, name, 2)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("raise KeyError('undeclared')", "KeyError: 'undeclared'"),
        ("bytearray(600 << 20)", "MemoryError: "),
        ("sum(range(10**8))", "of the processor"),
    ],
)
def test_what_fails_is_found_told_and_kept(what: str, told: str, tmp_path: Path) -> None:
    ended = fuzzed("-c", FAILING.format(what=what, corpus=str(tmp_path)))
    assert ended.returncode == 1
    assert told in ended.stdout
    (kept,) = tmp_path.glob("made.failed-*")
    assert kept.read_bytes().startswith(b"Kf")
