"""What a quiet group says again and again, as arrays: messages that say the same are folded into the first of them.

A heartbeat, a commit of a member or a fetch of offsets is folded if it is the same, but for its time, as the one before
of its API on its connection, was sent when all before it on the connection was answered, and nothing new was said to or
by the group while it was on its way. A run of such messages ends where anything new is said in the group, or something
else on the connection that is not folded. So all of a run is earlier or later than each other event, and whatever is
made of its messages one by one can be made of their arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders.kernels import kernel
from kafkascope.reports.columns.arrow import dictionary_codes, equal_columns, integers
from kafkascope.reports.groups.messages import (
    NO_REPEATS,
    ConnectionEnd,
    Message,
    Repeats,
    as_values,
    connection_rows,
    ends_of,
    message_rows,
)
from kafkascope.sniffer.columns import I64, Bool

_OF_MEMBERS = pa.array(
    [
        "Heartbeat",
        "ConsumerGroupHeartbeat",
        "ShareGroupHeartbeat",
        "StreamsGroupHeartbeat",
        "OffsetCommit",
        "TxnOffsetCommit",
    ]
)
_OF_ANYBODY = pa.array(["OffsetFetch"])
# A member that is in the group, not one that joins or leaves. A quote in a string is escaped, so these are in none.
_A_MEMBER = r'"memberId": "[^"]'
_IN_THE_GROUP = r'"(generationId|memberEpoch|generationIdOrMemberEpoch)": [1-9]'

_SAYS = ("api", "api_version", "client_id", "client", "client_port", "broker", "request", "response")
_NEVER = np.iinfo(np.int64).min


def folded(
    rows: pa.Table, groups: Sequence[tuple[str, int, int]]
) -> Iterator[tuple[str, list[Message], dict[int, ConnectionEnd]]]:
    """Rows (GROUP_ROWS) of some groups as values: messages in order of time, folded, and how connections ended.

    Of each group are given its name, and where its rows begin and end; no row is of none.
    """
    each = np.arange(len(groups))
    of_row = np.repeat(each, [end - begin for _, begin, end in groups])
    is_message = rows["message"].is_valid().to_numpy()
    messages, of_message = _folded(message_rows(rows), of_row[is_message])
    ended, of_end = connection_rows(rows), of_row[~is_message]
    places = [np.searchsorted(of, each, side).tolist() for of in (of_message, of_end) for side in ("left", "right")]
    for (name, _, _), first, last, begin, end in zip(groups, *places, strict=True):
        yield name, messages[first:last], ends_of(ended[begin:end])


def _folded(rows: pa.Table, group: I64) -> tuple[list[Message], I64]:
    """Rows of messages as values, by group in order of time, and the group of each; group is that of each row."""
    order = _in_order(rows, group)
    rows, group = rows.take(pa.array(order)), group[order]
    head, is_folded = _heads(rows, group)
    is_head = head == np.arange(len(head))
    messages = as_values(rows.filter(pa.array(is_head)))
    rest = np.flatnonzero(~is_head)
    rest = rest[np.argsort(head[rest], kind="stable")]
    columns = [integers(rows[name])[rest] for name in Repeats.__slots__]
    folds = np.flatnonzero(is_folded & is_head)
    begins, ends = (np.searchsorted(head[rest], folds, side).tolist() for side in ("left", "right"))
    for place, begin, end in zip((np.cumsum(is_head) - 1)[folds].tolist(), begins, ends, strict=True):
        repeats = Repeats(*(column[begin:end] for column in columns)) if begin < end else NO_REPEATS
        messages[place].repeats = repeats
    return messages, group[is_head]


def _in_order(rows: pa.Table, group: I64) -> I64:
    """The places of the rows by group, and as `in_order` sorts messages."""
    at, connection, number = (integers(rows[name]) for name in ("at", "connection", "number"))
    request, response = (integers(rows[name]) for name in ("request_packet", "response_packet"))
    packet = np.where(request > 0, request, np.maximum(response, 0))
    return np.lexsort((number, connection, packet, at, group))


def _heads(rows: pa.Table, group: I64) -> tuple[I64, Bool]:
    """Of each of some rows in order the one that it is folded into, be it itself, and whether it can be folded."""
    at, answered = integers(rows["at"]), integers(rows["answered"])
    done = np.where(answered < 0, at, answered)
    says = np.stack([group, integers(rows["connection"]), *(_codes(rows[name]) for name in _SAYS)])
    connection, series, said = (equal_columns(says[:keys]) for keys in (2, 3, len(says)))
    is_same, is_prompt = np.zeros(len(at), np.bool_), np.zeros(len(at), np.bool_)
    last, busy = np.full(len(at), -1), np.full(len(at), _NEVER)
    _compare(connection, series, said, at, done, last, busy, is_same, is_prompt)
    is_same &= _may_repeat(rows) & (answered >= at)
    news = np.flatnonzero(~is_same)
    moments, of_group = np.concatenate([at[news], done[news]]), np.concatenate([group[news]] * 2)
    in_turn = np.lexsort((moments, of_group))
    is_folded, head = is_same & is_prompt, np.zeros(len(at), np.int64)
    run, breaks = np.full((3, len(at)), -1), np.zeros(len(at), np.int64)
    _fold(group, connection, series, at, done, of_group[in_turn], moments[in_turn], run, breaks, is_folded, head)
    return head, is_folded


def _codes(column: pa.ChunkedArray) -> I64:
    return dictionary_codes(column)[0] if pa.types.is_string(column.type) else integers(column)


def _may_repeat(rows: pa.Table) -> Bool:
    """Whether a message changes nothing if it says the same as one before: an answer without error to a member."""
    requests, distinct = dictionary_codes(rows["request"])
    of_member = pc.and_(
        pc.match_substring_regex(distinct, _A_MEMBER), pc.match_substring_regex(distinct, _IN_THE_GROUP)
    )
    names_member = np.append(of_member.to_numpy(zero_copy_only=False), False)[requests]  # -1: no request
    of_members, of_anybody = (pc.is_in(rows["api"], apis).to_numpy() for apis in (_OF_MEMBERS, _OF_ANYBODY))
    well = pc.and_(rows["error"].is_null(), pc.equal(rows["outcome"], "answered")).to_numpy()
    whole = (integers(rows["request_packet"]) > 0) & (integers(rows["response_packet"]) > 0)
    may: Bool = ((of_members & names_member) | of_anybody) & well & whole
    return may


@kernel
def _compare(
    connection: I64, series: I64, said: I64, at: I64, done: I64, last: I64, busy: I64, is_same: Bool, is_prompt: Bool
) -> None:
    """Whether each message is the same as the one before in its series, and sent when its connection had no other.

    last, busy: by series what was said last, -1; by connection until when it was busy, before all times.
    """
    for row in range(at.shape[0]):
        is_same[row] = last[series[row]] == said[row]
        last[series[row]] = said[row]
        is_prompt[row] = at[row] > busy[connection[row]]
        busy[connection[row]] = max(busy[connection[row]], done[row])


@kernel
def _fold(
    group: I64,
    connection: I64,
    series: I64,
    at: I64,
    done: I64,
    of_group: I64,
    moments: I64,
    run: I64,
    breaks: I64,
    is_folded: Bool,
    head: I64,
) -> None:
    """Find the first one of the run of each message that can be folded; it cannot if a moment of news is within it.

    of_group, moments: of news, in order. run: i64[3, n], by series its first message, and between which news and breaks
    of its connection it is; breaks: by connection, 0.
    """
    news = 0
    for row in range(at.shape[0]):
        while news < moments.shape[0] and (
            of_group[news] < group[row] or (of_group[news] == group[row] and moments[news] < at[row])
        ):
            news += 1
        if news < moments.shape[0] and of_group[news] == group[row] and moments[news] <= done[row]:
            is_folded[row] = False
        one, on = series[row], connection[row]
        head[row] = row
        if not is_folded[row]:
            breaks[on] += 1
        elif run[0, one] >= 0 and run[1, one] == news and run[2, one] == breaks[on]:
            head[row] = run[0, one]
        else:
            run[0, one], run[1, one], run[2, one] = row, news, breaks[on]
