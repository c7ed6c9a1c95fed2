"""Rules about who comes into a group. Times of messages are milliseconds."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.findings.finding import Observation
from kafkascope.reports.groups.history import GroupHistory
from kafkascope.reports.vocabulary.finding_kinds import Severity
from tests.reports.findings.test_group_rules import at, of_kind, rebalances, triggered, whole
from tests.reports.groups.group_logs import Conversation, changed


def test_an_instance_id_of_two_processes_as_a_whole() -> None:
    said = Conversation()
    said.join(0, "a~1", generation=1, instance="i")
    said.join(1_000, "b~1", instance="i", error="FENCED_INSTANCE_ID")
    said.say(2_000, "SyncGroup", "c", {"groupInstanceId": "i"}, {})
    said.say(2_500, "OffsetCommit", "d", {"groupInstanceId": "i"}, {})  # says nothing of who is the process
    said.say(2_800, "ConsumerGroupHeartbeat", "b", {"instanceId": "i", "memberId": "b1"}, {"memberId": "b1"})
    wanted = {"instanceId": "i", "memberId": "e1"}
    said.say(3_000, "ConsumerGroupHeartbeat", "e", wanted, {}, error="UNRELEASED_INSTANCE_ID")
    said.say(3_500, "ConsumerGroupHeartbeat", "b", {"memberId": "b1"}, {"memberId": "b1"})
    said.join(4_000, "f~1", generation=1, instance="of another")
    (found,) = of_kind("instance_id_shared", GroupHistory(), said)
    whole(
        found,
        Severity.CRITICAL,
        "Instance id i is used by more than one process: a (host-of-a), b (host-of-b), c (host-of-c), e (host-of-e)",
        [
            Observation("JoinGroup of b (host-of-b) answered FENCED_INSTANCE_ID", 4, at(1)),
            Observation("ConsumerGroupHeartbeat of e (host-of-e) answered UNRELEASED_INSTANCE_ID", 12, at(3)),
        ],
        0.8,
        ["b", "e"],
    )


def test_who_comes_back_before_its_session_has_ended_shares_no_instance_id() -> None:
    said = Conversation()
    before = {"instanceId": "i", "memberId": "a1"}
    said.say(0, "ConsumerGroupHeartbeat", "a", before, {"memberId": "a1"})
    said.say(8_000, "ConsumerGroupHeartbeat", "a", {"memberId": "a1"}, {"memberId": "a1"})
    again = {"instanceId": "i", "memberId": "a2"}
    said.say(15_000, "ConsumerGroupHeartbeat", "a", again, {}, error="UNRELEASED_INSTANCE_ID")
    said.say(20_000, "ConsumerGroupHeartbeat", "a", again, {}, error="UNRELEASED_INSTANCE_ID")
    said.say(54_000, "ConsumerGroupHeartbeat", "a", again, {"memberId": "a2"})
    assert of_kind("instance_id_shared", GroupHistory(), said) == []
    (found,) = of_kind("join_refused", GroupHistory(), said)
    assert (found.severity, found.client_ids) == (Severity.WARNING, ["a"])
    assert found.title == "a may not join yet: instance id i was not given up by the process that had it"
    assert [one.at for one in found.evidence] == [at(15), at(20)]


def test_joins_that_are_refused_as_a_whole() -> None:
    said = Conversation()
    refused = "UNSUPPORTED_ASSIGNOR"
    said.say(0, "ConsumerGroupHeartbeat", "b", {"serverAssignor": "mine"}, {}, error=refused)
    said.join(1_000, "a~1", error="INCONSISTENT_GROUP_PROTOCOL")
    said.say(2_000, "ConsumerGroupHeartbeat", "b", {}, {}, error=refused)
    said.say(3_000, "Heartbeat", "c", {}, {}, error="GROUP_AUTHORIZATION_FAILED")
    said.join(3_000, "d~1", error="REBALANCE_IN_PROGRESS")
    of_server, of_client = of_kind("no_common_assignor", GroupHistory(), said)
    whole(
        of_server,
        Severity.CRITICAL,
        "b cannot join: it asks for an assignor that the broker does not have",
        [
            Observation("ConsumerGroupHeartbeat answered UNSUPPORTED_ASSIGNOR; it offers mine", 2, at(0)),
            Observation("ConsumerGroupHeartbeat answered UNSUPPORTED_ASSIGNOR", 6, at(2)),
        ],
        0.7,
        ["b"],
    )
    assert of_client.title == "a cannot join: it has no assignor (or protocol type) in common with the others"
    assert of_client.evidence == [
        Observation("JoinGroup answered INCONSISTENT_GROUP_PROTOCOL; it offers range", 4, at(1))
    ]
    assert of_kind("join_refused", GroupHistory(), said) == []


@pytest.mark.parametrize(
    ("error", "request_", "told"),
    [
        ("GROUP_ID_NOT_FOUND", {"memberEpoch": 0}, "comes with another protocol than the group has"),
        ("GROUP_ID_NOT_FOUND", {"memberEpoch": 3}, None),  # the group of a member is gone
        ("GROUP_ID_NOT_FOUND", {}, None),
        ("UNSUPPORTED_VERSION", {"memberEpoch": 0}, "comes with a group protocol that the broker does not have"),
        ("INVALID_REQUEST", {"memberEpoch": 0}, "asks for what the broker takes to be wrong"),
        ("INVALID_REQUEST", {"memberEpoch": 3}, None),
    ],
)
def test_a_group_of_another_type_lets_nobody_in(error: str, request_: dict[str, Any], told: str | None) -> None:
    said = Conversation()
    said.say(0, "ShareGroupHeartbeat", "b", request_, {}, error=error)
    found = of_kind("join_refused", GroupHistory(), said)
    assert len(found) == (told is not None)
    if told is not None:
        assert found[0].title.startswith(f"b cannot join: it {told}")


@pytest.mark.parametrize(
    ("api", "advice"),
    [
        ("ConsumerGroupHeartbeat", "set group.protocol=classic"),
        ("ShareGroupHeartbeat", "share.version=1"),
        ("StreamsGroupHeartbeat", "streams.version=1"),
    ],
)
def test_what_to_do_about_a_protocol_that_is_not_there_is_that_of_the_protocol(api: str, advice: str) -> None:
    said = Conversation()
    said.say(0, api, "b", {"memberEpoch": 0}, {}, error="UNSUPPORTED_VERSION")
    (found,) = of_kind("join_refused", GroupHistory(), said)
    assert advice in found.advice


def test_a_client_without_an_id_is_a_question_mark() -> None:
    said = Conversation()
    said.join(0, "a~1", instance="i", error="FENCED_INSTANCE_ID")
    said.join(0, "a~1", error="GROUP_MAX_SIZE_REACHED")
    said.messages = [changed(message, client_id=None) for message in said.messages]
    (shared,) = of_kind("instance_id_shared", GroupHistory(), said)
    assert shared.title.endswith("by more than one process: ? (host-of-a)")
    assert shared.evidence[0].text == "JoinGroup of ? (host-of-a) answered FENCED_INSTANCE_ID"
    (refused,) = of_kind("join_refused", GroupHistory(), said)
    assert (refused.title, refused.client_ids) == ("? cannot join: it finds the group full", [])


@pytest.mark.parametrize(
    ("error", "said_by_broker", "told"),
    [
        ("INVALID_REQUEST", "Topology updates\n are not supported yet.", " (Topology updates are not supported yet)"),
        ("INVALID_REQUEST", None, ""),
        ("STREAMS_INVALID_TOPOLOGY", "x" * 300, f" ({'x' * 200})"),
        ("STREAMS_TOPOLOGY_FENCED", "it tells no more", ""),
    ],
)
def test_another_topology_than_the_group_has(error: str, said_by_broker: str | None, told: str) -> None:
    said = Conversation()
    answer = {"errorMessage": said_by_broker}
    said.say(0, "StreamsGroupHeartbeat", "b", {"memberEpoch": 0, "topology": {}}, answer, error=error)
    (found,) = of_kind("join_refused", GroupHistory(), said)
    assert found.title.startswith("b cannot join: it ")
    assert found.title.endswith(told or " wrong" if error == "INVALID_REQUEST" else told)
    assert found.advice.startswith("All instances with one application.id must have one topology")


def worker(said: Conversation, at: float, told: int | None, *, client: str = "w", given: int | None = 4) -> None:
    """A worker of Connect that joins with its configuration, and is given work by another one."""
    metadata = {"_definition": "ConnectMetadata", "configOffset": told}
    request = {"memberId": f"{client}~1", "protocols": [{"name": "sessioned", "metadata": metadata}]}
    said.say(at, "JoinGroup", client, request, {"generationId": 3})
    answer = {"assignment": {"_definition": "ConnectAssignment", "configOffset": given}}
    said.say(at + 1, "SyncGroup", client, {"memberId": f"{client}~1", "generationId": 3}, answer)


def test_a_worker_that_does_not_come_to_the_configuration_of_its_leader() -> None:
    said = Conversation()
    for number in range(12):
        worker(said, 100 * number, -1)
        worker(said, 100 * number + 50, 4, client="leader")
    (found,) = of_kind("configurations_apart", GroupHistory(), said)
    text = "JoinGroup of w (host-of-w) tells offset -1, after an assignment by 4"
    packets = [8 * number + 2 for number in range(1, 12)]
    assert found.evidence[:11] == [
        Observation(text, packet, at(number / 10)) for number, packet in enumerate(packets, 1)
    ]
    assert (
        found.title
        == "w has the configuration up to offset -1, and gets work by the one up to 4: it joined again 11 times"
    )
    assert (found.severity, found.client_ids) == (Severity.CRITICAL, ["w"])
    assert (found.since, found.until, found.weight) == (at(0.1), at(1.101), 0.524)


def test_such_a_worker_is_not_lost_when_its_session_ends() -> None:
    said = Conversation()
    for number in range(12):
        worker(said, 100 * number, -1)
    history = triggered(rebalances(0, 2), ("session_timeout", "w"), ("session_timeout", "v"))
    assert [found.client_ids for found in of_kind("member_lost", history, said)] == [["v"]]


@pytest.mark.parametrize(
    ("times", "told", "given", "found"),
    [(11, 3, 4, 1), (10, 3, 4, 0), (11, 4, 4, 0), (11, None, 4, 0), (11, 3, None, 0), (11, 5, 4, 1)],
)
def test_a_worker_that_reads_on_is_not_told(times: int, told: int | None, given: int | None, found: int) -> None:
    said = Conversation()
    for number in range(times):
        worker(said, 100 * number, told, given=given)
    assert len(of_kind("configurations_apart", GroupHistory(), said)) == found
    said = Conversation()
    for number in range(times):  # each time it has read further, as where connectors are added
        worker(said, 100 * number, None if told is None else told + number, given=given)
    assert of_kind("configurations_apart", GroupHistory(), said) == []


def test_joins_that_are_refused_or_cut_tell_no_configuration() -> None:
    said = Conversation()
    for number in range(12):
        worker(said, 100 * number, -1)
    for odd in (
        {"error": "UNKNOWN_MEMBER_ID"},
        {"request_text": None},
        {"request_text": '{"memberId": "w~1", "protocols": null}'},
        {"request_text": '{"memberId": "w~1", "protocols": [{"metadata": "?"}]}', "response_text": "{}"},
    ):
        other = Conversation()
        other.messages = [changed(message, **odd) for message in said.messages]
        assert of_kind("configurations_apart", GroupHistory(), other) == []
