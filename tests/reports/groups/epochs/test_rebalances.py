"""What an epoch cost and who was in it: on either side of each rule, in logs written by hand."""

from __future__ import annotations

from tests.reports.groups.epochs.epoch_logs import Epochs, epochs, ms
from tests.reports.groups.group_logs import of


def test_a_member_asks_for_a_pattern_from_when_it_is_answered() -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given=[0, 1], regex="t.*", took=100)
    talk.beat(1000, "a", 1, regex="u.*", took=100)
    talk.beat(2000, "a", 1, 2, given={"u": [0]})
    found = of(epochs(talk.log()))
    assert [(ms(found[number].started), found[number].members[0].subscription) for number in (1, 2)] == [
        (100, ["t.*"]),
        (1100, ["u.*"]),
    ]
