"""Lines of key logs."""

from __future__ import annotations

import copy
import pickle

import pytest

from kafkascope.sniffer.tls import keys as key_log
from kafkascope.sniffer.tls.keys import MASTER, TRAFFIC, Keys

RANDOM, SECRET = bytes(range(32)), b"\x07" * 48
LINE = b"CLIENT_RANDOM " + RANDOM.hex().encode() + b" " + SECRET.hex().encode()


def test_a_secret_holds_from_its_packet_on() -> None:
    keys = Keys()
    keys.add(b"# a remark\r\n\r\n" + LINE.upper().replace(b"CLIENT_RANDOM", b"CLIENT_RANDOM") + b"\r\n", packet=7)
    assert [keys.find(RANDOM, MASTER, packet) for packet in (6, 7, 8)] == [None, SECRET, SECRET]
    assert keys.find(RANDOM, TRAFFIC[0], 8) is None
    assert keys.find(bytes(32), MASTER, 8) is None
    assert keys.since == 7
    assert not keys.issues()


@pytest.mark.parametrize(
    "line",
    [
        LINE[:-1],
        LINE[:-2],
        LINE.replace(b"CLIENT", b"CLINT"),
        LINE + b" more",
        b"CLIENT_RANDOM",
        LINE.replace(b"07", b"g7"),
        LINE.replace(b"07", "ü7".encode()),
        b"\x00" * 100,
        LINE + b" " * key_log.LONGEST_LINE + b"x",
    ],
)
def test_lines_of_no_known_form_are_counted(line: bytes) -> None:
    keys = Keys()
    keys.add(line + b"\n" + LINE)
    assert keys.find(RANDOM, MASTER, 1) == SECRET
    assert [(issue.kind, issue.count) for issue in keys.issues()] == [("key_log_damaged", 1)]


@pytest.mark.parametrize("label", [b"EXPORTER_SECRET", b"SERVER_TRAFFIC_SECRET_N"])
def test_labels_that_are_of_no_use_are_none_of_these(label: bytes) -> None:
    keys = Keys()
    keys.add(LINE.replace(b"CLIENT_RANDOM", label))
    assert not len(keys)
    assert not keys.issues()


def test_there_are_no_more_than_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_log, "MOST_SECRETS", 2)
    keys = Keys()
    for number in range(4):
        keys.add(LINE.replace(b"0001", b"000%d" % number))
    assert len(keys) == 2
    assert [(issue.kind, issue.count) for issue in keys.issues()] == [("secrets_left_out", 2)]


def test_no_secret_is_in_what_is_said_of_them() -> None:
    keys = Keys()
    keys.add(LINE)
    keys.add(LINE[:-2])
    said = f"{keys!r} {keys} {keys.issues()}"
    assert RANDOM.hex() not in said
    assert "0707" not in said


def test_they_travel_to_other_processes_and_are_shared_by_copies() -> None:
    keys = Keys(may_grow=True)
    keys.add(LINE)
    again = pickle.loads(pickle.dumps(keys))
    assert again.find(RANDOM, MASTER, 1) == SECRET
    assert copy.deepcopy(keys) is keys
