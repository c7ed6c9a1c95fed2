"""What exchanges say of groups: rows by group for the analysis, and each row as a value with its bodies."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders.errors import Error, name_of
from kafkascope.reports.columns.arrow import distinct_numbers, integers, numbered, one_array
from kafkascope.reports.columns.parties import Ends
from kafkascope.reports.columns.text import address
from kafkascope.reports.groups.body import Json, body_of
from kafkascope.reports.vocabulary.group_apis import GROUP_APIS, LISTED_GROUPS, settings_answered
from kafkascope.reports.vocabulary.tables import GROUP_MESSAGES, GROUP_ROWS
from kafkascope.sniffer.columns import I64

# Of large bodies of these no more is kept than the first elements, without what these list: commits come again and
# again, and the analysis asks only who commits, and to which topics.
_SHORTENED = frozenset(
    {
        "OffsetCommit",
        "OffsetFetch",
        "OffsetDelete",
        "TxnOffsetCommit",
        "AlterShareGroupOffsets",
        "DeleteShareGroupOffsets",
    }
)
_COMMITS = pa.array(["OffsetCommit", "TxnOffsetCommit"])
_TOPICS = ', "topics": ['
_LONGEST_WHOLE = 100_000  # bytes of text
_MOST_ELEMENTS = 1_000
LEFT_OUT = "LeftOut"
"""Ends the name of a member that says how many elements of a list were left out of a large body."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """Later messages that say the same as one before them, in order: what they have of their own, i64[n] each."""

    at: I64
    answered: I64
    number: I64
    request_packet: I64
    response_packet: I64


NO_REPEATS = Repeats(*[np.zeros(0, np.int64)] * 5)


@dataclass
class Message:
    """One exchange that speaks of a group. Times are nanoseconds; bodies are as in the exchanges table.

    Those that say the same again may be folded into it (`folding`): nothing else happens to the group meanwhile, and
    each of them, it too, is sent when all before it on the connection is answered. None: it is not such a one.
    """

    at: int
    answered: int | None
    connection: int
    number: int
    request_packet: int | None
    response_packet: int | None
    api: str
    version: int
    client_id: str | None
    client: str
    client_port: int
    broker: str
    error: str | None
    outcome: str
    request_text: str | None
    response_text: str | None
    repeats: Repeats | None = None

    @property
    def packet(self) -> int | None:
        """The first packet of it that the capture has."""
        return self.request_packet or self.response_packet

    @property
    def over(self) -> int:
        """When it was answered, or sent if it was not; the last one of its repeats."""
        if self.repeats is not None and len(self.repeats.at):
            return int(self.repeats.answered[-1])
        return self.answered or self.at

    @property
    def times(self) -> I64:
        """When it and its repeats were sent, in order."""
        repeats = self.repeats or NO_REPEATS
        return np.concatenate([[self.at], repeats.at])

    @property
    def last(self) -> Message:
        """The last one of its repeats; itself if there are none."""
        return self if self.repeats is None or not len(self.repeats.at) else self._repeat(-1)

    def each(self) -> Iterator[Message]:
        """It and its repeats, each a message of its own."""
        yield self if self.repeats is None else replace(self, repeats=None)
        for place in range(len(self.repeats.at) if self.repeats is not None else 0):
            yield self._repeat(place)

    def _repeat(self, place: int) -> Message:
        assert self.repeats is not None
        own: dict[str, Any] = {name: int(getattr(self.repeats, name)[place]) for name in Repeats.__slots__}
        return replace(self, repeats=None, **own)

    @cached_property
    def request(self) -> Json:
        """The request's body; empty if the capture lacks it."""
        return body_of(self.request_text)

    @cached_property
    def response(self) -> Json:
        """The response's body; empty if there is none."""
        return body_of(self.response_text)


def settings_refused(message: Message, group: str) -> str | None:
    """The error with which settings of a group were refused; one answer may be about many resources."""
    code = settings_answered(message.response, group)
    return message.error if code is None else name_of(code) if code else None


@dataclass(frozen=True, slots=True)
class ConnectionEnd:
    """How a connection on which members of the group spoke came to its end, and who its client said it was."""

    connection: int
    client: str
    client_port: int
    broker: str
    client_id: str | None
    opened: int | None
    closed: int | None  # time of FIN or RST; None: it was open at the end of the capture, or fell silent
    how_closed: str  # fin, rst, open
    software: str | None
    software_version: str | None
    gap_bytes: int | None = None  # that the capture lacks; None: it goes on


def group_messages(exchanges: pa.Table, ends: Mapping[int, Ends]) -> pa.Table | None:
    """Rows of GROUP_MESSAGES out of rows of exchanges: a row for each group they speak of; None without any."""
    rows = exchanges.filter(pc.is_in(exchanges["api"], pa.array(sorted(GROUP_APIS))))
    if not rows.num_rows:
        return None
    place, groups = _groups_named(rows)
    if not len(place):
        return None
    rows = rows.take(place)
    connections, of = distinct_numbers(integers(rows["connection"]))
    known, of = [ends.get(connection) for connection in connections.tolist()], pa.array(of)
    columns: dict[str, Any] = {
        "group_id": groups,
        "at": pc.coalesce(rows["requested"], rows["answered"]),
        "answered": rows["answered"],
        "client": pa.array([end and end.client for end in known], pa.string()).take(of),
        "client_port": pa.array([end and end.client_port for end in known], pa.int32()).take(of),
        "broker": pa.array([end and address(end.broker, end.broker_port) for end in known], pa.string()).take(of),
        "error": pc.if_else(pc.equal(rows["error"], Error.NONE), pa.scalar(None, pa.string()), rows["error"]),
    }
    shortened = pc.is_in(rows["api"], pa.array(sorted(_SHORTENED)))
    requests, responses = _without_offsets(rows)
    is_cut = pc.fill_null(pc.not_equal(rows["decoded"], "full"), False)
    requests, responses = (_as_far_as_known(bodies, is_cut) for bodies in (requests, responses))
    columns |= {"request": _shortened(requests, shortened), "response": _shortened(responses, shortened)}
    arrays = [columns[name] if name in columns else rows[name] for name in GROUP_MESSAGES.names]
    return pa.table(arrays, schema=GROUP_MESSAGES)


def group_rows(kind: str, table: pa.Table) -> pa.Table:
    """Rows of GROUP_ROWS out of those of GROUP_MESSAGES (kind ``message``) or GROUP_CONNECTIONS (``connection``)."""
    columns = {"group_id": table["group_id"], kind: table.drop_columns("group_id").to_struct_array()}
    nulls = {field.name: pa.nulls(table.num_rows, field.type) for field in GROUP_ROWS if field.name not in columns}
    return pa.table(nulls | columns, schema=GROUP_ROWS)


def messages_of(table: pa.Table) -> tuple[list[Message], dict[int, ConnectionEnd]]:
    """Rows (GROUP_ROWS) of one group as values: messages in order of time, and how connections ended, by connection."""
    return sorted(as_values(message_rows(table)), key=in_order), ends_of(connection_rows(table))


def message_rows(table: pa.Table) -> pa.Table:
    """Those of GROUP_ROWS that are messages: a column for each field of a message that a row has."""
    found = _kind(table, "message")
    for name, instead in (("client", ""), ("client_port", 0), ("broker", "")):
        found = found.set_column(found.column_names.index(name), name, pc.fill_null(found[name], instead))
    return found


def as_values(rows: pa.Table) -> list[Message]:
    """Rows that `message_rows` gives as values; of many groups at once, as each column costs as much as many rows."""
    columns = [column.to_pylist() for column in rows.columns]
    return list(itertools.starmap(Message, zip(*columns, strict=True)))


def connection_rows(table: pa.Table) -> list[Json]:
    """What GROUP_ROWS say of connections, as it stands there."""
    rows: list[Json] = _kind(table, "connection").to_pylist()
    return rows


def ends_of(rows: Iterable[Json]) -> dict[int, ConnectionEnd]:
    """How connections ended, by connection, out of what rows say of them."""
    ended: dict[int, ConnectionEnd] = {}
    for row in rows:
        if row["connection"] not in ended or row["how_closed"]:  # the end says too who the client is, as told before
            ended[row["connection"]] = ConnectionEnd(**row | {"how_closed": row["how_closed"] or "open"})
    return ended


def in_order(message: Message) -> tuple[int, int, int, int]:
    """What messages are sorted by."""
    return message.at, message.packet or 0, message.connection, message.number


def _without_offsets(rows: pa.Table) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Bodies of requests and of answers; of commits by members only what comes before the topics.

    So what a member commits again and again is the same text. Nobody asks what is in it, or in its answer. A quote in a
    string is escaped, so that what is looked for is in none.
    """
    request, response = rows["request"], rows["response"]
    whole = pc.match_substring_regex(request, rf'"memberId": "[^"].*{re.escape(_TOPICS)}')
    commits = one_array(pc.fill_null(pc.and_(pc.is_in(rows["api"], _COMMITS), whole), False))
    head = pc.list_element(pc.split_pattern(request.filter(commits), _TOPICS, max_splits=1), 0)
    head = one_array(pc.binary_join_element_wise(head, "", "}"))
    return pc.replace_with_mask(request, commits, head), pc.if_else(commits, pa.scalar(None, pa.string()), response)


def _as_far_as_known(texts: pa.ChunkedArray, is_cut: pa.ChunkedArray) -> pa.ChunkedArray:
    """The texts of bodies; of exchanges that are cut without what stands last, if that may go on."""
    if not pc.any(is_cut).as_py():
        return texts
    known = [_without_end(text) for text in texts.filter(is_cut).to_pylist()]
    return pc.replace_with_mask(texts, one_array(is_cut), pa.array(known, texts.type))


def _without_end(text: str | None) -> str | None:
    read = body_of(text)
    last = next(reversed(read), None)
    if last is None or last == "status" or not isinstance(read[last], list | dict):  # one status tells what it tells
        return text
    return json.dumps({name: value for name, value in read.items() if name != last})


def _shortened(texts: pa.ChunkedArray, which: pa.ChunkedArray) -> pa.ChunkedArray:
    """The texts of bodies, the large ones among which shortened."""
    large = pc.fill_null(pc.and_(which, pc.greater(pc.binary_length(texts), _LONGEST_WHOLE)), False)
    if not pc.any(large).as_py():
        return texts
    short = [_short(text.as_py()) for text in texts.filter(large)]
    return pc.replace_with_mask(texts, one_array(large), pa.array(short, texts.type))


def _short(text: str) -> str:
    """The members up to the first list of objects, and of that the first elements, without what these list.

    Only what is kept is parsed. A quote in a string is escaped, so that what is looked for is in none.
    """
    found = _FIRST_LIST.search(text)
    if found is None:
        return text
    at = found.start("element")
    elements: list[Json] = []
    while len(elements) < _MOST_ELEMENTS and text[at : at + 1] == "{":
        element, at = _DECODER.raw_decode(text, at)
        elements.append({name: [] if isinstance(value, list) else value for name, value in element.items()})
        at += len(", ")
    name = found["name"]
    left_out = text.count(found["element"]) - len(elements)
    short = json.loads(text[: found.start("element")] + "]}") | {name: elements, name + LEFT_OUT: left_out}
    return json.dumps(short)


_DECODER = json.JSONDecoder()
_FIRST_LIST = re.compile(r'(?:\{|, )"(?P<name>\w+)": \[(?P<element>\{"\w+": )')


def _kind(table: pa.Table, kind: str) -> pa.Table:
    """Those of GROUP_ROWS that are of one kind, with times as numbers."""
    of_kind = table[kind].drop_null()
    flat = pa.Table.from_struct_array(of_kind) if len(of_kind) else pa.schema(list(of_kind.type)).empty_table()
    return numbered(flat)


def _groups_named(rows: pa.Table) -> tuple[pa.Array, pa.Array]:
    """Each group that each of some exchanges speaks of: the row of the exchange, ascending, and the group."""
    lists: dict[int, dict[str, None]] = {}
    listed = pc.is_in(rows["api"], pa.array(sorted(LISTED_GROUPS)))
    some = rows.select(["api", "request"]).filter(listed)
    texts = zip(some["api"].to_pylist(), some["request"].to_pylist(), strict=True)
    for row, (api, request) in zip(pc.indices_nonzero(listed).to_pylist(), texts, strict=True):
        if named := LISTED_GROUPS[api](body_of(request)):
            lists[row] = dict.fromkeys(name for name in named if isinstance(name, str))
    alone = rows["group_id"].is_valid().to_numpy().copy()
    alone[list(lists)] = False
    of_lists = [(row, name) for row, names in lists.items() for name in names]
    place = np.concatenate([np.flatnonzero(alone), np.array([row for row, _ in of_lists], np.int64)])
    names = pa.array([name for _, name in of_lists], pa.string())
    named = pa.chunked_array([*rows["group_id"].filter(pa.array(alone)).chunks, names], pa.string())
    order = np.argsort(place, kind="stable")
    return pa.array(place[order]), named.take(pa.array(order))
