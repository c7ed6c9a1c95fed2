"""What requests and answers of members say, alike for all protocols with epochs."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.groups.epochs.heartbeats import CLASSIC, CONSUMER, SHARE, STREAMS, Beat, BeatReader, tasks
from tests.reports.groups.epochs.epoch_logs import Epochs, parts
from tests.reports.groups.group_logs import START, Conversation, assignment, changed, subscription, unanswered


def these(*partitions: str) -> frozenset[str]:
    return frozenset(partitions)


def read(talk: Conversation) -> list[Beat]:
    reader = BeatReader({"t-id": "t"})
    return [beat for message in talk.messages for beat in reader.beats(message)]


@pytest.mark.parametrize(("api", "protocol"), [("ConsumerGroupHeartbeat", CONSUMER), ("ShareGroupHeartbeat", SHARE)])
def test_a_heartbeat_with_all_that_it_may_tell(api: str, protocol: str) -> None:
    talk = Conversation()
    request: dict[str, Any] = {
        "memberId": "a",
        "memberEpoch": 2,
        "instanceId": "i",
        "subscribedTopicNames": ["u", "t"],
        "subscribedTopicRegex": "v.*",
        "serverAssignor": "uniform",
        "rebalanceTimeoutMs": 4000,
        "topicPartitions": parts([0, 1]),
    }
    response = {
        "memberId": "a",
        "memberEpoch": 3,
        "heartbeatIntervalMs": 1000,
        "assignment": {"topicPartitions": [{"topicId": "x-id", "partitions": [2]}]},
    }
    talk.say(0, api, "client", request, response, took=5)
    [beat] = read(talk)
    assert (beat.protocol, beat.member_id, beat.instance_id) == (protocol, "a", "i")
    assert (beat.at, beat.done, beat.sent, beat.epoch) == (START, START + 5_000_000, 2, 3)
    assert (beat.answered, beat.error, beat.quiet, beat.joins, beat.leaves) == (True, None, False, False, False)
    assert (beat.topics, beat.regex, beat.assignors) == (("t", "u"), "v.*", ["uniform"])
    assert (beat.rebalance_timeout_ms, beat.interval_ms, beat.session_timeout_ms) == (4000, 1000, None)
    assert (beat.owned, beat.given) == (these("t-0", "t-1"), these("x-id-2"))  # no name is known of that topic
    assert beat.packet == 2


def test_a_heartbeat_that_tells_nothing_new() -> None:
    talk = Conversation()
    silent = dict.fromkeys(("instanceId", "subscribedTopicNames", "subscribedTopicRegex", "topicPartitions"))
    request = {"memberId": "a", "memberEpoch": 2, "rebalanceTimeoutMs": -1} | silent
    talk.say(
        0, "ConsumerGroupHeartbeat", "a", request, {"memberEpoch": 2, "heartbeatIntervalMs": 0, "assignment": None}
    )
    [beat] = read(talk)
    told = (beat.topics, beat.regex, beat.owned, beat.given, beat.rebalance_timeout_ms, beat.interval_ms)
    assert told == (None,) * 6
    assert beat.assignors == []


@pytest.mark.parametrize(
    ("sent", "answered", "joins", "leaves"),
    [
        (0, 1, True, False),
        (1, 1, False, False),
        (-1, -1, False, True),
        (-2, -2, False, True),
        (None, -1, False, True),
        (None, 0, False, False),
    ],
)
def test_the_epoch_says_who_joins_and_who_leaves(sent: int | None, answered: int, joins: bool, leaves: bool) -> None:
    talk = Conversation()
    request = None if sent is None else {"memberId": "a", "memberEpoch": sent}
    talk.say(0, "ConsumerGroupHeartbeat", "a", request, {"memberId": "a", "memberEpoch": answered})
    if sent is None:
        talk.messages[0] = changed(talk.messages[0], outcome="orphan", request_packet=None)
    [beat] = read(talk)
    assert (beat.member_id, beat.joins, beat.leaves) == ("a", joins, leaves)


def test_without_an_answer_or_with_an_error_a_heartbeat_has_no_epoch() -> None:
    talk = Epochs()
    talk.messages = [unanswered(talk.beat(0, "a", 0, 1))]
    talk.beat(100, "a", 0, error="FENCED_MEMBER_EPOCH")
    alone, refused = read(talk)
    assert (alone.done, alone.epoch, alone.answered, alone.joins) == (START, None, False, False)
    assert (refused.epoch, refused.error, refused.answered, refused.joins) == (None, "FENCED_MEMBER_EPOCH", True, False)


def test_a_heartbeat_that_repeats_the_one_before_on_its_connection_is_quiet() -> None:
    talk = Epochs()
    for at in (0, 100):
        talk.beat(at, "a", 2, owned=[0], instance="i")
    talk.beat(200, "a", 2, 3)
    talk.beat(300, "a", 2, 3)
    talk.beat(400, "a", 0, 3)  # who joins twice does not repeat itself
    talk.beat(500, "a", 0, 3)
    found = read(talk)
    assert [beat.quiet for beat in found] == [False, True, False, True, False, False]
    assert (found[1].instance_id, found[1].sent, found[1].epoch, found[1].owned) == ("i", 2, 2, None)


def test_an_answer_of_streams_has_tasks_and_what_keeps_the_group_waiting() -> None:
    def of_first(*partitions: int) -> list[dict[str, Any]]:
        return [{"subtopologyId": "0", "partitions": list(partitions)}]

    talk = Conversation()
    topology = {"epoch": 7, "subtopologies": [{"sourceTopics": ["b", "a"]}, {"sourceTopics": ["a"]}, {}]}
    request = {"memberId": "s", "memberEpoch": 2, "topology": topology, "activeTasks": of_first(0)}
    response = {
        "memberEpoch": 2,
        "activeTasks": of_first(0, 1),
        "standbyTasks": of_first(3, 2),
        "warmupTasks": None,
        "status": [{"statusCode": 3, "statusDetail": "internal"}, {"statusCode": 1}],
    }
    talk.say(0, "StreamsGroupHeartbeat", "s", request, response)
    [beat] = read(talk)
    assert (beat.protocol, beat.topics, beat.topology) == (STREAMS, ("a", "b"), "7")
    assert (beat.owned, beat.given, beat.waiting) == (
        these("0_0"),
        these("0_0", "0_1"),
        {"standbyTasks": ["0_2", "0_3"]},
    )
    assert beat.statuses == {3: "internal", 1: ""}
    talk.say(1, "StreamsGroupHeartbeat", "s", {"memberId": "s", "memberEpoch": 2}, {"memberEpoch": 2})
    later = read(talk)[1]
    assert (later.topology, later.owned, later.given, later.waiting, later.statuses) == (None, None, None, {}, None)


def test_assignments_in_descriptions() -> None:
    reader = BeatReader({"t-id": "t"})
    assert reader.described(None) is None
    assert reader.described({"topicPartitions": parts([0])}) == these("t-0")
    assert reader.described({"topicPartitions": [{"topicName": "u", "topicId": "t-id", "partitions": [0]}]}) == these(
        "u-0"
    )
    assert reader.described({"activeTasks": [{"subtopologyId": "1", "partitions": [4]}]}) == these("1_4")
    assert tasks(None) is None


def test_a_classic_join_is_a_beat_of_epoch_zero() -> None:
    talk = Conversation()
    talk.join(0, "a~1", generation=4, instance="i", owned={"t": [0]}, topics=("t", "u"), reason="why")
    talk.join(100, "a~1", new=True, error="MEMBER_ID_REQUIRED")
    joined, refused = read(talk)
    assert (joined.protocol, joined.member_id, joined.sent, joined.epoch, joined.joins) == (CLASSIC, "a~1", 0, 4, True)
    assert (joined.topics, joined.owned, joined.assignors) == (("t", "u"), these("t-0"), ["range"])
    assert (joined.rebalance_timeout_ms, joined.session_timeout_ms) == (60_000, 10_000)
    assert (joined.instance_id, joined.reason, joined.leader) == ("i", "why", "a~1")
    assert (refused.epoch, refused.leader, refused.reason, refused.joins) == (None, None, None, False)
    talk.join(200, "a~1", error="ILLEGAL_GENERATION")  # such an answer names nobody
    assert read(talk)[2].member_id == "a~1"


@pytest.mark.parametrize(("generation", "epoch"), [(-1, None), (0, 0), (1, 1)])
def test_a_generation_below_zero_is_none(generation: int, epoch: int | None) -> None:
    talk = Conversation()
    talk.say(0, "JoinGroup", "a", {"memberId": "a"}, {"generationId": generation, "memberId": "a", "leader": ""})
    assert read(talk)[0].epoch == epoch


def test_a_join_of_which_the_capture_has_the_answer_alone_may_be_of_a_member_that_was_there() -> None:
    talk = Conversation()
    message = talk.say(0, "JoinGroup", "a", None, {"generationId": 3, "memberId": "a~1", "leader": ""})
    assert read(talk)[0].sent == 0
    talk.messages = [changed(message, outcome="orphan")]
    assert (read(talk)[0].sent, read(talk)[0].epoch, read(talk)[0].member_id) == (None, 3, "a~1")


def test_a_join_that_is_cut_before_it_says_who_joins_is_of_nobody() -> None:
    talk = Conversation()
    cut = talk.say(0, "JoinGroup", "a", {"sessionTimeoutMs": 6000}, {"generationId": 3, "leader": "a~1"})
    assert read(talk) == []
    talk.messages = [changed(cut, error="MEMBER_ID_REQUIRED")]
    assert [beat.error for beat in read(talk)] == ["MEMBER_ID_REQUIRED"]


def test_a_classic_sync_is_answered_with_partitions() -> None:
    talk = Conversation()
    talk.say(
        0,
        "SyncGroup",
        "a",
        {"memberId": "a~1", "generationId": 4, "groupInstanceId": "i"},
        {"assignment": assignment({"t": [0, 1]})},
    )
    talk.sync(100, "a~1", 4, error="REBALANCE_IN_PROGRESS")
    talk.sync(200, "a~1", 4, error="REBALANCE_IN_PROGRESS")
    given, refused, again = read(talk)
    assert (given.sent, given.epoch, given.given, given.instance_id) == (4, 4, these("t-0", "t-1"), "i")
    assert (refused.given, refused.epoch, refused.error) == (None, None, "REBALANCE_IN_PROGRESS")
    assert not again.quiet


def test_a_classic_heartbeat_repeats_the_generation() -> None:
    talk = Conversation()
    talk.say(0, "Heartbeat", "a", {"memberId": "a~1", "generationId": 4, "groupInstanceId": "i"}, {})
    [beat] = read(talk)
    assert (beat.protocol, beat.member_id, beat.sent, beat.epoch, beat.instance_id) == (CLASSIC, "a~1", 4, 4, "i")


@pytest.mark.parametrize(
    ("request_", "response", "error", "found"),
    [
        ({"memberId": "a~1"}, {}, None, [("a~1", None, None, None)]),
        ({"memberId": "a~1"}, {}, "NOT_COORDINATOR", [("a~1", None, None, "NOT_COORDINATOR")]),
        (
            {"members": [{"memberId": "a~1", "reason": "why"}, {"groupInstanceId": "i"}]},
            {"members": [{"memberId": "a~1", "errorCode": 0}, {"errorCode": 25}]},
            None,
            [("a~1", None, "why", None), ("", "i", None, "UNKNOWN_MEMBER_ID")],
        ),
        (
            {"members": [{"memberId": "a~1"}, {"memberId": "b~1"}]},
            {"members": [{"memberId": "a~1", "errorCode": 0}, {"errorCode": 25}]},
            "UNKNOWN_MEMBER_ID",
            [("a~1", None, None, None), ("b~1", None, None, "UNKNOWN_MEMBER_ID")],
        ),
        (
            {"members": [{"memberId": "a~1"}, {"memberId": "b~1"}]},
            {"members": [{"memberId": "a~1", "errorCode": 82}, {"errorCode": 25}]},
            "FENCED_INSTANCE_ID",
            [("a~1", None, None, "FENCED_INSTANCE_ID"), ("b~1", None, None, "UNKNOWN_MEMBER_ID")],
        ),
        (
            {"members": [{"memberId": "a~1"}, {"memberId": "b~1"}]},
            {"members": []},
            "NOT_COORDINATOR",
            [("a~1", None, None, "NOT_COORDINATOR"), ("b~1", None, None, "NOT_COORDINATOR")],
        ),
        (
            {"members": [{"memberId": "a~1"}]},
            {"members": [{"memberId": "a~1", "errorCode": 25}]},
            "UNKNOWN_MEMBER_ID",
            [("a~1", None, None, "UNKNOWN_MEMBER_ID")],
        ),
        ({"members": [{"memberId": "a~1"}]}, {}, "NOT_COORDINATOR", [("a~1", None, None, "NOT_COORDINATOR")]),
        (None, {}, None, []),
        ({"groupId": "g"}, {}, None, []),  # the capture cut it; by the answer it is known who left
        ({"groupId": "g"}, {"members": [{"memberId": "a~1"}]}, None, [("a~1", None, None, None)]),
    ],
)
def test_a_leave_has_a_beat_for_each_member_with_its_own_error(
    request_: dict[str, Any] | None,
    response: dict[str, Any],
    error: str | None,
    found: list[tuple[str, str | None, str | None, str | None]],
) -> None:
    talk = Conversation()
    talk.say(0, "LeaveGroup", "a", request_, response, error=error)
    beats = read(talk)
    assert [(each.member_id, each.instance_id, each.reason, each.error) for each in beats] == found
    assert all(each.leaves for each in beats)


def test_what_is_no_word_of_a_member_is_no_beat() -> None:
    talk = Conversation()
    talk.say(0, "OffsetCommit", "a", {"memberId": "a~1"}, {})
    assert read(talk) == []


def test_a_subscription_that_cannot_be_read_is_not_known() -> None:
    talk = Conversation()
    metadata = subscription(("t",), None, None)
    talk.say(0, "JoinGroup", "a", {"memberId": "a", "protocols": [{"name": "x", "metadata": "AAA="}]}, {})
    talk.say(
        1, "JoinGroup", "a", {"memberId": "a", "protocols": [{"name": "x", "metadata": metadata}, {"name": "y"}]}, {}
    )
    unread, whole = read(talk)
    assert (unread.topics, unread.owned) == (None, None)
    assert (whole.topics, whole.assignors) == (("t",), ["x", "y"])
