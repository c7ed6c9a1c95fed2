"""What changed between versions of messages."""

from __future__ import annotations

from kafkascope.decoders import schema
from kafkascope.decoders.changes import changes
from kafkascope.decoders.schema import Message


def told(message: Message, old: int, new: int) -> list[tuple[str, str, str]]:
    return [(one.path, one.how.value, one.what) for one in changes(message, old, new)]


def test_fields_that_came_went_and_changed() -> None:
    fetch = schema.apis()[1].request
    assert told(fetch, 12, 13) == [
        ("topics[].topic", "removed", "string"),
        ("topics[].topicId", "added", "uuid"),
        ("forgottenTopicsData[].topic", "removed", "string"),
        ("forgottenTopicsData[].topicId", "added", "uuid"),
    ]
    assert told(fetch, 15, 14) == [
        ("replicaId", "added", "int32"),
        ("replicaState", "removed", "ReplicaState, tag 1"),
    ]
    metadata = schema.apis()[3].request
    assert ("topics[]", "changed", "[]MetadataRequestTopic → []MetadataRequestTopic, nullable") in told(metadata, 0, 1)


def test_a_version_becomes_flexible_as_a_whole() -> None:
    heartbeat = schema.apis()[12]
    (change,) = changes(heartbeat.request, 3, 4)
    assert (change.path, change.what[:8]) == ("", "flexible")
    assert changes(heartbeat.response, 1, 2) == []


def test_versions_are_the_same_as_themselves() -> None:
    for api in schema.apis().values():
        for message in (api.request, api.response):
            assert changes(message, api.versions.last, api.versions.last) == []
