"""The table of exchanges: one row a request with its response."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders import apis
from kafkascope.reports.columns.arrow import Numbers, labels, numbers, strings, times
from kafkascope.reports.columns.files import files_of
from kafkascope.reports.rows.bodies import Bodies
from kafkascope.reports.rows.bodies_as_text import BodyText
from kafkascope.reports.rows.damage import Damage
from kafkascope.reports.rows.error_table import error_names
from kafkascope.reports.rows.roles import ERROR_CODE, GROUP_ID, MEMBER_ID, THROTTLE_TIME, TOP_ERROR_CODE
from kafkascope.reports.vocabulary.tables import EXCHANGES
from kafkascope.sniffer.columns import I64, NO_TIME, Exchanges, Kind, Outcome
from kafkascope.sniffer.origins import Origins
from kafkascope.sniffer.units import MILLISECOND_NS

OUTCOMES = [outcome.name.lower() for outcome in Outcome]
SASL_TOKEN = "SaslToken"
"""What stands for the API in exchanges of raw SASL tokens, which have none."""

# Columns that take more than headers.
BODY_COLUMNS = frozenset(
    {"throttle_ms", "error_code", "error", "group_id", "member_id", "decoded", "issue", "request", "response"}
)
TEXT_COLUMNS = frozenset({"request", "response"})


def needs_bodies(columns: frozenset[str]) -> bool:
    """Whether any of the columns is made from bodies."""
    return bool(columns & BODY_COLUMNS)


def api_names(exchanges: Exchanges) -> pa.Array:
    """The API of each exchange by name; null where it is unknown."""
    keys = exchanges.api_key.astype(np.int64)
    distinct, place = np.unique(keys, return_inverse=True)
    names = [None if key < 0 else apis.name_of(int(key)) for key in distinct]
    codes = place.reshape(-1)
    return labels(np.where(exchanges.kind == Kind.SASL, len(names), codes), [*names, SASL_TOKEN])


def client_ids(exchanges: Exchanges) -> pa.Array:
    """The client id of each exchange; null where the request has none or is not in the capture."""
    return strings(
        exchanges.data,
        exchanges.client_id_start,
        np.where(exchanges.client_id_start < 0, -1, exchanges.client_id_length).astype(np.int64),
    )


def first_packets(exchanges: Exchanges) -> I64:
    """The packet with the first byte of each request, or of the response where the capture lacks the request."""
    return np.where(exchanges.request_packet > 0, exchanges.request_packet, exchanges.response_packet)


@dataclass(frozen=True, slots=True)
class ExchangeColumns:
    """What the columns of exchanges are made from; bodies and text only where a column needs them."""

    exchanges: Exchanges
    api: pa.Array
    client_id: pa.Array
    bodies: Bodies | None
    damage: Damage | None
    text: BodyText | None
    origins: Origins


def exchange_table(made_from: ExchangeColumns, columns: frozenset[str]) -> pa.Table:
    """The exchanges in the columns asked for; the others are null, so that the schema is always the same."""
    count = len(made_from.exchanges.number)
    arrays = [
        _COLUMNS[field.name](made_from) if field.name in columns else pa.nulls(count, field.type) for field in EXCHANGES
    ]
    return pa.table(arrays, schema=EXCHANGES)


def _latency_ms(source: ExchangeColumns) -> pa.Array:
    done, answered = source.exchanges.request_done, source.exchanges.answered
    there = (done != NO_TIME) & (answered != NO_TIME)
    elapsed = np.where(there, answered, 0) - np.where(there, done, 0)
    return pa.array(elapsed / MILLISECOND_NS, mask=~there)


def _milliseconds(column: str) -> Callable[[ExchangeColumns], pa.Array]:
    """A column of times that something took."""

    def make(source: ExchangeColumns) -> pa.Array:
        took: Numbers = getattr(source.exchanges, column)
        return pa.array(took / MILLISECOND_NS, mask=took == NO_TIME)

    return make


def _present(column: str) -> Callable[[ExchangeColumns], pa.Array]:
    """A column of numbers in which 0 stands for an absent side."""

    def make(source: ExchangeColumns) -> pa.Array:
        values: Numbers = getattr(source.exchanges, column)
        return numbers(values, EXCHANGES.field(column).type, values != 0)

    return make


def _time(column: str) -> Callable[[ExchangeColumns], pa.Array]:
    return lambda source: times(getattr(source.exchanges, column))


def _with_header(column: str) -> Callable[[ExchangeColumns], pa.Array]:
    """A column of numbers that raw SASL tokens do not have."""

    def make(source: ExchangeColumns) -> pa.Array:
        values: Numbers = getattr(source.exchanges, column)
        return numbers(values, EXCHANGES.field(column).type, source.exchanges.kind == Kind.KAFKA)

    return make


def _api_number(column: str) -> Callable[[ExchangeColumns], pa.Array]:
    def make(source: ExchangeColumns) -> pa.Array:
        known = (source.exchanges.kind == Kind.KAFKA) & (source.exchanges.api_key >= 0)
        return numbers(getattr(source.exchanges, column), pa.int16(), known)

    return make


def _bodies(source: ExchangeColumns) -> Bodies:
    if source.bodies is None:
        raise ValueError("this column is made from bodies, which were not decoded")
    return source.bodies


def _throttle_ms(source: ExchangeColumns) -> pa.Array:
    bodies = _bodies(source)
    rows = bodies.first_in_responses[:, THROTTLE_TIME]
    return pa.array(bodies.responses.numbers(rows, 0).astype(np.float64), mask=rows < 0)


def _error_codes(source: ExchangeColumns) -> tuple[Numbers, Numbers]:
    """The code of each exchange, and whether there is one."""
    bodies = _bodies(source)
    top, nested = bodies.first_in_responses[:, TOP_ERROR_CODE], bodies.first_in_responses[:, ERROR_CODE]
    row = np.where(top >= 0, top, nested)
    code = bodies.responses.numbers(row, 0)
    return code, (row >= 0) | bodies.response_decoded


def _error_code(source: ExchangeColumns) -> pa.Array:
    code, there = _error_codes(source)
    return numbers(code, pa.int16(), there)


def _error(source: ExchangeColumns) -> pa.Array:
    code, there = _error_codes(source)
    return pc.if_else(pa.array(there), error_names(code), pa.scalar(None, pa.string()))


def _decoded(source: ExchangeColumns) -> pa.Array:
    bodies, exchanges = _bodies(source), source.exchanges
    full = ((exchanges.request_start < 0) | bodies.request_decoded) & (
        (exchanges.response_start < 0) | bodies.response_decoded
    )
    header = (exchanges.api_key >= 0) & ((exchanges.request_body >= 0) | (exchanges.response_body >= 0))
    code = np.where(exchanges.kind == Kind.SASL, 0, np.where(header, np.where(full, 0, 1), 2))
    return labels(code, ["full", "header", "none"])


def _issue(source: ExchangeColumns) -> pa.Array:
    if source.damage is None:
        raise ValueError("this column is made from damage, which was not looked for")
    return source.damage.issue if source.text is None else pc.coalesce(source.damage.issue, source.text.issue)


def _text_of_request(role: int) -> Callable[[ExchangeColumns], pa.Array]:
    def make(source: ExchangeColumns) -> pa.Array:
        bodies = _bodies(source)
        return bodies.requests.strings(bodies.first_in_requests[:, role])

    return make


def _text(column: str) -> Callable[[ExchangeColumns], pa.Array]:
    def make(source: ExchangeColumns) -> pa.Array:
        if source.text is None:
            raise ValueError("this column is made from the text of bodies, which was not made")
        result: pa.Array = getattr(source.text, column)
        return result

    return make


_COLUMNS: dict[str, Callable[[ExchangeColumns], pa.Array]] = {
    "connection": lambda source: pa.array(source.exchanges.connection),
    "number": lambda source: pa.array(source.exchanges.number),
    "correlation_id": _with_header("correlation_id"),
    "api_key": _api_number("api_key"),
    "api": lambda source: source.api,
    "api_version": _api_number("api_version"),
    "client_id": lambda source: source.client_id,
    "requested": _time("requested"),
    "request_done": _time("request_done"),
    "request_acked": _time("request_acked"),
    "round_trip_ms": _milliseconds("round_trip"),
    "least_round_trip_ms": _milliseconds("least_round_trip"),
    "answered": _time("answered"),
    "response_done": _time("response_done"),
    "latency_ms": _latency_ms,
    "request_packet": _present("request_packet"),
    "response_packet": _present("response_packet"),
    "request_bytes": _present("request_bytes"),
    "response_bytes": _present("response_bytes"),
    "throttle_ms": _throttle_ms,
    "error_code": _error_code,
    "error": _error,
    "group_id": _text_of_request(GROUP_ID),
    "member_id": _text_of_request(MEMBER_ID),
    "outcome": lambda source: labels(source.exchanges.outcome, OUTCOMES),
    "decoded": _decoded,
    "issue": _issue,
    "request": _text("request"),
    "response": _text("response"),
    "file": lambda source: files_of(first_packets(source.exchanges), source.origins),
}
