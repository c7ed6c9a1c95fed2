"""What hellos say, whole and cut anywhere."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkascope.sniffer.tls import handshake as hs

EXTENSIONS = bytes.fromhex("0000000e000c0000096b61666b612d312e78") + bytes.fromhex("002a0000")
HELLO = b"\x03\x03" + bytes(range(32)) + b"\x01\x09" + b"\0\x02\x13\x01" + b"\x01\0"
HELLO += len(EXTENSIONS).to_bytes(2, "big") + EXTENSIONS
ANSWER = b"\x03\x03" + bytes(range(32)) + b"\0" + b"\x13\x02\0" + bytes.fromhex("0006002b00020304")


def test_a_clients_hello() -> None:
    hello = hs.client_hello(HELLO)
    assert hello is not None
    assert (hello.random, hello.session, hello.early_data) == (bytes(range(32)), b"\x09", True)
    assert hello.server_name == "kafka-1.x"
    assert (hello.alpn, hello.offers_http) == ((), False)


def test_what_a_client_offers_above_tls() -> None:
    offered = b"\x02h2\x08http/1.1\x05kafka"
    extension = b"\0\x10" + (len(offered) + 2).to_bytes(2, "big") + len(offered).to_bytes(2, "big") + offered
    hello = hs.client_hello(HELLO[: -len(EXTENSIONS) - 2] + len(extension).to_bytes(2, "big") + extension)
    assert hello is not None
    assert (hello.alpn, hello.offers_http) == (("h2", "http/1.1", "kafka"), True)


def test_a_servers_hello() -> None:
    answer = hs.server_hello(ANSWER)
    assert answer is not None
    assert (answer.version, answer.suite, answer.is_retry, answer.alpn) == (0x0304, 0x1302, False, None)


def test_cut_anywhere_it_is_none_or_says_less() -> None:
    for size in range(len(HELLO)):
        hello = hs.client_hello(HELLO[:size])
        assert hello is None or hello.server_name is None
    for size in range(len(ANSWER)):
        answer = hs.server_hello(ANSWER[:size])
        assert answer is None or answer.version == 0x0303


def test_messages_are_taken_when_they_are_whole() -> None:
    one, other = b"\x01\0\0\x02ab", b"\x14\0\0\x01c"
    assert list(hs.messages(one + other)) == [(1, b"ab"), (20, b"c")]
    assert list(hs.messages(one + other[:-1])) == [(1, b"ab")]
    assert list(hs.messages(b"\x0b\xff\xff\xff")) == []


def test_the_first_certificate() -> None:
    chain = b"\0\0\x03abc" + b"\0\0\x01d"
    body = len(chain).to_bytes(3, "big") + chain
    assert hs.first_certificate(body, hs.TLS_1_2) == b"abc"
    assert hs.first_certificate(b"\0" + body, hs.TLS_1_3) == b"abc"
    assert hs.first_certificate(b"\0\0\0", hs.TLS_1_2) is None
    assert hs.first_certificate(body[:-3], hs.TLS_1_2) is None


@given(st.binary(max_size=200))
def test_any_bytes_do_no_harm(data: bytes) -> None:
    for read in (hs.client_hello, hs.server_hello, hs.encrypted_extensions):
        read(data)
    hs.first_certificate(data, hs.TLS_1_2)
    assert sum(4 + len(body) for _, body in hs.messages(data)) <= len(data)
