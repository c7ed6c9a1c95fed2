"""Transactional ids that several processes use."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.columns.words import clock
from tests.reports.incidents.tables_of import H1, H2, Row, at, connection, error, exchange, found, names, only, seconds

T1, T2 = connection(1, H1, client_id="t1"), connection(2, H2, client_id="t2")


def takes(time: float, which: int, name: str = "tx", error: str = "NONE") -> Row:
    """A producer asks for its id."""
    request = f'{{"transactionalId": "{name}", "transactionTimeoutMs": 60000, "producerId": -1}}'
    known: dict[str, Any] = {"client_id": f"t{which}", "connection": which, "error": error, "request": request}
    return exchange(int(time), "InitProducerId", time, time + 0.01, **known)


def refused(time: float, which: int, name: str = "INVALID_PRODUCER_EPOCH") -> Row:
    return error(name, "Produce", time, time, client_id=f"t{which}")


TURNS = [takes(10, 1), takes(20, 2, error="CONCURRENT_TRANSACTIONS"), takes(20.1, 2), takes(30, 1)]
REFUSED = [refused(21, 1), refused(30.5, 2, "PRODUCER_FENCED")]


def test_two_that_fence_each_other() -> None:
    one = only(exchanges=TURNS, error_histogram=REFUSED, connections=[T1, T2])
    assert (one.kind, one.severity, one.certainty) == ("producer_fenced", "critical", "certain")
    assert names(one) == ["t1", "t2", H1, H2]
    assert (seconds(one.started), seconds(one.ended)) == (20, 30.5)
    assert one.headline.startswith(
        f"t1 ({H1}), t2 ({H2}) use one transactional id, tx: 2 times one fenced the other, from "
    )
    assert one.headline.endswith("; 2 requests of who had it before refused")
    assert [seen.packet for seen in one.evidence] == [20, 30]
    assert "t2 (10.0.1.2) took it over; t1 was answered INVALID_PRODUCER_EPOCH" in one.evidence[0].text


def test_the_end_of_a_transaction_may_be_refused_without_a_word_for_it() -> None:
    ends = error("UNKNOWN_SERVER_ERROR", "EndTxn", 21, 21, client_id="t1")
    one = only(exchanges=TURNS, error_histogram=[ends, REFUSED[1]], connections=[T1, T2])
    assert "t1 was answered UNKNOWN_SERVER_ERROR" in one.evidence[0].text
    assert found(exchanges=TURNS[:3], error_histogram=[ends], connections=[T1, T2]) == []


@pytest.mark.parametrize(
    ("exchanges", "errors"),
    [
        (TURNS, []),
        (TURNS, REFUSED[:1]),  # once is how one replaces another
        (TURNS, [refused(21, 1), refused(29, 2)]),  # refused for another reason
        (TURNS, [refused(21, 1), refused(31, 1)]),
        ([takes(10, 1), takes(20, 2, "other"), takes(30, 1)], REFUSED),
        ([takes(10, 1), takes(20, 1), takes(30, 1)], REFUSED),  # started again, at the same place
        ([takes(10, 1), takes(20, 2, error="NOT_COORDINATOR"), takes(30, 1)], REFUSED),
    ],
)
def test_others_use_their_own(exchanges: list[Row], errors: list[Row]) -> None:
    assert found(exchanges=exchanges, error_histogram=errors, connections=[T1, T2]) == []


# --- once ------------------------------------------------------------------------------------------------------------


def produces(time: float, which: int, error: str = "NONE", name: str = "tx") -> Row:
    request = f'{{"transactionalId": "{name}", "acks": -1}}'
    known: dict[str, Any] = {"client_id": f"t{which}", "connection": which, "error": error, "request": request}
    return exchange(int(time * 100), "Produce", time, time + 0.01, **known)


FENCED = produces(20.5, 1, "INVALID_PRODUCER_EPOCH")
GOES_ON = produces(20.7, 2)


@pytest.mark.parametrize(("worked", "at_work"), [(15, True), (14.9, False), (20.3, False), (None, False)])
def test_one_that_is_fenced_once_is_told_by_whom(worked: float | None, at_work: bool) -> None:
    before = [] if worked is None else [produces(worked, 1)]
    gone = connection(1, H1, client_id="t1", closed=22)
    one = only(exchanges=[*TURNS[:3], *before, FENCED, GOES_ON], connections=[gone, T2])
    assert (one.kind, one.severity, one.certainty) == ("producer_fenced", "info", "certain")
    assert names(one) == ["t1", "t2", H1, H2]
    assert (seconds(one.started), seconds(one.ended)) == (20, 20.5)
    work = ", which was at work," if at_work else ""
    assert one.headline == (
        f"t2 ({H2}) took transactional id tx over from t1 ({H1}){work} at {clock(at(20))}: that one was refused "
        f"(Produce: INVALID_PRODUCER_EPOCH) at {clock(at(20.5))}; it went away at {clock(at(22))}"
    )
    assert [seen.packet for seen in one.evidence][-2:] == [20, 2050]
    assert one.advice.startswith("Give each process" if work else "Nothing, if one replaced the other")


@pytest.mark.parametrize("later", [[], [produces(20.7, 2, name="other")], [takes(25, 2)]])
def test_who_fences_a_producer_and_goes_on_with_nothing_may_be_an_administrator(later: list[Row]) -> None:
    one = only(exchanges=[*TURNS[:3], produces(19, 1), FENCED, *later], connections=[T1, T2])
    assert one.severity == "info"
    assert one.headline.endswith("; t2 is not seen to use it, as with an administrator's request (fenceProducers)")
    assert one.advice.startswith("Nothing, if that was meant")


def test_ids_of_one_process_that_another_took_are_one_incident() -> None:
    others = [takes(19, 2, "ty"), produces(21, 1, "PRODUCER_FENCED", "ty")]
    one = only(exchanges=[*TURNS[:3], FENCED, *others], connections=[T1, T2])
    assert one.headline.startswith(f"t2 ({H2}) took transactional ids tx, ty over from t1 ({H1}) at {clock(at(19))}: ")
    assert "it went away" not in one.headline


@pytest.mark.parametrize(
    "exchanges",
    [
        [takes(10, 1), FENCED],  # its coordinator aborted what it did not end in time
        [takes(10, 1), takes(20.6, 2), FENCED],
        [takes(10, 1), takes(20, 2, "other"), FENCED],
        [takes(10, 2), takes(20, 1), FENCED],
        [takes(10, 1), takes(20, 2), produces(20.5, 1, "NOT_LEADER_OR_FOLLOWER")],
    ],
)
def test_who_is_refused_as_nobody_took_its_id_is_not_fenced(exchanges: list[Row]) -> None:
    assert found(exchanges=exchanges, connections=[T1, T2]) == []


def test_those_that_fence_each_other_are_told_as_that_alone() -> None:
    refusals = [produces(21, 1, "INVALID_PRODUCER_EPOCH"), produces(30.5, 2, "PRODUCER_FENCED")]
    assert (
        "2 times one fenced the other"
        in only(exchanges=[*TURNS, *refusals], error_histogram=REFUSED, connections=[T1, T2]).headline
    )
