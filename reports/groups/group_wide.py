"""What happened to a group as a whole, whatever protocol its members speak: coordinator, commits, administration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kafkascope.decoders.errors import name_of
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import address
from kafkascope.reports.groups.body import Json, rows, text
from kafkascope.reports.groups.history import Event, GroupHistory, GroupLog
from kafkascope.reports.groups.leaving import NOT_HERE
from kafkascope.reports.groups.messages import LEFT_OUT, Message, settings_refused
from kafkascope.reports.vocabulary.events import EventKind
from kafkascope.reports.vocabulary.group_apis import MEMBER_APIS, settings_given

_MOST_REFUSALS = 1_000
"""Refused commits of one client and error that are told one by one."""


def group_wide(log: GroupLog) -> GroupHistory:
    """Events of the group as a whole, in order of time; no rebalances."""
    writer = _Writer(log)
    history = GroupHistory()
    told = [message for message in log.messages if message.api in _WRITERS]
    told.sort(key=lambda message: (message.answered or message.at, message.packet or 0))
    for message in told:
        history.events += _WRITERS[message.api](writer, message)
    return history


class _Writer:
    def __init__(self, log: GroupLog) -> None:
        self._group = log.group_id
        self._members = {
            message.client_id for message in log.messages if message.api in MEMBER_APIS and message.client_id
        }
        self._coordinator: tuple[Any, str] | None = None  # node id, and where it was told to be
        self._told: dict[tuple[str | None, str], None] = {}
        self._of_nobody: dict[str | None, bool] = {}  # requests
        self._refused: dict[tuple[str | None, str], int] = {}
        self._brokers: dict[str, str] = {}

    def _event(self, kind: EventKind, message: Message, detail: str | None = None) -> Event:
        request = message.request
        generation = request.get("generationIdOrMemberEpoch", request.get("generationId"))
        return Event(
            group_id=self._group,
            at=message.answered or message.at,
            event=kind,
            member_id=text(request.get("memberId")) or None,
            client_id=message.client_id,
            client=message.client or None,
            instance_id=text(request.get("groupInstanceId")) or None,
            generation=generation if isinstance(generation, int) and generation >= 0 else None,
            connection=message.connection,
            number=message.number,
            packet=message.response_packet or message.packet,
            detail=detail,
        )

    def find(self, message: Message) -> Iterator[Event]:
        """Who is coordinator: told once for each client and answer."""
        response = message.response
        answers = rows(response.get("coordinators")) or ([response] if "nodeId" in response else [])
        for answer in answers:
            if answer.get("key", self._group) != self._group:
                continue
            if answer.get("errorCode") or message.error:
                said = answer.get("errorMessage") or message.error
                yield self._event(EventKind.COORDINATOR_UNAVAILABLE, message, said)
                continue
            node_id = answer.get("nodeId")
            where = f"{address(answer.get('host'), answer.get('port'))} (node {node_id})"
            if self._coordinator is not None and self._coordinator[0] != node_id:
                self._told.clear()
                yield self._event(EventKind.COORDINATOR_MOVED, message, f"from {self._coordinator[1]} to {where}")
            self._coordinator = node_id, where
            if (message.client_id, where) not in self._told:
                self._told[message.client_id, where] = None
                yield self._event(EventKind.COORDINATOR_FOUND, message, where)

    def commit(self, message: Message) -> Iterator[Event]:
        if message.error:
            key = (message.client_id, message.error)
            self._refused[key] = self._refused.get(key, 0) + 1
            if self._refused[key] <= _MOST_REFUSALS:
                kind = EventKind.COORDINATOR_UNAVAILABLE if message.error in NOT_HERE else EventKind.COMMIT_REFUSED
                yield self._event(kind, message, message.error)
        elif message.api == "OffsetCommit" and self._members and self._is_of_nobody(message):
            yield self._event(EventKind.OFFSETS_ALTERED, message, _topics(message.request))

    def _is_of_nobody(self, message: Message) -> bool:
        """Whether a commit names no member; of one that is cut before that it is not known."""
        known = self._of_nobody.get(message.request_text)  # a member says the same again and again
        if known is None:
            known = message.request.get("memberId") == ""
            self._of_nobody[message.request_text] = known
        return known

    def describe(self, message: Message) -> Iterator[Event]:
        for group in rows(message.response.get("groups")):
            if group.get("groupId") == self._group:
                members = len(group.get("members") or [])
                state = name_of(code) if (code := group.get("errorCode")) else group.get("groupState")
                yield self._event(EventKind.DESCRIBED, message, f"{state}, {members} members")

    def configure(self, message: Message) -> Iterator[Event]:
        error = settings_refused(message, self._group)
        refused = f" refused: {error}" if error else ""
        given = settings_given(message.request, self._group)
        detail = ", ".join(
            f"{name}={value}" if value is not None else f"{name} by default" for name, value in given.items()
        )
        yield self._event(EventKind.CONFIGURED, message, f"{detail}{refused}")

    def delete(self, message: Message) -> Iterator[Event]:
        for result in rows(message.response.get("results")):
            if result.get("groupId") == self._group:
                code = result.get("errorCode")
                said = result.get("errorMessage") or (name_of(code) if code else None)
                yield self._event(EventKind.DELETED, message, f"refused: {said}" if code else None)

    def delete_offsets(self, message: Message) -> Iterator[Event]:
        refused = f" refused: {message.error}" if message.error else ""
        yield self._event(EventKind.OFFSETS_DELETED, message, f"{_topics(message.request)}{refused}")

    def alter_offsets(self, message: Message) -> Iterator[Event]:
        refused = f" refused: {message.error}" if message.error else ""
        yield self._event(EventKind.OFFSETS_ALTERED, message, f"{_topics(message.request)}{refused}")


def _topics(request: Json) -> str:
    topics = rows(request.get("topics"))
    names = [str(topic.get("name") or topic.get("topicName") or topic.get("topicId")) for topic in topics]
    return listed(names, 20, request.get(f"topics{LEFT_OUT}", 0))


_WRITERS: dict[str, Callable[[_Writer, Message], Iterator[Event]]] = {
    "FindCoordinator": _Writer.find,
    "OffsetCommit": _Writer.commit,
    "TxnOffsetCommit": _Writer.commit,
    "DescribeGroups": _Writer.describe,
    "ConsumerGroupDescribe": _Writer.describe,
    "ShareGroupDescribe": _Writer.describe,
    "StreamsGroupDescribe": _Writer.describe,
    "IncrementalAlterConfigs": _Writer.configure,
    "DeleteGroups": _Writer.delete,
    "OffsetDelete": _Writer.delete_offsets,
    "AlterShareGroupOffsets": _Writer.alter_offsets,
    "DeleteShareGroupOffsets": _Writer.delete_offsets,
}
