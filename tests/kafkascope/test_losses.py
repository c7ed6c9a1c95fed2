"""Lines about what is missing."""

from __future__ import annotations

import json

from kafkascope.losses import Loss, lines_left_out

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
