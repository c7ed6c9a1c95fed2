"""TLS between TCP and Kafka: records, handshakes, keys that somebody logged, and what shows without them.

``stage`` has runs of TCP streams in and runs of plain bytes out; ``connection`` is one connection's two streams;
``handshake`` reads what is said in the clear; ``suites`` has the ciphers by their numbers; ``keys`` the secrets by
client random; ``protection`` opens records, and is imported with the first connection whose secrets are known.
"""
