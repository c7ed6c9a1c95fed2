"""Which fields of requests and responses hold secrets, and bodies without them.

Paths are as in topics[].partitions[].index. The tables serve the decoder that writes text by field as well as redact.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from decoders import sasl
from decoders.sasl import REDACTED


@dataclass(frozen=True, slots=True)
class SecretField:
    """A field that is secret whatever it holds."""

    api_key: int
    response: bool
    path: str


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """A field that is secret if the configuration it is the value of is: see is_secret_config."""

    api_key: int
    response: bool
    path: str  # of the value
    name: str  # of its sibling that holds the configuration's name


# Passwords and tokens (SaslAuthenticate), keys to delegation tokens, credentials to store, forwarded requests that may
# hold any of them (Envelope).
SECRET_FIELDS = (
    SecretField(36, False, "authBytes"),
    SecretField(36, True, "authBytes"),
    SecretField(38, True, "hmac"),
    SecretField(39, False, "hmac"),
    SecretField(40, False, "hmac"),
    SecretField(41, True, "tokens[].hmac"),
    SecretField(51, False, "upsertions[].salt"),
    SecretField(51, False, "upsertions[].saltedPassword"),
    SecretField(58, False, "requestData"),
    SecretField(58, True, "responseData"),
)
CONFIG_VALUES = (
    ConfigValue(19, False, "topics[].configs[].value", "name"),
    ConfigValue(19, True, "topics[].configs[].value", "name"),
    ConfigValue(32, True, "results[].configs[].value", "name"),
    ConfigValue(32, True, "results[].configs[].synonyms[].value", "name"),
    ConfigValue(33, False, "resources[].configs[].value", "name"),
    ConfigValue(44, False, "resources[].configs[].value", "name"),
)
# (api key, response) of every message with an entry above.
MESSAGES_WITH_SECRETS = frozenset((entry.api_key, entry.response) for entry in (*SECRET_FIELDS, *CONFIG_VALUES))

# Fields of records in internal topics, by definition: salts and keys of SCRAM users.
SECRET_RECORD_FIELDS: Mapping[str, tuple[str, ...]] = {
    "UserScramCredentialRecord": ("salt", "storedKey", "serverKey"),
}

# Kafka's configurations of type PASSWORD, and what others (Connect, plug-ins) usually call theirs.
SECRET_CONFIG = re.compile(
    r"password|passphrase|secret|credential|jaas\.config|keystore\.key|certificate\.chain|truststore\.certificates"
    r"|private[._-]?key|master[._-]?key|access[._-]?key|api[._-]?key|token$",
    re.IGNORECASE,
)


def is_secret_config(name: str | None, is_sensitive: bool = False) -> bool:
    """Whether the value of a configuration is secret: the broker says so, or its name does."""
    return is_sensitive or (name is not None and SECRET_CONFIG.search(name) is not None)


def redact(api_key: int, body: dict[str, Any], *, response: bool, mechanism: str | None = None) -> dict[str, Any]:
    """A copy of a decoded body in which [redacted] stands for each secret that is not null or empty.

    SASL tokens become dicts (see sasl.decode_token) that keep what is not secret. mechanism: as of the connection's
    SaslHandshake. The body given stays as it is; parts without secrets are shared with the copy.
    """
    if (api_key, response) not in MESSAGES_WITH_SECRETS:
        return body

    def token(_: dict[str, Any], value: Any) -> Any:
        return sasl.decode_token(mechanism, value, from_client=not response)

    for secret in SECRET_FIELDS:
        if (secret.api_key, secret.response) == (api_key, response):
            replacement = token if secret.path == "authBytes" else lambda _, value: REDACTED
            body = replaced(body, secret.path, replacement)
    for config in CONFIG_VALUES:
        if (config.api_key, config.response) == (api_key, response):

            def value_of(siblings: dict[str, Any], value: Any, name: str = config.name) -> Any:
                secret = is_secret_config(siblings.get(name), siblings.get("isSensitive", False))
                return REDACTED if secret else value

            body = replaced(body, config.path, value_of)
    return body


def redact_record(definition: str, fields: dict[str, Any]) -> dict[str, Any]:
    """A copy of the fields of a stored record in which [redacted] stands for each secret."""
    for path in SECRET_RECORD_FIELDS.get(definition, ()):
        fields = replaced(fields, path, lambda _, value: REDACTED)
    if definition == "ConfigRecord" and is_secret_config(fields.get("name")):
        fields = replaced(fields, "value", lambda _, value: REDACTED)
    return fields


def replaced(body: dict[str, Any], path: str, replacement: Callable[[dict[str, Any], Any], Any]) -> dict[str, Any]:
    """A copy of a decoded struct with the values at a path replaced by replacement(their struct, value).

    Values that are null, empty or absent stay; so does what a partial body lacks.
    """
    step, _, further = path.partition(".")
    name = step.removesuffix("[]")
    value = body.get(name)
    if not value:
        return body
    if not further:
        return body | {name: replacement(body, value)}
    if step.endswith("[]"):
        return body | {name: [replaced(element, further, replacement) for element in value]}
    return body | {name: replaced(value, further, replacement)}
