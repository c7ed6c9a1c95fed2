"""Pseudonyms: as long as what they stand for, different for what differs, the same each time."""

from __future__ import annotations

import copy
import pickle
from ipaddress import IPv4Address, IPv6Address, ip_address

from hypothesis import example, given
from hypothesis import strategies as st

from kafkascope.decoders.pseudonyms import Pseudonyms

MADE = Pseudonyms("key")
# Those that are IPv4 mapped are written in several ways, of other lengths: as texts they need not stay addresses.
written_in_one_way = st.ip_addresses().filter(lambda one: one.version == 4 or one.ipv4_mapped is None)


@given(st.text(max_size=40))
def test_a_pseudonym_is_a_text_as_long_as_its_name(name: str) -> None:
    data = name.encode("utf-8", "surrogatepass")
    made = MADE.text(data)
    assert len(made) == len(data)
    if not any(0xD800 <= ord(one) <= 0xDFFF for one in name):
        made.decode()
    assert MADE.text(data) == made


@given(st.text(st.characters(codec="utf-8"), max_size=8), st.text(st.characters(codec="utf-8"), max_size=8))
def test_names_that_differ_have_pseudonyms_that_differ(one: str, other: str) -> None:
    assert (MADE.name(one) == MADE.name(other)) == (one == other)


def test_letters_become_letters_and_what_begins_alike_stays_so() -> None:
    client, member = "consumer-1", "consumer-1-0a1b"
    assert MADE.name(member).startswith(MADE.name(client))
    assert MADE.name(client) != client
    assert [one.isdigit() for one in MADE.name(member)] == [one.isdigit() for one in member]


@given(st.ip_addresses())
def test_an_address_is_one_as_text_and_as_bytes(address: object) -> None:
    value = ip_address(str(address))
    packed = value.packed if value.version == 6 else bytes(10) + b"\xff\xff" + value.packed
    high, low = MADE.address(int.from_bytes(packed[:8], "big"), int.from_bytes(packed[8:], "big"))
    made = high.to_bytes(8, "big") + low.to_bytes(8, "big")
    shown = str(ip_address(made[12:] if value.version == 4 else made))
    if value.version == 4:
        assert MADE.name(str(value)) == shown
    assert len(made) == 16


def test_an_address_in_a_text_is_the_same_address() -> None:
    assert MADE.name("/10.0.0.1:9092").startswith("/" + MADE.name("10.0.0.1") + ":")


@given(written_in_one_way, written_in_one_way)
@example(ip_address("127.0.0.1"), ip_address("127.9.9.9"))
@example(ip_address("::1"), ip_address("::2"))
def test_only_what_is_of_a_host_itself_becomes_that(
    one: IPv4Address | IPv6Address, other: IPv4Address | IPv6Address
) -> None:
    made = [ip_address(MADE.name(str(each))) for each in (one, other)]
    assert [each.is_loopback for each in made] == [one.is_loopback, other.is_loopback]
    assert (made[0] == made[1]) == (one == other)


def test_no_address_becomes_one_of_a_host_itself() -> None:
    """Whatever the key: of all that may stand first, one would."""
    for key in "abc":
        made = [Pseudonyms(key).name(f"{first}.0.0.1").partition(".")[0] for first in range(100, 256)]
        assert len({*made}) == len(made)
        assert made[127 - 100] == "127"


def test_of_contents_nothing_is_told() -> None:
    assert MADE.content(b"a") == MADE.content(b"a") != MADE.content(b"b")
    assert len(MADE.content(b"a" * 1000)) == len(MADE.content(b""))


def test_they_travel_and_their_key_is_not_shown() -> None:
    again = pickle.loads(pickle.dumps(MADE))
    assert again.name("orders") == MADE.name("orders")
    assert copy.deepcopy(MADE) is MADE
    assert "key" not in repr(MADE)
