"""How long it took changes nothing of what was said: recordings with their packets farther apart, or closer.

Nor does when it was.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import dpkt
import numpy as np
import pandas as pd
import pytest

import kafkascope
from kafkascope.sniffer.sources.capture_writer import CaptureWriter
from kafkascope.sniffer.sources.files import open_capture
from kafkascope.sniffer.sources.live_options import Rotation
from kafkascope.sniffer.units import SECOND_NS
from tests.paths import PCAPS

WITH_SECRETS = {"clients_tls": PCAPS / "clients_tls" / "tls.keylog"}
STORIES = ["clients_tls", "clients_sasl", "clients_old_formats", "net_odd_tcp", "rebalance-storm"]
ALIKE = ["connection", "number", "api", "api_version", "correlation_id", "outcome", "decoded", "error"]


def stretched(capture: Path, times: float, out: Path) -> Path:
    """The capture with so many times the time between its packets."""
    with capture.open("rb") as file, out.open("wb") as written:
        reader = dpkt.pcap.Reader(file)
        writer = dpkt.pcap.Writer(written, linktype=reader.datalink(), snaplen=reader.snaplen)
        first = None
        for at, packet in reader:
            first = at if first is None else first
            writer.writepkt(packet, float(first) + float(at - first) * times)
    return out


def said(capture: Path, story: str) -> list[tuple[object, ...]]:
    keys = WITH_SECRETS.get(story, ())
    rows = kafkascope.read(capture, answers=False, tls_keylog=keys).exchanges.sort_values(["connection", "number"])
    assert len(rows)
    return list(rows[ALIKE].astype(object).itertuples(index=False, name=None))


@pytest.mark.parametrize("times", [0.02, 100])
@pytest.mark.parametrize("story", STORIES)
def test_the_same_is_said_in_another_time(story: str, times: float, tmp_path: Path) -> None:
    capture = PCAPS / story / "capture.pcap"
    assert said(stretched(capture, times, tmp_path / "stretched.pcap"), story) == said(capture, story)


def told_later(story: str, seconds: int, most_bytes: int, out: Path) -> list[tuple[object, ...]]:
    """Incidents of a recording that is so many seconds later, with so much of each packet; their times as they were."""
    writer = CaptureWriter(str(out), Rotation())
    with open_capture([str(path) for path in (PCAPS / story).glob("capture.pcap*")]) as capture:
        for packets in capture:
            captured = np.minimum(packets.captured, np.int32(most_bytes))
            writer.write(replace(packets, captured=captured, at=packets.at + seconds * SECOND_NS))
    writer.close()
    rows = kafkascope.read(out).incidents
    for name in ("started", "ended"):
        rows[name] -= pd.Timedelta(seconds=seconds)
    return list(rows[["kind", "started", "ended"]].itertuples(index=False, name=None))


def test_a_cut_is_told_wherever_the_spans_of_tables_begin(tmp_path: Path) -> None:
    """Those of `tcp_health` begin at each tenth second of the clock. Packets are cut, as else its group tells it."""
    first, *others = (told_later("client-cut", second, 128, tmp_path / f"{second}.pcapng") for second in range(10))
    assert [kind for kind, *_ in first] == ["client_unreachable"]
    assert all(one == first for one in others)
