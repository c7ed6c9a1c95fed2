"""Logs of groups: out of captures, and written by hand."""

from __future__ import annotations

import json
import zlib
from dataclasses import fields
from functools import cache
from typing import Any

from kafkascope.reports.columns.views import by_key
from kafkascope.reports.groups.history import GroupHistory, GroupLog, Rebalance, event_table, rebalance_table
from kafkascope.reports.groups.messages import ConnectionEnd, Message, messages_of
from kafkascope.reports.views.groups import GroupsView
from kafkascope.reports.vocabulary.events import EventKind
from kafkascope.sniffer.units import MILLISECOND_NS
from tests.paths import PCAPS
from tests.reports.captured_tables import observed

MS = 1_000_000
START = 1_700_000_000_000 * MS
Members = dict[str, dict[str, Any]]  # what the answer to a leader says of each member, by member id


@cache
def captured_logs(capture: str) -> dict[str, GroupLog]:
    """The log of each group in a capture of pcaps/."""
    view = GroupsView()
    rows = by_key(observed(view, capture), view.key)
    return {group: GroupLog(group, *messages_of(of_group), {}) for group, of_group in rows}


def of(history: GroupHistory) -> dict[int, Rebalance]:
    """The rebalances of a group, by the generation or epoch that each made."""
    return {rebalance.to_generation: rebalance for rebalance in history.rebalances}


def fit_the_tables(history: GroupHistory) -> None:
    """Check that events have names that are explained, that times fit each other, and rows the tables."""
    for each in history.rebalances:
        if each.started is not None and each.stable is not None and each.duration_ms is not None:
            assert each.duration_ms == max(0, each.stable - each.started) / MILLISECOND_NS, each.to_generation
        if each.started is not None and each.recovered is not None and each.cost_ms is not None:
            assert each.cost_ms == max(0, each.recovered - each.started) / MILLISECOND_NS, each.to_generation
    assert {event.event for event in history.events} <= set(EventKind)
    assert event_table(history.events).num_rows == len(history.events)
    assert rebalance_table(history.rebalances).num_rows == len(history.rebalances)


def truth_of(capture: str) -> dict[str, Any]:
    """What brokers and clients logged while the capture was taken."""
    found: dict[str, Any] = json.loads((PCAPS / capture / "truth.json").read_text())
    return found


def changed(message: Message, **changes: Any) -> Message:
    """A copy of a message with some fields changed."""
    values = {field.name: getattr(message, field.name) for field in fields(Message)}
    return Message(**values | changes)


def unanswered(message: Message) -> Message:
    """The message as a capture shows it that has no answers."""
    return changed(message, answered=None, error=None, outcome="unanswered", response_text=None, response_packet=None)


class Conversation:
    """Messages of one group, written one after the other. Times are milliseconds."""

    def __init__(self, group: str = "g") -> None:
        self.group = group
        self.messages: list[Message] = []
        self.ended: dict[int, ConnectionEnd] = {}

    def log(self) -> GroupLog:
        """The log of the group."""
        messages = sorted(self.messages, key=lambda message: message.at)
        return GroupLog(self.group, messages, self.ended, {})

    def say(
        self,
        at: float,
        api: str,
        client: str,
        request: dict[str, Any] | None,
        response: dict[str, Any] | None,
        *,
        took: float = 1,
        error: str | None = None,
        version: int = 7,
        host: str = "",
        broker: str = "10.0.0.1:9092",
    ) -> Message:
        """One exchange; each client has a host and a connection of its own to each broker."""
        number = len(self.messages) + 1
        message = Message(
            at=START + int(at * MS),
            answered=START + int((at + took) * MS) if response is not None else None,
            connection=hash_of(client + host + broker),
            number=number,
            request_packet=2 * number,
            response_packet=2 * number + 1 if response is not None else None,
            api=api,
            version=version,
            client_id=client,
            client=host or f"host-of-{client}",
            client_port=40000,
            broker=broker,
            error=error,
            outcome="answered" if response is not None else "unanswered",
            request_text=None if request is None else json.dumps({"groupId": self.group} | request),
            response_text=None if response is None else json.dumps(response),
        )
        self.messages.append(message)
        return message

    def join(
        self,
        at: float,
        member: str,
        *,
        generation: int | None = None,
        leader: str = "",
        members: Members | None = None,
        took: float = 1,
        new: bool = False,
        instance: str | None = None,
        topics: tuple[str, ...] = ("t",),
        owned: dict[str, list[int]] | None = None,
        reason: str | None = None,
        error: str | None = None,
        client: str | None = None,
        session: int = 10_000,
        rebalance: int = 60_000,
        user_data: str | None = None,
        **more: Any,
    ) -> Message:
        """JoinGroup; members make it the leader's answer."""
        request = {
            "memberId": "" if new else member,
            "groupInstanceId": instance,
            "sessionTimeoutMs": session,
            "rebalanceTimeoutMs": rebalance,
            "protocolType": "consumer",
            "protocols": [{"name": "range", "metadata": subscription(topics, owned, user_data)}],
            "reason": reason,
        }
        response: dict[str, Any] | None = None
        if error is not None:
            response = {"generationId": -1, "memberId": member if error == "MEMBER_ID_REQUIRED" else ""}
        elif generation is not None:
            response = {
                "generationId": generation,
                "protocolType": "consumer",
                "protocolName": "range",
                "leader": leader or member,
                "memberId": member,
                "members": [
                    {"memberId": each, "groupInstanceId": None, "metadata": subscription(topics, None, None)} | about
                    for each, about in (members or {}).items()
                ],
            }
        client = client or client_of(member)
        return self.say(at, "JoinGroup", client, request, response, took=took, error=error, **more)

    def sync(
        self,
        at: float,
        member: str,
        generation: int,
        got: dict[str, list[int]] | None = None,
        gives: dict[str, dict[str, list[int]]] | None = None,
        **more: Any,
    ) -> Message:
        """SyncGroup; gives is what the leader gives to each member."""
        given = [{"memberId": each, "assignment": assignment(what)} for each, what in (gives or {}).items()]
        request = {"memberId": member, "generationId": generation, "assignments": given}
        response = {"assignment": assignment(got or {})} if not more.get("error") else {"assignment": ""}
        return self.say(at, "SyncGroup", client_of(member), request, response, **more)

    def heartbeat(self, at: float, member: str, generation: int, error: str | None = None, **more: Any) -> Message:
        """Heartbeat."""
        request = {"memberId": member, "generationId": generation}
        return self.say(at, "Heartbeat", more.pop("client", client_of(member)), request, {}, error=error, **more)

    def leave(self, at: float, member: str, reason: str | None = None, **more: Any) -> Message:
        """LeaveGroup of one member."""
        instance = more.pop("instance", None)
        members = [{"memberId": member, "groupInstanceId": instance, "reason": reason}]
        answer = {"members": [{"memberId": member, "errorCode": 0}]}
        client = more.pop("client", None) or client_of(member)
        return self.say(at, "LeaveGroup", client, {"members": members}, answer, **more)

    def formed(self, at: float, generation: int, shares: dict[str, dict[str, list[int]]]) -> None:
        """A whole first round: everybody joins anew, the first leads, and gets its share."""
        leader = next(iter(shares))
        for place, member in enumerate(shares):
            members: Members | None = {each: {} for each in shares} if member == leader else None
            self.join(at + 10 * place, member, new=True, error="MEMBER_ID_REQUIRED")
            self.join(at + 10 * place + 5, member, generation=generation, leader=leader, members=members, took=3000)
        self.synced(at + 3100, generation, shares)

    def again(self, at: float, generation: int, shares: dict[str, dict[str, list[int]]], leader: str = "") -> None:
        """Members that were told of a rebalance join and get their shares."""
        leader = leader or next(iter(shares))
        for member in shares:
            self.heartbeat(at - 5, member, generation - 1, "REBALANCE_IN_PROGRESS")
            members: Members | None = {each: {} for each in shares} if member == leader else None
            self.join(at, member, generation=generation, leader=leader, members=members, took=10)
        self.synced(at + 20, generation, shares, leader)

    def synced(self, at: float, generation: int, shares: dict[str, dict[str, list[int]]], leader: str = "") -> None:
        """Everybody gets its share."""
        leader = leader or next(iter(shares))
        for member, share in shares.items():
            self.sync(at, member, generation, share, shares if member == leader else None)


def client_of(member: str) -> str:
    """Member ids are written client~1, client~2, ...: brokers write a UUID."""
    return member.partition("~")[0]


def subscription(topics: tuple[str, ...], owned: dict[str, list[int]] | None, user_data: str | None) -> dict[str, Any]:
    """ConsumerProtocolSubscription as bodies have it."""
    return {
        "_definition": "ConsumerProtocolSubscription",
        "_version": 1,
        "topics": list(topics),
        "userData": user_data,
        "ownedPartitions": [{"topic": topic, "partitions": which} for topic, which in (owned or {}).items()],
    }


def assignment(share: dict[str, list[int]]) -> dict[str, Any]:
    """ConsumerProtocolAssignment as bodies have it."""
    given = [{"topic": topic, "partitions": which} for topic, which in share.items()]
    return {"_definition": "ConsumerProtocolAssignment", "_version": 1, "assignedPartitions": given, "userData": None}


def hash_of(text: str) -> int:
    """A number for a name, the same in every run."""
    return zlib.crc32(text.encode())


SHARES: Members = {"a~1": {"t": [0, 1]}, "b~1": {"t": [2, 3]}}
LAST_WORD = 9_000
SESSION_ENDS = LAST_WORD + 10_000


def two_members() -> Conversation:
    """Generation 1: a and b have two partitions each (`SHARES`), and are heard until `LAST_WORD`."""
    said = Conversation()
    said.formed(0, 1, SHARES)
    for at in (6_000, LAST_WORD):
        said.heartbeat(at, "a~1", 1)
        said.heartbeat(at, "b~1", 1)
    return said


def without(said: Conversation, client: str) -> Conversation:
    """The same, of which the capture lacks a client's traffic."""
    said.messages = [message for message in said.messages if message.client_id != client]
    return said
