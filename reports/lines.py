"""Exchanges as lines of text: one each, readable at a glance, in columns that stay where they are."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Characters that could steer a terminal: C0 and C1 controls, DEL, and the marks that turn the direction of writing.
_UNSAFE = "[\\x00-\\x1f\\x7f-\\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
_COLOURS = {"time": "2", "api": "36", "error": "31;1", "warning": "33", "latency": "32", "dim": "2"}


def safe(texts: Any) -> Any:
    """Texts without characters that could steer a terminal or break a line: each becomes a replacement character."""
    return pc.replace_substring_regex(texts, _UNSAFE, "\ufffd")


def safe_text(text: str) -> str:
    """One text without characters that could steer a terminal."""
    return re.sub(_UNSAFE, "\ufffd", text)


def fields(exchanges: pa.Table) -> pa.Array:
    """A line an exchange: its columns as they are, with tabs between; null is empty, a time is seconds since 1970."""
    columns = []
    for column in exchanges.columns:
        if pa.types.is_timestamp(column.type):
            column = _seconds(column)
        elif pa.types.is_string(column.type):
            column = safe(column)
        elif pa.types.is_floating(column.type):
            column = pc.round(column, 6)
        columns.append(pc.fill_null(column.cast(pa.string()), ""))
    return pc.binary_join_element_wise(*columns, "\t")


def lines(exchanges: pa.Table, colour: bool = False, verbose: bool = False) -> pa.Array:
    """A line an exchange, as tcpdump would write it: when, who to whom, what, how long, how large, what went wrong.

    ``exchanges`` has, beside the columns of the exchanges table, ``client``, ``broker`` (host:port) and ``topics``
    (list of string: those that the exchange names).
    """
    paint = _painter(colour)
    when = pc.coalesce(exchanges["response_done"], exchanges["request_done"], exchanges["answered"])
    clock = pc.fill_null(pc.utf8_slice_codeunits(_text_time(when), 11, 26), "--:--:--.------")
    api = pc.binary_join_element_wise(
        pc.fill_null(exchanges["api"], "?"), pc.fill_null(_version(exchanges["api_version"]), ""), ""
    )
    outcome = exchanges["outcome"]
    latency = pc.if_else(
        pc.is_valid(exchanges["latency_ms"]),
        pc.binary_join_element_wise(_decimals(exchanges["latency_ms"], 2), " ms", ""),
        pc.replace_substring(outcome, "_", " "),
    )
    trouble = pc.binary_join_element_wise(
        _bracketed(exchanges["error"], pc.not_equal(pc.fill_null(exchanges["error_code"], 0), 0)),
        _bracketed(exchanges["issue"], pc.is_valid(exchanges["issue"])),
        "",
    )
    parts = [
        paint(clock, "time"),
        pc.utf8_rpad(
            pc.binary_join_element_wise(exchanges["client"], exchanges["broker"], " > ", null_handling="replace"), 44
        ),
        paint(pc.utf8_rpad(api, 26), "api"),
        paint(pc.utf8_lpad(latency, 12), "latency"),
        pc.utf8_lpad(_size(exchanges["request_bytes"]), 8),
        pc.utf8_lpad(_size(exchanges["response_bytes"]), 8),
        pc.utf8_rpad(pc.fill_null(safe(exchanges["client_id"]), "-"), 16),
        pc.binary_join_element_wise(_topics(exchanges["topics"]), paint(trouble, "error"), " "),
    ]
    if verbose:
        parts.append(_key_fields(exchanges, paint))
    return pc.utf8_rtrim_whitespace(pc.binary_join_element_wise(*parts, " "))


def _key_fields(exchanges: pa.Table, paint: Any) -> Any:
    """``  conn=12 number=3 id=77 packets=40/44 group=orders``: what is null is left out."""
    packets = pc.binary_join_element_wise(
        exchanges["request_packet"].cast(pa.string()), exchanges["response_packet"].cast(pa.string()), "/"
    )
    throttle = exchanges["throttle_ms"]
    decoded = exchanges["decoded"]
    wanted = {
        "conn": exchanges["connection"].cast(pa.string()),
        "number": exchanges["number"].cast(pa.string()),
        "id": exchanges["correlation_id"].cast(pa.string()),
        "packets": packets,
        "group": safe(exchanges["group_id"]),
        "member": safe(exchanges["member_id"]),
        "throttle_ms": pc.if_else(pc.greater(throttle, 0), throttle.cast(pa.string()), None),
        "decoded": pc.if_else(pc.not_equal(decoded, "full"), decoded, None),
    }
    texts = [pc.fill_null(pc.binary_join_element_wise(f" {k}=", v, ""), "") for k, v in wanted.items()]
    return paint(pc.binary_join_element_wise(*texts, ""), "dim")


def _painter(colour: bool) -> Any:
    def paint(texts: Any, what: str) -> Any:
        if not colour:
            return texts
        return pc.binary_join_element_wise(f"\x1b[{_COLOURS[what]}m", texts, "\x1b[0m", "")

    return paint


def _text_time(times: Any) -> Any:
    return times.cast(pa.timestamp("us"), safe=False).cast(pa.string())


def _seconds(times: Any) -> Any:
    nanoseconds = times.cast(pa.int64())
    whole = pc.divide(nanoseconds, 1_000_000_000)
    rest = pc.subtract(nanoseconds, pc.multiply(whole, 1_000_000_000))
    return pc.binary_join_element_wise(whole.cast(pa.string()), pc.utf8_lpad(rest.cast(pa.string()), 9, "0"), ".")


def _version(versions: Any) -> Any:
    return pc.binary_join_element_wise(" v", versions.cast(pa.string()), "")


def _decimals(values: Any, digits: int) -> Any:
    scaled = pc.round(pc.multiply(values, 10.0**digits)).cast(pa.int64())
    whole = pc.divide(scaled, 10**digits)
    rest = pc.abs(pc.subtract(scaled, pc.multiply(whole, 10**digits)))
    return pc.binary_join_element_wise(whole.cast(pa.string()), pc.utf8_lpad(rest.cast(pa.string()), digits, "0"), ".")


def _size(values: Any) -> Any:
    text = pc.binary_join_element_wise(values.cast(pa.string()), " B", "")
    for least, unit, name in ((10_000, 1e3, " kB"), (10_000_000, 1e6, " MB")):
        larger = pc.binary_join_element_wise(_decimals(pc.divide(values, unit), 1), name, "")
        text = pc.if_else(pc.greater_equal(values, least), larger, text)
    return pc.fill_null(text, "-")


def _bracketed(texts: Any, shown: Any) -> Any:
    return pc.if_else(
        pc.fill_null(pc.and_(shown, pc.is_valid(texts)), False),
        pc.binary_join_element_wise("[", pc.fill_null(safe(texts), ""), "]", ""),
        "",
    )


def _topics(topics: Any) -> Any:
    """``orders``, or ``orders +2`` where two more are named."""
    if isinstance(topics, pa.ChunkedArray):
        topics = topics.combine_chunks()
    count = pc.fill_null(pc.list_value_length(topics), 0).to_numpy(zero_copy_only=False)
    starts = topics.offsets.to_numpy()[:-1]
    first = topics.values.take(pa.array(np.where(count > 0, starts, 0), mask=count == 0))
    more = pc.binary_join_element_wise(" +", pa.array(count - 1).cast(pa.string()), "")
    return pc.binary_join_element_wise(pc.fill_null(safe(first), ""), pc.if_else(pa.array(count > 1), more, ""), "")
