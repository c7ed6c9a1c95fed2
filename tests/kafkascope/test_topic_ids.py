"""Names of topics from a file and from a broker; what they are for is in test_cli.py."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkascope.decoders import apis, decode_request, schema
from kafkascope.topic_ids import METADATA_VERSION, NoNamesError, of_broker, of_file
from tests.decoders import written_messages

ID = "AAECAwQFBgcICQoLDA0ODw"
DESCRIBED = f"""Topic: orders\tTopicId: {ID}\tPartitionCount: 3\tReplicationFactor: 1\tConfigs: segment.bytes=1073741824
\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1
Topic: eve\x1b[2J TopicId: -_ECAwQFBgcICQoLDA0ODw PartitionCount: 1
"""

Serve = Callable[[Callable[[bytes], bytes]], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A function that starts a server, which answers one request, and gives its address."""
    threads: list[threading.Thread] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def start(answer: Callable[[bytes], bytes]) -> str:
            def once() -> None:
                with listener.accept()[0] as connection:
                    (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
                    connection.sendall(answer(connection.recv(size, socket.MSG_WAITALL)))

            threads.append(threading.Thread(target=once))
            threads[-1].start()
            return f"127.0.0.1:{listener.getsockname()[1]}"

        yield start
        for thread in threads:
            thread.join()


def test_a_description_of_topics_has_names_and_ids(tmp_path: Path) -> None:
    file = tmp_path / "topics.txt"
    file.write_text(DESCRIBED)
    assert of_file(str(file)) == {f"id:{ID}": "orders", "id:-_ECAwQFBgcICQoLDA0ODw": "eve\x1b[2J"}


def test_a_file_without_ids_is_told(tmp_path: Path) -> None:
    file = tmp_path / "topics.txt"
    file.write_bytes(b"Topic: orders PartitionCount: 1\n\xff\n")
    with pytest.raises(NoNamesError, match="kafka-topics"):
        of_file(str(file))


def test_a_broker_is_asked_once_for_all_topics_and_creates_none(serve: Serve) -> None:
    requests = []
    topics = [{"name": "orders", "topicId": ID}, {"name": "", "topicId": "B" * 22}]

    def answer(request: bytes) -> bytes:
        requests.append(request)
        correlation_id = request[4:8]
        message = schema.apis()[apis.METADATA].response
        body = written_messages.body(message, METADATA_VERSION, {"topics": topics})
        return struct.pack(">i", 5 + len(body)) + correlation_id + b"\0" + body

    assert of_broker(serve(answer)) == {f"id:{ID}": "orders"}
    [request] = requests
    key, version, _, size = struct.unpack(">hhih", request[:10])
    assert (key, version, request[10 : 10 + size]) == (apis.METADATA, METADATA_VERSION, b"kafkascope")
    assert decode_request(key, version, request[10 + size + 1 :]) == {
        "topics": None,
        "allowAutoTopicCreation": False,
        "includeTopicAuthorizedOperations": False,
    }


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        struct.pack(">iib", 100, 1, 0) + b"short",
        struct.pack(">iib", 1 << 30, 1, 0),
        struct.pack(">iib", 4, 1, 0),
        struct.pack(">iib", 10, 7, 0) + bytes(5),
        struct.pack(">iib", 10, 1, 0) + b"\xff" * 5,
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
)
def test_what_is_no_answer_is_told(answer: bytes, serve: Serve) -> None:
    with pytest.raises(NoNamesError, match="plaintext listener"):
        of_broker(serve(lambda _: answer))


@pytest.mark.parametrize("address", ["host", "host:", ":9092", "host:kafka", "127.0.0.1:99999"])
def test_what_is_no_address_is_told(address: str) -> None:
    with pytest.raises(NoNamesError, match=address):
        of_broker(address)
