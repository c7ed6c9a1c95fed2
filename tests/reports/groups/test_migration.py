"""Groups that get epochs, and that lose them again: when, what is told of it, and once."""

from __future__ import annotations

import pytest

from kafkascope.reports.groups.migration import by_protocol
from kafkascope.reports.vocabulary.triggers import Certainty
from tests.reports.groups.epochs.epoch_logs import Epochs, mixed, rejected, said
from tests.reports.groups.group_logs import of

SHARES = {"a~1": {"t": [0, 1]}, "b~1": {"t": [2, 3]}}
Phases = list[tuple[str, float | None, float | None, int]]


SHARES = {"a~1": {"t": [0, 1]}, "b~1": {"t": [2, 3]}}


def fallen_silent(last_word: float, until: float, others: tuple[str, ...] = ()) -> Epochs:
    """c, with a heartbeat interval of a second, is heard last at one time, and the group is classic at another."""
    talk = mixed()
    for place, member in enumerate(others):
        talk.beat(7200 + place, member, 0, 3 + place)
    talk.beat(last_word, "c", 2)
    for at in range(8000, int(until), 1000):
        talk.heartbeat(at, "a~1", 2)
        talk.heartbeat(at + 1, "b~1", 2)
    talk.again(until, 3 + len(others), SHARES)
    return talk


@pytest.mark.parametrize(
    ("until", "trigger"), [(17_000, "session_timeout"), (12_500, "session_timeout"), (12_499, None)]
)
def test_the_last_member_with_epochs_was_taken_out_if_it_had_said_nothing(until: float, trigger: str | None) -> None:
    talk = fallen_silent(9_999, until)
    third = of(by_protocol(talk.log()))[3]
    if trigger is None:
        assert third.trigger != "session_timeout"
        return
    assert (third.trigger, third.trigger_member, third.trigger_client_id) == (trigger, "c", "c")
    assert (third.certainty, third.from_generation) == (Certainty.LIKELY, 2)
    assert said(third) == [
        ("session_timeout", 0.8, 9_999, "c, the last member with epochs, had said nothing more"),
        ("session_timeout", 0.9, until, "no member with epochs was left: the group became a classic one"),
    ]
    assert {each[0] for each in rejected(third)} == {"member_rejoined"}
    assert (third.duration_ms, third.cost_ms) == (20.0, 21.0)
