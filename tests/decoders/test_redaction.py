import pytest

from decoders import redaction, schema
from decoders.redaction import is_secret_config, redact
from decoders.sasl import REDACTED
from decoders.schema import Field


def fields_at(fields: tuple[Field, ...], path: str) -> list[Field]:
    step, _, further = path.partition(".")
    found = [field for field in fields if field.name + "[]" * field.is_array == step]
    return fields_at(found[0].fields, further) if found and further else found


@pytest.mark.parametrize("entry", [*redaction.SECRET_FIELDS, *redaction.CONFIG_VALUES], ids=lambda entry: entry.path)
def test_entries_name_fields_that_are(entry: redaction.SecretField | redaction.ConfigValue) -> None:
    api = schema.apis()[entry.api_key]
    message = api.response if entry.response else api.request
    assert len(fields_at(message.fields, entry.path)) == 1
    if isinstance(entry, redaction.ConfigValue):
        assert fields_at(message.fields, entry.path.rpartition(".")[0] + "." + entry.name)


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
    described = {"name": "x", "value": "v", "isSensitive": True, "synonyms": [{"name": "my.secret", "value": "w"}]}
    shown = redact(32, {"results": [{"configs": [described]}]}, response=True)
    (config,) = shown["results"][0]["configs"]
    assert (config["value"], config["synonyms"][0]["value"]) == (REDACTED, REDACTED)


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
