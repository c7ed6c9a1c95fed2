"""What ``--debug`` says of decisions: each kind of them, with packets, and without text that steers a terminal."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kafkascope import debugging
from kafkascope.reports.groups.one_group import analyze_group
from tests.kafkascope.conftest import Command
from tests.paths import PCAPS
from tests.reports.groups.group_logs import captured_logs


@pytest.fixture(autouse=True)
def logger() -> Iterator[logging.Logger]:
    """The logger of all modules, given back as it was."""
    logger = logging.getLogger("kafkascope")
    before = logger.handlers[:], logger.propagate, logger.level
    yield logger
    logger.handlers[:], logger.propagate = before[:2]
    logger.setLevel(before[2])


def of_groups(capture: str, caplog: pytest.LogCaptureFixture) -> str:
    with caplog.at_level(logging.DEBUG, "kafkascope"):
        for log in captured_logs(capture).values():
            analyze_group(log)
    return caplog.text


def test_resynchronisation_and_what_has_no_other_half_are_told_with_packets(command: Command) -> None:
    capture = str(PCAPS / "net_capture_drops" / "capture.pcap")
    plain = command("sniff", "-r", capture, "--fields", "api,outcome,request_packet,response_packet")
    told = command("sniff", "-r", capture, "--fields", "api,outcome,request_packet,response_packet", "--debug")
    assert told.stdout == plain.stdout
    lines = told.stderr.splitlines()
    assert any(line.endswith(": kafka, by its first bytes: a request") for line in lines)
    assert any("is taken: its body fits to the last byte" in line for line in lines)
    assert any("frame_sync_lost: a gap of" in line for line in lines)
    rows = [line.split("\t") for line in plain.stdout.splitlines()]
    for outcome, side, said in (
        ("unanswered", 2, "a request without an answer"),
        ("orphan", 3, "a response without its request"),
        ("one_way", 2, "a request that wants no answer"),
    ):
        packets = sorted(int(row[side]) for row in rows if row[1] == outcome)
        told_of = sorted(int(line.split("packet ")[1].split(":")[0]) for line in lines if line.endswith(said))
        assert told_of == packets


def test_other_protocols_and_named_ports_are_told(command: Command) -> None:
    told = command("sniff", "-r", str(PCAPS / "net_noise" / "capture.pcap"), "--debug").stderr
    assert "by its first bytes; passed over" in told
    capture = str(PCAPS / "killed-silent" / "capture.pcap")
    told = command("sniff", "-r", capture, "--decode-as", "9092", "-c", "1", "--debug").stderr
    assert "sniffer.exchanges: connection 1: kafka, for its port was named" in told


def test_generations_and_readings_that_were_chosen_and_rejected_are_told(caplog: pytest.LogCaptureFixture) -> None:
    told = of_groups("killed-silent", caplog)
    assert "group pay: generation 1, formed by joins, packets " in told
    assert "group pay: generation 5, inferred from those around it; 0 members" in told
    assert "group pay, 1 to 2: session_timeout, likely" in told
    assert "group pay, 1 to 2: chosen, session_timeout, weight 0.90, packet 668: c3 said nothing more" in told
    assert "group pay, ? to 1: rejected, member_joined, weight " in told


def test_phases_and_epochs_are_told(caplog: pytest.LogCaptureFixture) -> None:
    told = of_groups("migration", caplog)
    assert ": a phase of kind classic, packets " in told
    assert ": a phase of kind epochs, packets " in told
    assert ": epoch 3, by the word of packet " in told


def test_text_of_a_capture_cannot_steer_the_terminal() -> None:
    record = logging.LogRecord("kafkascope.a.b", logging.DEBUG, "", 0, "group %s", ("\x1b[2J\nfoo",), None)
    assert debugging.SafeFormatter().format(record) == "a.b: group \ufffd[2J\ufffdfoo"
