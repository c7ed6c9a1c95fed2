"""`analyze` on a cluster: a Spark master and two workers of their own, with the package shipped as a user ships it.

The driver and the executors run in an empty directory with a Python that finds the libraries, but only the zip's
copy of this project.
"""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import compiled_kernels
from tests.needs import needs_java
from tests.paths import PCAPS, package_files
from tests.patience import PATIENCE_S

CAPTURE = PCAPS / "eager-three-joins" / "capture.pcap"
DRIVER = """
import sys
import kafkascope
from kafkascope.spark import analyze
assert ".zip" in kafkascope.__file__, kafkascope.__file__
done = analyze([sys.argv[1]], sys.argv[2], records=True, split_bytes=50_000, partitions=4)
print("rows", sum(done.rows.values()))
"""

READ = """
import sys
import kafkascope
assert ".zip" in kafkascope.__file__, kafkascope.__file__
capture = kafkascope.read(sys.argv[1], records=True)
assert len(capture.records) and len(capture.rebalances)
"""


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


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


def with_path(environment: dict[str, str], archive: Path) -> dict[str, str]:
    """The environment in which Python finds the package in the archive."""
    return environment | {"PYTHONPATH": f"{archive}{os.pathsep}{environment['PYTHONPATH']}"}


@contextmanager
def process(
    command: list[str], environment: dict[str, str], directory: Path, log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with the block, whatever happens."""
    with log.open("wb") as output:
        started = subprocess.Popen(
            command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        try:
            yield started
        finally:
            started.terminate()
            with suppress(subprocess.TimeoutExpired):
                started.wait(20)
            started.kill()
            started.wait()


def wait_for(log: Path, text: str, count: int, started: list[subprocess.Popen[bytes]]) -> None:
    """Wait until a log has said something so many times; fails where a process ends before."""
    deadline = time.monotonic() + PATIENCE_S
    while log.read_text(errors="replace").count(text) < count:
        for one in started:
            assert one.poll() is None, log.read_text(errors="replace")
        assert time.monotonic() < deadline, log.read_text(errors="replace")
        time.sleep(0.1)  # polls another process; what is tested does not depend on it


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str], Path]]:
    """URL of a master with two workers of one core each, the environment of a driver, and a directory."""
    needs_java()
    import pyspark

    from kafkascope.spark.sessions import find_java

    directory = tmp_path_factory.mktemp("cluster")
    home = directory / "home"
    home.mkdir()
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "PYTHON"))}
    environment = kept | isolated_python(directory) | {"SPARK_LOCAL_IP": "127.0.0.1", "HOME": str(home)}
    java = [
        find_java().path,
        "-cp",
        f"{Path(pyspark.__file__).parent / 'jars'}/*",
        "-Xmx256m",
        "-XX:TieredStopAtLevel=1",
    ]
    opens = ["java.lang", "java.lang.invoke", "java.io", "java.net", "java.nio", "java.util", "java.util.concurrent"]
    java += [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in [*opens, "sun.nio.ch", "sun.util.calendar"]]
    host = ["--host", "127.0.0.1", "--webui-port", "0"]
    serving = environment | {"SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_SCALA_VERSION": "2.13"}
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        log = directory / "master.log"
        master = [*java, "org.apache.spark.deploy.master.Master", *host, "--port", str(port)]
        started = [stack.enter_context(process(master, serving, directory, log))]
        wait_for(log, "I have been elected leader", 1, started)
        for number in (1, 2):
            work = directory / f"worker{number}"
            work.mkdir()
            limits = ["--cores", "1", "--memory", "768m", "--work-dir", str(work), "--port", "0"]
            worker = [*java, "org.apache.spark.deploy.worker.Worker", *host, *limits, url]
            started.append(stack.enter_context(process(worker, serving, work, directory / f"{work.name}.log")))
        wait_for(log, "Registering worker", 2, started)
        yield url, environment, directory


def rows(out: Path, name: str) -> pa.Table:
    table = pq.read_table(out / "tables" / name)
    flat = [f.name for f in table.schema if not pa.types.is_nested(f.type)]
    return table.sort_by([(column, "ascending") for column in flat]).combine_chunks()


@pytest.mark.deep
def test_a_cluster_gives_the_tables_of_one_machine(cluster: tuple[str, dict[str, str], Path], tmp_path: Path) -> None:
    url, environment, directory = cluster
    shipped = package(directory / "kafkascope.zip")
    # Somebody ran it on this machine before: its kernels serve all copies of the zip, wherever they lie.
    of_zip = f"kafkascope-{hashlib.sha256(shipped.read_bytes()).hexdigest()[:16]}"
    for source, place in package_files():
        into = directory / "home/.cache/numba" / of_zip / place.removesuffix(".py").replace("/", ".")
        compiled_kernels.give(source, into)
    before = [bare_python(), "-c", READ, str(CAPTURE)]
    subprocess.run(before, env=with_path(environment, shipped), cwd=directory, check=True)
    (kept,) = {path.parent.parent for path in (directory / "home").rglob("*.nbi")}
    driver = directory / "driver.py"
    driver.write_text(DRIVER)
    submit = [str(directory / "libraries" / "pyspark" / "bin" / "spark-submit"), "--master", url]
    settings = {
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.driver.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    for name, value in settings.items():
        submit += ["--conf", f"{name}={value}"]
    submit += ["--py-files", str(shipped), str(driver), str(CAPTURE), str(tmp_path / "there")]
    done = subprocess.run(
        submit, cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr[-8000:]
    executors = sorted(path.parent.parent.parent.name for path in directory.glob("worker*/app-*/*/kafkascope.zip"))
    assert executors == ["worker1", "worker2"], "both workers took part, with the zip"
    assert {path.parent.parent for path in (directory / "home").rglob("*.nbi")} == {kept}

    import kafkascope

    here = kafkascope.read(CAPTURE, records=True)
    for name in here.tables:
        expected = here.arrow(name)
        flat = [f.name for f in expected.schema if not pa.types.is_nested(f.type)]
        expected = expected.sort_by([(column, "ascending") for column in flat]).combine_chunks()
        got = rows(tmp_path / "there", name)
        assert got.num_rows == expected.num_rows, name
        assert got.cast(expected.schema).equals(expected), name
