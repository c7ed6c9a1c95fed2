from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from kafkascope.decoders import redaction, schema
from kafkascope.decoders.redaction import checked_names, holds_secret, is_secret_config, redact
from kafkascope.decoders.sasl import REDACTED
from kafkascope.decoders.schema import Field


def fields_at(fields: tuple[Field, ...], path: str) -> list[Field]:
    step, _, further = path.partition(".")
    found = [field for field in fields if field.name + "[]" * field.is_array == step]
    return fields_at(found[0].fields, further) if found and further else found


@pytest.mark.parametrize("entry", [*redaction.SECRET_FIELDS, *redaction.CONFIGS], ids=lambda entry: entry.path)
def test_entries_name_fields_that_are(entry: redaction.SecretField | redaction.Configs) -> None:
    api = schema.apis()[entry.api_key]
    message = api.response if entry.response else api.request
    path = f"{entry.path}[]" if isinstance(entry, redaction.Configs) else entry.path
    (field,) = fields_at(message.fields, path)
    if isinstance(entry, redaction.Configs):
        assert {"name", "value"} <= {member.name for member in field.fields}
        assert entry.response == any(member.name == "isSensitive" for member in field.fields)


# What a field that holds a secret may be called, and what may hold anything.
SUSPECT = re.compile(
    "auth(?!or)|token|hmac|password|secret|credential|salt|config|key|data|value|bytes$|metadata", re.I
)
# Fields that SUSPECT finds, or that are bytes, and why each may be shown.
HARMLESS = {
    "bytes of records: their size is shown, or their contents with redact_stored": (
        "ProduceRequest.topicData[].partitionData[].records",
        "FetchResponse.responses[].partitions[].records",
        "FetchSnapshotResponse.topics[].partitions[].unalignedRecords",
        "ShareFetchResponse.responses[].partitions[].records",
    ),
    "an application's own text beside an offset": (
        "OffsetCommitRequest.topics[].partitions[].committedMetadata",
        "OffsetFetchResponse.topics[].partitions[].metadata",
        "OffsetFetchResponse.groups[].topics[].partitions[].metadata",
        "TxnOffsetCommitRequest.topics[].partitions[].committedMetadata",
        "OffsetCommitValue.metadata",
        "LegacyOffsetCommitValue.metadata",
    ),
    "names, not values": (
        "FindCoordinatorRequest.key",
        "FindCoordinatorRequest.coordinatorKeys[]",
        "FindCoordinatorResponse.coordinators[].key",
        "DescribeGroupsResponse.groups[].protocolData",
        "DescribeConfigsRequest.resources[].configurationKeys[]",
        "CreateDelegationTokenResponse.tokenRequesterPrincipalType",
        "CreateDelegationTokenResponse.tokenRequesterPrincipalName",
        "CreateDelegationTokenResponse.tokenId",  # who it is that authenticates with a token; the hmac is the password
        "DescribeDelegationTokenResponse.tokens[].tokenRequesterPrincipalType",
        "DescribeDelegationTokenResponse.tokens[].tokenRequesterPrincipalName",
        "DescribeDelegationTokenResponse.tokens[].tokenId",
        "DescribeClientQuotasResponse.entries[].values[].key",
        "AlterClientQuotasRequest.entries[].ops[].key",
        "StreamsGroupHeartbeatRequest.topology.subtopologies[].stateChangelogTopics[].topicConfigs[].key",
        "StreamsGroupHeartbeatRequest.topology.subtopologies[].repartitionSourceTopics[].topicConfigs[].key",
        "StreamsGroupHeartbeatRequest.clientTags[].key",
        "StreamsGroupDescribeResponse.groups[].topology.subtopologies[].stateChangelogTopics[].topicConfigs[].key",
        "StreamsGroupDescribeResponse.groups[].topology.subtopologies[].repartitionSourceTopics[].topicConfigs[].key",
        "StreamsGroupDescribeResponse.groups[].members[].clientTags[].key",
        "StreamsGroupMetadataValue.lastAssignmentConfigs[].key",
        "StreamsGroupMemberMetadataValue.clientTags[].key",
        "StreamsGroupTopologyValue.subtopologies[].stateChangelogTopics[].topicConfigs[].key",
        "StreamsGroupTopologyValue.subtopologies[].repartitionSourceTopics[].topicConfigs[].key",
        "DelegationTokenRecord.tokenId",
        "ClientQuotaRecord.key",
        "RemoveDelegationTokenRecord.tokenId",
        "SubscriptionInfoData.clientTags[].key",
    ),
    "what members of groups tell each other, and what is no credential by definition": (
        "JoinGroupRequest.protocols[].metadata",
        "JoinGroupResponse.members[].metadata",
        "SyncGroupRequest.assignments[].assignment",
        "SyncGroupResponse.assignment",
        "DescribeGroupsResponse.groups[].members[].memberMetadata",
        "DescribeGroupsResponse.groups[].members[].memberAssignment",
        "EnvelopeRequest.requestPrincipal",  # decoded to its last byte, or hidden
        "EnvelopeRequest.clientHostAddress",
        "PushTelemetryRequest.metrics",
        "ConsumerProtocolAssignment.userData",
        "ConsumerProtocolSubscription.userData",
        "SubscriptionInfoData.userEndPoint",
        "GroupMetadataValue.members[].subscription",
        "GroupMetadataValue.members[].assignment",
        "ConsumerGroupMemberMetadataValue.classicMemberMetadata.supportedProtocols[].metadata",
        "RemoteLogSegmentMetadataRecord.customMetadata",  # where a plug-in put a segment
        "RemoteLogSegmentMetadataUpdateRecord.customMetadata",
        "RemoteLogSegmentMetadataSnapshotRecord.customMetadata",
    ),
    "labels for racks, and settings of topics and assignors, among which Kafka has no secrets": (
        "StreamsGroupHeartbeatRequest.topology.subtopologies[].stateChangelogTopics[].topicConfigs[].value",
        "StreamsGroupHeartbeatRequest.topology.subtopologies[].repartitionSourceTopics[].topicConfigs[].value",
        "StreamsGroupHeartbeatRequest.clientTags[].value",
        "StreamsGroupDescribeResponse.groups[].topology.subtopologies[].stateChangelogTopics[].topicConfigs[].value",
        "StreamsGroupDescribeResponse.groups[].topology.subtopologies[].repartitionSourceTopics[].topicConfigs[].value",
        "StreamsGroupDescribeResponse.groups[].members[].clientTags[].value",
        "StreamsGroupMetadataValue.lastAssignmentConfigs[].value",
        "StreamsGroupMemberMetadataValue.clientTags[].value",
        "StreamsGroupTopologyValue.subtopologies[].stateChangelogTopics[].topicConfigs[].value",
        "StreamsGroupTopologyValue.subtopologies[].repartitionSourceTopics[].topicConfigs[].value",
        "SubscriptionInfoData.clientTags[].value",
    ),
}


def leaves(fields: tuple[Field, ...], path: str) -> Iterator[tuple[str, str]]:
    for field in fields:
        name = f"{path}.{field.name}{'[]' * field.is_array}"
        yield from leaves(field.fields, name) if field.fields else [(name, field.element_type)]


def messages() -> Iterator[tuple[schema.Message, frozenset[str]]]:
    """Every message, with the paths of its fields that redaction knows."""
    for api in schema.apis().values():
        for message, response in ((api.request, False), (api.response, True)):
            known = {
                entry.path
                for entry in redaction.SECRET_FIELDS
                if (entry.api_key, entry.response) == (api.key, response)
            }
            for entry in redaction.CONFIGS:
                if (entry.api_key, entry.response) == (api.key, response):
                    known |= {f"{entry.path}[].value", f"{entry.path}[].synonyms[].value"}
            yield message, frozenset(known)
    for family in (
        "clients",
        "group_coordinator",
        "transaction_coordinator",
        "share_coordinator",
        "metadata",
        "remote_log_metadata",
        "streams",
        "headers",
    ):
        for name, message in schema.data_messages(family).items():
            known = set(redaction.SECRET_RECORD_FIELDS.get(name, ()))
            yield message, frozenset(known | {"value"} if name == "ConfigRecord" else known)


def test_every_field_that_may_hold_a_secret_is_hidden_or_known_to_be_harmless() -> None:
    """A release of Kafka that adds one fails here: put it into SECRET_FIELDS or CONFIGS, or here with the reason."""
    found = set()
    for message, known in messages():
        for path, kind in leaves(message.fields, message.name):
            suspect = kind in ("bytes", "records") or (kind == "string" and SUSPECT.search(path.rpartition(".")[2]))
            if suspect and path.removeprefix(f"{message.name}.") not in known:
                found.add(path)
    assert found == {path for paths in HARMLESS.values() for path in paths}


def test_secrets_are_replaced_and_the_body_given_is_not() -> None:
    body = {"tokens": [{"tokenId": "t", "hmac": b"secret"}, {"tokenId": "u", "hmac": b""}]}
    shown = redact(41, body, response=True)
    assert shown == {"tokens": [{"tokenId": "t", "hmac": REDACTED}, {"tokenId": "u", "hmac": b""}]}
    assert body["tokens"][0]["hmac"] == b"secret"


def test_configurations_are_secret_by_their_name_or_by_what_the_broker_says() -> None:
    configs = [
        {"name": "retention.ms", "value": "1"},
        {"name": "sasl.jaas.config", "value": "password"},
        {"name": "listener.name.x.ssl.keystore.password", "value": "p"},
        {"name": "ssl.truststore.password", "value": None},
    ]
    shown = redact(44, {"resources": [{"configs": configs}]}, response=False)
    assert [config["value"] for config in shown["resources"][0]["configs"]] == ["1", REDACTED, REDACTED, None]


def described(*configs: dict[str, object]) -> list[object]:
    """The values of configurations that DescribeConfigs tells, and those of their synonyms, as they are shown."""
    shown = redact(32, {"results": [{"configs": list(configs)}]}, response=True)["results"][0]["configs"]
    return [one["value"] for config in shown for one in (config, *config.get("synonyms", ()))]


def test_a_configuration_and_its_synonyms_are_secret_together() -> None:
    def config(name: str, synonym: str, value: str = "w", is_sensitive: bool = False) -> dict[str, object]:
        synonyms = [{"name": synonym, "value": value}, {"name": "other", "value": None}]
        return {"name": name, "value": "v", "isSensitive": is_sensitive, "synonyms": synonyms}

    assert described(config("x", "y")) == ["v", "w", None]
    for secret in (
        config("x", "y", is_sensitive=True),
        config("x", "my.secret"),
        config("my.secret", "y"),
        config("x", "y", value="https://u:p@host"),
    ):
        assert described(secret) == [REDACTED, REDACTED, None]


def test_an_answer_that_is_cut_before_it_says_what_is_sensitive_shows_nothing() -> None:
    assert described({"name": "x", "value": "v"}, {"name": "y"} | {"value": None}) == [REDACTED, None]


@pytest.mark.parametrize(
    "name",
    [
        "basic.auth.user.info",
        "schema.registry.basic.auth.user.info",
        "database.pwd",
        "db.passwd",
        "card.pin",
        "bearer",
        "http.bearer.value",
        "access.token",
        "azure.account.key",
        "confluent.license",
    ],
)
def test_names_that_others_give_to_secrets(name: str) -> None:
    assert is_secret_config(name)
    assert is_secret_config(name.upper())


@pytest.mark.parametrize(
    ("value", "secret"),
    [
        ("jdbc:postgresql://db/x?user=me&password=hunter2", True),
        ("jdbc:oracle:thin:me/hunter2@//db:1521/x", True),
        ("mongodb+srv://me:hun:ter2@db/", True),
        ("https://me:hunter2@registry:8081", True),
        ("Endpoint=sb://x/;SharedAccessKey=hunter2", True),
        ("host=db password = hunter2", True),
        ('{"client": {"secret": "hunter2"}}', True),
        ("Authorization: Basic hunter2", True),
        ("https://registry:8081,https://other:8081", False),
        ("1@k1:9093,2@k2:9093", False),
        ("CONTROLLER:PLAINTEXT,SASL:SASL_SSL", False),
        ("RULE:[1:$1@$0](.*@REALM)s/@.*//", False),
        ("com.example.PasswordSource", False),
        (None, False),
    ],
)
def test_values_with_a_secret_in_them(value: str | None, secret: bool) -> None:
    assert holds_secret(value) == secret
    configs = {"resources": [{"configs": [{"name": "connection.url", "value": value}]}]}
    (shown,) = redact(44, configs, response=False)["resources"][0]["configs"]
    assert (shown["value"] == REDACTED) == secret


def test_a_long_value_is_looked_through_once() -> None:
    assert not holds_secret("a" * 2_000_000 + "://" * 500_000 + '"' * 100_000 + " " * 500_000)


def test_more_names_may_be_given() -> None:
    more = checked_names(["^my\\.code$", "geheim"])
    configs = {
        "topics": [{"configs": [{"name": name, "value": "v"} for name in ("my.code", "a.my.code", "Geheimnis")]}]
    }
    shown = redact(19, configs, response=False, more=more)["topics"][0]["configs"]
    assert [config["value"] for config in shown] == [REDACTED, "v", REDACTED]
    assert redaction.redact_record("ConfigRecord", {"name": "my.code", "value": "v"}, more=more)["value"] == REDACTED
    for wrong in ("(", "(?<!a)b", "(?i)x", r"(a)\1"):
        with pytest.raises(ValueError, match="is no regular expression for names of secrets"):
            checked_names([wrong])


@pytest.mark.parametrize(
    "name",
    ["cleanup.policy", "delegation.token.expiry.time.ms", "max.message.bytes", "compression.type", "segment.ms", None],
)
def test_ordinary_configurations_are_not_secret(name: str | None) -> None:
    assert not is_secret_config(name)


def test_stored_records_show_no_secrets() -> None:
    user = {"name": "bo", "salt": b"1", "storedKey": b"2", "serverKey": b"3", "iterations": 4096}
    shown = redaction.redact_record("UserScramCredentialRecord", user)
    assert shown == user | dict.fromkeys(("salt", "storedKey", "serverKey"), REDACTED)
    config = {"resourceName": "", "name": "ssl.key.password", "value": "p"}
    assert redaction.redact_record("ConfigRecord", config)["value"] == REDACTED
    assert redaction.redact_record("ConfigRecord", config | {"name": "x"})["value"] == "p"
    assert all(
        fields_at(schema.data_message(name).fields, path)
        for name, paths in redaction.SECRET_RECORD_FIELDS.items()
        for path in paths
    )


def test_tokens_keep_what_is_not_secret() -> None:
    shown = redact(36, {"authBytes": b"\0alice\0pw"}, response=False, mechanism="PLAIN")
    assert shown["authBytes"]["username"] == "alice"
    assert shown["authBytes"]["password"] == REDACTED


def test_a_partial_body_is_taken() -> None:
    assert redact(41, {"errorCode": 0}, response=True) == {"errorCode": 0}
    assert redact(41, {"tokens": [{}]}, response=True) == {"tokens": [{}]}
    assert redact(0, {"acks": 1}, response=False) == {"acks": 1}
