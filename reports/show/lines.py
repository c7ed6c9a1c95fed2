"""Exchanges as lines of text: one each, readable at a glance, in columns that stay where they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import one_array
from kafkascope.reports.columns.shown import safe, shown_names
from kafkascope.reports.columns.text import clock_times, epoch_times

SHOWN = frozenset(
    {
        *("response_done", "request_done", "answered", "api", "api_version", "outcome", "latency_ms"),
        *("error", "error_code", "issue", "request_bytes", "response_bytes", "client_id"),
    }
)
"""Columns of the exchanges table that a line shows."""
SHOWN_BEHIND = frozenset(
    {
        *("connection", "number", "correlation_id", "request_packet", "response_packet"),
        *("group_id", "member_id", "throttle_ms", "decoded"),
    }
)
"""... and those that a verbose one shows too."""

_COLOURS = {"time": "2", "api": "36", "error": "31;1", "warning": "33", "latency": "32", "dim": "2"}


def fields(exchanges: pa.Table) -> pa.Array:
    """A line an exchange: its columns, with tabs between; null is empty, a time is seconds since 1970.

    Texts are whole and safe, for a spreadsheet too: it would take what begins with ``=``, ``+``, ``-`` or ``@`` for a
    formula, so such a text gets an apostrophe before it.
    """
    columns = []
    for column in exchanges.columns:
        if pa.types.is_timestamp(column.type):
            column = epoch_times(column)
        elif pa.types.is_list(column.type):
            column = _cells(pc.binary_join(column, ","))
        elif pa.types.is_string(column.type) or pa.types.is_dictionary(column.type):
            column = _cells(column.cast(pa.string()))
        elif pa.types.is_floating(column.type):
            column = pc.round(column, 6)
        columns.append(pc.fill_null(column.cast(pa.string()), ""))
    return pc.binary_join_element_wise(*columns, "\t")


def _cells(texts: Any) -> Any:
    return pc.replace_substring_regex(safe(texts), "^([=+@-])", r"'\1")


def lines(exchanges: pa.Table, colour: bool = False, verbose: bool = False) -> pa.Array:
    """A line an exchange, as tcpdump would write it: when, who to whom, what, how long, how large, what went wrong.

    ``exchanges`` has, beside the columns of the exchanges table, ``client``, ``broker`` (host:port) and ``topics``
    (list of string: those that the exchange names).
    """
    paint = _painter(colour)
    when = pc.coalesce(exchanges["response_done"], exchanges["request_done"], exchanges["answered"])
    clock = pc.fill_null(clock_times(when), "--:--:--.------")
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
        pc.utf8_rpad(pc.fill_null(shown_names(exchanges["client_id"]), "-"), 16),
        pc.binary_join_element_wise(_topics(exchanges["topics"]), paint(trouble, "error"), " "),
    ]
    if verbose:
        parts.append(_key_fields(exchanges, paint))
    return pc.utf8_rtrim_whitespace(pc.binary_join_element_wise(*parts, " "))


def _key_fields(exchanges: pa.Table, paint: Any) -> Any:
    """``  conn=12 number=3 id=77 packets=40/44 group=orders``: what is null is left out."""
    packets = pc.binary_join_element_wise(
        *(pc.fill_null(exchanges[name].cast(pa.string()), "-") for name in ("request_packet", "response_packet")), "/"
    )
    throttle = exchanges["throttle_ms"]
    decoded = exchanges["decoded"]
    wanted = {
        "conn": exchanges["connection"].cast(pa.string()),
        "number": exchanges["number"].cast(pa.string()),
        "id": exchanges["correlation_id"].cast(pa.string()),
        "packets": packets,
        "group": shown_names(exchanges["group_id"]),
        "member": shown_names(exchanges["member_id"]),
        "throttle_ms": pc.if_else(pc.greater(throttle, 0), throttle.cast(pa.string()), None),
        "decoded": pc.if_else(pc.not_equal(decoded, "full"), decoded, None),
    }
    texts = [pc.fill_null(pc.binary_join_element_wise(f" {k}=", v, ""), "") for k, v in wanted.items()]
    return paint(pc.binary_join_element_wise(*texts, ""), "dim")


def dim(text: str) -> str:
    """A text in a colour that is less conspicuous."""
    return f"\x1b[{_COLOURS['dim']}m{text}\x1b[0m"


def _painter(colour: bool) -> Any:
    def paint(texts: Any, what: str) -> Any:
        if not colour:
            return texts
        return pc.binary_join_element_wise(f"\x1b[{_COLOURS[what]}m", texts, "\x1b[0m", "")

    return paint


def _version(versions: Any) -> Any:
    return pc.binary_join_element_wise(" v", versions.cast(pa.string()), "")


def _decimals(values: Any, digits: int) -> Any:
    scaled = pc.round(pc.multiply(values, 10.0**digits)).cast(pa.int64())
    sign, size = pc.if_else(pc.less(scaled, 0), "-", ""), pc.abs(scaled)
    whole = pc.divide(size, 10**digits)
    rest = pc.utf8_lpad(pc.subtract(size, pc.multiply(whole, 10**digits)).cast(pa.string()), digits, "0")
    return pc.binary_join_element_wise(sign, pc.binary_join_element_wise(whole.cast(pa.string()), rest, "."), "")


def _size(values: Any) -> Any:
    text = pc.binary_join_element_wise(values.cast(pa.string()), " B", "")
    most = pc.max(values).as_py() or 0
    for least, unit, name in ((10_000, 1e3, " kB"), (10_000_000, 1e6, " MB")):
        if most < least:
            break
        larger = pc.binary_join_element_wise(_decimals(pc.divide(values, unit), 1), name, "")
        text = pc.if_else(pc.greater_equal(values, least), larger, text)
    return pc.fill_null(text, "-")


def _bracketed(texts: Any, shown: Any) -> Any:
    shown = pc.fill_null(pc.and_(shown, pc.is_valid(texts)), False)
    if not pc.any(shown).as_py():
        return ""
    return pc.if_else(
        shown,
        pc.binary_join_element_wise("[", pc.fill_null(shown_names(texts), ""), "]", ""),
        "",
    )


def _topics(topics: Any) -> Any:
    """``orders``, or ``orders +2`` where two more are named."""
    topics = one_array(topics)
    count = pc.fill_null(pc.list_value_length(topics), 0).to_numpy(zero_copy_only=False)
    starts = topics.offsets.to_numpy()[:-1]
    first = topics.values.take(pa.array(np.where(count > 0, starts, 0), mask=count == 0))
    first = pc.fill_null(shown_names(first), "")
    if count.max(initial=0) <= 1:
        return first
    more = pc.binary_join_element_wise(" +", pa.array(count - 1).cast(pa.string()), "")
    more = pc.if_else(pa.array(count > 1), more, "")
    return pc.binary_join_element_wise(first, more, "")
