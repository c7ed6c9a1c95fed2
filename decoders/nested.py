"""Bytes inside bodies, decoded for a reader: group protocols, SASL tokens, forwarded requests, principals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kafkascope.decoders import apis, payloads, redaction, sasl, schema
from kafkascope.decoders.group_protocols import decode_member_assignment, decode_member_metadata
from kafkascope.decoders.interpreter import DecodeError, decode
from kafkascope.decoders.limits import DEFAULT, Limits
from kafkascope.decoders.payloads import Payload
from kafkascope.decoders.redaction import replaced
from kafkascope.decoders.sasl import REDACTED


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What the bytes inside a body do not say themselves."""

    protocol_type: str | None = None  # of the group: consumer, connect; old versions of JoinGroup lack it
    protocol_name: str | None = None  # the assignor the group chose: range, cooperative-sticky, stream
    mechanism: str | None = None  # of the connection's SaslHandshake
    reveal_secrets: bool = False
    secret_names: tuple[str, ...] = ()  # more than redaction knows; see redaction.checked_names
    limits: Limits = DEFAULT


NOTHING_KNOWN = Knowledge()
Body = dict[str, Any]


def decode_nested(api_key: int, body: Body, *, response: bool, known: Knowledge = NOTHING_KNOWN) -> Body:
    """A copy of a decoded body with dicts in the place of the bytes that are understood; other bytes stay.

    Such a dict has _definition and _version before its fields (see Payload.as_dict). What the body itself says of its
    group goes before what is known. Secrets are [redacted] unless they are to be revealed. Raises nothing, whatever the
    bytes are. Record batches stay bytes: see decode_records.
    """
    known = replace(
        known,
        protocol_type=body.get("protocolType") or known.protocol_type,
        protocol_name=body.get("protocolName") or known.protocol_name,
    )
    decoder = _DECODERS.get((api_key, response))
    if decoder is not None:
        body = decoder(body, known)
    if known.reveal_secrets or api_key in (apis.SASL_AUTHENTICATE, apis.ENVELOPE):
        return body
    return redaction.redact(api_key, body, response=response, more=known.secret_names)


def decode_nested_record(
    topic: str,
    key: bytes | None,
    value: bytes | None,
    *,
    reveal_secrets: bool = False,
    secret_names: tuple[str, ...] = (),
) -> Body | None:
    """Key and value of a record of an internal topic as dicts; None for a record of any other topic.

    As payloads.decode_stored_record, with what members of a group told each other decoded too, and secrets [redacted]
    unless they are to be revealed. Raises DecodeError.
    """
    record = payloads.decode_stored_record(topic, key, value)
    if record is None or not isinstance(record["value"], dict):
        return record
    fields = record["value"]
    if fields["_definition"] == "GroupMetadataValue":
        known = Knowledge(
            fields["protocolType"], fields["protocol"], reveal_secrets=reveal_secrets, secret_names=secret_names
        )
        fields = replaced(fields, "members[].subscription", _metadata(known))
        fields = replaced(fields, "members[].assignment", _assignment(known))
    elif fields["_definition"] == "ConsumerGroupMemberMetadataValue":
        path = "classicMemberMetadata.supportedProtocols[].metadata"
        fields = replaced(fields, path, _metadata(Knowledge("consumer", reveal_secrets=reveal_secrets), "name"))
    if not reveal_secrets:
        fields = redaction.redact_record(fields["_definition"], fields, more=secret_names)
    return record | {"value": fields}


def _or_bytes(data: bytes, decoder: Callable[[], Payload | None]) -> Any:
    """The payload as a dict, or the bytes themselves if they cannot be read."""
    try:
        payload = decoder()
    except DecodeError:
        return data
    return data if payload is None else payload.as_dict()


def _of_member(found: Any, known: Knowledge) -> Any:
    """What a member of a group told others, without what may be a secret: bytes in no known form, users in addresses.

    Applications put there what they like.
    """
    if known.reveal_secrets:
        return found
    if isinstance(found, bytes):
        return REDACTED if found else found
    if isinstance(found, list):
        return [_of_member(element, known) for element in found]
    if not isinstance(found, dict):
        return found
    return {
        name: REDACTED
        if name in _ADDRESSES and isinstance(value, str) and redaction.holds_secret(value, more=known.secret_names)
        else _of_member(value, known)
        for name, value in found.items()
    }


_ADDRESSES = frozenset({"url", "leaderUrl"})  # of Connect's workers


def _metadata(known: Knowledge, name_field: str | None = None) -> Callable[[Body, bytes], Any]:
    """For replaced: the metadata of a member. name_field: the sibling with the protocol's name, if there is one."""

    def replacement(siblings: Body, data: bytes) -> Any:
        name = known.protocol_name if name_field is None else siblings[name_field]
        return _of_member(_or_bytes(data, lambda: decode_member_metadata(data, known.protocol_type, name)), known)

    return replacement


def _assignment(known: Knowledge) -> Callable[[Body, bytes], Any]:
    """For replaced: the assignment of a member."""

    def replacement(_: Body, data: bytes) -> Any:
        found = _or_bytes(data, lambda: decode_member_assignment(data, known.protocol_type, known.protocol_name))
        return _of_member(found, known)

    return replacement


def _described_groups(body: Body, known: Knowledge) -> Body:
    """DescribeGroups, where each group says its protocol; protocolData is the protocol's name."""

    def described(group: Body) -> Body:
        of_group = replace(
            known,
            protocol_type=group.get("protocolType") or known.protocol_type,
            protocol_name=group.get("protocolData") or known.protocol_name,
        )
        group = replaced(group, "members[].memberMetadata", _metadata(of_group))
        return replaced(group, "members[].memberAssignment", _assignment(of_group))

    return body | {"groups": [described(group) for group in body["groups"]]} if body.get("groups") else body


def _token(body: Body, known: Knowledge, *, response: bool) -> Body:
    """SaslAuthenticate."""
    if not known.reveal_secrets:
        return redaction.redact(
            apis.SASL_AUTHENTICATE, body, response=response, mechanism=known.mechanism, limits=known.limits
        )

    def replacement(_: Body, data: bytes) -> Body:
        return sasl.decode_token(
            known.mechanism, data, from_client=not response, reveal_secrets=True, limits=known.limits
        )

    return replaced(body, "authBytes", replacement)


def _forwarded_request(body: Body, known: Knowledge) -> Body:
    """Envelope: header and body of the request a broker passes on, and for whom (KIP-590).

    What brokers never pass on, or in no form that is known, is as secret as the rest of what may be in there.
    """

    def request(_: Body, data: bytes) -> Any:
        api_key = int.from_bytes(data[0:2], "big", signed=True)
        api_version = int.from_bytes(data[2:4], "big", signed=True)
        undecoded = data if known.reveal_secrets else REDACTED
        if api_key in (apis.ENVELOPE, apis.PRODUCE) or not apis.is_known(api_key, api_version):
            return undecoded
        try:
            header, at = decode(schema.request_header(), apis.request_header_version(api_key, api_version), data)
            inner, _end = decode(schema.apis()[api_key].request, api_version, data, at)
        except DecodeError:
            return undecoded
        return {"header": header, "body": decode_nested(api_key, inner, response=False, known=known)}

    def principal(_: Body, data: bytes) -> Any:
        shown = _or_bytes(data, lambda: payloads.decode_principal(data))
        return shown if known.reveal_secrets or (isinstance(shown, dict) and "_rest" not in shown) else REDACTED

    return replaced(replaced(body, "requestData", request), "requestPrincipal", principal)


def _forwarded_response(body: Body, known: Knowledge) -> Body:
    """Envelope: the bytes alone do not say to which request they answer."""
    return body if known.reveal_secrets else replaced(body, "responseData", lambda _, data: REDACTED)


def _metadata_log(topics: str, records: str) -> Callable[[Body, Knowledge], Body]:
    """A message with the records of topics: those of the metadata log may have secrets, compressed or not."""

    def of_topic(topic: Body) -> Body:
        named = (topic.get("name"), topic.get("topic"), topic.get("topicId"))
        if payloads.CLUSTER_METADATA_TOPIC not in named and payloads.CLUSTER_METADATA_ID not in named:
            return topic
        return replaced(topic, f"partitions[].{records}", lambda _, data: REDACTED)

    def shown(body: Body, known: Knowledge) -> Body:
        if known.reveal_secrets:
            return body
        return replaced(body, topics, lambda _, found: [of_topic(topic) for topic in found])

    return shown


_DECODERS: Mapping[tuple[int, bool], Callable[[Body, Knowledge], Body]] = {
    (apis.JOIN_GROUP, False): lambda body, known: replaced(body, "protocols[].metadata", _metadata(known, "name")),
    (apis.JOIN_GROUP, True): lambda body, known: replaced(body, "members[].metadata", _metadata(known)),
    (apis.SYNC_GROUP, False): lambda body, known: replaced(body, "assignments[].assignment", _assignment(known)),
    (apis.SYNC_GROUP, True): lambda body, known: replaced(body, "assignment", _assignment(known)),
    (apis.DESCRIBE_GROUPS, True): _described_groups,
    (apis.SASL_AUTHENTICATE, False): lambda body, known: _token(body, known, response=False),
    (apis.SASL_AUTHENTICATE, True): lambda body, known: _token(body, known, response=True),
    (apis.FETCH, True): _metadata_log("responses", "records"),
    (apis.FETCH_SNAPSHOT, True): _metadata_log("topics", "unalignedRecords"),
    (apis.ENVELOPE, False): _forwarded_request,
    (apis.ENVELOPE, True): _forwarded_response,
}
