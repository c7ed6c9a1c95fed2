"""What a member told its coordinator and was told by it, alike for all protocols in which a group has an epoch.

Of the protocols with heartbeats that carry an epoch (KIP-848, KIP-932, KIP-1071) each heartbeat is one `Beat`; of a
member of the classic protocol in a KIP-848 group it is each JoinGroup, SyncGroup, Heartbeat and LeaveGroup, and the
generation there is the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkascope.decoders.errors import name_of
from kafkascope.reports.groups.assignments import owned_of, partitions_of, topics_of
from kafkascope.reports.groups.body import Json, rows
from kafkascope.reports.groups.leaving import who_leaves
from kafkascope.reports.groups.messages import Message

JOINS = 0  # the epoch with which a member begins
LEAVES = -1
STEPS_OUT = -2  # a static member that will come back

CONSUMER, SHARE, STREAMS, CLASSIC = "consumer", "share", "streams", "classic"
EPOCH_APIS = {"ConsumerGroupHeartbeat": CONSUMER, "ShareGroupHeartbeat": SHARE, "StreamsGroupHeartbeat": STREAMS}
CLASSIC_APIS = frozenset({"JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"})

# StreamsGroupHeartbeatResponse.json: what a status says of the group (KIP-1071; 5 since Kafka 4.3).
MISSING_SOURCE_TOPICS, INCORRECTLY_PARTITIONED, MISSING_INTERNAL_TOPICS = 1, 2, 3
SHUTDOWN_APPLICATION, ASSIGNMENT_DELAYED = 4, 5


@dataclass(slots=True, kw_only=True)
class Terms:
    """What a member and its coordinator told each other once; None is what was not told."""

    topics: tuple[str, ...] | None = None
    regex: str | None = None
    topology: str | None = None
    assignors: list[str] = field(default_factory=list)
    rebalance_timeout_ms: int | None = None
    session_timeout_ms: int | None = None
    interval_ms: int | None = None


@dataclass(slots=True)
class Beat(Terms):
    """One exchange of one member with its coordinator. Times are ns; None is what it does not tell."""

    at: int  # of the request
    done: int  # of the answer; of the request if there is none
    message: Message
    protocol: str
    member_id: str
    sent: int | None  # the epoch that the member sent; 0 joins, -1 and -2 leave
    epoch: int | None  # that it was answered with, if not refused
    error: str | None
    answered: bool
    quiet: bool = False  # the member and the coordinator said just what they had said before
    instance_id: str | None = None
    owned: frozenset[str] | None = None  # the member says that it has these
    given: frozenset[str] | None = None  # the answer says that it shall have these
    topic_ids: dict[str, str] = field(default_factory=dict)  # of the topics that it is given, by name
    waiting: dict[str, list[str]] = field(default_factory=dict)  # standby and warm-up tasks given
    statuses: dict[int, str] | None = None
    reason: str | None = None
    leader: str | None = None  # JoinGroup: empty, if the coordinator assigns
    contested: bool = False  # another member joined at once: who asked first was answered last

    @property
    def packet(self) -> int | None:
        """The packet that shows it."""
        return self.message.packet

    @property
    def asked_at(self) -> int:
        """From when on what it asks for counts: the coordinator looks first which topics a pattern names."""
        return self.done if self.regex else self.at

    @property
    def joins(self) -> bool:
        """A member begins (or begins again) and is taken."""
        return self.sent == JOINS and self.error is None and self.answered

    @property
    def leaves(self) -> bool:
        """A member goes for good, or for now."""
        return self.sent is not None and self.sent < JOINS


class BeatReader:
    """Reads messages of one group, in order of time, as beats."""

    def __init__(self, topics: Mapping[str, str]) -> None:
        self._topics = topics
        self._last: dict[tuple[int, str], tuple[str | None, str | None, list[Beat]]] = {}

    def beats(self, message: Message) -> list[Beat]:
        """The beats of a message: one, or as many as members leave with it; none if it is of another kind."""
        read = _READERS.get(message.api)
        if read is None:
            return []
        # Nearly all heartbeats repeat the one before on their connection: those are not read again.
        key = (message.connection, message.api)
        last = self._last.get(key)
        if last is not None and last[0] == message.request_text and last[1] == message.response_text:
            return [again(beat, message) for beat in last[2]]
        found = list(read(self, message))
        if all(beat.sent is not None and beat.sent > JOINS for beat in found) and message.api != "SyncGroup":
            self._last[key] = (message.request_text, message.response_text, found)
        return found

    def _heartbeat(self, message: Message) -> Iterator[Beat]:
        request, response = message.request, message.response
        sent = _number(request.get("memberEpoch"))
        member = request.get("memberId") or response.get("memberId") or ""
        epoch = _number(response.get("memberEpoch"))
        if sent is None and epoch is not None and epoch < JOINS:
            sent = epoch  # the answer to a member that left says so too
        beat = _beat(message, EPOCH_APIS[message.api], member, sent, epoch)
        beat.instance_id = request.get("instanceId")
        topics = request.get("subscribedTopicNames")
        beat.topics = tuple(sorted(map(str, topics))) if isinstance(topics, list) else None
        beat.regex = request.get("subscribedTopicRegex")
        beat.assignors = [request["serverAssignor"]] if request.get("serverAssignor") else []
        beat.rebalance_timeout_ms = _positive(request.get("rebalanceTimeoutMs"))
        beat.interval_ms = _positive(response.get("heartbeatIntervalMs"))
        if beat.protocol == STREAMS:
            self._streams(beat, request, response)
        else:
            beat.owned = self._partitions(request.get("topicPartitions"))
            assignment = response.get("assignment")
            if isinstance(assignment, dict):
                beat.given = self._partitions(assignment.get("topicPartitions"))
                given = rows(assignment.get("topicPartitions"))
                beat.topic_ids = {self._name(topic): str(topic["topicId"]) for topic in given if topic.get("topicId")}
        yield beat

    def _streams(self, beat: Beat, request: Json, response: Json) -> None:
        beat.owned = tasks(request.get("activeTasks"))
        beat.given = tasks(response.get("activeTasks"))
        beat.waiting = {
            kind: sorted(found)
            for kind in ("standbyTasks", "warmupTasks")
            if (found := tasks(response.get(kind))) is not None
        }
        topology = request.get("topology")
        if isinstance(topology, dict):
            subtopologies = rows(topology.get("subtopologies"))
            names = {str(name) for each in subtopologies for name in each.get("sourceTopics") or []}
            beat.topics = tuple(sorted(names))
            beat.topology = str(topology.get("epoch"))
        if "status" in response:
            told = rows(response["status"])
            beat.statuses = {_number(each.get("statusCode")) or 0: str(each.get("statusDetail") or "") for each in told}

    def _partitions(self, topics: Any) -> frozenset[str] | None:
        if not isinstance(topics, list):
            return None
        return frozenset(
            f"{self._name(topic)}-{partition}" for topic in rows(topics) for partition in topic.get("partitions") or []
        )

    def _name(self, topic: Json) -> str:
        name = topic.get("topicName")
        identity = str(topic.get("topicId"))
        return str(name) if name else self._topics.get(identity, identity)

    def described(self, assignment: Any) -> frozenset[str] | None:
        """The partitions of an assignment in a description of the group."""
        if not isinstance(assignment, dict):
            return None
        if "activeTasks" in assignment:
            return tasks(assignment["activeTasks"])
        return self._partitions(assignment.get("topicPartitions"))

    def _join(self, message: Message) -> Iterator[Beat]:
        request, response = message.request, message.response
        member = response.get("memberId") or request.get("memberId") or ""
        if not member and message.error is None:
            return  # the capture lacks who joined
        generation = _number(response.get("generationId"))
        # A known member that joins again does not begin anew; it sends no generation, though.
        sent = JOINS if request or message.outcome == "answered" else None
        epoch = generation if generation is not None and generation >= 0 else None
        beat = _beat(message, CLASSIC, member, sent, epoch)
        beat.instance_id = request.get("groupInstanceId")
        protocols = rows(request.get("protocols"))
        beat.assignors = [str(each.get("name")) for each in protocols]
        metadata = protocols[0].get("metadata") if protocols else None
        topics, owned = topics_of(metadata), owned_of(metadata)
        beat.topics = None if topics is None else tuple(topics)
        beat.owned = None if owned is None else frozenset(owned)
        beat.rebalance_timeout_ms = _positive(request.get("rebalanceTimeoutMs"))
        beat.session_timeout_ms = _positive(request.get("sessionTimeoutMs"))
        beat.reason = request.get("reason") or None
        beat.leader = response.get("leader") if beat.epoch is not None else None
        yield beat

    def _sync(self, message: Message) -> Iterator[Beat]:
        request, response = message.request, message.response
        generation = _number(request.get("generationId"))
        beat = _beat(message, CLASSIC, request.get("memberId") or "", generation, generation)
        beat.instance_id = request.get("groupInstanceId")
        if beat.error is None and beat.answered:
            given = partitions_of(response.get("assignment"))
            beat.given = None if given is None else frozenset(given)
        yield beat

    def _classic_heartbeat(self, message: Message) -> Iterator[Beat]:
        request = message.request
        generation = _number(request.get("generationId"))
        beat = _beat(message, CLASSIC, request.get("memberId") or "", generation, generation)
        beat.instance_id = request.get("groupInstanceId")
        yield beat

    def _leave(self, message: Message) -> Iterator[Beat]:
        request, answers = message.request, rows(message.response.get("members"))
        members = who_leaves(request, message.response)
        for place, member in enumerate(members):
            beat = _beat(message, CLASSIC, member.get("memberId") or "", LEAVES, None)
            beat.instance_id = member.get("groupInstanceId")
            beat.reason = member.get("reason") or None
            if len(members) > 1 and answers:
                code = answers[place].get("errorCode", 0) if place < len(answers) else 0
                beat.error = name_of(code) if code else None
            yield beat


_READERS: dict[str, Callable[[BeatReader, Message], Iterator[Beat]]] = {
    **dict.fromkeys(EPOCH_APIS, BeatReader._heartbeat),
    "JoinGroup": BeatReader._join,
    "SyncGroup": BeatReader._sync,
    "Heartbeat": BeatReader._classic_heartbeat,
    "LeaveGroup": BeatReader._leave,
}


def tasks(subtopologies: Any) -> frozenset[str] | None:
    """Tasks of Streams, written subtopology_partition."""
    if not isinstance(subtopologies, list):
        return None
    return frozenset(
        f"{each.get('subtopologyId')}_{partition}"
        for each in rows(subtopologies)
        for partition in each.get("partitions") or []
    )


def _beat(message: Message, protocol: str, member: str, sent: int | None, epoch: int | None) -> Beat:
    answered = message.outcome in ("answered", "orphan") and message.answered is not None
    return Beat(
        at=message.at,
        done=message.answered if message.answered is not None else message.at,
        message=message,
        protocol=protocol,
        member_id=member,
        sent=sent,
        epoch=epoch if answered and message.error is None else None,
        error=message.error,
        answered=answered,
    )


def again(beat: Beat, message: Message) -> Beat:
    """The beat of a message that says the same as that of another beat."""
    quiet = _beat(message, beat.protocol, beat.member_id, beat.sent, beat.epoch)
    quiet.quiet, quiet.instance_id = True, beat.instance_id
    return quiet


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _positive(value: Any) -> int | None:
    return value if isinstance(value, int) and value > 0 else None
