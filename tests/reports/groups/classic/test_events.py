"""What is told of members of the classic protocol, one thing after the other. Times are milliseconds."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.groups.classic.history import classic
from kafkascope.reports.groups.history import Event
from kafkascope.reports.groups.messages import ConnectionEnd, Message
from tests.reports.groups.group_logs import MS, START, Conversation, Members, changed, hash_of


def events(said: Conversation) -> list[Event]:
    return classic(said.log()).events


def told(said: Conversation) -> list[tuple[Any, ...]]:
    return [(each.event, (each.at - START) / MS, each.member_id, each.detail) for each in events(said)]


def event(
    kind: str,
    of: Message,
    member: str | None,
    generation: int | None = None,
    detail: str | None = None,
    *,
    answer: bool,
    instance: str | None = None,
) -> Event:
    """An event as its message shows it: the request, or the answer."""
    assert of.answered is not None
    return Event(
        "g",
        of.answered if answer else of.at,
        kind,
        member,
        of.client_id,
        of.client,
        instance,
        generation,
        of.connection,
        of.number,
        of.response_packet if answer else of.request_packet,
        detail,
    )


def test_each_thing_that_happens_to_a_member_is_told_with_its_packet() -> None:
    said = Conversation()
    given = said.join(0, "a~1", new=True, error="MEMBER_ID_REQUIRED")
    joins = said.join(5, "a~1", generation=1, members={"a~1": {}}, reason="rebalance failed", took=100)
    syncs = said.sync(200, "a~1", 1, {"t": [0, 1]})
    beats = said.heartbeat(300, "a~1", 1, "REBALANCE_IN_PROGRESS")
    said.heartbeat(310, "a~1", 1, "REBALANCE_IN_PROGRESS")  # the same again
    fenced = said.heartbeat(320, "a~1", 1, "FENCED_INSTANCE_ID")
    again = said.sync(400, "a~1", 1, error="REBALANCE_IN_PROGRESS")
    refused = said.join(500, "a~1", error="INVALID_SESSION_TIMEOUT")
    stays = said.leave(600, "a~1", "why", error="UNKNOWN_MEMBER_ID")
    stays_too = said.leave(610, "a~1", error="UNKNOWN_MEMBER_ID")
    leaves = said.leave(700, "a~1", "the consumer is being closed")
    removed = said.leave(800, "a~1", client="admin", host="elsewhere")
    assert events(said) == [
        event("member_id_given", given, "a~1", answer=True),
        event("joined", joins, "a~1", 1, "rebalance failed", answer=False),
        event("generation_formed", joins, None, 1, "led by a~1, assignor range", answer=True),
        event("synced", syncs, "a~1", 1, "t 0-1", answer=True),
        event("heartbeat_refused", beats, "a~1", 1, "REBALANCE_IN_PROGRESS", answer=True),
        event("fenced", fenced, "a~1", 1, "FENCED_INSTANCE_ID", answer=True),
        event("sync_refused", again, "a~1", 1, "REBALANCE_IN_PROGRESS", answer=True),
        event("joined", refused, "a~1", answer=False),
        event("join_refused", refused, "a~1", None, "INVALID_SESSION_TIMEOUT", answer=True),
        event("leave_refused", stays, "a~1", None, "UNKNOWN_MEMBER_ID: why", answer=False),
        event("leave_refused", stays_too, "a~1", None, "UNKNOWN_MEMBER_ID", answer=False),
        event("left", leaves, "a~1", None, "the consumer is being closed", answer=False),
        event("member_removed", removed, "a~1", answer=False),
    ]


def test_answers_whose_requests_are_not_in_the_capture() -> None:
    said = Conversation()
    answer = said.join(0, "a~1", generation=1, members={"a~1": {}}, took=100)
    said.messages = [changed(answer, request_text=None, request_packet=None, client_id=None)]
    (formed,) = [each for each in events(said) if each.event != "silence_begun"]
    assert (formed.event, formed.packet, formed.client_id) == ("generation_formed", answer.response_packet, None)


def test_who_a_member_is_may_be_known_of_what_it_said_before() -> None:
    said = Conversation()
    first = said.heartbeat(0, "a~1", 1, "REBALANCE_IN_PROGRESS")
    nameless = said.heartbeat(10, "a~1", 1, "UNKNOWN_MEMBER_ID")
    nameless.client_id, nameless.client = None, ""
    assert [(each.client_id, each.client) for each in events(said)] == [("a", first.client), ("a", None)]


def test_an_instance_id_is_that_of_the_member_or_of_its_request() -> None:
    said = Conversation()
    said.join(0, "", instance="two", error="FENCED_INSTANCE_ID")
    said.join(10, "a~1", instance="one", generation=1, members={"a~1": {"groupInstanceId": "one"}})
    said.heartbeat(20, "a~1", 1, "REBALANCE_IN_PROGRESS")
    found = [(each.event, each.instance_id) for each in events(said)]
    assert found == [
        ("joined", "two"),
        ("fenced", "two"),
        ("joined", "one"),
        ("generation_formed", "one"),
        ("heartbeat_refused", "one"),
    ]


def test_a_generation_whose_leader_and_assignment_are_not_told() -> None:
    said = Conversation()
    answer = {"generationId": 1, "memberId": "a~1", "leader": "", "protocolName": "range", "members": []}
    said.say(0, "JoinGroup", "a", {"memberId": "a~1"}, answer)
    said.say(10, "SyncGroup", "a", {"memberId": "a~1", "generationId": 1}, {"assignment": None})
    assert [each[3] for each in told(said) if each[0] != "joined"] == ["led by ?, assignor range", None]


def test_a_process_came_in_place_of_the_one_that_had_its_instance_id_last() -> None:
    said = Conversation()
    for at, member in ((0, "c~1"), (1_000, "b~2"), (2_000, "a~3")):
        joins = said.join(at, member, new=True, instance="one", generation=1, leader="x~1")
    found = [each for each in events(said) if each.event == "replaced"]
    assert [(each.member_id, each.detail) for each in found] == [
        ("b~2", "its instance id was that of c~1"),
        ("a~3", "its instance id was that of b~2"),
    ]
    assert found[-1] == event(
        "replaced", joins, "a~3", 1, "its instance id was that of b~2", answer=True, instance="one"
    )


def test_the_last_that_had_an_instance_id_is_the_last_that_began() -> None:
    said = Conversation()
    listed: Members = {"x~1": {}, "b~2": {"groupInstanceId": "one"}}
    said.join(0, "x~1", generation=1, members=listed, took=3_000)  # whose answer tells of b before anything else
    said.join(500, "c~1", instance="one")
    said.join(2_000, "b~2", new=True, instance="one", generation=1, leader="x~1", took=1_000)
    said.heartbeat(4_000, "c~1", 1, broker="10.0.0.2:9092")  # the old process is not dead yet
    said.say(5_000, "Heartbeat", "d", {"memberId": "d~1", "generationId": 1, "groupInstanceId": "four"}, {})
    said.join(9_000, "a~3", new=True, instance="one", generation=1, leader="x~1")
    assert [each[3] for each in told(said) if each[:3] == ("replaced", 9_001, "a~3")] == [
        "its instance id was that of b~2"
    ]


@pytest.mark.parametrize(
    ("new", "instance"), [(True, None), (False, "one"), (True, "two")], ids=["dynamic", "with its id", "another"]
)
def test_who_takes_no_ones_place(new: bool, instance: str | None) -> None:
    said = Conversation()
    said.join(0, "a~1", new=True, instance="one", generation=1, leader="x~1")
    said.join(1_000, "b~1", new=new, instance=instance, generation=1, leader="x~1")
    assert "replaced" not in {each.event for each in events(said)}


def test_whom_others_spoke_of_alone_nobody_replaced() -> None:
    said = Conversation()
    listed: Members = {"a~1": {}, "b~1": {"groupInstanceId": "two"}}
    said.join(0, "a~1", generation=1, members=listed)
    said.join(1_000, "b~2", new=True, instance="two", generation=1, leader="a~1")
    assert "replaced" not in {each.event for each in events(said)}


def closed(said: Conversation, client: str, at: float | None, how: str = "rst") -> None:
    number = hash_of(f"{client}10.0.0.1:9092")
    end = None if at is None else START + int(at * MS)
    said.ended[number] = ConnectionEnd(number, f"host-of-{client}", 1, "", client, None, end, how, None, None)


def lonely(last: float = 0, error: str | None = None) -> Conversation:
    """a joins, its session lasts 10 s, and the capture goes on for a minute; b is heard all the time."""
    said = Conversation()
    said.join(0, "a~1", generation=1, leader="b~1", took=0)
    if error:
        said.heartbeat(last, "a~1", 1, error)
    for at in range(0, 60_001, 5_000):
        said.heartbeat(at, "b~1", 1, took=0)
    return said


def ends_of_a(said: Conversation) -> list[tuple[Any, ...]]:
    return [each for each in told(said) if each[2] == "a~1" and each[0] in ("silence_begun", "connection_ended")]


@pytest.mark.parametrize(
    ("error", "at", "length"),
    [
        (None, 0, "at least 60.000 s"),
        ("UNKNOWN_MEMBER_ID", 25_000, "25.000 s"),  # so it was there, and none any more
        ("UNKNOWN_MEMBER_ID", 10_000, None),
        ("REBALANCE_IN_PROGRESS", 25_000, "25.000 s"),
    ],
)
def test_a_silence_ends_when_the_member_is_heard_again(error: str | None, at: float, length: str | None) -> None:
    said = lonely(at, error)
    expected: list[tuple[Any, ...]] = (
        [] if length is None else [("silence_begun", 0, "a~1", f"{length}; its session timeout is 10000 ms")]
    )
    if error == "REBALANCE_IN_PROGRESS":
        expected.append(("silence_begun", at, "a~1", "at least 35.000 s; its session timeout is 10000 ms"))
    assert ends_of_a(said) == expected


@pytest.mark.parametrize(("error", "silent"), [("ILLEGAL_GENERATION", 1), ("FENCED_INSTANCE_ID", 0)])
def test_a_commit_of_a_generation_that_is_over_puts_nobody_out(error: str, silent: int) -> None:
    said = lonely()
    said.say(3_000, "OffsetCommit", "a", {"memberId": "a~1", "generationId": 0}, {}, error=error)
    said.heartbeat(5_000, "a~1", 1)
    expected = [("silence_begun", 5_000, "a~1", "at least 55.000 s; its session timeout is 10000 ms")]
    assert ends_of_a(said) == expected[:silent]


def test_who_waits_for_its_answer_is_not_silent() -> None:
    said = lonely()
    said.join(5_000, "a~1", broker="10.0.0.2:9092")
    assert ends_of_a(said) == []


def test_who_spoke_on_waits_for_no_answer_to_its_join() -> None:
    said = lonely()
    said.join(5_000, "a~1", broker="10.0.0.2:9092")
    said.heartbeat(6_000, "a~1", 1, broker="10.0.0.2:9092")
    assert [each[:2] for each in ends_of_a(said)] == [("silence_begun", 6_000)]


def test_who_was_refused_waits_for_nothing() -> None:
    said = lonely()
    refused = said.join(5_000, "a~1", error="INVALID_SESSION_TIMEOUT", broker="10.0.0.2:9092")
    refused.answered = None  # it is in the answer that the capture has a part of
    assert [each[0] for each in ends_of_a(said)] == ["silence_begun"]


def test_who_speaks_though_it_was_told_that_it_is_none_is_not_awaited() -> None:
    said = lonely(3_000, "UNKNOWN_MEMBER_ID")
    said.heartbeat(4_000, "a~1", 1, broker="10.0.0.2:9092")
    assert ends_of_a(said) == []


def test_who_left_is_not_awaited_nor_its_connection() -> None:
    said = lonely()
    said.leave(2_000, "a~1")
    closed(said, "a", 3_000)
    assert ends_of_a(said) == []


@pytest.mark.parametrize(("at", "is_told"), [(8_000, True), (20_000, False), (20_001, False)])
def test_the_end_of_a_connection_is_told_of_a_member_until_another_process_comes_in_its_place(
    at: float, is_told: bool
) -> None:
    said = Conversation()
    said.join(0, "a~1", new=True, instance="one", generation=1, leader="b~1", took=0)
    said.join(20_000, "a~2", new=True, instance="one", generation=1, leader="b~1", client="z", took=0)
    closed(said, "a", at)
    ended = [("connection_ended", at, "a~1", "rst")] if is_told else []
    silence = ("silence_begun", 0, "a~1", "20.000 s; its session timeout is 10000 ms")
    assert ends_of_a(said) == [silence, *ended]


def test_the_end_of_a_connection_is_told_of_a_member_to_the_end_of_the_capture() -> None:
    said = lonely()
    closed(said, "a", 60_000, "fin")
    assert ends_of_a(said)[1:] == [("connection_ended", 60_000, "a~1", "fin")]
    (ended,) = [each for each in events(said) if each.event == "connection_ended"]
    assert (ended.connection, ended.packet, ended.number) == (hash_of("a10.0.0.1:9092"), None, None)


def test_a_connection_that_is_open_has_not_ended() -> None:
    said = lonely()
    closed(said, "a", None, "open")
    assert [each[0] for each in ends_of_a(said)] == ["silence_begun"]


@pytest.mark.parametrize(
    ("comes_at", "is_let_in", "until"),
    [
        (20_000, True, "5.000 s"),
        (20_000, False, "at least 45.000 s"),
        (10_000, True, "at least 45.000 s"),  # a was heard after that
    ],
)
def test_a_static_member_is_silent_until_another_process_is_let_in_in_its_place(
    comes_at: int, is_let_in: bool, until: str
) -> None:
    said = lonely()
    said.messages = [message for message in said.messages if message.client_id != "a"]
    said.join(0, "a~1", new=True, instance="one", generation=1, leader="b~1", session=4_000)
    said.heartbeat(3_000, "a~1", 1)
    for at in range(6_000, 15_001, 3_000):
        said.heartbeat(at, "a~1", 1, took=0)
    generation = 1 if is_let_in else None
    said.join(comes_at, "a~2", new=True, instance="one", generation=generation, leader="b~1", client="z")
    (silence,) = ends_of_a(said)
    assert silence == ("silence_begun", 15_000, "a~1", f"{until}; its session timeout is 4000 ms")
