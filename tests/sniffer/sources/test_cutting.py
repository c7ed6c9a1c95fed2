"""When packets are cut, and when no more; that the kernel does it is in tests/kafkascope/test_live.py."""

from __future__ import annotations

import pytest

from kafkascope.sniffer.sources.cutting import LEAST_S, MOST_S, Cutting


@pytest.mark.parametrize(("waiting", "dropped"), [(0.51, False), (0.0, True)])
def test_packets_are_cut_until_for_a_while_little_has_waited_and_none_were_dropped(
    waiting: float, dropped: bool
) -> None:
    cutting = Cutting()
    assert not cutting.decide(100, 0.5, False)
    assert cutting.decide(100, waiting, dropped)
    assert cutting.is_on
    assert not cutting.decide(101, 0.2, False)
    assert not cutting.decide(102, 0.1, True)
    assert not cutting.decide(102 + LEAST_S - 0.1, 0.1, False)
    assert cutting.decide(102 + LEAST_S, 0.1, False)
    assert not cutting.is_on
    assert not cutting.decide(102 + LEAST_S, 0.1, False)


def whiles(pauses: list[float]) -> list[float]:
    """How long packets are cut, where little waits at once then, and much a pause after they come whole again."""
    cutting, now, found = Cutting(), 0.0, []
    for pause in pauses:
        now += pause
        assert cutting.decide(now, 1, False)
        begun = now
        while not cutting.decide(now, 0, False):
            now += 0.5
        found.append(now - begun)
    return found


def test_that_while_doubles_when_whole_packets_are_at_once_too_many_again() -> None:
    assert whiles([0, 0.5, 0.5, 0.5, 100, 0.5]) == [LEAST_S * times for times in (1, 2, 4, 8, 1, 2)]
    assert whiles([0.5] * 9)[-1] == MOST_S
