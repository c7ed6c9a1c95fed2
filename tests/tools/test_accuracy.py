"""What is right of damaged recordings is counted, and the same damage is done in every run."""

from __future__ import annotations

from functools import cache

import pytest

from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.columns import Packets, Segments
from kafkascope.sniffer.sources.files import open_capture
from tests.paths import PCAPS
from tools import damage
from tools.accuracy import Claims, claims_where_damaged
from tools.incident_accuracy import scores_where_damaged

# Of each protocol one; the rest, and other parts of the time, are in `make accuracy`.
CUTS = {damage.CUT_96, damage.CUT_256}
STORIES = ("eager-three-joins", "killed-silent", "kip848", "share-group", "static-members")


@cache
def segments() -> list[Segments]:
    return damage.segments_of([PCAPS / "eager-three-joins" / "capture.pcap"])


@cache
def packets() -> list[Packets]:
    with open_capture([str(PCAPS / "eager-three-joins" / "capture.pcap")]) as capture:
        return list(capture)


@pytest.mark.deep
@pytest.mark.parametrize("story", ["all-well", "broker-paused", "clients-cut", "killed-silent", "kip848"])
def test_incidents_are_no_false_alarms_where_recordings_are_damaged(story: str) -> None:
    alarms = {kind: score.alarms for kind, score in scores_where_damaged(PCAPS / story) if score.alarms}
    assert alarms == {}


@pytest.mark.deep
def test_certainties_hold_where_recordings_are_damaged() -> None:
    total = Claims()
    for story in STORIES:
        for claims in claims_where_damaged(PCAPS / story).values():
            total.add(claims)
    assert min(total.said[certainty] for certainty in Certainty) > 10
    assert (total.invented, total.too_sure) == ([], []), total.wrong


def numbers(batches: list[Segments]) -> list[int]:
    return [int(number) for batch in batches for number in batch.number]


@pytest.mark.parametrize(
    ("said", "right", "too_sure"),
    [
        (Certainty.CERTAIN, 999, [Certainty.CERTAIN]),
        (Certainty.CERTAIN, 1000, []),
        (Certainty.LIKELY, 949, [Certainty.LIKELY]),
        (Certainty.LIKELY, 950, []),
        (Certainty.GUESSED, 599, [Certainty.GUESSED]),
        (Certainty.GUESSED, 600, []),
    ],
)
def test_a_certainty_that_is_right_too_seldom_is_named(said: Certainty, right: int, too_sure: list[Certainty]) -> None:
    claims = Claims()
    claims.said[said], claims.right[said] = 1000, right
    assert claims.too_sure == too_sure


def test_every_kind_of_damage_leaves_a_part_the_same_in_every_run() -> None:
    whole = len(numbers(segments()))
    runs = [[(kind, numbers(left)) for kind, left in damage.damaged(segments(), "")] for _ in range(2)]
    assert runs[0] == runs[1]
    of_one_broker = {damage.BROKER_ALONE, damage.BROKER_MISSING}
    assert {kind for kind, _ in runs[0]} == set(damage.KINDS) - of_one_broker  # there is only one
    for kind, left in runs[0]:
        assert (len(left) == whole) if kind in CUTS else 0 < len(left) < whole, kind
        if kind in (damage.LOST_1, damage.LOST_5):
            assert (1 - len(left) / whole) == pytest.approx(0.01 if kind == damage.LOST_1 else 0.05, rel=0.5)


def test_packets_are_damaged_as_their_segments_are() -> None:
    of_segments = [numbers(left) for _, left in damage.damaged(segments(), "", set(damage.KINDS) - CUTS)]
    of_packets = damage.damaged_packets(packets(), "", set(damage.KINDS) - CUTS)
    assert [[int(number) for batch in left for number in batch.number] for _, left in of_packets] == of_segments
    [(_, cut)] = damage.damaged_packets(packets(), "", {damage.CUT_256})
    assert [len(batch.at) for batch in cut] == [len(batch.at) for batch in packets()]
    assert max(int(batch.captured.max()) for batch in cut) == 256


@pytest.mark.parametrize(("kind", "payload"), [(damage.CUT_96, 30), (damage.CUT_256, 190)])
def test_packets_are_cut(kind: str, payload: int) -> None:
    [(_, left)] = damage.damaged(segments(), "", {kind})
    assert max(int(batch.captured.max()) for batch in left) == payload


def test_one_client_alone_and_all_others_are_the_whole_recording() -> None:
    kinds = {damage.CLIENT_ALONE, damage.CLIENT_MISSING}
    parts = [numbers(left) for _, left in damage.damaged(segments(), "", kinds)]
    assert len(parts) == 2 * 3
    for alone, others in zip(parts[::2], parts[1::2], strict=True):
        assert sorted(alone + others) == numbers(segments())
