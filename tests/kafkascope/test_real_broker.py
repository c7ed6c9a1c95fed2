"""A real broker on the loopback, real clients, and a live capture beside them: everything is decoded."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.needs import lacks, needs, needs_root
from tests.patience import PATIENCE_S
from tools.real_broker import NoJarsError, RealBroker

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 30  # of each codec
BIN = Path(sys.executable).parent

pytestmark = pytest.mark.deep


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[int]:
    """The port of a broker that answers."""
    from confluent_kafka.admin import AdminClient

    needs_root()
    needs("java")
    port, controller = free_ports(2)
    one = RealBroker(tmp_path, port, controller)
    try:
        one.start()
        admin = AdminClient({"bootstrap.servers": one.address, "log_level": 0})
        assert admin.list_topics(timeout=PATIENCE_S).brokers, one.log.read_text()[-3000:]
        yield one.port
    except NoJarsError as error:
        lacks(str(error))
    finally:
        one.stop()


def until(condition: Any, *polled: Any) -> None:
    """Poll consumers until the condition holds."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end
        for poll in polled:
            poll()


def test_all_of_a_real_brokers_traffic_is_decoded(broker: int) -> None:
    from confluent_kafka import Consumer, Producer

    command = [str(BIN / "sniff"), "--iface", "lo", "--port", str(broker), "--json", "--records"]
    sniff = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert sniff.stdout is not None
    assert sniff.stderr is not None
    assert any(b"listening on" in line for line in sniff.stderr)  # behind what is said while kernels are compiled
    lines: list[bytes] = []
    reader = threading.Thread(target=lambda: lines.extend(sniff.stdout or ()))
    reader.start()
    address = f"127.0.0.1:{broker}"
    produced: list[list[Any]] = []

    def delivered(error: object, message: Any) -> None:
        assert error is None, error
        place = [message.topic(), message.partition(), message.offset()]
        produced.append([*place, message.key().decode(), message.value().decode()])

    try:
        for codec in CODECS:
            producer = Producer(
                {"bootstrap.servers": address, "compression.type": codec, "linger.ms": 50, "log_level": 0}
            )
            for number in range(RECORDS):
                text = f"{codec} {number} " + "again " * 50
                producer.produce("orders", key=f"{codec}-{number}", value=text, on_delivery=delivered)
            assert producer.flush(PATIENCE_S) == 0
        group = {"bootstrap.servers": address, "group.id": "readers", "auto.offset.reset": "earliest", "log_level": 0}
        read: list[list[Any]] = []
        first, second = (Consumer(group | {"client.id": name}) for name in ("first", "second"))

        def poll(consumer: Any) -> None:
            message = consumer.poll(0.1)
            if message is not None:
                assert message.error() is None, message.error()
                place = [message.topic(), message.partition(), message.offset()]
                read.append([*place, message.key().decode(), message.value().decode()])

        first.subscribe(["orders"])
        until(lambda: len(read) >= len(produced), lambda: poll(first))
        assert len(first.assignment()) == 4
        second.subscribe(["orders"])
        both = (lambda: poll(first), lambda: poll(second))
        until(lambda: len(first.assignment()) == 2 and len(second.assignment()) == 2, *both)
        second.close()
        first.close()
    finally:
        sniff.send_signal(signal.SIGINT)
        remarks = sniff.stderr.read().decode()
        reader.join()
        assert sniff.wait() == 0, remarks
    exchanges = [json.loads(line) for line in lines]
    shown = [
        [record["topic"], record["partition"], record["offset"], record["key"], record["value"]]
        for exchange in exchanges
        if exchange["api"] == "Produce"
        for record in exchange["records"]
        if exchange["error"] == "NONE" or record["offset"] is not None
    ]
    # The broker may not lead yet what was created a moment ago: then they are sent once more.
    refused = [exchange for exchange in exchanges if exchange["api"] == "Produce" and exchange["error"] != "NONE"]
    assert {exchange["error"] for exchange in refused} <= {"NOT_LEADER_OR_FOLLOWER"}
    fetched = [
        [record["topic"], record["partition"], record["offset"], record["key"], record["value"]]
        for exchange in exchanges
        if exchange["api"] == "Fetch"
        for record in exchange["records"]
    ]
    assert len(produced) == RECORDS * len(CODECS)
    assert sorted(shown) == sorted(produced)
    assert {tuple(record) for record in read} <= {tuple(record) for record in fetched}
    assert sum(exchange["api"] == "JoinGroup" for exchange in exchanges) >= 3
    assert ", 0 dropped by the kernel" in remarks
    odd = [exchange for exchange in exchanges if exchange["decoded"] != "full" or exchange["issue"]]
    assert odd == []
