"""The table of errors: every error code of a response that is not NONE, at the top or nested, with what it is about."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders import apis, errors, sasl
from kafkascope.decoders.program import KIND_ELEMENT, FieldTable
from kafkascope.decoders.tape import Tape
from kafkascope.reports.columns.arrow import Numbers, labels, numbers, times
from kafkascope.reports.columns.files import files_of
from kafkascope.reports.rows import tape_rows
from kafkascope.reports.rows.bodies import Bodies
from kafkascope.reports.rows.partitions import topics_of_rows
from kafkascope.reports.rows.roles import ERROR_CODE, GROUP_ID, MEMBER_ID, MESSAGE_OF_CODE, PARTITION, TOPIC, TOPIC_ID
from kafkascope.reports.vocabulary.tables import ERRORS
from kafkascope.sniffer.columns import I64
from kafkascope.sniffer.origins import Origins


def error_table(
    bodies: Bodies,
    api: pa.Array,
    client_id: pa.Array,
    brokers: Mapping[int, str],
    origins: Origins,
    *,
    reveal_secrets: bool = False,
) -> pa.Table | None:
    """One row an error code; api and client_id are columns of the exchanges. None if there is no error."""
    tape, exchanges = bodies.responses, bodies.exchanges
    frames = np.flatnonzero(bodies.first_in_responses[:, tape_rows.ERRORS] > 0)
    if not len(frames):
        return None
    total = bodies.first_in_responses[frames, tape_rows.ERRORS].sum()
    found = tape_rows.error_rows(
        tape.field, tape.value, tape.parent, tape.frame_start, bodies.roles.role, frames, np.int64(total)
    )
    exchange, rows = found[:, ERROR_CODE], found[:, 0]
    code = tape.value[rows]
    connection = exchanges.connection[exchange]
    distinct, place = np.unique(connection, return_inverse=True)
    broker = pa.array([brokers.get(int(one)) for one in distinct], pa.string()).take(pa.array(place.reshape(-1)))
    partition = found[:, PARTITION]
    messages = _messages(bodies, rows, found)
    if not reveal_secrets:
        hidden = pc.and_(
            pa.array(exchanges.api_key[exchange] == apis.SASL_AUTHENTICATE),
            pc.invert(pc.match_substring_regex(messages, sasl.SHOWN_ERRORS)),
        )
        messages = pc.if_else(pc.fill_null(hidden, False), sasl.REDACTED, messages)
    columns = {
        "connection": numbers(connection, pa.int64()),
        "number": numbers(exchanges.number[exchange], pa.int64()),
        "at": times(exchanges.answered[exchange]),
        "api": api.take(pa.array(exchange)),
        "api_version": numbers(exchanges.api_version[exchange], pa.int16()),
        "broker": broker,
        "client_id": client_id.take(pa.array(exchange)),
        "path": _paths(tape, rows, bodies.programs.fields),
        "code": numbers(code, pa.int16()),
        "error": error_names(code),
        "message": messages,
        "topic": topics_of_rows(tape, found[:, TOPIC], found[:, TOPIC_ID]),
        "partition": numbers(tape.numbers(partition, -1), pa.int32(), partition >= 0),
        "group_id": _told_or_asked(bodies, exchange, found, GROUP_ID),
        "member_id": _told_or_asked(bodies, exchange, found, MEMBER_ID),
        "file": files_of(exchanges.response_packet[exchange], origins),
    }
    return pa.table(columns, schema=ERRORS)


def error_names(codes: Numbers) -> pa.Array:
    """Kafka's names of error codes (NOT_LEADER_OR_FOLLOWER)."""
    distinct, place = np.unique(codes, return_inverse=True)
    names = [errors.name_of(int(code)) for code in distinct]
    return labels(place.reshape(-1), names)


def _told_or_asked(bodies: Bodies, exchange: I64, found: I64, role: int) -> pa.Array:
    told = bodies.responses.strings(found[:, role])
    asked = bodies.requests.strings(bodies.first_in_requests[exchange, role])
    empty = pa.scalar(None, pa.string())
    return pc.coalesce(*(pc.if_else(pc.equal(column, ""), empty, column) for column in (told, asked)))


def _messages(bodies: Bodies, rows: I64, found: I64) -> pa.Array:
    """The text beside a code: errorMessage beside errorCode and so on."""
    tape = bodies.responses
    names = bodies.programs.fields.name
    field = tape.field[rows]
    row = np.full(len(rows), -1, np.int64)
    for one in np.unique(field):
        role = MESSAGE_OF_CODE.get(names[one])
        if role is not None:
            row = np.where(field == one, found[:, role], row)
    return tape.strings(row)


def _paths(tape: Tape, rows: I64, fields: FieldTable) -> pa.Array:
    """Paths of rows with the indices of the elements on the way: responses[0].partitions[2].errorCode."""
    field = tape.field[rows]
    order: list[I64] = []
    parts: list[pa.Array] = []
    for one in np.unique(field):
        chosen = np.flatnonzero(field == one)
        *before, last = fields.path[one].split("[]")
        columns = [pa.repeat(pa.scalar(last), len(chosen))]
        at = rows[chosen]
        for piece in reversed(before):
            at = _enclosing_element(tape, at, fields)
            index = pa.array(tape.value[at]).cast(pa.string())
            columns.insert(0, pc.binary_join_element_wise(pa.scalar(piece + "["), index, pa.scalar("]"), ""))
        order.append(chosen)
        parts.append(pc.binary_join_element_wise(*columns, "") if before else columns[0])
    return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(order), kind="stable")))


def _enclosing_element(tape: Tape, rows: I64, fields: FieldTable) -> I64:
    """The elements that enclose rows of one field: as many steps up for each of them."""
    at = tape.parent[rows]
    while fields.kind[tape.field[at[0]]] != KIND_ELEMENT:
        at = tape.parent[at]
    return at
