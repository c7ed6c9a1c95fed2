"""Who knows tcpdump and tshark is told what to write instead, and may write what changes nothing."""

from __future__ import annotations

import socket

import pytest

from kafkascope.other_sniffers import INSTEAD
from tests.kafkascope.conftest import Command
from tests.paths import PCAPS

JOINS = str(PCAPS / "eager-three-joins" / "capture.pcap")


def said(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize("name", ["sniff", "kafkascope"])
def test_options_of_others_are_told_apart(command: Command, name: str) -> None:
    before = [] if name == "sniff" else ["sniff"]
    for option, instead in INSTEAD.items():
        ended = command(name, *before, option, "json", "-r", JOINS)
        assert (ended.returncode, ended.stdout) == (2, ""), option
        assert f"No such option: {option}: {said(instead)}" in said(ended.stderr)


def test_an_option_that_nobody_has_is_told_as_ever(command: Command) -> None:
    ended = command("sniff", "--slower", "3", "-r", JOINS)
    assert ended.returncode == 2
    assert "--slower-than" in said(ended.stderr)


def test_what_changes_nothing_is_taken(command: Command) -> None:
    plain = command("sniff", "-r", JOINS, "-c", "3").stdout
    assert command("sniff", "-nnlU", "-r", JOINS, "-c", "3").stdout == plain


def test_interfaces_are_listed(command: Command) -> None:
    ended = command("sniff", "-D")
    assert ended.stdout.splitlines() == [*(name for _, name in socket.if_nameindex()), "any"]


def test_so_much_of_each_packet_that_headers_are_in_it(command: Command) -> None:
    ended = command("sniff", "-i", "lo", "-s", "64")
    assert ended.returncode == 2
    assert "-s 64: headers take 96 bytes, and 0 is all" in said(ended.stderr)
