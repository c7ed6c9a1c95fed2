"""Incidents of recordings of which a tenth of the time is lacking, as where the capture stood still, or hosts."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from kafkascope.sniffer.sources.files import open_capture
from tests.paths import PCAPS
from tools import damage
from tools.incident_accuracy import files_of, truth_of


def damaged(story: str, kind: str, number: int) -> list[dict[str, Any]]:
    """Incidents of a recording damaged so; number is that among such damages, from 0 on."""
    with open_capture(files_of(PCAPS / story, truth_of(PCAPS / story))) as capture:
        left = damage.damaged_packets(list(capture), story, {kind})
        ((_, batches),) = islice(left, number, number + 1)
        return list(damage.read_back(batches).arrow("incidents").to_pylist())


def paused(story: str, tenth: int) -> list[dict[str, Any]]:
    """Incidents of a recording without one of its tenths, the first of which is 0."""
    return damaged(story, damage.PAUSED, tenth - 1)


@pytest.mark.parametrize(
    ("story", "tenth", "told"),
    [
        ("offsets-gone", 2, False),  # one left in it, one just before, and its last answer is lacking
        ("offsets-gone", 3, False),
        ("inter-broker-sasl", 4, False),  # both spoke in it
        ("killed-consumer", 2, True),  # it was killed in it, and its group waited for it
    ],
)
def test_who_falls_silent_unseen_may_have_left(story: str, tenth: int, told: bool) -> None:
    found = paused(story, tenth)
    lost = [one for one in found if one["kind"] in ("client_died", "client_frozen", "client_unreachable")]
    assert bool(lost) == told
    assert found


def test_whose_coordinator_goes_away_unseen_may_live() -> None:
    """c2 looks for it in vain, and is taken out by the new one."""
    assert {one["kind"] for one in paused("address-taken", 2)} == {"address_taken"}


def test_who_is_not_heard_before_its_session_ends_unseen_may_have_spoken() -> None:
    """c1 waited for its JoinGroup, whose answer is lacking; c2 died."""
    found = paused("crash-loop", 6)
    assert {name["name"] for one in found for name in one["subjects"] if name["role"] == "client"} == {"c2"}


def test_who_acknowledges_nothing_behind_it_was_cut_off() -> None:
    """And had not left. No connection of clients goes on, so it was told that a broker stood still."""
    (one,) = paused("clients-cut", 3)
    assert one["kind"] == "client_unreachable"
    assert one["headline"].startswith("c1, c2, c3 (10.77.160.14, 10.77.160.15, 10.77.160.16) were cut off")


def test_who_is_not_heard_in_it_and_ends_as_the_capture_does_is_not_missed() -> None:
    """Its last heartbeat is lacking: a group is told to wait for who is silent for ten seconds that are captured."""
    assert {one["kind"] for one in paused("too-old", 8)} == {"client_too_old"}


def test_who_fell_silent_unseen_did_so_some_time_in_it() -> None:
    (one,) = paused("killed-long-session", 3)
    assert " it open) between 12:03:44.500 and 12:03:48.400, and group shop still waits" in one["headline"]


def test_what_nobody_asks_a_broker_again_it_may_have_answered_unseen() -> None:
    """Broker 2 had lost its leaders meanwhile, so one request to it was the last for half a minute."""
    assert [one["kind"] for one in paused("dup-node", 3)] == ["broker_refused"]


def test_what_is_lacking_of_one_time_hides_nothing_of_others() -> None:
    """Most that these clients read is lacking: they catch up in the pause, and had been cut off long before."""
    (one,) = paused("clients-cut", 8)
    assert one["headline"].startswith("c1, c2, c3 (10.77.160.14, 10.77.160.15, 10.77.160.16) were cut off")


def test_whose_last_answer_is_lacking_asks_for_nothing_from_then_on_at_the_latest() -> None:
    """c1 halted in the pause, as was heard behind it; it was told that its group reads slowly."""
    (one,) = paused("poison-thrown", 1)
    assert one["kind"] == "consumer_stuck"
    assert "c1 of group shop asks for no more records of orders 0-2, from 19:10:16.600 on for" in one["headline"]
    assert one["evidence"][0]["text"].startswith("it had asked for records until the capture stood still")


@pytest.mark.parametrize("tenth", [2, 5])  # in the first one c2 joins
def test_who_falls_behind_by_a_quota_is_told_with_it(tenth: int) -> None:
    """For how long it was held back in the pause nobody knows; it was told that the group reads slowly as well."""
    first, second = paused("quota-fetch", tenth)
    assert (first["kind"], second["kind"]) == ("throttled", "admin_action")
    assert "group audit fell behind in orders" in first["headline"]


def test_writes_that_are_answered_unseen_did_not_wait_to_the_end() -> None:
    """Nor is it known that nobody tried a broker in the pause: somebody did."""
    (one,) = paused("address-taken", 3)
    assert one["kind"] == "broker_down"
    assert "and nobody is seen to have tried it after 07:05:03.528;" in one["headline"]


def test_whose_address_answers_again_though_its_cluster_does_without_it_may_not_be_back() -> None:
    """Another one answers there, which broker 1 alone is seen to ask."""
    (one,) = damaged("address-taken", damage.BROKER_ALONE, 0)
    assert one["kind"] == "broker_down"
    assert (
        "its address answered after 4.1 s, though its cluster does without it (told at 07:05:07.804);"
        in one["headline"]
    )


def test_who_gave_its_partitions_to_a_client_that_is_missing_does_not_halt() -> None:
    """Nor does its group fall behind in these."""
    found = damaged("zk-2.8.2", damage.CLIENT_MISSING, 1)
    assert {one["severity"] for one in found} == {"info"}
