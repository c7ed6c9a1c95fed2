"""Where fields lie in bytes that are a message of their own: what members of a group tell each other, principals."""

from __future__ import annotations

from kafkascope.decoders import group_protocols, schema
from kafkascope.decoders.parts import Kind, Part, dissect
from kafkascope.decoders.schema import Message

_VERSION_BYTES = 2  # before the fields, but for the definitions in _BARE

_OURS = {
    message.name: message
    for message in (
        group_protocols.STICKY_USER_DATA,
        group_protocols.COOPERATIVE_STICKY_USER_DATA,
        group_protocols.CONNECT_METADATA,
        group_protocols.CONNECT_ASSIGNMENT,
    )
}
_KAFKAS = (
    "ConsumerProtocolSubscription",
    "ConsumerProtocolAssignment",
    "DefaultPrincipalData",
    "SubscriptionInfoData",
)
_BARE = frozenset({"StickyAssignorUserData", "CooperativeStickyAssignorUserData", "SubscriptionInfoData"})


def add_payload(part: Part, definition: str, version: int, data: bytes) -> bool:
    """Give a part that is bytes the fields in them as parts; False if there is no layout for them, or they differ.

    definition, version: as `nested.decode_nested` found them. data: what the part's offset counts in.
    """
    message = _layout(definition)
    if message is None or not isinstance(part.value, bytes):
        return False
    end = part.end
    at = start = end - len(part.value)
    parts = []
    if definition not in _BARE:
        parts.append(Part("version", Kind.VALUE, "INT16", at, head=_VERSION_BYTES, value=version))
        at += _VERSION_BYTES
    known = min(version, message.versions.last)
    body, error = dissect(definition, [(reading, known) for reading in message.readings(known)], data, at, end)
    if error is not None:
        return False
    parts += body.parts
    if body.end < end:
        parts.append(Part("_rest", Kind.VALUE, "BYTES", body.end, head=end - body.end, value=data[body.end : end]))
    part.head, part.parts = start - part.offset, parts
    return True


def _layout(definition: str) -> Message | None:
    return _OURS.get(definition) or (schema.data_message(definition) if definition in _KAFKAS else None)
