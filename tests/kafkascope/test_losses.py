"""Lines about what is missing."""

from __future__ import annotations

import json

from kafkascope.losses import Loss, Telling, lines_left_out

AT = 1_700_000_000_123_456_789


def test_a_loss_is_a_line_among_others() -> None:
    assert lines_left_out(AT, 3, 1004).line(as_json=False) == (
        b"# 22:13:20.123456 3 lines left out here (1,004 in all): the output is read too slowly\n"
    )


def test_a_loss_is_an_object_among_others() -> None:
    line = Loss("kernel_drops", AT, 3, 1004, 'said "so"').line(as_json=True)
    assert line.endswith(b"\n")
    assert json.loads(line) == {
        "issue": "kernel_drops",
        "at": "2023-11-14T22:13:20.123456789Z",
        "count": 3,
        "in_all": 1004,
        "detail": 'said "so"',
    }


def test_what_goes_on_is_told_ever_more_seldom_and_all_of_it_in_the_end() -> None:
    telling, told = Telling(), {}
    for second in range(300):
        if count := telling.news(10 * (second + 1), second, at_end=False):
            told[second] = count
    assert told == {0: 10, 1: 10, 3: 20, 7: 40, 15: 80, 31: 160, 63: 320, 123: 600, 183: 600, 243: 600}
    assert telling.news(3000, 300, at_end=True) == 3000 - sum(told.values())


def test_what_begins_anew_is_told_at_once() -> None:
    telling = Telling()
    counts = [(0, 1), (1, 2), (2, 3), (3, 4), (20, 5), (20.5, 6), (21, 7)]
    assert [telling.news(count, at, at_end=False) for at, count in counts] == [1, 1, 0, 2, 1, 0, 2]
