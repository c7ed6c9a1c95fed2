"""What grows in the captures that benchmarks make is what they say."""

from __future__ import annotations

import importlib
from collections import Counter
from pathlib import Path

import pytest

import kafkascope
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind
from tests.paths import ROOT


@pytest.mark.parametrize(
    ("kind", "incident"),
    [
        ("outages", IncidentKind.BROKER_DOWN),
        ("losses", IncidentKind.CLIENT_UNREACHABLE),
        ("impatience", IncidentKind.TIMEOUT_TOO_SHORT),
    ],
)
def test_each_time_is_an_incident(
    kind: str, incident: IncidentKind, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    crowds = importlib.import_module("crowds")
    crowds.MAKE[kind](3, tmp_path / "three.pcap")
    incidents = kafkascope.read(tmp_path / "three.pcap").arrow("incidents")
    assert Counter(incidents["kind"].to_pylist())[incident] == 3
