"""How long it took changes nothing of what was said: recordings with their packets farther apart, or closer."""

from __future__ import annotations

from pathlib import Path

import dpkt
import pytest

import kafkascope
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
