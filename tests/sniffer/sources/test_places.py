"""URIs: their settings, and what directories and patterns mean. That of a real object store: test_object_stores.py."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyarrow import fs

from kafkascope.sniffer.sources import SourceError
from kafkascope.sniffer.sources.files import find_files, open_file
from kafkascope.sniffer.sources.places import (
    above,
    below,
    is_directory,
    is_file,
    locate,
    name_of,
    origin_name,
    split_settings,
    told,
)
from tests.paths import PCAPS

CAPTURE = PCAPS / "net_vlan" / "capture.pcap"
SETTINGS = "?endpoint_override=127.0.0.1:9000&scheme=http"


def test_settings_stay_behind_whatever_is_below() -> None:
    place = f"s3://bucket/out{SETTINGS}"
    assert split_settings(place) == ("s3://bucket/out", SETTINGS)
    assert below(place, "tables", "issues") == f"s3://bucket/out/tables/issues{SETTINGS}"
    assert below("hdfs://nn/out/", "tables") == "hdfs://nn/out/tables"
    assert above(below(place, "tables")) == place
    assert above("/data/out/tables") == "/data/out"
    assert name_of(f"s3://bucket/day/c.pcap{SETTINGS}") == "c.pcap"
    assert split_settings("s3://bucket/day-?.pcap") == ("s3://bucket/day-?.pcap", "")
    assert origin_name(f"s3://bucket/day/c.pcap{SETTINGS}") == "s3://bucket/day/c.pcap"
    assert origin_name("-") == "standard input"
    assert origin_name("a\udcff.pcap") == r"a\xff.pcap"  # a name that is no UTF-8
    assert split_settings("what?is=this.pcap") == ("what?is=this.pcap", "")


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("s3://AKIA:se%2Fcret@bucket/a.pcap?region=x", "s3://bucket/a.pcap?region=x"),
        ("s3://AKIA:se/cret@bucket/a.pcap", "s3://bucket/a.pcap"),
        ("hdfs://alice@name:8020/a@b.pcap", "hdfs://name:8020/a@b.pcap"),
        ("s3://bucket/10:00/a@b.pcap", "s3://bucket/10:00/a@b.pcap"),
        ("a@b.pcap", "a@b.pcap"),
        ("s3://key:se@cret@bucket/a@b.pcap", "s3://bucket/a@b.pcap"),
        (
            "abfss://box@acc.example/a.pcap?client_secret=x&client_id=i",
            "abfss://box@acc.example/a.pcap?client_secret=***&client_id=i",
        ),
        ("abfss://box:pass@acc.example/a.pcap", "abfss://box@acc.example/a.pcap"),
    ],
)
def test_keys_in_a_uri_are_told_to_nobody(place: str, shown: str) -> None:
    assert told(place) == shown
    assert str(SourceError(place, None, "it is broken", "Mend it")).startswith(f"{shown}: ")
    assert origin_name(place) == shown.partition("?")[0]


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_the_names_that_hadoop_has_for_s3_are_known(scheme: str) -> None:
    system, path = locate(f"{scheme}://bucket/day/{SETTINGS}&region=eu-north-1")
    assert isinstance(system, fs.S3FileSystem)
    assert (path, system.region) == ("bucket/day", "eu-north-1")


def test_what_hdfs_needs_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(uri: str) -> None:
        raise OSError("Unable to load libhdfs: a\ndlopen(libhdfs.so) failed\n" * 30)

    monkeypatch.setattr("pyarrow.fs.FileSystem", SimpleNamespace(from_uri=missing))
    with pytest.raises(SourceError) as caught:
        open_file("hdfs://namenode/day/capture.pcap")
    assert "CLASSPATH=$(hadoop classpath --glob)" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.fixture
def day(tmp_path: Path) -> Path:
    for name in ("a.pcap", "deep/b.pcap", "deep/er/c.pcap", "deep/.hidden.pcap"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CAPTURE, tmp_path / name)
    (tmp_path / "deep" / "notes.txt").write_text("not a capture")
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("", ["a.pcap", "deep/.hidden.pcap", "deep/b.pcap", "deep/er/c.pcap"]),
        ("/", ["a.pcap", "deep/.hidden.pcap", "deep/b.pcap", "deep/er/c.pcap"]),
        ("/*.pcap", ["a.pcap"]),
        ("/?.pcap", ["a.pcap"]),
        ("/deep/*", ["deep/b.pcap"]),
        ("/deep/[x-z]*", ["deep/[x-z]*"]),
        ("/**/*.pcap", ["a.pcap", "deep/b.pcap", "deep/er/c.pcap"]),
        ("/d*p", ["deep/.hidden.pcap", "deep/b.pcap", "deep/er/c.pcap"]),
        ("/deep/e*/../nothing", ["deep/e*/../nothing"]),
    ],
)
def test_directories_and_patterns_mean_what_they_mean_here(day: Path, pattern: str, expected: list[str]) -> None:
    assert find_files([f"file://{day}{pattern}"]) == [f"file://{day}/{name}" for name in expected]


def test_what_is_not_there_is_said(day: Path) -> None:
    (day / "empty").mkdir()
    assert is_directory(f"file://{day}/deep")
    assert is_file(f"file://{day}/a.pcap")
    for name, message in [
        ("none.pcap", "no such file"),
        ("x*", "no capture matches this pattern"),
        ("y?", "no capture matches this pattern"),
        ("empty", "is a directory"),
    ]:
        (file,) = find_files([f"file://{day}/{name}"])
        with pytest.raises(SourceError, match=message):
            open_file(file)
