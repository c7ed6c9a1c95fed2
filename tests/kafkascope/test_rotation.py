"""Which file of a rotation is next, and what is said of those that are not there. test_following.py has the rest."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from kafkascope.rotation import QUIET_S, Next, Rotation, gone, lack_names, listing
from kafkascope.sniffer.origins import CapturedFile
from kafkascope.sniffer.sources.files import captured_file
from tests.kafkascope.test_following import HEADER, JOINS, pieces

NOW_S = 100.0


def took(name: str) -> Rotation:
    rotation = Rotation()
    rotation.know(CapturedFile(f"caps/{name}", 1, 1, 100, "0" * 32))
    return rotation


@pytest.mark.parametrize(
    ("last", "here", "lacking"),
    [
        ("c.pcap", "c.pcap1", None),  # tcpdump -C
        ("c.pcap", "c.pcap2", "number 1 is"),
        ("c.pcap9", "c.pcap12", "numbers 10 to 11 are"),
        ("c.pcap3", "c.pcap0", None),  # -W begins anew
        ("c.pcap009", "c.pcap011", "number 10 is"),
        ("c.pcap2.gz", "c.pcap4.gz", "number 3 is"),
        ("c_00001_20260101120000.pcapng", "c_00002_20260101120500.pcapng", None),  # dumpcap, sniff -w
        ("c_00001_20260101120000.pcapng", "c_00004_20260101120500.pcapng", "numbers 2 to 3 are"),
        ("c_20260101_120000.pcap", "c_20260101_130000.pcap", None),  # tcpdump -G: a time is no number
        ("c-1.pcap", "d-3.pcap", None),
    ],
)
def test_gaps_in_numbers_are_told_and_nothing_else(last: str, here: str, lacking: str | None) -> None:
    said = took(last).missing(f"caps/{here}")
    assert said == (lacking and f"caps/{here}: {lacking} missing between {last} and it")


def test_before_the_first_file_nothing_is_missing() -> None:
    assert Rotation().missing("caps/c.pcap7") is None


def take(rotation: Rotation, found: Next | None) -> str:
    assert found is not None
    rotation.take(found, captured_file(found.seen.path, 1, 1, found.seen.size))
    return Path(found.seen.path).name


def test_the_newest_file_waits_until_it_is_quiet(tmp_path: Path) -> None:
    content = pieces(JOINS, 3)
    rotation = Rotation()
    (tmp_path / "b").write_bytes(content[0])  # the order is that of the packets, not of the names
    (tmp_path / "a").write_bytes(content[1])
    (tmp_path / "empty").touch()
    (tmp_path / "header").write_bytes(content[2][:HEADER])
    assert take(rotation, rotation.next(listing(str(tmp_path)), NOW_S)) == "b"
    assert rotation.next(listing(str(tmp_path)), NOW_S) is None
    assert rotation.next(listing(str(tmp_path)), NOW_S + QUIET_S - 0.1) is None
    with (tmp_path / "a").open("ab") as file:
        file.write(content[2][HEADER:])
    assert rotation.next(listing(str(tmp_path)), NOW_S + QUIET_S) is None  # it has changed
    assert take(rotation, rotation.next(listing(str(tmp_path)), NOW_S + 2 * QUIET_S)) == "a"
    assert rotation.next(listing(str(tmp_path)), NOW_S + 9 * QUIET_S, at_end=True) is None
    assert not rotation.late


def test_a_file_that_grows_when_one_behind_it_was_taken_is_named_once(tmp_path: Path) -> None:
    content = pieces(JOINS, 3)
    rotation = Rotation()
    for name, data in zip("abc", content, strict=True):
        (tmp_path / name).write_bytes(data)
    for _ in content:
        take(rotation, rotation.next(listing(str(tmp_path)), NOW_S, at_end=True))
    with (tmp_path / "b").open("ab") as file:
        file.write(content[2][HEADER:])
    for _ in range(2):
        assert rotation.next(listing(str(tmp_path)), NOW_S, at_end=True) is None
    [issue] = rotation.late
    assert (issue.kind, issue.file) == ("file_grew", str(tmp_path / "b"))
    assert issue.detail == f"{tmp_path / 'b'}: grew behind the {len(content[1]):,} bytes that were taken of it"


def test_a_file_that_was_renamed_is_not_taken_twice(tmp_path: Path) -> None:
    rotation = Rotation()
    (tmp_path / "a.pcap").write_bytes(pieces(JOINS, 3)[0])
    take(rotation, rotation.next(listing(str(tmp_path)), NOW_S, at_end=True))
    (tmp_path / "a.pcap").rename(tmp_path / "a-old.pcap")
    assert rotation.next(listing(str(tmp_path)), NOW_S, at_end=True) is None
    assert not rotation.late


def test_a_file_that_is_compressed_when_it_is_closed_is_not_taken_twice(tmp_path: Path) -> None:
    """As `tcpdump -z gzip` does it: both are there for a while."""
    content = pieces(JOINS, 3)
    rotation = Rotation()
    plain, packed = tmp_path / "a.pcap", tmp_path / "a.pcap.gz"
    plain.write_bytes(content[0])
    packed.write_bytes(gzip.compress(content[0])[:-100])
    (tmp_path / "b.pcap").write_bytes(content[1])

    def taken(now_s: float) -> str | None:
        found = rotation.next(listing(str(tmp_path)), now_s)
        return None if found is None else take(rotation, found)

    assert taken(NOW_S) == "a.pcap"
    assert taken(NOW_S) is None
    packed.write_bytes(gzip.compress(content[0]))
    plain.unlink()
    assert taken(NOW_S + 1) is None
    assert taken(NOW_S + QUIET_S) == "b.pcap"
    assert not rotation.late
    packed.write_bytes(gzip.compress(content[2]))  # another file of that name
    assert taken(NOW_S + 10 * QUIET_S) is None
    assert taken(NOW_S + 11 * QUIET_S) == "a.pcap.gz"


def test_what_is_gone_is_told_by_content(tmp_path: Path) -> None:
    content = pieces(JOINS, 3)
    file = tmp_path / "c.pcap"
    file.write_bytes(content[0])
    known = captured_file(str(file), 1, 1, len(content[0]))
    assert gone([known], listing(str(tmp_path))) == []
    file.write_bytes(content[0] + content[1][HEADER:])  # it has what it had
    assert gone([known], listing(str(tmp_path))) == []
    file.write_bytes(content[2])
    assert gone([known], listing(str(tmp_path))) == [known]
    packed = tmp_path / "c.pcap.gz"
    packed.write_bytes(gzip.compress(content[0]))  # as `tcpdump -z gzip` leaves it
    file.unlink()
    assert gone([known], listing(str(tmp_path))) == []
    assert not lack_names([known], listing(str(tmp_path)))
    packed.write_bytes(gzip.compress(content[2]))
    assert gone([known], listing(str(tmp_path))) == [known]
    packed.unlink()
    assert gone([known], listing(str(tmp_path))) == [known]


def test_what_is_no_capture_is_told_when_nobody_writes_to_it(tmp_path: Path) -> None:
    rotation = Rotation()
    (tmp_path / "notes.pcap").write_text("to whom it may concern")
    (tmp_path / "empty.pcap").touch()  # tcpdump writes later
    assert rotation.next(listing(str(tmp_path)), NOW_S) is None
    assert not rotation.said
    assert rotation.next(listing(str(tmp_path)), NOW_S + QUIET_S) is None
    [text] = rotation.said
    assert text.startswith(f"not taken: {tmp_path / 'notes.pcap'} at offset 0: this is text, not a capture")
    (tmp_path / "notes.pcap").write_bytes(pieces(JOINS, 3)[0])  # it is one after all
    assert take(rotation, rotation.next(listing(str(tmp_path)), NOW_S, at_end=True))
    assert not rotation.said
