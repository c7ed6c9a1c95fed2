"""SASL tokens: what SaslAuthenticate has in authBytes, or a connection after SaslHandshake version 0 in bare frames.

Mechanisms: PLAIN (RFC 4616), SCRAM-SHA-256 and -512 (RFC 5802, with the extensions of Kafka's delegation tokens),
OAUTHBEARER (RFC 7628, KIP-255). A GSSAPI token stays opaque. A token that breaks its mechanism's rules is opaque as
well: nothing here raises, and nothing secret is in the result unless it is asked for.
"""

from __future__ import annotations

import json
import math
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any

from kafkascope.decoders.limits import DEFAULT, Limits

KERBEROS = b"\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"
"""The object identifier of Kerberos 5 in DER, which is in the head of a GSS-API token (RFC 2743, 3.1; RFC 4121)."""

REDACTED = "[redacted]"
PLAIN = "PLAIN"
OAUTHBEARER = "OAUTHBEARER"
GSSAPI = "GSSAPI"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")

_SCRAM_FIELDS: Mapping[str, str] = {
    "a": "authorizationId",
    "n": "username",
    "r": "nonce",
    "c": "channelBinding",
    "p": "proof",
    "s": "salt",
    "i": "iterations",
    "v": "serverSignature",
    "e": "error",
    "m": "mandatoryExtension",
}
_TOKEN_AUTHENTICATION = "tokenauth"  # Kafka's extension: the one attribute of more than a letter
_SCRAM_MESSAGES: Mapping[bool, tuple[tuple[str, str], ...]] = {  # by from_client: first letters -> name of the message
    True: (("c=", "client-final"),),
    False: (("r=", "server-first"), ("v=", "server-final"), ("e=", "server-final")),
}
_LONGEST_JSON = 524_288  # characters: a broker takes no token of more bytes (default of sasl.server.max.receive.size)
_JSON_MARKS = re.compile(r'"(?:[^"\\]+|\\.)*+"?|[\[\]{}]', re.DOTALL)  # strings, and what opens and closes
_GS2_HEADER = re.compile(r"(?P<binding>n|y|p=[^,]*),(?:a=(?P<authorization_id>[^,]*))?,")


def decode_token(
    mechanism: str | None,
    token: bytes,
    *,
    from_client: bool,
    reveal_secrets: bool = False,
    limits: Limits = DEFAULT,
) -> dict[str, Any]:
    """The fields of a token, after its mechanism; passwords, SCRAM proofs and salts, bearer tokens read [redacted].

    So does all that is not known to be harmless: of extensions and of a broker's errors only known values are shown.

    mechanism: as in SaslHandshake; None if the handshake was not seen, then the token's look decides. A token that
    cannot be read has the single field opaque: its size, or its bytes if secrets are to be revealed.
    """
    by_look = (OAUTHBEARER, SCRAM[0], PLAIN) if token else ()
    for candidate in (mechanism,) if mechanism is not None else by_look:
        decoder = _DECODERS.get(candidate)
        fields = None if decoder is None else decoder(token, from_client, limits)
        if fields is not None:
            name = mechanism or ("SCRAM" if candidate in SCRAM else candidate)
            shown = {field: value for field, value in fields.items() if value is not None}
            if not reveal_secrets:
                shown = _without_secrets(shown)
            return {"mechanism": name, **shown}
    if mechanism is None and token[:1] == b"\x60" and KERBEROS in token[:24]:
        mechanism = GSSAPI
    return {"mechanism": mechanism, "opaque": token if reveal_secrets else f"{len(token)} bytes"}


def _text(token: bytes) -> str | None:
    try:
        return token.decode()
    except UnicodeDecodeError:
        return None


def _plain(token: bytes, from_client: bool, _: Limits) -> dict[str, Any] | None:
    """authorization id NUL username NUL password; the broker answers with nothing."""
    if not from_client:
        return {"message": "server-final"} if not token else None
    text = _text(token)
    if text is None or text.count("\0") != 2:
        return None
    authorization_id, username, password = text.split("\0")
    return {
        "message": "client-first",
        "authorizationId": authorization_id or None,
        "username": username,
        "password": password,
    }


def _scram(token: bytes, from_client: bool, _: Limits) -> dict[str, Any] | None:
    """The four messages are lists of one-letter attributes; the client's first has a GS2 header before them."""
    text = _text(token)
    if text is None:
        return None
    fields: dict[str, Any] = {}
    if from_client and (header := _GS2_HEADER.match(text)):
        fields = {"message": "client-first", "authorizationId": _unescaped(header["authorization_id"])}
        text = text[header.end() :]
    else:
        for start, message in _SCRAM_MESSAGES[from_client]:
            if text.startswith(start):
                fields = {"message": message}
    if not fields:
        return None
    if fields["message"] == "client-first" and not text.startswith("n="):
        return None
    for attribute in text.split(","):
        letter, equals, value = attribute.partition("=")
        if not equals or (len(letter) > 1 and letter != _TOKEN_AUTHENTICATION):
            return None
        name = _SCRAM_FIELDS.get(letter, letter)
        fields[name] = _unescaped(value) if letter in ("n", "a") else value
    iterations = fields.get("iterations", "")
    if iterations.isdecimal() and len(iterations) < 10:
        fields["iterations"] = int(iterations)
    return fields


def _unescaped(name: str | None) -> str | None:
    """A SCRAM name, where a comma and an equals sign are written =2C and =3D."""
    return None if name is None else name.replace("=2C", ",").replace("=3D", "=")


def _oauthbearer(token: bytes, from_client: bool, limits: Limits) -> dict[str, Any] | None:
    """GS2 header, then key=value pairs between bytes 1; the broker answers with nothing, or with an error in JSON."""
    text = _text(token)
    if text is None:
        return None
    if not from_client:
        return _oauthbearer_answer(text, limits)
    if text == "\x01":
        return {"message": "client-abort"}
    header = _GS2_HEADER.match(text)
    pairs = text[header.end() :].split("\x01") if header else []
    if header is None or len(pairs) < 4 or pairs[0] or pairs[-1] or pairs[-2]:
        return None
    values = dict(pair.partition("=")[::2] for pair in pairs[1:-2])
    scheme, _, bearer_token = values.pop("auth", "").partition(" ")
    if scheme.casefold() != "bearer":
        return None
    return {
        "message": "client-first",
        "authorizationId": _unescaped(header["authorization_id"]),
        "token": bearer_token,
        "claims": _claims(bearer_token, limits),
        "extensions": values or None,
    }


def _oauthbearer_answer(text: str, limits: Limits) -> dict[str, Any] | None:
    if not text:
        return {"message": "server-final"}
    error = _json_object(text, limits)
    return None if error is None else {"message": "server-error", "error": error}


def _claims(bearer_token: str, limits: Limits) -> dict[str, Any] | str | None:
    """The claims of a JSON web token that say whose it is and until when; None if the token is none."""
    parts = bearer_token.split(".")
    if len(parts) != 3:
        return None
    try:
        text = b64decode(parts[1] + "=" * (-len(parts[1]) % 4), altchars=b"-_").decode()
    except ValueError:
        return None
    claims = _json_object(text, limits)
    if not isinstance(claims, dict):
        return claims
    return {name: claims[name] for name in ("iss", "sub", "aud", "scope", "iat", "exp") if name in claims} or None


def _json_object(text: str, limits: Limits) -> dict[str, Any] | str | None:
    """The members of a JSON object, such that they can be written as JSON again; None if the text is no such object.

    One beyond `_LONGEST_JSON` or `Limits.nesting` is not read, whatever it has: words in brackets stand for it.
    """
    if not text.lstrip(" \t\r\n").startswith("{"):
        return None
    if len(text) > _LONGEST_JSON:
        return f"[JSON of {len(text)} characters, of more than {_LONGEST_JSON} none is read]"
    if _is_nested_too_deep(text, limits.nesting):
        return f"[JSON nested more than {limits.nesting} levels deep, it is not read ({limits.option('nesting')})]"
    try:
        members = json.loads(text, parse_int=_number, parse_float=_number, parse_constant=_refuse)
    except ValueError:
        return None
    return {_encodable(name): _encodable(value) for name, value in members.items()}


def _is_nested_too_deep(text: str, most: int) -> bool:
    """Counted before the text is read: how deep Python's own parser gets depends on who calls it."""
    depth = 0
    for mark in _JSON_MARKS.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(mark[0], 0)
        if depth > most:
            return True
    return False


def _number(literal: str) -> int | float | str:
    """A number of JSON; as text where 64 bits do not hold it."""
    value = float(literal)
    if literal.lstrip("-").isdecimal():
        return int(literal) if abs(value) < 2.0**63 else literal
    return literal if math.isinf(value) else value


def _refuse(literal: str) -> None:
    """For what Python takes for JSON besides: NaN, Infinity, -Infinity."""
    raise ValueError(f"{literal} is not JSON")


def _encodable(value: Any) -> Any:
    r"""A value of JSON without halves of surrogate pairs, which no encoding has: such a half reads \ud800."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, list):
        return [_encodable(element) for element in value]
    if isinstance(value, dict):
        return {_encodable(name): _encodable(member) for name, member in value.items()}
    return value


_DECODERS: Mapping[str, Callable[[bytes, bool, Limits], dict[str, Any] | None]] = {
    PLAIN: _plain,
    OAUTHBEARER: _oauthbearer,
    **dict.fromkeys(SCRAM, _scram),
}
# All other fields are hidden: passwords and bearer tokens, of SCRAM what lets a listener guess the password or be the
# client (salt, proof, signature), and attributes that nobody knows.
_SHOWN = frozenset({"message", "authorizationId", "username", "nonce", "channelBinding", "claims"})
# These are shown with such values; what else they hold may be what the client sent.
_SHOWN_VALUES: Mapping[str, re.Pattern[str]] = {
    "iterations": re.compile("[0-9]+"),
    _TOKEN_AUTHENTICATION: re.compile("true|false"),
    "error": re.compile(  # of SCRAM: server-error-value in RFC 5802, section 7
        "invalid-encoding|extensions-not-supported|invalid-proof|channel-bindings-dont-match"
        "|server-does-support-channel-binding|channel-binding-not-supported|unsupported-channel-binding-type"
        "|unknown-user|invalid-username-encoding|no-resources|other-error"
    ),
}
_HARMLESS_EXTENSIONS = ("logicalCluster", "identityPoolId")  # Confluent's: which cluster, which pool of identities
_ERROR_FIELDS = ("status", "scope", "openid-configuration")  # RFC 7628, section 3.2.2
_STATUSES = ("invalid_request", "invalid_token", "insufficient_scope")  # RFC 6750, section 3.1

SHOWN_ERRORS = (
    r"^(?:Authentication failed: (?:Invalid username or password\.?|Invalid user credentials"
    r"|username not specified|password not specified"
    r"|Client requested an authorization id that is different from username)"
    r"|Authentication failed during (?:re-)?authentication due to invalid credentials with SASL mechanism "
    r"(?:PLAIN|SCRAM-SHA-256|SCRAM-SHA-512|OAUTHBEARER|GSSAPI)"
    r"|Request is not valid given the current SASL state\."
    r"|SaslAuthenticate request received after successful authentication"
    rf'|\{{"status":"(?:{"|".join(_STATUSES)})"\}})?$'
)
"""The texts of errors in answers to SaslAuthenticate that are shown: Kafka's own (PlainSaslServer, ScramSaslServer,
OAuthBearerSaslServer, SaslServerAuthenticator, KafkaApis). Others come from plug-ins, and may quote what the client
sent. In a syntax that Python and Arrow (RE2) both read."""
_SHOWN_ERRORS = re.compile(SHOWN_ERRORS)


_ANONYMOUS = re.compile(
    rb"(?:n|y),,n=(?P<name>[^,=]+),r=(?P<nonce>[^,]+)(?:,tokenauth=(?:true|false))?"  # what SCRAM's client says first
    rb"|c=(?P<binding>[^,]+),r=(?P<both>[^,]+),p=(?P<proof>[^,]+)"
    rb"|r=(?P<of_server>[^,]+),s=(?P<salt>[^,]+),i=[0-9]+"
    rb"|v=(?P<signature>[^,]+)"
    rb"|e=(?:" + _SHOWN_VALUES["error"].pattern.encode() + rb")"
    rb'|\{"status":"(?:' + "|".join(_STATUSES).encode() + rb")\"(?P<more>(?:, ?\"(?:scope|openid-configuration)\":"
    rb'"[^"\\]*")*)\}'  # the error of OAUTHBEARER
)
"""Tokens of which it may be told as whom they are, and why they are refused, in a capture without names."""
_OF_OTHERS = re.compile(rb'(?<=":")[^"]*')


def anonymous_token(token: bytes, replace: Callable[[bytes], bytes]) -> bytes:
    """A token of as many bytes, with the user's pseudonym, and of all else the form alone.

    Zeros if it is of no such form. That of PLAIN would tell how long the password is, that of OAUTHBEARER has claims.
    """
    found = _ANONYMOUS.fullmatch(token)
    if found is None:
        return bytes(len(token))
    made = bytearray(token)
    for part, text in found.groupdict().items():
        if text is not None:
            new = replace(text) if part == "name" else b"x" * len(text)
            if part == "more":
                new = _OF_OTHERS.sub(lambda value: b"x" * len(value[0]), text)
            made[found.start(part) : found.end(part)] = new
    return bytes(made)


def shown_error(text: str) -> str:
    """The text of an error as it may be shown."""
    return text if _SHOWN_ERRORS.match(text) else REDACTED


def _without_secrets(fields: Mapping[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name, value in fields.items():
        if name == "extensions":
            # What has no value is no extension: its name may be anything.
            shown[name] = {
                key if text else REDACTED: text if key in _HARMLESS_EXTENSIONS else REDACTED
                for key, text in value.items()
            }
        elif name == "error" and isinstance(value, dict):
            shown[name] = {
                key if key in _ERROR_FIELDS else REDACTED: text if key == "status" and text in _STATUSES else REDACTED
                for key, text in value.items()
            }
        elif name in _SHOWN or (name in _SHOWN_VALUES and _SHOWN_VALUES[name].fullmatch(str(value))):
            shown[name] = value
        else:
            shown[name] = REDACTED
    return shown
