"""`analyze` on a cluster: a Spark master and two workers of their own, with the package shipped as a user ships it.

The driver and the executors run in an empty directory with a Python that finds the libraries, but only the zip's
copy of this project.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import kafkascope
from tests import compiled_kernels
from tests.kafkascope.test_parity import same_tables
from tests.needs import needs_java
from tests.paths import PCAPS, ROOT, package_files
from tests.patience import PATIENCE_S

CAPTURE = PCAPS / "eager-three-joins" / "capture.pcap"
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}
DRIVER = """
import sys
import kafkascope
from kafkascope.spark import analyze
assert ".zip" in kafkascope.__file__, kafkascope.__file__
done = analyze([sys.argv[1]], sys.argv[2], records=True, split_bytes=50_000, partitions=4)
print("rows", sum(done.rows.values()))
"""

FAULTY_DRIVER = """
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from pyspark import TaskContext
from kafkascope.spark import analyze, handed_on, tasks, view_rows

capture, out, fault, marks = sys.argv[1:]


def parent(pid):
    return int(subprocess.check_output(["ps", "-o", "ppid=", "-p", str(pid)]))


def kill_python():
    os.kill(os.getpid(), signal.SIGKILL)


def kill_machine():
    daemon = parent(os.getpid())
    executor = parent(daemon)
    for pid in (parent(executor), executor):  # the worker process that would start another executor, first
        os.kill(pid, signal.SIGKILL)
    time.sleep(3600)


def hang():
    time.sleep(3600)


def once(work, fault, which=1):
    # The first attempt at the second partition writes all, and does not live to tell.
    def run(*arguments):
        answers = list(work(*arguments))
        mark = Path(marks, work.__name__)
        if TaskContext.get().partitionId() == which and not mark.exists():
            mark.touch()
            fault()
        yield from answers

    return run


faults = {"python": kill_python, "machine": kill_machine, "speculation": hang}
tasks.read_all = once(tasks.read_all, kill_python if fault == "machine" else faults[fault])
tasks.write_tables = once(tasks.write_tables, faults[fault])
view_rows.write_results = once(view_rows.write_results, kill_python if fault == "machine" else faults[fault])
handed_on.write_records = once(handed_on.write_records, kill_python, which=0)  # there may be one task alone
handed_on.RECORDS_HERE_BYTES, handed_on.ENOUGH_BYTES = 0, 1
analyze([capture], out, records=True, split_bytes=50_000, partitions=4)
"""

READ = """
import sys
import kafkascope
assert ".zip" in kafkascope.__file__, kafkascope.__file__
capture = kafkascope.read(sys.argv[1], records=True)
assert len(capture.records) and len(capture.rebalances)
"""


def package(target: Path) -> Path:
    """The package as an archive, as ``--py-files`` takes it."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, place in package_files():
            archive.write(path, place)
    return target


def isolated_python(directory: Path) -> dict[str, str]:
    """Environment in which Python finds the installed libraries, but not the project's checkout."""
    site = next(Path(p) for p in sys.path if p.endswith("site-packages"))
    (directory / "libraries").mkdir()
    for entry in site.iterdir():
        if not entry.name.startswith("__editable__") and not entry.name.endswith(".pth"):
            (directory / "libraries" / entry.name).symlink_to(entry)
    return {"PYTHONPATH": str(directory / "libraries"), "PYSPARK_PYTHON": bare_python()}


def bare_python() -> str:
    """The interpreter below the virtual environment."""
    return str(Path(sys._base_executable).resolve())  # type: ignore[attr-defined]


def with_path(environment: dict[str, str], package: Path) -> dict[str, str]:
    """The environment in which Python finds the package there."""
    return environment | {"PYTHONPATH": f"{package}{os.pathsep}{environment['PYTHONPATH']}"}


@dataclass(frozen=True, slots=True)
class Cluster:
    """A master with two workers of one core each."""

    url: str
    environment: dict[str, str]  # of a driver
    directory: Path

    def submit(self, settings: dict[str, str], program: str, *arguments: str, package: Path | None = None) -> None:
        """Run a driver with the package shipped; without one, with the checkout, whose kernels are compiled."""
        driver = self.directory / "driver.py"
        driver.write_text(program)
        command = [str(self.directory / "libraries" / "pyspark" / "bin" / "spark-submit"), "--master", self.url]
        environment = self.environment
        if package:
            command += ["--py-files", str(package)]
        else:
            environment = with_path(environment, ROOT)
            settings = settings | {"spark.executorEnv.PYTHONPATH": environment["PYTHONPATH"]}
        for name, value in (SETTINGS | settings).items():
            command += ["--conf", f"{name}={value}"]
        done = subprocess.run(
            [*command, str(driver), *arguments],
            cwd=self.directory,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stderr[-8000:]


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One for each test, which may break it."""
    needs_java()
    from tools.spark_cluster import spark_cluster

    directory = tmp_path_factory.mktemp("cluster")
    home = directory / "home"
    home.mkdir()
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "PYTHON"))}
    environment = kept | isolated_python(directory) | {"SPARK_LOCAL_IP": "127.0.0.1", "HOME": str(home)}
    with spark_cluster(directory, environment) as url:
        yield Cluster(url, environment, directory)


@pytest.mark.deep
def test_a_cluster_gives_the_tables_of_one_machine(cluster: Cluster, tmp_path: Path) -> None:
    directory = cluster.directory
    shipped = package(directory / "kafkascope.zip")
    # Somebody ran it on this machine before: its kernels serve all copies of the zip, wherever they lie.
    compiled_kernels.give(directory / "home/.cache/kafkascope/kernels")
    before = [bare_python(), "-c", READ, str(CAPTURE)]
    subprocess.run(before, env=with_path(cluster.environment, shipped), cwd=directory, check=True)
    kept = {*directory.rglob("*.kernel")}
    cluster.submit({}, DRIVER, str(CAPTURE), str(tmp_path / "there"), package=shipped)
    executors = sorted(path.parent.parent.parent.name for path in directory.glob("worker*/app-*/*/kafkascope.zip"))
    assert executors == ["worker1", "worker2"], "both workers took part, with the zip"
    assert {*directory.rglob("*.kernel")} == kept
    same_tables(kafkascope.read(CAPTURE, records=True), tmp_path / "there")


@pytest.mark.deep
@pytest.mark.parametrize("fault", ["python", "machine", "speculation"])
def test_no_row_is_lost_or_doubled_whatever_becomes_of_a_task(cluster: Cluster, tmp_path: Path, fault: str) -> None:
    marks, out = tmp_path / "marks", tmp_path / "there"
    marks.mkdir()
    settings = {"spark.speculation": "true", "spark.speculation.quantile": "0.5"} if fault == "speculation" else {}
    cluster.submit(settings, FAULTY_DRIVER, str(CAPTURE), str(out), fault, str(marks))
    assert {mark.name for mark in marks.iterdir()} == {"read_all", "write_tables", "write_results", "write_records"}
    assert {path.name for path in out.iterdir()} == {"tables", "report.html", "summary.json"}
    same_tables(kafkascope.read(CAPTURE, records=True), out)
