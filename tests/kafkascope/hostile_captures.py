"""Captures of a group whose every name was chosen by somebody who means harm to those who look at them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from kafkascope.decoders import apis
from tests.decoders.written_messages import exchange
from tests.reports.written_exchanges import batch
from tests.sniffer.sources.written_captures import capture_of
from tests.sniffer.tcp_conversation import MILLISECOND, Conversation

STEERING = "\x1b[2J\x9b31m\x7f\u202e\u2066\u200f\u061c\u200b\u2028\ufeff</script>|`=1"
"""What steers a terminal, turns the direction of writing, hides, or is markup."""
LONGEST = 32_000  # a string of the protocol has at most 32,767 bytes


@dataclass(frozen=True)
class Names:
    """What a group and all in it are called."""

    group: str
    topic: str
    client_id: str
    member: str
    host: str
    value: str = ""

    @classmethod
    def steering(cls, client_id: str = "client") -> Names:
        """Names that would take hold of a terminal."""
        return cls(f"=group{STEERING}", f"=topic{STEERING}", client_id, "-m" + STEERING, STEERING, STEERING)

    @classmethod
    def long(cls, letter: str = "a") -> Names:
        """Names as long as can be."""
        tail = letter * LONGEST
        return cls("g" + tail, "t" + tail, "c" * 1000, "m" + tail, "h" + tail)


def capture(names: Names, clients: int = 2) -> bytes:
    """A pcap file: clients join a group one after the other, read and commit, and leave."""
    clock = 0
    lines = []
    for number in range(clients):
        lines.append(Conversation(port=40_000 + number))
        lines[-1].open()

    def say(number: int, key: int, version: int, request: dict[str, Any], response: dict[str, Any]) -> None:
        nonlocal clock
        clock += 50 * MILLISECOND
        line = lines[number]
        line.at = max(line.at, clock)
        for side, frame in enumerate(exchange(7, key, version, request, response, names.client_id.encode())):
            line.write(side, frame)

    topic = names.topic.encode()
    subscription = struct.pack(">hih", 0, 1, len(topic)) + topic + b"\0\0\0\0"
    assignment = struct.pack(">hih", 0, 1, len(topic)) + topic + struct.pack(">iii", 1, 0, 0)
    members = [f"{names.member}{number}" for number in range(clients)]
    broker = {"nodeId": 1, "host": names.host, "port": 9092, "rack": names.host}
    told = [{"name": names.topic, "partitions": [{"errorCode": 5, "replicaNodes": [1], "isrNodes": [1]}]}]
    for number in range(clients):
        say(number, apis.METADATA, 1, {"topics": [{"name": names.topic}]}, {"brokers": [broker], "topics": told})
    for generation in range(1, clients + 1):
        present = range(generation)
        mine = {"groupId": names.group, "generationId": generation - 1}
        for number in present[:-1]:
            say(number, apis.HEARTBEAT, 3, mine | {"memberId": members[number]}, {"errorCode": 27})
        for number in present:
            said = {"name": "range" + names.host, "metadata": subscription}
            request = {"groupId": names.group, "sessionTimeoutMs": 10_000, "rebalanceTimeoutMs": 60_000}
            request |= {"memberId": members[number], "protocolType": "consumer", "protocols": [said]}
            others = [{"memberId": members[other], "metadata": subscription} for other in present]
            answer = {"generationId": generation, "protocolName": said["name"], "leader": members[0]}
            answer |= {"memberId": members[number], "members": [] if number else others}
            say(number, apis.JOIN_GROUP, 5, request, answer)
        for number in present:
            mine = {"groupId": names.group, "generationId": generation, "memberId": members[number]}
            given = [] if number else [{"memberId": members[other], "assignment": assignment} for other in present]
            say(number, apis.SYNC_GROUP, 3, mine | {"assignments": given}, {"assignment": assignment})
        held = {"name": names.topic, "partitions": [{"committedOffset": 1, "committedMetadata": names.host}]}
        mine = {"groupId": names.group, "generationIdOrMemberEpoch": generation, "memberId": members[0]}
        failed = {"name": names.topic, "partitions": [{"errorCode": 22}]}
        for _ in range(3):  # enough of them refused for a finding about the group
            say(0, apis.OFFSET_COMMIT, 2, mine | {"topics": [held]}, {"topics": [failed]})
        records = {"highWatermark": 100, "records": batch(names.value.encode(), names.group.encode())}
        read = {"topic": names.topic, "partitions": [records]}
        asked = {"topic": names.topic, "partitions": [{"fetchOffset": 0, "partitionMaxBytes": 1 << 20}]}
        say(0, apis.FETCH, 4, {"maxWaitMs": 500, "topics": [asked]}, {"responses": [read]})
    for number in range(clients):
        say(number, apis.LEAVE_GROUP, 1, {"groupId": names.group, "memberId": members[number]}, {})
        lines[number].close()
    return capture_of(sorted((packet for line in lines for packet in line.packets), key=lambda packet: packet.at))
