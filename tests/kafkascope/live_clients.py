"""A producer, a mock broker (librdkafka's, which speaks the real protocol on a random port) and a group consumer.

Prints one line of JSON, the addresses of the brokers and what was produced, when all is consumed; goes on living until
its standard input is closed. With the argument wait it prints the addresses first, and begins when it is given a line;
with produce there is no consumer, who needs three seconds to join.
"""

from __future__ import annotations

import json
import sys

from confluent_kafka import Consumer, KafkaError, Message, Producer

from tests.patience import PATIENCE_S

RECORDS = 40


def consume(brokers: list[str]) -> None:
    consumer = Consumer(
        {"bootstrap.servers": ",".join(brokers), "group.id": "readers", "auto.offset.reset": "earliest", "log_level": 0}
    )
    consumer.subscribe(["orders"])
    consumed = 0
    while consumed < RECORDS:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, f"only {consumed} records came"
        assert message.error() is None, message.error()
        consumed += 1
    consumer.close()


def main() -> None:
    producer = Producer({"test.mock.num.brokers": 2, "client.id": "live-producer", "log_level": 0})
    brokers = [f"{broker.host}:{broker.port}" for broker in producer.list_topics(timeout=PATIENCE_S).brokers.values()]
    if sys.argv[1:] == ["wait"]:
        print(json.dumps({"brokers": brokers}), flush=True)
        sys.stdin.readline()
    for broker in brokers:  # each is spoken to, whichever of them lead partitions: the mock draws lots
        Producer({"bootstrap.servers": broker, "client.id": "live-producer", "log_level": 0}).list_topics(
            timeout=PATIENCE_S
        )
    produced = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        key, value = message.key(), message.value()
        assert key is not None
        assert value is not None
        produced.append([message.topic(), message.partition(), message.offset(), key.decode(), value.decode()])

    for number in range(RECORDS):
        producer.produce("orders", key=f"k{number}", value=f"value {number}", on_delivery=delivered)
    assert producer.flush(PATIENCE_S) == 0
    if sys.argv[1:] != ["produce"]:
        consume(brokers)
    print(json.dumps({"brokers": brokers, "produced": sorted(produced)}), flush=True)
    sys.stdin.read()


main()
