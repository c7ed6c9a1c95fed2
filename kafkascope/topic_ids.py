"""Names of topics that a capture knows by id alone, from elsewhere: a tool of administrators, or a broker."""

from __future__ import annotations

import re
import socket
import struct

from kafkascope.decoders import DecodeError, apis, decode_response
from kafkascope.reports.columns.topics import ID_PREFIX

_DESCRIBED = re.compile(r"^\s*Topic:\s*(?P<name>\S+)\s+TopicId:\s*(?P<id>[\w-]{22})\b", re.MULTILINE)
METADATA_VERSION = 12  # the first whose answer is sure to have ids, in brokers of 2.8 and later
PATIENCE_S = 10
MOST_BYTES = 64 << 20
"""Of an answer: a topic with a hundred partitions takes 5 kB."""
_CORRELATION_ID = 1


class NoNamesError(Exception):
    """Names could not be had; says why, and what to do."""


def of_file(path: str) -> dict[str, str]:
    """Names by topic as written by id: what ``kafka-topics.sh --describe`` prints. Raises NoNamesError, OSError."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        found = {ID_PREFIX + one["id"]: one["name"] for one in _DESCRIBED.finditer(file.read())}
    if not found:
        raise NoNamesError(f"{path} has no topics with ids; give what `kafka-topics.sh --describe` prints")
    return found


def of_broker(address: str) -> dict[str, str]:
    """Names by topic as written by id, asked of a broker (HOST:PORT, without TLS) with one Metadata request.

    It needs no rights for topics that the broker shows to anyone. Raises NoNamesError.
    """
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal():
        raise NoNamesError(f"{address} is no address of a broker: give HOST:PORT")
    try:
        with socket.create_connection((host, int(port)), PATIENCE_S) as connection:
            connection.sendall(_request())
            answer = _answer(connection)
        topics = decode_response(apis.METADATA, METADATA_VERSION, answer)["topics"]
    except (OSError, OverflowError, DecodeError) as error:
        why = getattr(error, "strerror", None) or error
        advice = "it must be the plaintext listener, without SASL, of a broker of 2.8 or later; else give --names FILE"
        raise NoNamesError(f"{address} was asked for the names of topics, without success ({why}); {advice}") from None
    return {ID_PREFIX + topic["topicId"]: topic["name"] for topic in topics if topic["name"]}


def _request() -> bytes:
    """Metadata of all topics (null), creating none."""
    client_id = b"kafkascope"
    head = struct.pack(">hhih", apis.METADATA, METADATA_VERSION, _CORRELATION_ID, len(client_id)) + client_id + b"\0"
    body = b"\0\0\0\0"  # topics, allowAutoTopicCreation, includeTopicAuthorizedOperations, tags
    return struct.pack(">i", len(head + body)) + head + body


def _answer(connection: socket.socket) -> bytes:
    """The body of the answer."""
    size, correlation_id, _ = struct.unpack(">iib", _whole(connection, 9))
    if correlation_id != _CORRELATION_ID or not 5 <= size <= MOST_BYTES:
        raise OSError(f"{size} bytes with correlation id {correlation_id} are no answer to the request")
    return _whole(connection, size - 5)


def _whole(connection: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        more = connection.recv(min(size - len(found), 1 << 16))
        if not more:
            raise OSError(f"the connection was closed after {len(found)} of {size} bytes")
        found += more
    return bytes(found)
