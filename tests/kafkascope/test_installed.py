"""The package as pip installs it: under one name, and without its extras."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import kafkascope
from tests import compiled_kernels
from tests.kafkascope.conftest import Command
from tests.paths import PCAPS, ROOT

CAPTURE = PCAPS / "net_vlan" / "capture.pcap"
OURS = ("decoders", "sniffer", "reports")


def run(*command: str | Path, **settings: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | settings
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def project(place: Path) -> Path:
    """A copy of what a wheel is built from; setuptools writes beside its sources."""
    for name in (*OURS, "kafkascope"):
        shutil.copytree(ROOT / name, place / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, place)
    return place


def test_installed_it_takes_no_name_but_its_own(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    build: list[str | Path] = ["wheel", "--no-deps", "--no-build-isolation", "-w", tmp_path]
    (tmp_path / "project").mkdir()
    run(*pip, *build, project(tmp_path / "project"))
    (wheel,) = tmp_path.glob("*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "environment")
    binaries = tmp_path / "environment" / "bin"
    site = Path(run(binaries / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    run(*pip, "--python", binaries / "python", "install", "--no-deps", wheel)
    installed = {path.name for path in site.iterdir()} - {"dependencies.pth"}
    assert installed == {"kafkascope", f"kafkascope-{kafkascope.__version__}.dist-info"}
    compiled_kernels.give(site / "kafkascope" / "decoders" / "machine_code" / "__pycache__")

    # Whoever has modules with the names of ours, where Python looks first, does not disturb us.
    own = tmp_path / "own"
    for place in ("reports.py", "decoders/__init__.py", "sniffer/__init__.py"):
        (own / place).parent.mkdir(parents=True, exist_ok=True)
        (own / place).write_text("raise ImportError('not this one')")
    lines = run(binaries / "sniff", "-r", CAPTURE, PYTHONPATH=str(own)).splitlines()
    assert lines == run(Path(sys.executable).with_name("sniff"), "-r", CAPTURE, PYTHONPATH=str(ROOT)).splitlines()
    assert lines


def test_without_pyspark_analyze_says_what_brings_it(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None; from kafkascope.cli import main; "
        f"sys.argv = ['kafkascope', 'analyze', {str(CAPTURE)!r}, '-o', {str(tmp_path / 'out')!r}]; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 1
    assert "pyspark is not installed: pip install 'kafkascope[spark]'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_plotly_a_timeline_says_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    group = kafkascope.read(PCAPS / "killed-silent" / "capture.pcap").group("pay")
    importlib.import_module("plotly.graph_objects")  # known, so that plotly itself is what cannot be imported
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.delitem(sys.modules, "kafkascope.reports.show.figures.group", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'kafkascope\[notebook\]'"):
        group.timeline()


def test_the_version_is_told_from_one_place(command: Command) -> None:
    assert command("kafkascope", "--version").stdout == f"kafkascope {kafkascope.__version__}\n"
