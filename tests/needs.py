"""What tests need of the machine. Where it is missing they are skipped, with the reason; in CI they fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec

import pytest

from kafkascope.spark import sessions
from tests.paths import ROOT

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def lacks(reason: str) -> None:
    """End the test for what the machine lacks: a skip, or a failure where the environment variable CI is set."""
    if os.environ.get("CI", "") not in ("", "0", "false"):
        pytest.fail(f"CI must have what tests need: {reason}", pytrace=False)
    pytest.skip(reason)


def needs(*commands: str) -> None:
    missing = [command for command in commands if shutil.which(command) is None]
    if missing:
        lacks(f"{', '.join(missing)} not installed: `make setup-test` does it where it may")


def needs_java() -> None:
    """A Java that Spark can use."""
    if reason := sessions.unavailable():
        lacks(reason)


def needs_fuzzer() -> None:
    """Atheris, for which there is no wheel but for Linux on x86-64."""
    if find_spec("atheris") is None:
        lacks("no fuzzer: `make setup-test` installs atheris where there is one (Linux on x86-64)")


def s3_server() -> str:
    """The program of a server of S3."""
    program = ROOT / ".venv-s3" / "bin" / "moto_server"
    if not program.exists():
        lacks("no server of S3: `make check-deep` sets it up (tools/setup.sh s3)")
    return str(program)


def auditor() -> str:
    """The program that looks up known faults of packages."""
    program = ROOT / ".venv-audit" / "bin" / "pip-audit"
    if not program.exists():
        lacks("no pip-audit: `make check-deep` sets it up (tools/setup.sh audit)")
    return str(program)


def needs_root() -> None:
    """The superuser of a Linux, who listens on interfaces."""
    if not sys.platform.startswith("linux"):
        lacks("live capture needs Linux")
    if os.geteuid() != 0:
        lacks("live capture needs root")


def needs_network_namespaces() -> None:
    needs_root()
    needs("ip")
    probe = f"kscope-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    subprocess.run(["ip", "netns", "delete", probe], capture_output=True, check=False)
    if made.returncode:
        lacks(f"no network namespaces here: {made.stderr.strip()}")


def browser() -> tuple[str, list[str]]:
    """A Chromium, and the options that it needs here."""
    program = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    if program is None:
        needs("chromium")
    assert program is not None
    return program, [] if os.getuid() else ["--no-sandbox"]  # the superuser cannot have one
