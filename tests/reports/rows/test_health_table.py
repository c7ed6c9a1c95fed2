"""The table of how packets fared: values of spans as columns, with what is absent as null."""

from __future__ import annotations

import numpy as np

from kafkascope.reports.rows.health_table import health_table
from kafkascope.reports.vocabulary.tables import TCP_HEALTH
from kafkascope.sniffer.columns import NO_TIME
from kafkascope.sniffer.health import ROW
from kafkascope.sniffer.origins import Origins
from kafkascope.sniffer.session import Endpoint, SideSpans
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

AT = 1_700_000_000 * SECOND_NS
ENDS = {7: Endpoint("10.0.0.2", 40000, "10.0.0.1", 9092), 9: Endpoint("fd00::2", 40001, "fd00::1", 9093)}
ORIGINS = Origins(["a.pcap", "b.pcap"], [1, 100])
ABSENT = ("first", "last", "last_payload", "rtt_min", "rtt_max", "unacked_since", "unacked_max")


def spans() -> SideSpans:
    """A span of the client of connection 7, in which much happened, and one of the broker of 9, in which nothing."""
    rows = np.zeros(2, ROW)
    rows["connection"], rows["at"] = [7, 9], [AT, NO_TIME]
    for name in ABSENT:
        rows[name] = NO_TIME
    first = rows[:1]
    for place, name in enumerate(name for name in ROW.names or () if ROW[name] == np.dtype("i4")):
        first[name] = place + 1
    first["first_packet"] = 100
    first["rtt_samples"], first["rtt_sum"] = 4, 10 * MILLISECOND_NS
    first["rtt_min"], first["rtt_max"] = MILLISECOND_NS, 4 * MILLISECOND_NS
    first["first"], first["last"], first["unacked_since"], first["unacked_max"] = (
        AT,
        AT + 5,
        AT + 1,
        MILLISECOND_NS // 2,
    )
    first["sent_in"], first["payload_in"] = [1 | 1 << 63, 1 | 1 << 35], [0, 1 << 35]
    return SideSpans(rows, np.array([True, False]), ENDS)


def test_a_row_for_each_side_and_span() -> None:
    table = health_table(spans(), ORIGINS)
    assert table.schema.equals(TCP_HEALTH)
    table.validate(full=True)
    one, other = table.to_pylist()
    assert [one[name] for name in ("sender", "host", "client", "broker")] == [
        "client",
        "10.0.0.2",
        "10.0.0.2",
        "10.0.0.1:9092",
    ]
    assert [other[name] for name in ("sender", "host", "client", "broker")] == [
        "broker",
        "fd00::1",
        "fd00::2",
        "[fd00::1]:9093",
    ]
    assert one["retransmits"] == one["fast_retransmits"] + one["timeout_retransmits"] + one["spurious_retransmits"] == 9
    assert (one["rtt_min_ms"], one["rtt_mean_ms"], one["rtt_max_ms"], one["unacked_max_ms"]) == (1, 2.5, 4, 0.5)
    assert one["at"].value == AT
    assert one["unacked_since"].value == AT + 1
    assert one["last_payload"] is None
    assert (one["file"], other["file"]) == ("b.pcap", None)


def test_what_did_not_happen_is_null_or_zero() -> None:
    other = health_table(spans(), ORIGINS).to_pylist()[1]
    durations = {"rtt_min_ms", "rtt_mean_ms", "rtt_max_ms", "unacked_max_ms"}
    times = {"at", "first", "last", "last_payload", "unacked_since"}
    assert {name for name, value in other.items() if value is None} == durations | times | {"file"}
    counted = TCP_HEALTH.names[TCP_HEALTH.names.index("packets") :]
    assert {other[name] for name in counted if name not in durations | times | {"file"}} == {0, bytes(13)}


def test_bits_are_tenths_of_a_second() -> None:
    one = health_table(spans(), ORIGINS).to_pylist()[0]
    for name, expected in (("sent_in", [0, 63, 64, 99]), ("payload_in", [99])):
        assert [n for n in range(104) if one[name][n // 8] >> n % 8 & 1] == expected
