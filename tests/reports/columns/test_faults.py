"""The last guard itself: what it isolates, what it says, what it gives back, and what it lets through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import pytest

from kafkascope.reports.columns import faults
from kafkascope.reports.columns.faults import RAISE_FAULTS, all_or_nothing, fault, isolated
from kafkascope.reports.groups.live import LiveGroups


@pytest.fixture(autouse=True)
def _guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RAISE_FAULTS)


def doubled(bad: set[int], calls: list[int]) -> list[list[int] | str]:
    def work(items: Sequence[int]) -> list[list[int] | str]:
        calls.append(len(items))
        if bad.intersection(items):
            raise ZeroDivisionError("secret")
        return [[2 * item for item in items]]

    return list(isolated(range(1000), work, lambda items, said: [f"{items[0]}-{items[-1]}: {said}"]))


def test_items_are_lost_alone_and_in_order() -> None:
    calls: list[int] = []
    made = doubled({3, 700}, calls)
    told = [one for one in made if isinstance(one, str)]
    assert [one.split(":")[0] for one in told] == ["3-3", "700-700"]
    assert all("ZeroDivisionError" in one and "please report it" in one and "secret" not in one for one in told)
    kept = [item for one in made if isinstance(one, list) for item in one]
    assert kept == [2 * item for item in range(1000) if item not in (3, 700)]
    assert len(calls) < 4 * 10 + 2  # halves of halves: ten steps to find one of a thousand


def test_all_is_done_at_once_where_nothing_is_raised() -> None:
    calls: list[int] = []
    assert doubled(set(), calls) == [[2 * item for item in range(1000)]]
    assert calls == [1000]
    assert list(isolated([], lambda _: pytest.fail("called"), lambda _, __: pytest.fail("called"))) == []


def test_of_very_many_the_rest_is_given_up_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "MOST_ALONE", 10)
    calls: list[int] = []
    made = doubled(set(range(1000)), calls)
    assert len(calls) < 50
    ends = [tuple(map(int, str(one).split(":")[0].split("-"))) for one in made]
    assert [first for first, _ in ends] == [0, *(last + 1 for _, last in ends[:-1])]
    assert ends[-1][1] == 999


def test_what_was_raised_is_named_by_its_place_in_our_code() -> None:
    with pytest.raises(TypeError) as raised:
        LiveGroups().feed(None, {}, now=None)  # type: ignore[arg-type]
    assert fault(raised.value).startswith("TypeError at kafkascope/reports/groups/live.py:")


@pytest.mark.parametrize("error", [MemoryError(), OSError("disk")])
def test_what_the_machine_lacks_is_no_fault_of_ours(error: Exception) -> None:
    def work(_: Sequence[int]) -> NoReturn:
        raise error

    with pytest.raises(type(error)):
        list(isolated([1], work, lambda _, __: pytest.fail("hidden")))


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_who_wants_to_end_it_ends_it(error: type[BaseException]) -> None:
    def work(_: Sequence[int]) -> NoReturn:
        raise error

    with pytest.raises(error):
        list(isolated([1], work, lambda _, __: pytest.fail("hidden")))


def test_the_suite_sees_every_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RAISE_FAULTS, "1")
    with pytest.raises(ZeroDivisionError):
        doubled({3}, [])


class Inner:
    def __init__(self) -> None:
        self.number = 1


class Outer:
    def __init__(self) -> None:
        self.inner = Inner()
        self.flat = {1: "a"}
        self.nested = {1: {2: "b"}}


Inner.__module__ = Outer.__module__ = "kafkascope.reports.for_this_test"


def test_state_is_given_back_only_if_something_is_raised() -> None:
    def change(outer: Outer, error: BaseException | None = None) -> None:
        outer.inner.number = 2
        outer.flat[3] = "c"
        outer.nested[1][4] = "d"
        outer.nested[5] = {}
        if error is not None:
            raise error

    outer = Outer()
    with pytest.raises(KeyboardInterrupt), all_or_nothing(outer):
        change(outer, KeyboardInterrupt())
    assert (outer.inner.number, outer.flat, outer.nested) == (1, {1: "a"}, {1: {2: "b"}})
    with all_or_nothing(outer):
        change(outer)
    assert (outer.inner.number, outer.flat, outer.nested) == (2, {1: "a", 3: "c"}, {1: {2: "b", 4: "d"}, 5: {}})
