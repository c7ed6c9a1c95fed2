from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kafkascope.decoders import payloads, redaction
from kafkascope.decoders.redaction import is_secret_config
from kafkascope.decoders.sasl import REDACTED
from kafkascope.decoders.stored_secrets import redact_stored
from tests.decoders.written_messages import log_record


def config_record(resource: str, name: str, value: str | None) -> bytes:
    return log_record("ConfigRecord", {"resourceType": 4, "resourceName": resource, "name": name, "value": value})


def stored(*values: bytes | None, in_log: bool = True, keys: list[bytes | None] | None = None) -> list[bool | None]:
    """Which values are hidden (None: there is none); those shown are as they were."""
    column = pa.array(values, pa.binary())
    shown = redact_stored(
        pa.array(keys or [None] * len(values), pa.binary()), column, np.full(len(values), in_log), more=("^my.code$",)
    ).to_pylist()
    assert all(after in (before, REDACTED.encode()) for after, before in zip(shown, values, strict=True))
    return [None if after is None else after != before for after, before in zip(shown, values, strict=True)]


def test_of_the_metadata_log_only_records_without_secrets_are_shown() -> None:
    hashed = dict.fromkeys(("salt", "storedKey", "serverKey"), b"salt")
    user = log_record("UserScramCredentialRecord", {"name": "bo", "mechanism": 1} | hashed)
    topic = log_record("TopicRecord", {"name": "orders"})
    config = config_record("", "retention.ms", "1")
    assert stored(user, topic, None, config) == [True, False, None, False]
    assert stored(config_record("1", "ssl.key.password", "p"), config_record("1", "my.code", "p")) == [True, True]
    assert stored(config_record("1", "x", "a://u:p@h"), config_record("1", "x", None)) == [True, False]
    strange = (b"", b"\1", b"\2\2\0", b"\1\x7f\0", b"\x81\0\2\0", b"\1\4\1" + config[3:], b"\1\4\0\4\x05a", b"\1\4\0")
    assert stored(*strange) == [True] * len(strange)
    assert stored(user, config_record("1", "password", "p"), in_log=False) == [False, False]


@given(
    st.lists(
        st.tuples(
            st.text(max_size=140),
            st.sampled_from(["retention.ms", "ssl.key.password", "my.code", "a.my.code", "token", "x" * 130]),
            st.sampled_from([None, "", "p" * 99, "p" * 200, "https://u:p@h"]),
            st.integers(0, 400),
        ),
        min_size=1,
    )
)
def test_stored_configurations_are_hidden_as_others_are(configs: list[tuple[str, str, str | None, int]]) -> None:
    values = [config_record(resource, name, value)[:cut] for resource, name, value, cut in configs]
    for value, (resource, name, content, _), is_hidden in zip(values, configs, stored(*values), strict=True):
        whole = config_record(resource, name, content)
        fields = payloads.decode_typed_value("__cluster_metadata", whole).as_dict()
        by_name = is_secret_config(name, more=("^my.code$",))  # also where there is nothing to hide
        secret = by_name or redaction.redact_record("ConfigRecord", fields) != fields
        assert is_hidden == (secret or value != whole)


def test_what_connect_stores_is_hidden_if_it_mentions_a_secret() -> None:
    def properties(**values: str) -> bytes:
        return json.dumps({"properties": values}).encode()

    password = properties(**{"database.password": "p"})
    values = [
        password,
        properties(**{"auth.token": "t", "topics": "a"}),
        properties(uri="mongodb://u:p@h"),
        properties(url="jdbc:x?password=1"),
        properties(**{"my.code": "1"}),
        b'{"schema": {}, "payload": ' + password + b"}",
    ]
    shown = [properties(topics="a", mapping="SASL:x"), b"password", b"\xff", None]
    for key in (b"connector-a", b"task-a-0"):
        assert stored(*values, *shown, in_log=False, keys=[key] * 10) == [True] * 6 + [False] * 3 + [None]
    session = b'{"key": "x", "algorithm": "HmacSHA256", "creation-timestamp": 1}'
    keys = [b"session-key", b"orders-1", None]
    assert stored(session, password, password, in_log=False, keys=keys) == [True, False, False]
