"""No package that we lock has a fault that is known."""

from __future__ import annotations

import subprocess

import pytest

from tests.needs import auditor, lacks
from tests.paths import ROOT

_UNREACHABLE = ("could not be audited", "Failed to resolve", "ConnectionError", "Max retries exceeded")


@pytest.mark.deep
def test_no_locked_package_has_a_known_fault() -> None:
    audit = subprocess.run(
        [auditor(), "--strict", "--require-hashes", "--disable-pip", "-r", "requirements.lock"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if audit.returncode and any(words in audit.stderr for words in _UNREACHABLE):
        lacks(f"no list of known faults here: {audit.stderr.strip().splitlines()[-1]}")
    assert audit.returncode == 0, audit.stdout + audit.stderr
