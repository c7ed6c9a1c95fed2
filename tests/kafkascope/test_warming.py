"""`kafkascope warm`: kernels, of which test_rehearsal.py holds that none is left out, and the classes of Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kafkascope
from kafkascope import warming
from kafkascope.sniffer.sources.files import open_capture
from kafkascope.spark import sessions
from kafkascope.spark.sessions import Java, SparkUnavailableError, kept_classes
from tests.kafkascope.conftest import Command
from tests.needs import needs_java
from tests.paths import PCAPS


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "kafkascope"


@pytest.mark.parametrize("write", [warming.as_pcap, warming.as_pcapng])
def test_the_rehearsal_is_a_capture(write: warming.Write, tmp_path: Path) -> None:
    packets = list(warming.rehearsed())
    (tmp_path / "capture").write_bytes(write(packets))
    with open_capture([str(tmp_path / "capture")]) as capture:
        read = [at for some in capture for at in some.at.tolist()]
    assert read == [at for at, _ in packets]
    assert {"Produce", "Metadata", "ApiVersions"} <= {*kafkascope.read(tmp_path / "capture").exchanges.api}


def test_the_archive_is_of_one_java_and_one_spark(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = kept_classes(Java("/usr/bin/java", "17.0.15"))
    assert (one.parent, one.suffix) == (cache, ".jsa")
    assert kept_classes(Java("/usr/bin/java", "17.0.15")) == one
    others = [kept_classes(Java("/usr/bin/java", "21.0.1")), kept_classes(Java("/opt/java", "17.0.15"))]
    monkeypatch.setattr("pyspark.__version__", "9.9.9")
    others.append(kept_classes(Java("/usr/bin/java", "17.0.15")))
    assert len({one, *others}) == 4


def test_spark_that_is_installed_anew_has_another_archive(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("pyspark.__file__", str(tmp_path / "pyspark" / "__init__.py"))
    jar = tmp_path / "pyspark" / "jars" / "spark-core.jar"
    jar.parent.mkdir(parents=True)
    names = set[str]()
    for second in (1, 2):
        jar.touch()
        os.utime(jar, (second, second))
        names.add(kept_classes(Java("/usr/bin/java", "17.0.15")).name)
    assert len(names) == 2


@pytest.mark.deep
def test_classes_are_kept_once_and_used(cache: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_java()
    cache.mkdir()
    older, newer = cache / "spark-0123456789abcdef.jsa", cache / "spark-00000000000000ff.jsa"
    for made_s, other in enumerate((older, newer)):  # of other environments
        other.touch()
        os.utime(other, (made_s, made_s))
    done = command("kafkascope", "warm")
    kept = kept_classes(sessions.find_java())
    assert (done.returncode, {*cache.iterdir()}) == (0, {kept, newer})
    assert f"Spark's classes are kept in {kept} (" in done.stderr
    before = kept.stat().st_mtime_ns
    again = command("kafkascope", "warm")
    assert (again.returncode, kept.stat().st_mtime_ns) == (0, before)
    # A JVM that is told to take nothing but the archive for good starts with it: it fits the class path.
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", f"{sessions.JVM_OPTIONS} -XX:SharedArchiveFile={kept} -Xshare:on")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    out = str(cache / "out")
    capture = str(PCAPS / "eager-three-joins" / "capture.pcap")
    ran = subprocess.run(
        [sys.executable, "-m", "kafkascope", "analyze", capture, "-o", out], capture_output=True, check=False
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.deep
def test_kernels_of_spark_are_compiled_though_its_classes_are_kept(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    needs_java()
    cache.mkdir()
    kept_classes(sessions.find_java()).touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    subprocess.run([sys.executable, "-m", "kafkascope", "warm"], capture_output=True, check=True)
    kept = {path.name.partition("-")[0] for path in (tmp_path / "kernels").rglob("*.kernel")}
    assert "kafkascope.spark.parcels._copy" in kept
    assert "kafkascope.sniffer.sources.pcap._scan" in kept  # of files that are cut


def test_what_cannot_be_kept_is_said(cache: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_java() -> Java:
        raise SparkUnavailableError("there is no java on the PATH")

    monkeypatch.setattr(warming, "find_java", no_java)
    done = command("kafkascope", "warm")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines() == [
        "kafkascope: kernels are compiled",
        "kafkascope: analyze on Spark is left out: there is no java on the PATH",
    ]
    monkeypatch.setattr(warming, "find_java", lambda: Java("/usr/bin/java", "17"))
    monkeypatch.setattr(sys, "executable", "/bin/true")
    done = command("kafkascope", "warm")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("at each start: /usr/bin/java wrote no archive")
    assert not cache.exists()
