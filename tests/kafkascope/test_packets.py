"""The exchanges that one packet is part of, and those of one connection."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import pytest

import kafkascope
from kafkascope.packets import NoSuchPacketError
from kafkascope.reports.columns.text import address
from kafkascope.sniffer.link import dissect
from kafkascope.sniffer.sources.files import open_capture
from kafkascope.sniffer.tcp import host_of
from tests.kafkascope.conftest import Command
from tests.paths import PCAPS

JOINS = str(PCAPS / "eager-three-joins" / "capture.pcap")


@pytest.fixture(scope="module")
def capture() -> kafkascope.Capture:
    found: kafkascope.Capture = kafkascope.read(JOINS, answers=False)
    return found


def sent() -> dict[str, list[tuple[int, int]]]:
    """Number and payload of the packets that each end sent to the broker, of those with payload that came once."""
    found = defaultdict(list)
    seen = set()
    with open_capture(JOINS) as packets:
        for batch in packets:
            segments = dissect(batch).segments
            for row in range(len(segments.number)):
                stream = (segments.source_port[row], segments.seq[row])
                if segments.length[row] and segments.target_port[row] == 9092 and stream not in seen:
                    seen.add(stream)
                    host = host_of(int(segments.source_high[row]), int(segments.source_low[row]))
                    end = address(host, int(segments.source_port[row]))
                    found[end].append((int(segments.number[row]), int(segments.length[row])))
    return found


def test_each_packet_of_a_client_is_in_the_request_whose_bytes_it_has(capture: kafkascope.Capture) -> None:
    ends = capture.connections.assign(end=[*map(address, capture.connections.client, capture.connections.client_port)])
    connection = ends.set_index("end").connection
    some = list(sent().items())[:6]
    assert len(some) == 6
    for end, packets in some:
        requests = capture.exchanges[capture.exchanges.connection == connection[end]]
        for number, length in packets[:8]:
            found = capture.packet(number)
            assert {one.row["connection"] for one in found} == {connection[end]}
            assert sum(one.row["request_bytes"] for one in found) >= length
            assert all(one.row["request_packet"] <= number for one in found)
        assert requests.request_bytes.sum() == sum(length for _, length in packets)


def test_a_packet_amid_a_response(command: Command, capture: kafkascope.Capture) -> None:
    ended = command("sniff", "-r", JOINS, "--packet", "91")  # of 89 to 107
    first, *tree = ended.stdout.splitlines()
    assert "Fetch v17" in first
    assert "conn=" not in first
    assert tree[0].startswith("    request v17: ")
    assert any(" highWatermark: 7 " in line for line in tree)
    fields = command("sniff", "-r", JOINS, "--packet", "91", "--fields", "request_packet,response_packet").stdout
    assert fields == "87\t89\n"
    (one,) = capture.packet(91)
    assert one.response is not None
    assert (one.row["request_packet"], one.row["response_packet"]) == (87, 89)


@pytest.mark.deep
def test_packets_and_bytes_on_spark_are_those_in_process(spark: Any) -> None:
    files = str(PCAPS / "net_formats" / "rotated-*.pcap")
    here, there = (
        kafkascope.read(files, records=True, answers=False),
        kafkascope.read(files, True, spark, answers=False),
    )
    found = 0
    for number in range(20, 400, 19):
        try:
            expected = here.packet(number)
        except NoSuchPacketError as error:
            with pytest.raises(NoSuchPacketError, match=re.escape(str(error))):
                there.packet(number)
            continue
        assert [str(one) for one in there.packet(number)] == [str(one) for one in expected]
        found += len(expected)
    assert found > 5
    assert there.packet(number)[0].messages() == here.packet(number)[0].messages()


@pytest.mark.parametrize(
    ("number", "said"),
    [
        ("80", "0 bytes) only opens, acknowledges or closes; --connection 10.77.1.13:35154 shows what else"),
        ("2667", "there is no packet 2667: the capture has 2,666 packets"),
    ],
)
def test_a_packet_that_carries_nothing(command: Command, capture: kafkascope.Capture, number: str, said: str) -> None:
    ended = command("sniff", "-r", JOINS, "--packet", number)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr
    with pytest.raises(NoSuchPacketError, match="packet"):
        capture.packet(int(number))


def test_a_packet_of_no_exchange(command: Command) -> None:
    ended = command("sniff", "-r", JOINS, "--packet", "91", "--packets", "1-20")  # left out
    assert (ended.returncode, ended.stdout) == (0, "")
    assert "matched; packet 91 (10.77.1.11:9092 > 10.77.1.13:35142, 38 bytes) brings none of" in ended.stderr


def test_a_packet_whose_exchange_other_filters_leave_out(command: Command) -> None:
    ended = command("sniff", "-r", JOINS, "--packet", "91", "--errors")
    assert (ended.returncode, ended.stdout) == (0, "")
    assert "0 of 426 exchanges matched; packet 91 (10.77.1.11:9092 > 10.77.1.13:35142, 38 bytes) is part of 1 " in (
        ended.stderr
    )
    assert ended.stderr.endswith("exchange, which other filters leave out\n")


def test_a_packet_behind_pseudonyms(command: Command) -> None:
    ended = command("sniff", "-r", JOINS, "--anonymize", "key", "--packet", "91", "--fields", "request_packet,client")
    assert ended.stdout.startswith("87\t")
    assert "10.77.1.13" not in ended.stdout


def test_one_connection(command: Command) -> None:
    by_number = command("sniff", "-r", JOINS, "--connection", "52", "--fields", "connection,client").stdout
    assert set(by_number.splitlines()) == {"52\t10.77.1.13:35154"}
    for options in ([], ["--anonymize", "key"]):
        by_end = command("sniff", "-r", JOINS, "--connection", "10.77.1.13:35154", "--fields", "connection", *options)
        assert by_end.stdout.splitlines() == ["52"] * len(by_number.splitlines())


def test_a_connection_that_is_not_there(command: Command) -> None:
    ended = command("sniff", "-r", JOINS, "--connection", "53")
    assert "0 of 426 exchanges matched; --connection 53: not there; there are 1, 8, 31 and 8 more" in ended.stderr
    ended = command("sniff", "-r", JOINS, "--connection", "10.77.1.13:35155")
    assert "--connection 10.77.1.13:35155: not there; near are 10.77.1.13:35154" in ended.stderr
