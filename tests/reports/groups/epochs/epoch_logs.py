"""Logs of groups with epochs, written by hand, and what is read in them."""

from __future__ import annotations

import dataclasses
from typing import Any

from kafkascope.decoders.errors import Error
from kafkascope.reports.groups.epochs.history import history_of, walks_of
from kafkascope.reports.groups.history import Evidence, GroupHistory, GroupLog, Rebalance
from kafkascope.reports.groups.messages import ConnectionEnd, Message
from tests.reports.groups.group_logs import MS, START, Conversation, hash_of


def epochs(log: GroupLog) -> GroupHistory:
    return history_of(walks_of(log, None), log)


def ms(at: int | None) -> float | None:
    """Milliseconds of a conversation."""
    return None if at is None else (at - START) / MS


def said(rebalance: Rebalance) -> list[tuple[str, float, float | None, str]]:
    """What speaks for the trigger: which, how strongly, at which millisecond, and in words."""
    return [_said(each) for each in rebalance.evidence if not each.rejected]


def rejected(rebalance: Rebalance) -> list[tuple[str, float, float | None, str]]:
    """What was thought of besides."""
    return [_said(each) for each in rebalance.evidence if each.rejected]


Told = tuple[float | None, str, str | None, int | None, int | None, str | None]


def told(history: GroupHistory) -> list[Told]:
    """Events: at which millisecond, what, of whom, in which epoch, in which packet, and details."""
    return [
        (ms(each.at), each.event, each.member_id, each.generation, each.packet, each.detail) for each in history.events
    ]


def _said(each: Evidence) -> tuple[str, float, float | None, str]:
    return each.trigger, round(float(each.weight), 2), ms(each.at), each.text


class Epochs(Conversation):
    """Members that send heartbeats with epochs; a topic id is the topic's name."""

    api = "ConsumerGroupHeartbeat"

    def log(self) -> GroupLog:
        return dataclasses.replace(super().log(), topics={"t-id": "t", "u-id": "u"})

    def beat(
        self,
        at: float,
        member: str,
        sent: int,
        epoch: int | None = None,
        *,
        given: list[int] | dict[str, list[int]] | None = None,
        owned: list[int] | None = None,
        topics: list[str] | None = None,
        regex: str | None = None,
        error: str | None = None,
        instance: str | None = None,
        assignor: str | None = None,
        **more: Any,
    ) -> Message:
        """A heartbeat; given and owned are partitions of t."""
        request: dict[str, Any] = {"memberId": member, "memberEpoch": sent, "instanceId": instance}
        request["subscribedTopicNames"] = (["t"] if sent == 0 and regex is None else None) if topics is None else topics
        request["subscribedTopicRegex"] = regex
        request["serverAssignor"] = assignor
        request["rebalanceTimeoutMs"] = 4000 if sent == 0 else -1
        request["topicPartitions"] = parts(owned if owned is not None or sent else [])
        response: dict[str, Any] = {"memberId": member, "memberEpoch": sent if epoch is None else epoch}
        response |= {"heartbeatIntervalMs": 1000, "assignment": None}
        if error is not None:
            response = {"errorCode": Error[error].code, "memberEpoch": 0}
        if given is not None:
            response["assignment"] = {"topicPartitions": parts(given)}
        return self.say(at, self.api, member.partition("~")[0], request, response, error=error, version=1, **more)

    def beats(self, begin: float, end: float, member: str, epoch: int) -> None:
        """Heartbeats each second."""
        for at in range(int(begin), int(end), 1000):
            self.beat(at, member, epoch)

    def ends(self, at: float, client: str, how: str = "rst", software: str | None = None) -> None:
        """A client's connection ends."""
        connection = hash_of(client + "10.0.0.1:9092")
        end = ConnectionEnd(connection, client, 1, "", client, START, START + int(at * MS), how, software, "1.0")
        self.ended[connection] = end

    def two(self) -> None:
        """a has partitions 0 and 1, b has 2 and 3, in epoch 2."""
        self.beat(0, "a", 0, 1, given=[0, 1, 2, 3])
        self.beat(50, "a", 1, owned=[0, 1, 2, 3])
        self.beat(1000, "b", 0, 2, given=[])
        self.beat(1050, "a", 1, given=[0, 1])
        self.beat(1100, "a", 1, 2, owned=[0, 1])
        self.beat(2000, "b", 2, given=[2, 3])
        self.beat(2010, "b", 2, owned=[2, 3])


def parts(given: list[int] | dict[str, list[int]] | None) -> list[dict[str, Any]] | None:
    if given is None:
        return None
    by_topic = given if isinstance(given, dict) else {"t": given}
    return [{"topicId": f"{topic}-id", "partitions": which} for topic, which in by_topic.items()]


class Shares(Epochs):
    api = "ShareGroupHeartbeat"


def streams(talk: Conversation, at: float, sent: int, epoch: int, given: list[int] | None, *codes: int) -> None:
    active = None if given is None else [{"subtopologyId": "0", "partitions": given}]
    request = {"memberId": "s", "memberEpoch": sent, "activeTasks": None, "rebalanceTimeoutMs": 4000}
    if sent == 0:
        request["topology"] = {"epoch": 0, "subtopologies": [{"subtopologyId": "0", "sourceTopics": ["lines"]}]}
    status = [{"statusCode": code, "statusDetail": "…"} for code in codes]
    response = {"memberEpoch": epoch, "status": status, "activeTasks": active, "standbyTasks": None}
    talk.say(at, "StreamsGroupHeartbeat", "s", request, response, version=0)


def mixed() -> Epochs:
    """A classic group of a and b, to which c comes with a heartbeat: epoch 2."""
    talk = Epochs()
    talk.formed(0, 1, {"a~1": {"t": [0, 1]}, "b~1": {"t": [2, 3]}})
    talk.heartbeat(4000, "a~1", 1)
    talk.beat(5000, "c", 0, 2, given=[])
    for member, at, kept in (("a~1", 6000, [0, 1]), ("b~1", 6100, [2])):
        talk.heartbeat(at, member, 1, "REBALANCE_IN_PROGRESS")
        talk.say(
            at + 10, "JoinGroup", member[0], join_of(member), {"generationId": 2, "leader": "", "memberId": member}
        )
        talk.sync(at + 20, member, 2, {"t": kept})
    talk.beat(7000, "c", 2, given=[3])
    return talk


def join_of(member: str, topics: tuple[str, ...] = ("t",)) -> dict[str, Any]:
    metadata = {"_definition": "ConsumerProtocolSubscription", "topics": list(topics), "ownedPartitions": []}
    return {"memberId": member, "protocols": [{"name": "range", "metadata": metadata}], "sessionTimeoutMs": 10_000}
