"""Who knows tcpdump and tshark is told what to write instead, and may write what changes nothing."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
import typer

from kafkascope import __version__
from kafkascope.other_sniffers import INSTEAD
from kafkascope.parameters import duration
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


@pytest.mark.parametrize("name", ["sniff", "kafkascope"])
def test_both_commands_tell_their_version(command: Command, name: str) -> None:
    ended = command(name, "--version")
    assert (ended.returncode, ended.stdout) == (0, f"kafkascope {__version__}\n")


def test_quiet_shows_no_exchange_and_what_else_was_asked_for(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    done = command("sniff", "-q", "-r", JOINS, "--api", "JoinGroup", "-w", str(out))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{out}: ")
    assert command("sniff", "-q", "-r", JOINS, "-c", "3").stdout == ""
    counted = command("sniff", "-q", "-r", JOINS, "--stats", "api,10s", "--json")
    assert counted.stdout == command("sniff", "-r", JOINS, "--stats", "api,10s", "--json").stdout != ""
    refused = command("sniff", "-q", "-r", JOINS, "--json")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "-q shows no exchange" in said(refused.stderr)


@pytest.mark.parametrize(
    ("words", "seconds"), [((None, "duration:30"), 30), (("2m", None), 120), ((None, "duration:1.5"), 1.5)]
)
def test_a_time_to_listen_in_words_of_others(words: tuple[str | None, str | None], seconds: float) -> None:
    assert duration(*words) == seconds


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ((None, "packets:9"), "-c N ends behind N exchanges"),
        ((None, "duration:soon"), "give a time such as"),
        (("2m", "duration:9"), "says that already"),
    ],
)
def test_what_is_no_time_to_listen_is_told(words: tuple[str | None, str | None], wrong: str) -> None:
    with pytest.raises(typer.BadParameter, match=wrong):
        duration(*words)


def test_what_changes_nothing_is_taken(command: Command) -> None:
    plain = command("sniff", "-r", JOINS, "-c", "3").stdout
    assert command("sniff", "-nnlU", "-r", JOINS, "-c", "3").stdout == plain


def test_forms_of_tshark_are_those_that_there_are(command: Command) -> None:
    def shown(*words: str) -> str:
        ended = command("sniff", "-r", JOINS, *words, "-c", "3")
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    objects = shown("--json")
    assert shown("-T", "json") == shown("-T", "jsonl") == objects
    assert shown("-T", "text") == shown()
    assert shown("-T", "fields", "-e", "api", "-e", "client_id") == shown("--fields", "api,client_id")
    assert [line.split("\t")[3] for line in shown("-T", "tabs").splitlines()] == shown("--fields", "api").split()
    assert shown("-T", "ek").splitlines()[1::2] == objects.splitlines()
    for bulk in (shown("-T", "ek", "--groups"), shown("-T", "ek", "--stats", "10s")):
        pairs = [json.loads(line) for line in bulk.splitlines()]
        assert bulk.endswith("\n")
        assert pairs[::2] == [{"index": {}}] * (len(pairs) // 2)
        assert all({"group_id", "apis"} & {*found} for found in pairs[1::2])


@pytest.mark.parametrize("words", [["-T", "pdml"], ["-T", "fields"], ["-e", "api"], ["-T", "json", "-e", "api"]])
def test_forms_that_there_are_not_are_told(command: Command, words: list[str]) -> None:
    ended = command("sniff", "-r", JOINS, *words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "-T" in ended.stderr


def test_interfaces_are_listed(command: Command) -> None:
    ended = command("sniff", "-D")
    assert ended.stdout.splitlines() == [*(name for _, name in socket.if_nameindex()), "any"]


def test_so_much_of_each_packet_that_headers_are_in_it(command: Command) -> None:
    ended = command("sniff", "-i", "lo", "-s", "64")
    assert ended.returncode == 2
    assert "-s 64: headers take 96 bytes, and 0 is all" in said(ended.stderr)
