"""Values as text."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.sniffer.units import SECOND_NS


def counted(count: int, noun: str) -> str:
    """``1 packet``, ``1,200 packets``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def client_name(client_id: str | None) -> str:
    """A client as people call it: it need not tell an id."""
    return client_id or "a client without a name"


def address(host: str | None, port: int | None) -> str:
    """``10.0.0.1:9092``, ``[fd77::1]:9092``."""
    return f"[{host}]:{port}" if host and ":" in host else f"{host}:{port}"


def without_port(place: str) -> str:
    """The address, or name, of ``address:port``."""
    return place.rpartition(":")[0].strip("[]")


OWN_HOSTS = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"})
"""Names of whatever host uses them."""


def is_name(host: str) -> bool:
    """Whether a host is written as a name, not as an address."""
    try:
        ip_address(host)
    except ValueError:
        return True
    return False


def address_alone(where: str) -> str:
    """The address, or name, of what is one with its port or without."""
    return without_port(where) if ":" in where and is_name(where) else where


def iso_times(times: Any) -> Any:
    """UTC times as ``2026-11-21T07:02:00.123456789Z``; null stays null."""
    text = times.cast(pa.timestamp("ns")).cast(pa.string())
    return pc.binary_join_element_wise(pc.utf8_replace_slice(text, 10, 11, "T"), "Z", "")


def epoch_times(times: Any) -> Any:
    """Times as seconds since 1970 with nine decimals, ``1795244520.123456789``; null stays null."""
    nanoseconds = times.cast(pa.int64())
    whole = pc.divide(nanoseconds, SECOND_NS)
    rest = pc.subtract(nanoseconds, pc.multiply(whole, SECOND_NS))
    return pc.binary_join_element_wise(whole.cast(pa.string()), pc.utf8_lpad(rest.cast(pa.string()), 9, "0"), ".")


def clock_times(times: Any) -> Any:
    """The time of day of UTC times, ``07:02:00.123456``; null stays null."""
    return pc.utf8_slice_codeunits(times.cast(pa.timestamp("us"), safe=False).cast(pa.string()), 11, 26)
