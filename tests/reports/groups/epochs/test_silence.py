"""Members that say nothing for too long, and connections that end on them."""

from __future__ import annotations

import pytest

from kafkascope.reports.groups.history import GroupHistory
from kafkascope.reports.groups.migration import by_protocol
from tests.reports.groups.epochs.epoch_logs import Epochs, Told, epochs, mixed, told


def silences(history: GroupHistory) -> list[Told]:
    return [each for each in told(history) if each[1] in ("silence_begun", "connection_ended")]


@pytest.mark.parametrize(("until", "silent"), [(4_510, False), (4_511, True)])
def test_a_silence_is_told_when_more_heartbeats_are_missing_than_may_be_late(until: int, silent: bool) -> None:
    talk = Epochs()
    talk.two()  # the last word of b is at 2,010 ms
    talk.beat(until - 1, "a", 2)
    begun = (2010, "silence_begun", "b", 2, 14, "at least 2.501 s; it should be heard every 1000 ms")
    assert silences(epochs(talk.log())) == [begun] * silent


@pytest.mark.parametrize(("closed", "ended"), [(2_009, False), (2_010, True), (9_000, True)])
def test_a_connection_that_ends_after_the_last_word_of_its_member_is_told(closed: int, ended: bool) -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "a", 2)
    talk.ends(closed, "b", "fin")
    assert silences(epochs(talk.log())) == [(closed, "connection_ended", "b", 2, None, "fin")] * ended


def test_a_member_that_left_or_stepped_out_is_not_silent() -> None:
    for leaves in (-1, -2):
        talk = Epochs()
        talk.two()
        talk.beat(2500, "b", leaves, instance="i" if leaves == -2 else None)
        talk.ends(2600, "b", "fin")
        talk.beats(3000, 10_000, "a", 2)
        assert silences(epochs(talk.log())) == []


def test_a_silence_is_over_when_the_member_is_told_that_it_is_none() -> None:
    talk = Epochs()
    talk.two()
    talk.beats(3000, 10_000, "a", 2)
    talk.beat(9000, "b", 2, error="UNKNOWN_MEMBER_ID")
    assert silences(epochs(talk.log())) == [
        (2010, "silence_begun", "b", 2, 14, "6.990 s; it should be heard every 1000 ms")
    ]


def test_a_silence_is_over_when_a_static_member_comes_anew() -> None:
    talk = Epochs()
    talk.beat(0, "a~1", 0, 1, given=[0], instance="i")
    talk.beat(9000, "a~2", 0, 1, given=[0], instance="i")
    assert silences(epochs(talk.log())) == [
        (0, "silence_begun", "a~1", 1, 2, "9.000 s; it should be heard every 1000 ms")
    ]


def test_a_member_that_goes_on_when_the_group_is_a_classic_one_is_not_silent() -> None:
    talk = mixed()
    talk.beat(8000, "c", -1)
    talk.again(30_000, 3, {"a~1": {"t": [0, 1]}, "b~1": {"t": [2, 3]}})
    assert [each for each in silences(by_protocol(talk.log())) if each[0] is not None and each[0] > 5000] == []


def test_what_a_member_of_the_classic_group_did_not_say_is_told_of_that() -> None:
    talk = Epochs()
    talk.formed(0, 1, {"a~1": {"t": [0, 1]}, "b~1": {"t": [2, 3]}})
    talk.heartbeat(9000, "a~1", 1)
    talk.again(15_000, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    talk.beat(20_000, "c", 0, 3, given=[])
    found = silences(by_protocol(talk.log()))
    assert [each[:3] for each in found] == [(3101, "silence_begun", "b~1")]
