"""Filters that let nothing through say so, with the names that there are."""

from __future__ import annotations

import pytest

from tests.kafkascope.conftest import Command
from tests.paths import PCAPS

CAPTURE = str(PCAPS / "eager-three-joins" / "capture.pcap")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--group", "nosuch"], "0 of 426 exchanges matched; --group nosuch: not there; there are orders-group"),
        (["--topic", "order"], "--topic order: not there; near is orders"),
        (["--client-id", "ORDERS1"], "--client-id ORDERS1: not there; near are orders-1, "),
        (["--topic", "Orders"], "--topic Orders: not there; near is orders"),
        (["--host", "10.77.1.99"], "--host 10.77.1.99: not there; near are 10.77.1.1"),
        (["--api", "vote", "--topic", "orders"], "--api vote: not there; there are "),
        (["--group", "a\x1b[2J"], "--group a\ufffd[2J: not there"),
    ],
)
def test_names_that_are_not_there(command: Command, arguments: list[str], said: str) -> None:
    ended = command("sniff", "-r", CAPTURE, *arguments)
    assert (ended.returncode, ended.stdout) == (0, "")
    assert said in ended.stderr
    assert "--topic orders" not in ended.stderr  # that one is there


def test_nothing_that_slow(command: Command) -> None:
    assert command("sniff", "-r", CAPTURE, "--slower-than", "1e6").stderr.strip().endswith("0 of 426 exchanges matched")


def test_nothing_is_said_where_something_matched(command: Command) -> None:
    ended = command("sniff", "-r", CAPTURE, "--api", "fetch", "--api", "Vote", "-c", "1")
    assert ended.returncode == 0
    assert "matched" not in ended.stderr
    assert len(ended.stdout.splitlines()) == 1


def test_an_api_that_the_protocol_does_not_have_is_refused_at_once(command: Command) -> None:
    ended = command("sniff", "-r", CAPTURE, "--api", "Fetc")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "--api Fetc: there is no such API; near are Fetch, " in ended.stderr
    assert "no such API" in command("sniff", "-r", CAPTURE, "--api", "zzz").stderr


def test_a_capture_filter_in_the_place_of_files_is_told_where_it_goes(command: Command) -> None:
    ended = command("sniff", "-r", CAPTURE, "port", "9092")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "goes behind -f" in " ".join(ended.stderr.replace("│", " ").split())
