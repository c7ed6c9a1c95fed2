"""Which fields of requests and responses hold secrets, and bodies without them.

Paths are as in topics[].partitions[].index. The tables serve the decoder that writes text by field as well as redact.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kafkascope.decoders import apis, sasl
from kafkascope.decoders.limits import DEFAULT, Limits
from kafkascope.decoders.sasl import REDACTED

SECRET_NAMES = (
    # Kafka's configurations of type PASSWORD, and what others (Connect, plug-ins) usually call theirs.
    r"password|passphrase|passwd|pwd|secret|credential|cookie|license$|tokens?$|authorization$"
    r"|jaas\.config|keystore\.key|certificate\.chain|truststore\.certificates|user[._-]?info"
    r"|(?:private|master|access|api|shared|account|storage|encryption|signing|session|sas)[._-]?key"
    r"|(?:^|[._-])(?:(?:pass|pin|bearer)(?:$|[._-])|(?:jwt|hmac)$)"
)
"""The one list of names whose values are secret, whatever their case; more may be given by option, see checked_names.
In a syntax that Python and Arrow (RE2) both read."""


@dataclass(frozen=True, slots=True)
class SecretField:
    """A field that is secret whatever it holds."""

    api_key: int
    response: bool
    path: str


@dataclass(frozen=True, slots=True)
class Configs:
    """An array of configurations, whose fields name and value are a string each.

    In answers they have isSensitive, and may have synonyms: the values that other places give to the same.
    """

    api_key: int
    response: bool
    path: str


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
CONFIGS = (
    Configs(19, False, "topics[].configs"),
    Configs(19, True, "topics[].configs"),
    Configs(32, True, "results[].configs"),
    Configs(33, False, "resources[].configs"),
    Configs(44, False, "resources[].configs"),
)
# (api key, response) of every message with an entry above.
MESSAGES_WITH_SECRETS = frozenset((entry.api_key, entry.response) for entry in (*SECRET_FIELDS, *CONFIGS))

# Fields of records in internal topics, by definition: salts and keys of SCRAM users.
SECRET_RECORD_FIELDS: Mapping[str, tuple[str, ...]] = {
    "UserScramCredentialRecord": ("salt", "storedKey", "serverKey"),
}

# What stands before a password in an address: https://user:password@host, jdbc:oracle:thin:user/password@host.
BEFORE_USER = "://|jdbc:"
# The names in a value that is a list of names with values: ?user=me&password=x, {"token": "x"}. Possessive, so that a
# long value takes no more time for each byte.
_NAME_IN_VALUE = re.compile(r"""(?<![\w.-])([\w.-]++)["']?+\s*+[=:]""")


def checked_names(names: Iterable[str]) -> tuple[str, ...]:
    """More names whose values are secret: regular expressions, found anywhere in a name whatever its case.

    Raises ValueError if one is none, for Python or for Arrow (which has no look-around and no back-references).
    """
    checked = (names,) if isinstance(names, str) else tuple(names)
    if checked:  # who decodes single messages needs no Arrow
        import pyarrow as pa
        import pyarrow.compute as pc
    for name in checked:
        try:
            re.compile(f"(?:{name})")
            pc.match_substring_regex(pa.array([b""]), f"(?:{name})")
        except (re.error, pa.ArrowInvalid) as error:
            raise ValueError(f"{name!r} is no regular expression for names of secrets: {error}") from error
    return checked


def expression(more: tuple[str, ...]) -> str:
    """The regular expression for names of secrets, to be found anywhere in a name whatever its case."""
    return "|".join([SECRET_NAMES, *(f"(?:{name})" for name in more)])


@cache
def _compiled(more: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(expression(more), re.IGNORECASE)


def is_secret_config(name: str | None, *, more: tuple[str, ...] = ()) -> bool:
    """Whether the value of a configuration is secret by its name. more: see checked_names."""
    return name is not None and _compiled(more).search(name) is not None


def holds_secret(value: str | None, *, more: tuple[str, ...] = ()) -> bool:
    """Whether part of a configuration's value is secret, whatever its name is.

    So are an address with a user in it, whose password stands there too, and the value of a name that is secret.
    """
    if not value:
        return False
    before_user = re.search(BEFORE_USER, value)
    if before_user is not None and "@" in value[before_user.end() :]:
        return True
    return any(is_secret_config(name, more=more) for name in _NAME_IN_VALUE.findall(value))


def _config_shown(config: dict[str, Any], response: bool, more: tuple[str, ...]) -> dict[str, Any]:
    """A configuration and its synonyms: if one of them is secret, so are all, for they may have the same value.

    Where an answer was cut before it says whether the configuration is sensitive, it is.
    """
    together = [config, *(config.get("synonyms") or ())]
    if not config.get("isSensitive", response) and not any(
        is_secret_config(one.get("name"), more=more) or holds_secret(one.get("value"), more=more) for one in together
    ):
        return config
    config = replaced(config, "value", lambda _, value: REDACTED)
    return replaced(config, "synonyms[].value", lambda _, value: REDACTED)


def redact(
    api_key: int,
    body: dict[str, Any],
    *,
    response: bool,
    mechanism: str | None = None,
    more: tuple[str, ...] = (),
    limits: Limits = DEFAULT,
) -> dict[str, Any]:
    """A copy of a decoded body in which [redacted] stands for each secret that is not null or empty.

    SASL tokens become dicts (see sasl.decode_token) that keep what is not secret. mechanism: as of the connection's
    SaslHandshake; more: see checked_names. The body given stays as it is; parts without secrets are shared with the
    copy.
    """
    if (api_key, response) not in MESSAGES_WITH_SECRETS:
        return body

    def token(_: dict[str, Any], value: Any) -> Any:
        return sasl.decode_token(mechanism, value, from_client=not response, limits=limits)

    for secret in SECRET_FIELDS:
        if (secret.api_key, secret.response) == (api_key, response):
            replacement = token if secret.path == "authBytes" else lambda _, value: REDACTED
            body = replaced(body, secret.path, replacement)
    if (api_key, response) == (apis.SASL_AUTHENTICATE, True):
        body = replaced(body, "errorMessage", lambda _, text: sasl.shown_error(text))
    for configs in CONFIGS:
        if (configs.api_key, configs.response) == (api_key, response):
            body = replaced(
                body, configs.path, lambda _, found: [_config_shown(config, response, more) for config in found]
            )
    return body


def redact_record(definition: str, fields: dict[str, Any], *, more: tuple[str, ...] = ()) -> dict[str, Any]:
    """A copy of the fields of a stored record in which [redacted] stands for each secret. more: see checked_names."""
    for path in SECRET_RECORD_FIELDS.get(definition, ()):
        fields = replaced(fields, path, lambda _, value: REDACTED)
    if definition == "ConfigRecord":
        fields = _config_shown(fields, False, more)
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
