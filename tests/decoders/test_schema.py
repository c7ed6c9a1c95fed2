import pytest

from kafkascope.decoders import schema
from kafkascope.decoders.schema import NEVER, Field, Message, Versions

ALL_MESSAGES = [
    *(message for api in schema.apis().values() for message in (api.request, api.response)),
    *(
        message
        for family in (
            "clients",
            "group_coordinator",
            "headers",
            "metadata",
            "remote_log_metadata",
            "share_coordinator",
            "streams",
            "transaction_coordinator",
        )
        for message in schema.data_messages(family).values()
    ),
]


def all_fields(fields: tuple[Field, ...]) -> list[Field]:
    return [found for field in fields for found in (field, *all_fields(field.fields))]


def at(message: Message, path: str) -> Field:
    fields = message.fields
    for name in path.split("."):
        (field,) = [field for field in fields if field.name == name]
        fields = field.fields
    return field


def test_versions_are_closed_ranges() -> None:
    assert 2 in Versions(1, 3)
    assert 0 not in Versions(1, 3)
    assert 0 not in NEVER
    assert not NEVER
    assert [str(Versions(*ends)) for ends in ((1, 3), (2, 2), (4, schema.OPEN_END), (1, 0))] == [
        "1-3",
        "2",
        "4+",
        "none",
    ]


def test_every_api_of_all_releases_is_there() -> None:
    assert list(schema.apis()) == list(range(95))
    assert {name for api in schema.apis().values() for name in (api.request.kind, api.response.kind)} == {
        "request",
        "response",
    }
    assert all(api.request.versions == api.response.versions for api in schema.apis().values())


def releases(key: int, version: int) -> list[str]:
    return [release.name for release in schema.apis()[key].request.releases if version in release.versions]


def test_versions_that_one_release_dropped_or_added_are_there() -> None:
    assert schema.apis()[1].versions == Versions(0, 18)
    assert releases(1, 3) == ["3.9.1"]
    assert releases(1, 4) == ["3.9.1", "4.3.1", "4.4.0"]
    assert releases(1, 18) == ["4.3.1", "4.4.0"]
    assert schema.apis()[4].name == "LeaderAndIsr"
    assert releases(4, 0) == ["3.9.1"]
    assert schema.apis()[74].name == "ListConfigResources"
    assert releases(88, 0) == ["4.3.1", "4.4.0"]
    assert releases(88, 1) == releases(93, 0) == ["4.4.0"]


def test_unstable_versions_are_marked() -> None:
    assert schema.apis()[22].unstable(6)  # InitProducerId, 4.3.1 and 4.4.0
    assert schema.apis()[76].unstable(0)  # ShareGroupHeartbeat, 3.9.1
    assert not schema.apis()[76].unstable(1)
    assert not schema.apis()[83].unstable(0)  # unstable in 3.9.1, stable in 4.3.1


@pytest.mark.parametrize(
    ("api_key", "response", "path", "versions"),
    [
        (56, False, "topics.topicName", "0-1"),
        (32, True, "results.configs.isDefault", "0"),
        (2, False, "topics.partitions.maxNumOffsets", "0"),
        (2, True, "topics.partitions.oldStyleOffsets", "0"),
        (8, False, "topics.partitions.commitTimestamp", "1"),
        (8, False, "topics.name", "0-9"),
        (8, False, "topics.topicId", "10+"),
        (78, False, "topics.partitions.partitionMaxBytes", "0"),
        (57, True, "results", "0-1"),
    ],
)
def test_fields_that_releases_disagree_on_have_the_versions_of_both(
    api_key: int, response: bool, path: str, versions: str
) -> None:
    api = schema.apis()[api_key]
    assert str(at(api.response if response else api.request, path).versions) == versions


def test_fields_only_the_older_release_has_keep_their_place() -> None:
    partitions = at(schema.apis()[8].request, "topics.partitions")
    names = [field.name for field in partitions.fields if 1 in field.versions]
    assert names == ["partitionIndex", "committedOffset", "commitTimestamp", "committedMetadata"]


def test_former_names_are_those_of_today() -> None:
    partitions = at(schema.apis()[52].request, "topics.partitions")
    assert [field.name for field in partitions.fields][:3] == ["partitionIndex", "replicaEpoch", "replicaId"]
    assert str(at(schema.apis()[74].response, "configResources.resourceName").versions) == "0+"


def test_names_that_a_later_release_changed_stay_for_the_versions_that_had_them() -> None:
    request = schema.apis()[28].request
    assert str(at(request, "generationId").versions) == "3-5"
    assert str(at(request, "generationIdOrMemberEpoch").versions) == "6+"
    lags = [field for field in schema.apis()[88].response.fields if field.name.startswith("acceptableRecoveryLag")]
    assert sorted((field.name, field.type, str(field.versions)) for field in lags) == [
        ("acceptableRecoveryLag", "int32", "0"),
        ("acceptableRecoveryLag", "int64", "1+"),
    ]


def test_two_layouts_of_one_version_are_both_kept() -> None:
    with_alternatives = {message.name: message for message in ALL_MESSAGES if message.alternatives}
    of_clients = {"ApiVersionsRequest"}
    of_releases = {"ReadShareGroupStateSummaryResponse", "ShareGroupMetadataValue"}
    assert with_alternatives.keys() == of_clients | of_releases
    response = with_alternatives["ReadShareGroupStateSummaryResponse"]
    newest, older = response.readings(0)
    assert "leaderEpoch" in [field.name for field in at(newest, "results.partitions").fields]
    assert "leaderEpoch" not in [field.name for field in at(older, "results.partitions").fields]
    assert older.releases[0].name == "3.9.1"
    assert response.readings(1) == (response,)
    assert response.readings(2) == ()
    assert [
        [field.name for field in one.fields] for one in with_alternatives["ApiVersionsRequest"].readings(0)[1:]
    ] == [["apiKeys"]]


def test_defaults_are_plain_values() -> None:
    fetch = schema.apis()[1].request
    assert at(fetch, "maxBytes").default == 0x7FFFFFFF
    assert at(fetch, "clusterId").default is None
    assert at(fetch, "topics.partitions.replicaDirectoryId").default == "AAAAAAAAAAAAAAAAAAAAAA"
    assert at(fetch, "forgottenTopicsData").default == ()
    # A literal null in the definition stands for an empty struct, the text "null" for null.
    assert at(schema.data_message("ConsumerGroupMemberMetadataValue"), "classicMemberMetadata").default == {}


def test_the_client_id_is_never_in_the_flexible_form() -> None:
    assert at(schema.request_header(), "clientId").flexible == NEVER
    assert schema.request_header().versions == Versions(0, 2)
    assert schema.response_header().versions == Versions(0, 1)


def test_record_types_of_internal_topics() -> None:
    group = schema.data_messages("group_coordinator")
    assert (group["OffsetCommitKey"].key, group["OffsetCommitKey"].versions) == (1, Versions(0, 0))
    assert group["ShareGroupPartitionMetadataKey"].key == group["ShareGroupPartitionMetadataValue"].key == 9
    assert {message.kind for message in group.values()} == {"coordinator-key", "coordinator-value"}
    keys = [message.key for message in group.values() if message.kind == "coordinator-key"]
    assert None not in keys
    assert len(keys) == len(set(keys))
    assert set(keys) == {message.key for message in group.values() if message.kind == "coordinator-value"}


@pytest.mark.parametrize("message", ALL_MESSAGES, ids=lambda message: message.name)
def test_tables_are_sound(message: Message) -> None:
    fields = all_fields(message.fields)
    for field in fields:
        assert field.is_struct or not field.fields
        assert bool(field.tagged) == (field.tag is not None)
        assert field.versions.first >= message.versions.first
        assert not field.tagged or field.tagged.first in message.flexible
        element = field.element_type
        assert element in schema.ZERO or element[0].isupper()
    for version in range(message.versions.first, message.versions.last + 1):
        owners: list[Message | Field] = [message]
        owners += (field for field in fields if field.is_struct and version in field.versions)
        for owner in owners:
            here = [field for field in owner.fields if version in field.versions]
            assert len({field.name for field in here}) == len(here)
            tags = [field.tag for field in here if version in field.tagged]
            assert len(set(tags)) == len(tags)
            # An element that takes no byte would let a count of elements go beyond the bytes there are.
            assert here or version in message.flexible or owner is message
