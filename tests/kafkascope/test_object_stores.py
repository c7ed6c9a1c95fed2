"""Captures and OUT in an object store: a server of S3 that runs here."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

import kafkascope
from kafkascope.out.errors import OutputError
from kafkascope.out.output import Output
from kafkascope.out.parts import PartWriter
from kafkascope.out.stored import stored
from kafkascope.spark import SparkUnavailableError
from tests.kafkascope.conftest import Command
from tests.kafkascope.test_parity import comparable
from tests.kafkascope.test_real_broker import free_ports
from tests.needs import s3_server
from tests.paths import PCAPS
from tests.patience import PATIENCE_S

CAPTURES = {
    "day/one.pcap": PCAPS / "eager-three-joins" / "capture.pcap",
    "day/later/two.pcap": PCAPS / "net_vlan" / "capture.pcap",
}
pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Host and port of a server with the captures in a bucket."""
    program = s3_server()
    place = f"127.0.0.1:{free_ports(1)[0]}"
    log = tmp_path_factory.mktemp("s3") / "log"
    with log.open("wb") as output, pytest.MonkeyPatch.context() as patch:
        for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
            patch.setenv(f"AWS_{name}", "test")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.delenv("AWS_ENDPOINT_URL", raising=False)
        command = [program, "-H", "127.0.0.1", "-p", place.partition(":")[2]]
        serving = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            deadline = time.monotonic() + PATIENCE_S
            while b"Running on" not in log.read_bytes():
                assert serving.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)  # polls another process; what is tested does not depend on it
            system = store(place)
            system.create_dir("bucket")
            for name, file in {**CAPTURES, "day/notes.txt": PCAPS / "README.md"}.items():
                with system.open_output_stream(f"bucket/{name}") as target:
                    target.write(file.read_bytes())
            yield place
        finally:
            serving.terminate()
            serving.wait()


def store(server: str) -> fs.S3FileSystem:
    return fs.S3FileSystem(endpoint_override=server, scheme="http", region="us-east-1", allow_bucket_creation=True)


def files(server: str, path: str) -> list[str]:
    found = store(server).get_file_info(fs.FileSelector(f"bucket/{path}", recursive=True, allow_not_found=True))
    return sorted(entry.path for entry in found if entry.type == fs.FileType.File)


def assert_tables_of_local_files(out: str, scheme: str) -> None:
    here = kafkascope.read(list(CAPTURES.values()), records=True)
    places = {str(file): f"{scheme}://bucket/{name}" for name, file in CAPTURES.items()}
    tables = stored(out).tables
    assert {*tables} == {*here.tables}
    for name, table in tables.items():
        expected = here.arrow(name)
        if "file" in expected.column_names:
            there = pa.array([places[file] for file in expected["file"].to_pylist()])
            expected = expected.set_column(expected.column_names.index("file"), "file", there)
        assert comparable(name, table.to_table()).equals(comparable(name, expected)), name


def on_spark(*arguments: str) -> subprocess.CompletedProcess[str]:
    """An analysis in a process of its own: workers of a session that is active here began without the credentials."""
    command = [sys.executable, "-m", "kafkascope", "analyze", "--master", "local[2]", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_spark_reads_and_writes_there(server: str, command: Command) -> None:
    settings = f"?endpoint_override={server}&scheme=http"
    out = f"s3://bucket/spark{settings}"
    options = ["--records", "--split-bytes", "100000", "--partitions", "2"]
    for more in ([], ["--overwrite"]):
        done = on_spark(f"s3a://bucket/day{settings}", "-o", out, *options, *more)
        assert done.returncode == 0, done.stderr
        assert_tables_of_local_files(out, "s3a")
        names = {file.split("/")[2] for file in files(server, "spark")}
        assert names == {"tables", "report.html", "summary.json"}
    done = on_spark(f"s3a://bucket/day{settings}", "-o", out, *options)
    assert (done.returncode, "exists and is not empty" in done.stderr) == (2, True)
    done = command("kafkascope", "report", out.replace("s3:", "s3a:"), "--format", "md")
    assert done.stdout.startswith("# day/one.pcap, later/two.pcap")


def test_one_process_does_too_and_endpoints_may_come_from_the_environment(
    server: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{server}")
    pattern, out = "s3://bucket/day/**/*.pcap", "s3a://bucket/here"
    done = command("kafkascope", "analyze", pattern, "-o", out, "--records", "--in-process")
    assert done.returncode == 0, done.stderr
    assert_tables_of_local_files(out, "s3")
    first = command("sniff", "-r", "s3a://bucket/day/one.pcap", "-c", "1")
    assert first.stdout == command("sniff", "-r", str(CAPTURES["day/one.pcap"]), "-c", "1").stdout
    done = command("kafkascope", "report", "s3://bucket/day/one.pcap", "--format", "md")
    assert done.stdout.startswith("# day/one.pcap")
    done = command("sniff", "-r", "s3://bucket/nothing/*")
    assert (done.returncode, "no capture matches this pattern" in done.stderr) == (1, True)


def test_a_run_that_fails_leaves_nothing_there(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = f"s3://bucket/failed?endpoint_override={server}&scheme=http"

    def no_spark(*_: Any) -> None:
        raise SparkUnavailableError("there is none")

    monkeypatch.setattr("kafkascope.spark.jobs.open_session", no_spark)
    with pytest.raises(SparkUnavailableError):
        kafkascope.spark.analyze([str(CAPTURES["day/one.pcap"])], out)
    assert files(server, "failed") == []


def test_a_run_at_work_is_named_and_what_its_late_tasks_leave_goes(server: str) -> None:
    out = f"s3://bucket/shared?endpoint_override={server}&scheme=http"
    first = Output(out, overwrite=False)
    staging = first.begin(["issues"])
    named = r"is being written by another analysis .* remove s3://bucket/shared/\.staging-"
    with pytest.raises(OutputError, match=named):
        Output(out, overwrite=False).begin(["issues"])
    first.abort()
    late = PartWriter(staging, 0)
    late.write({"issues": kafkascope.read(CAPTURES["day/later/two.pcap"]).arrow("issues")})
    late.finish()
    second = Output(out, overwrite=False)
    second.begin(["issues"])
    second.commit([], ["issues"], {"packets": 1})
    assert [file.split("/")[2] for file in files(server, "shared")] == ["summary.json", "tables"]
