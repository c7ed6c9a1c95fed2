"""Requests and their responses: the state of all Kafka conversations, and exchanges out of it in batches.

The kernel is in pairing/. Here it is fed, its questions are answered, and what it wrote becomes Exchanges and issues. A
request waits with a copy of its bytes until it is answered, until its connection ends, or until more than MOST_WAITING
requests or waiting_bytes of one connection wait: then the oldest one is given up, if it is not the only one. Where all
connections together hold too much, `relieve` cuts what the largest of them hold.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields

import numpy as np

from kafkascope.decoders import apis
from kafkascope.decoders.kernels import copy_bytes, kernel
from kafkascope.decoders.limits import DEFAULT, Limits
from kafkascope.sniffer import frames, recognise
from kafkascope.sniffer.columns import I64, NO_TIME, U8, Bool, Exchanges, Runs
from kafkascope.sniffer.health import ACK_HELD
from kafkascope.sniffer.issues import Issue, IssueLog
from kafkascope.sniffer.pairing import state as pairing
from kafkascope.sniffer.pairing.kernel import converse
from kafkascope.sniffer.pairing.resync import CHAIN

_LOG = logging.getLogger(__name__)

START_BYTES = 1200  # of a stream that are looked at to recognise its protocol; more than a client id that is believed
KEPT_BYTES = 1024  # of a message that is cut, for all of them together are too large
RELIEF = 16  # so much more than this part of the limit is freed at once
WAIT_FOR_CLIENT = 4096  # bytes of a server before its client's first, after which the start counts as lost
LARGEST_TRIAL = 1 << 20  # bytes of a response without request that is read by trial
LEAST_GARBAGE = 1 << 20

# In place of BYTES_SKIPPED, for the first bytes of a stream that began before the capture; behind the kernel's kinds.
_BEGUN_BEFORE = pairing.TOO_MANY_BYTES + 1

# What the kernel's events mean; value is a number of bytes (of requests and responses for too_many_waiting).
EVENTS: dict[int, tuple[str, str]] = {
    pairing.IMPLAUSIBLE_SIZE: (
        "implausible_size",
        "a frame at offset {offset} claims {value} bytes; looking for the next frame",
    ),
    pairing.LOST_SYNC: (
        "frame_sync_lost",
        "a gap of {value} bytes at offset {offset} hides where the next frame begins; looking for it",
    ),
    pairing.BYTES_SKIPPED: (
        "bytes_skipped",
        "{value} bytes before offset {offset} belong to no frame that could be read",
    ),
    _BEGUN_BEFORE: (
        "begun_before",
        "the first {value} bytes are of a frame that began before the capture",
    ),
    pairing.SKIPPED_TO_END: (
        "bytes_skipped",
        "the last {value} bytes of the stream belong to no frame that could be read",
    ),
    pairing.FRAME_CUT: (
        "frame_cut",
        "the frame at offset {offset} lacks {value} bytes or more, which are not in the capture",
    ),
    pairing.NO_HEADER: (
        "frame_without_header",
        "of the frame at offset {offset} ({value} bytes) not even the header was captured",
    ),
    pairing.TOO_MANY: (
        "too_many_waiting",
        "more than {value} frames wait for their other half; the oldest are given up",
    ),
    pairing.TOO_MANY_BYTES: (
        "too_many_waiting",
        "frames of so many bytes wait for their other half that the oldest are given up "
        "(--limit waiting_bytes={value})",
    ),
    pairing.INCOMPLETE: (
        "frame_incomplete",
        "the stream ends {value} bytes before the end of the frame at offset {offset}",
    ),
    pairing.TLS_ALERT: (
        "plaintext_to_tls",
        "a request without TLS is answered with a TLS alert: the port takes TLS alone; set the client's "
        "security.protocol to SSL or SASL_SSL, or give it the port of a plaintext listener",
    ),
    pairing.BAD_HEADER: ("bad_request_header", "no request header at offset {offset}, in a frame of {value} bytes"),
}


@dataclass(frozen=True, slots=True)
class Start:
    """What is known of a connection before its bytes are looked at."""

    opened: bool  # its opening was captured
    kafka_client: int | None = None  # direction of the requests, where the user says that it is Kafka


@kernel
def _waiting_in_arena(table: I64, connections: I64, nodes: I64, found: I64) -> int:
    """Nodes whose bytes are in the arena; returns their number, writes as many as there is room for."""
    count = 0
    for index in range(table.shape[0]):
        for which in (pairing.REQUESTS, pairing.RESPONSES):
            node = connections[table[index, 0], which + pairing.HEAD]
            while node:
                if not nodes[node, pairing.NODE_HELD]:
                    if count < found.shape[0]:
                        found[count] = node
                    count += 1
                node = nodes[node, pairing.NODE_NEXT]
    return count


class Conversations:
    """Pairs what runs bring, connection by connection; results do not depend on how runs are cut into batches."""

    def __init__(self, starts: Callable[[list[int]], dict[int, Start]], limits: Limits = DEFAULT) -> None:
        """Starts tells of connections by id, when their first bytes have come."""
        self.issues = IssueLog()
        self._starts = starts
        self._limits = limits
        self._streams = frames.Streams()
        self._slots: dict[int, int] = {}
        self._free_slots: list[int] = []
        self._ids: I64 = np.zeros(32, np.int64)
        self._start: dict[int, Start] = {}
        self._protocol: dict[int, str] = {}
        self._connections: I64 = np.zeros((32, pairing.CONNECTION_COLUMNS), np.int64)
        self._client_ids: U8 = np.zeros((32, pairing.CLIENT_ID_KEPT), np.uint8)
        self._long_client_ids: dict[int, bytes] = {}  # by connection: the first that is longer than that
        self._nodes: I64 = np.zeros((256, pairing.NODE_COLUMNS), np.int64)
        self._nodes[0, [pairing.NODE_LENGTH, pairing.NODE_CLIENT_ID, pairing.NODE_BODY]] = -1
        self._nodes[0, [pairing.NODE_FIRST_AT, pairing.NODE_LAST_AT]] = NO_TIME
        self._at: I64 = np.zeros(pairing.AT_COLUMNS, np.int64)
        self._at[pairing.AT_NODES] = 1
        self._at[pairing.SIZE_LIMIT] = limits.frame_bytes
        self._at[pairing.WAITING_LIMIT] = limits.waiting_bytes
        self._held: U8 = np.empty(0, np.uint8)
        self._held_used = 0
        self._header: I64 = np.zeros(recognise.HEADER_COLUMNS, np.int64)
        self._out: I64 = np.empty((2 * pairing.ROOM, pairing.OUT_COLUMNS), np.int64)
        self._events: I64 = np.empty((2 * pairing.ROOM, pairing.EVENT_COLUMNS), np.int64)

    def feed(self, runs: Runs) -> Exchanges:
        """Take what a batch of segments added to streams; return the exchanges that it completed."""
        if not runs.connection.shape[0]:
            return self._exchanges(np.empty(0, np.uint8), 0, np.zeros((0, pairing.OUT_COLUMNS), np.int64))
        changes = np.concatenate([[True], runs.connection[1:] != runs.connection[:-1]])
        unique = runs.connection[changes]
        new = [connection for connection in unique.tolist() if connection not in self._slots]
        if new:
            self._open(new)
        slots = np.array([self._slots[connection] for connection in unique.tolist()], np.int64)
        slots = slots[np.cumsum(changes) - 1]
        streams = 2 * slots + runs.direction.astype(np.int64)
        wanted = self._streams.state[streams, frames.STREAM_MODE] != frames.DROPPED
        if not wanted.all():
            slots = slots[wanted]
            runs = Runs(runs.data, *(getattr(runs, field.name)[wanted] for field in fields(Runs)[1:]))
        return self._run(self._streams.gather(runs, slots, self._held_used))

    def end(self, connections: Iterable[int]) -> Exchanges:
        """End connections: what waits is completed as it is. Their state is to be had until `forget`."""
        slots = sorted(self._slots[connection] for connection in connections if connection in self._slots)
        return self._run(self._streams.ends(slots, self._held_used))

    def relieve(self) -> None:
        """Cut the messages that wait to their first bytes, if all together are too large: of those who hold most first.

        They stay in place: an exchange has its times and sizes, and lacks a part of its bodies.
        """
        used = self._connections[: len(self._slots) + len(self._free_slots)]
        held = used[:, [which + pairing.HELD_BYTES for which in (pairing.REQUESTS, pairing.RESPONSES)]].sum(axis=1)
        for stream, waiting in self._streams.held.items():
            held[stream >> 1] += waiting.memory
        most, total = self._limits.held_bytes, int(held.sum())
        if total <= most:
            return
        detail = (
            f"messages that wait for the rest or the answer are so large, all together, that of the largest only the "
            f"first {KEPT_BYTES} bytes are kept ({self._limits.option('held_bytes')})"
        )
        for slot in np.lexsort((self._ids[: len(used)], -held)).tolist():
            if total <= most - most // RELIEF or held[slot] <= KEPT_BYTES:
                break
            for packet in [*self._streams.cut(slot, KEPT_BYTES), *self._cut_waiting(slot)]:
                self.issues.add(Issue("too_many_bytes", detail, int(self._ids[slot]), None, packet))
            lists = used[slot, [pairing.REQUESTS + pairing.HELD_BYTES, pairing.RESPONSES + pairing.HELD_BYTES]]
            total -= int(held[slot]) - int(lists.sum()) - self._streams.held_bytes(slot)

    def _cut_waiting(self, slot: int) -> list[int]:
        """Cut the frames that wait for their other half, behind their headers; return the packets that began them."""
        packets = []
        for which in (pairing.REQUESTS, pairing.RESPONSES):
            number = self._connections[slot, which + pairing.HEAD]
            while number:
                node = self._nodes[number]
                behind_client_id = node[pairing.NODE_CLIENT_ID] + node[pairing.NODE_CLIENT_ID_LENGTH]
                kept = max(KEPT_BYTES, int(node[pairing.NODE_BODY]), int(behind_client_id))
                if node[pairing.NODE_LENGTH] > kept:
                    self._connections[slot, which + pairing.HELD_BYTES] -= node[pairing.NODE_LENGTH] - kept
                    node[pairing.NODE_LENGTH], node[pairing.NODE_WHOLE] = kept, 0
                    packets.append(int(node[pairing.NODE_PACKET]))
                number = node[pairing.NODE_NEXT]
        return packets

    def has_begun(self, connection: int) -> bool:
        """Whether anything came of it so far."""
        return connection in self._slots

    def protocol(self, connection: int) -> str:
        """kafka, or what else was recognised; empty for a connection without payload."""
        slot = self._slots.get(connection)
        if slot is None:
            return "empty"
        return "kafka" if self._connections[slot, pairing.CLIENT] >= 0 else self._protocol.get(connection, "unknown")

    def client_direction(self, connection: int) -> int | None:
        """The direction of the requests, 0 or 1; None if the connection is not known to be Kafka."""
        slot = self._slots.get(connection)
        client = -1 if slot is None else int(self._connections[slot, pairing.CLIENT])
        return None if client < 0 else client

    def is_settled(self, connection: int) -> bool:
        """Whether what it is will not change any more: it is known for Kafka, or for something else."""
        slot = self._slots.get(connection)
        if slot is None:
            return False
        dropped = self._streams.state[2 * slot, frames.STREAM_MODE] == frames.DROPPED
        return bool(dropped) or bool(self._connections[slot, pairing.CLIENT] >= 0)

    def client_id(self, connection: int) -> str | None:
        """The client id of its first request that had one."""
        slot = self._slots.get(connection)
        length = -1 if slot is None else int(self._connections[slot, pairing.CLIENT_ID_LENGTH])
        if length <= 0:
            return None if length < 0 else ""
        kept = bytes(self._client_ids[slot, : min(length, pairing.CLIENT_ID_KEPT)])
        if (whole := self._long_client_ids.get(connection, b"")).startswith(kept):
            kept = whole
        return kept.decode(errors="backslashreplace")

    def count(self, connection: int) -> int:
        """Exchanges completed so far."""
        slot = self._slots.get(connection)
        return 0 if slot is None else int(self._connections[slot, pairing.NUMBER])

    def forget(self, connection: int) -> None:
        """Free what is kept of an ended connection."""
        slot = self._slots.pop(connection, None)
        if slot is not None:
            self._streams.forget(slot)
            self._free_slots.append(slot)
            self._start.pop(connection, None)
            self._protocol.pop(connection, None)
            self._long_client_ids.pop(connection, None)

    def _remember_long_client_ids(self, arena: U8, out: I64) -> None:
        """Keep client ids of which the kernel keeps the beginning alone; those that Streams makes are longer."""
        request = out[:, pairing.OUT_REQUEST : pairing.OUT_REQUEST + pairing.NODE_COLUMNS]
        is_long = (request[:, pairing.NODE_CLIENT_ID_LENGTH] > pairing.CLIENT_ID_KEPT) & (
            request[:, pairing.NODE_CLIENT_ID] >= 0
        )
        long = np.flatnonzero(is_long & (request[:, pairing.NODE_LENGTH] >= 0))
        slots, firsts = np.unique(out[long, pairing.OUT_SLOT], return_index=True)
        for slot, row in zip(slots.tolist(), long[firsts].tolist(), strict=True):
            connection, node = int(self._ids[slot]), request[row]
            if connection not in self._long_client_ids:
                begin = int(node[pairing.NODE_START] + node[pairing.NODE_CLIENT_ID])
                end = int(node[pairing.NODE_START] + node[pairing.NODE_LENGTH])
                self._long_client_ids[connection] = bytes(
                    arena[begin : min(begin + int(node[pairing.NODE_CLIENT_ID_LENGTH]), end)]
                )

    def _open(self, new: list[int]) -> None:
        self._start.update(self._starts(new))
        for connection in new:
            slot = self._free_slots.pop() if self._free_slots else len(self._slots)
            while slot >= self._connections.shape[0]:
                self._connections = np.concatenate([self._connections, np.zeros_like(self._connections)])
                self._client_ids = np.concatenate([self._client_ids, np.zeros_like(self._client_ids)])
                self._ids = np.concatenate([self._ids, np.zeros_like(self._ids)])
            self._slots[connection] = slot
            self._ids[slot] = connection
            self._streams.reset(slot)
            self._connections[slot] = 0
            self._connections[slot, pairing.CLIENT] = -1
            self._connections[slot, pairing.CLIENT_ID_LENGTH] = -2
            start = self._start[connection]
            if start.kafka_client is not None:
                self._connections[slot, pairing.CLIENT] = start.kafka_client
                self._connections[slot, pairing.TOLD] = 1
                self._streams.state[2 * slot : 2 * slot + 2, frames.STREAM_MODE] = (
                    frames.SYNCED if start.opened else frames.LOST
                )
                _LOG.debug("connection %d: kafka, for its port was named", connection)

    def _run(self, batch: frames.Batch) -> Exchanges:
        at = self._at
        at[[pairing.AT_CONNECTION, pairing.AT_DIRECTIONS, pairing.AT_BREAK, pairing.AT_OUT, pairing.AT_EVENT]] = 0
        at[pairing.AT_NEXT_ROW] = -1
        at[pairing.ANSWER] = pairing.NO_ANSWER
        likely = batch.rows.shape[0] // 2 + 2 * pairing.ROOM  # small frames: a packet each
        if self._out.shape[0] < likely:
            self._out = np.empty((likely, pairing.OUT_COLUMNS), np.int64)
        while True:
            code = converse(self._state(batch))
            if code == pairing.DONE:
                break
            if code == pairing.NEED_ROOM:
                self._make_room()
            elif code == pairing.ASK_START:
                self._recognise(batch)
                at[pairing.ANSWER] = pairing.LOOKED
            else:
                is_frame = self._is_frame(batch.arena, code)
                at[pairing.ANSWER] = pairing.YES if is_frame else pairing.NO
                if _LOG.isEnabledFor(logging.DEBUG):
                    self._log_candidate(batch, code, is_frame)
        self._streams.keep(batch)
        self._report()
        out = self._out[: int(at[pairing.AT_OUT])]
        result = self._exchanges(batch.arena, batch.used, out)
        self._hold(batch)
        if self._out.shape[0] > 64 * pairing.ROOM:
            self._out = np.empty((2 * pairing.ROOM, pairing.OUT_COLUMNS), np.int64)
        return result

    def _state(self, batch: frames.Batch) -> pairing.State:
        return pairing.State(
            batch.arena,
            self._held,
            batch.rows,
            batch.connections,
            self._streams.state,
            self._connections,
            self._client_ids,
            self._nodes,
            self._out,
            self._events,
            self._at,
            self._header,
            apis.api_table(),
        )

    def _make_room(self) -> None:
        at = self._at
        if self._out.shape[0] - at[pairing.AT_OUT] < pairing.ROOM:
            self._out = np.concatenate([self._out, np.empty_like(self._out)])
        if self._events.shape[0] - at[pairing.AT_EVENT] < pairing.ROOM:
            self._report()
        if self._nodes.shape[0] - at[pairing.AT_NODES] < pairing.ROOM_NODES:
            self._nodes = np.concatenate([self._nodes, np.zeros_like(self._nodes)])

    def _recognise(self, batch: frames.Batch) -> None:
        """Decide, or put off, what an undecided connection is."""
        asked = int(self._at[pairing.ASK_STREAM])
        slot = asked >> 1
        connection = int(self._ids[slot])
        start = self._start[connection]
        state = self._streams.state
        begin = state[2 * slot : 2 * slot + 2, frames.STREAM_BEGIN].tolist()
        available = state[2 * slot : 2 * slot + 2, frames.STREAM_AVAILABLE].tolist()
        data = tuple(
            batch.arena[low : min(high, low + START_BYTES)].tobytes()
            for low, high in zip(begin, available, strict=True)
        )
        ending = bool(state[asked, frames.STREAM_ENDING])
        name = next((name for part in data if (name := recognise.signature(part)) is not None), None)
        verdict = recognise.Verdict.NO
        if start.opened:
            verdict = recognise.begins_with_request(data[0], self._limits.frame_bytes)
        if name == "postgresql" and verdict is recognise.Verdict.MORE and not ending:
            name = None  # its first eight bytes are those of a Metadata 0 as well; the next ones tell them apart
        if verdict is recognise.Verdict.DOUBTFUL:
            verdict = self._judge_by_body(batch.arena, begin[0], available[0], ending)
        if verdict is recognise.Verdict.MORE and ending and recognise.begins_with_cut_request(data[0]):
            verdict = recognise.Verdict.REQUEST
        # ZooKeeper's first frame reads as a Produce 0, too small to be one.
        if name != "zookeeper" and verdict in (recognise.Verdict.REQUEST, recognise.Verdict.TOKEN):
            self._connections[slot, pairing.CLIENT] = 0
            self._connections[slot, pairing.SASL] = int(verdict is recognise.Verdict.TOKEN)
            mode = frames.SYNCED
        elif name is not None:
            self._protocol[connection] = name
            mode = frames.DROPPED
        elif not start.opened or verdict is recognise.Verdict.DOUBTFUL:
            mode = frames.SEARCHING
        elif verdict is recognise.Verdict.MORE and not ending:
            if len(data[1]) < WAIT_FOR_CLIENT and available[1] - begin[1] < WAIT_FOR_CLIENT:
                return
            mode = frames.SEARCHING
        elif not data[0]:
            mode = frames.SEARCHING
        else:
            self._protocol[connection] = recognise.other_protocol((data[0], data[1]))
            mode = frames.DROPPED
        if mode == frames.SEARCHING:
            self._protocol[connection] = recognise.other_protocol((data[0], data[1]))
        state[2 * slot : 2 * slot + 2, frames.STREAM_MODE] = mode
        state[2 * slot : 2 * slot + 2, frames.STREAM_SCAN] = begin
        self._at[pairing.AT_DIRECTIONS] = 3
        if mode == frames.SYNCED:
            said = "a bare SASL token" if verdict is recognise.Verdict.TOKEN else "a request"
            _LOG.debug("connection %d: kafka, by its first bytes: %s", connection, said)
        elif mode == frames.DROPPED:
            _LOG.debug("connection %d: %s, by its first bytes; passed over", connection, self._protocol[connection])
        else:
            why = "its first bytes do not tell" if start.opened else "it began before the capture"
            _LOG.debug("connection %d: not known yet, as %s; looking for frames in it", connection, why)

    def _log_candidate(self, batch: frames.Batch, code: int, is_frame: bool) -> None:
        place = int(self._at[pairing.ASK_POSITION])
        begins = batch.rows[:, frames.ROW_START]
        row = batch.rows[(begins <= place) & (place < begins + batch.rows[:, frames.ROW_BYTES])][0]
        _LOG.debug(
            "connection %d, packet %d: %s of %d bytes at offset %d %s",
            self._ids[int(self._at[pairing.ASK_STREAM]) >> 1],
            row[frames.ROW_NUMBER],
            {pairing.ASK_REQUEST: "a request", pairing.ASK_RESPONSE: "a response"}.get(code, "a chain of responses"),
            self._at[pairing.ASK_SIZE],
            row[frames.ROW_OFFSET] + place - row[frames.ROW_START],
            "is taken: its body fits to the last byte" if is_frame else "is refused: its body does not fit",
        )

    def _judge_by_body(self, arena: U8, begin: int, available: int, ending: bool) -> recognise.Verdict:
        """The verdict on a first request whose client id is doubtful; still DOUBTFUL if its body cannot tell."""
        key, version = arena[begin + 4 : begin + 8].view(">i2").tolist()
        behind = begin + 4 + int(recognise.int32(arena, begin))
        if not apis.is_known(key, version) or behind - begin > recognise.LARGEST_DOUBTFUL:
            return recognise.Verdict.DOUBTFUL
        if available < behind:
            return recognise.Verdict.DOUBTFUL if ending else recognise.Verdict.MORE
        return recognise.Verdict.REQUEST if self._is_request(arena, begin + 4, behind) else recognise.Verdict.NO

    def _is_request(self, arena: U8, start: int, end: int) -> bool:
        """Whether a request, from its header on, is to the last byte one of the API and version that it names."""
        header = self._header
        recognise.read_request_header(arena, start, end, apis.api_table().first_flexible_request, header)
        columns = [recognise.HEADER_KEY, recognise.HEADER_VERSION, recognise.HEADER_BODY]
        key, version, body = header[columns].tolist()
        if key == apis.PRODUCE and not recognise.produces(arena, body, end, version):
            return False
        return recognise.fits(arena, body, end, key, version, False)

    def _is_frame(self, arena: U8, code: int) -> bool:
        """Whether the body of a candidate fits its API and version to the last byte."""
        start = int(self._at[pairing.ASK_POSITION]) + 4
        end = start + int(self._at[pairing.ASK_SIZE])
        if code == pairing.ASK_CHAIN:
            return recognise.are_responses(arena, start - 4, end - 4, CHAIN)
        if code == pairing.ASK_REQUEST:
            return self._is_request(arena, start, end)
        node = self._nodes[int(self._at[pairing.ASK_NODE])]
        key, version = int(node[pairing.NODE_KEY]), int(node[pairing.NODE_VERSION])
        if not apis.is_known(key, version):
            return key != apis.API_VERSIONS or end - start >= 4 + 6
        flexible = apis.api_table().first_flexible_response
        version, body = recognise.response_layout(arena, start, end, key, version, flexible)
        return recognise.fits(arena, body, end, key, version, True)

    def _report(self) -> None:
        """Turn events into issues: of each kind and connection, the one of the first packet tells its details."""
        events = self._events[: int(self._at[pairing.AT_EVENT])]
        self._at[pairing.AT_EVENT] = 0
        if not events.shape[0]:
            return
        self._mark_begins(events)
        number = events[:, pairing.EVENT_NUMBER]
        events = events[np.argsort(np.where(number > 0, number, np.iinfo(np.int64).max), kind="stable")]
        groups = events[:, pairing.EVENT_SLOT] * len(EVENTS) + events[:, pairing.EVENT_KIND]
        if _LOG.isEnabledFor(logging.DEBUG):
            for row in events.tolist():
                kind, text = EVENTS[row[pairing.EVENT_KIND]]
                detail = text.format(offset=row[pairing.EVENT_OFFSET], value=row[pairing.EVENT_VALUE])
                connection = self._ids[row[pairing.EVENT_SLOT]]
                _LOG.debug("connection %d, packet %d: %s: %s", connection, row[pairing.EVENT_NUMBER], kind, detail)
        _, first, counts = np.unique(groups, return_index=True, return_counts=True)
        for row, count in zip(events[first].tolist(), counts.tolist(), strict=True):
            kind, text = EVENTS[row[pairing.EVENT_KIND]]
            connection = int(self._ids[row[pairing.EVENT_SLOT]])
            client = int(self._connections[row[pairing.EVENT_SLOT], pairing.CLIENT])
            side = "client" if row[pairing.EVENT_DIRECTION] == client else "broker"
            detail = text.format(offset=row[pairing.EVENT_OFFSET], value=row[pairing.EVENT_VALUE])
            if kind == "implausible_size" and row[pairing.EVENT_VALUE] > self._limits.frame_bytes:
                detail += f" ({self._limits.option('frame_bytes')})"
            moment = row[pairing.EVENT_AT]
            self.issues.add(
                Issue(
                    kind,
                    f"{detail} (bytes from the {side})",
                    connection,
                    None if moment == NO_TIME else moment,
                    row[pairing.EVENT_NUMBER] or None,
                    count,
                )
            )

    def _mark_begins(self, events: I64) -> None:
        """Tell apart what the begin of the capture alone explains: it begins within a frame of a connection."""
        skipped = events[:, pairing.EVENT_KIND] == pairing.BYTES_SKIPPED
        for place in np.flatnonzero(skipped & (events[:, pairing.EVENT_OFFSET] == events[:, pairing.EVENT_VALUE])):
            if not self._start[int(self._ids[events[place, pairing.EVENT_SLOT]])].opened:
                events[place, pairing.EVENT_KIND] = _BEGUN_BEFORE

    def _hold(self, batch: frames.Batch) -> None:
        """Copy the bytes of frames that still wait out of the arena, and drop those held before that no frame needs."""
        found = np.empty(1024, np.int64)
        count = _waiting_in_arena(batch.connections, self._connections, self._nodes, found)
        if count > found.shape[0]:
            found = np.empty(count, np.int64)
            _waiting_in_arena(batch.connections, self._connections, self._nodes, found)
        fresh = found[:count]
        used = int(self._at[pairing.AT_NODES])
        nodes = self._nodes[:used]
        more = int(nodes[fresh, pairing.NODE_LENGTH].sum())
        if self._held_used + more > self._held.shape[0]:
            alive = np.flatnonzero((nodes[:, pairing.NODE_HELD] == 1) & (nodes[:, pairing.NODE_LENGTH] >= 0))
            live = int(nodes[alive, pairing.NODE_LENGTH].sum())
            target: U8 = np.empty(2 * (live + more) + LEAST_GARBAGE, np.uint8)
            self._held_used = _move(self._held, nodes, alive, target, 0)
            self._held = target
        self._held_used = _move(batch.arena, nodes, fresh, self._held, self._held_used)
        nodes[fresh, pairing.NODE_HELD] = 1

    def _log_alone(self, out: I64) -> None:
        """Log what has no other half."""
        for row in out[out[:, pairing.OUT_OUTCOME] != pairing.OUTCOME_ANSWERED].tolist():
            is_orphan = row[pairing.OUT_OUTCOME] == pairing.OUTCOME_ORPHAN
            node = row[pairing.OUT_RESPONSE if is_orphan else pairing.OUT_REQUEST :]
            key, version = node[pairing.NODE_KEY], node[pairing.NODE_VERSION]
            _LOG.debug(
                "connection %d, packet %d: %s, correlation id %d: %s",
                self._ids[row[pairing.OUT_SLOT]],
                node[pairing.NODE_PACKET],
                f"{apis.name_of(key)} v{version}" if key >= 0 else "of an API that its layout does not tell",
                node[pairing.NODE_CORRELATION],
                {
                    pairing.OUTCOME_ORPHAN: "a response without its request",
                    pairing.OUTCOME_ONE_WAY: "a request that wants no answer",
                    pairing.OUTCOME_UNANSWERED: "a request without an answer",
                }[row[pairing.OUT_OUTCOME]],
            )

    def _exchanges(self, arena: U8, used: int, out: I64) -> Exchanges:
        order = np.lexsort(
            (out[:, pairing.OUT_NUMBER], self._ids[out[:, pairing.OUT_SLOT]], out[:, pairing.OUT_PACKET])
        )
        out = out[order]
        for side in (pairing.OUT_REQUEST, pairing.OUT_RESPONSE):
            held = np.flatnonzero((out[:, side + pairing.NODE_HELD] == 1) & (out[:, side + pairing.NODE_LENGTH] >= 0))
            if held.shape[0]:
                view = out[held, side : side + pairing.NODE_COLUMNS]
                used = _move(self._held, view, np.arange(held.shape[0]), arena, used)
                out[held, side + pairing.NODE_START] = view[:, pairing.NODE_START]
        orphan = np.flatnonzero(
            (out[:, pairing.OUT_OUTCOME] == pairing.OUTCOME_ORPHAN)
            & (out[:, pairing.OUT_RESPONSE + pairing.NODE_WHOLE] == 1)
            & (out[:, pairing.OUT_RESPONSE + pairing.NODE_LENGTH] <= LARGEST_TRIAL)
        )
        start = out[orphan, pairing.OUT_RESPONSE + pairing.NODE_START]
        end = start + out[orphan, pairing.OUT_RESPONSE + pairing.NODE_LENGTH]
        key, version, body = recognise.only_readings(arena, start, end)
        named = orphan[key >= 0]
        out[named, pairing.OUT_RESPONSE + pairing.NODE_KEY] = key[key >= 0]
        out[named, pairing.OUT_RESPONSE + pairing.NODE_VERSION] = version[key >= 0]
        out[named, pairing.OUT_RESPONSE_VERSION] = version[key >= 0]
        out[named, pairing.OUT_RESPONSE + pairing.NODE_BODY] = (body - start)[key >= 0]
        if _LOG.isEnabledFor(logging.DEBUG):
            self._log_alone(out)
        self._remember_long_client_ids(arena, out)
        request = out[:, pairing.OUT_REQUEST : pairing.OUT_REQUEST + pairing.NODE_COLUMNS]
        response = out[:, pairing.OUT_RESPONSE : pairing.OUT_RESPONSE + pairing.NODE_COLUMNS]
        has_request = request[:, pairing.NODE_LENGTH] >= 0
        has_response = response[:, pairing.NODE_LENGTH] >= 0
        asked = np.where(has_request[:, None], request, response)

        has_both = has_request & has_response

        def place(side: I64, there: Bool, column: int) -> I64:
            start = side[:, pairing.NODE_START]
            return np.where(there & (side[:, column] >= 0), start + side[:, column], -1).astype(np.int64)

        def value(side: I64, there: Bool, column: int, absent: int) -> I64:
            return np.where(there, side[:, column], absent).astype(np.int64)

        return Exchanges(
            data=arena[:used],
            connection=self._ids[out[:, pairing.OUT_SLOT]],
            number=out[:, pairing.OUT_NUMBER].copy(),
            kind=asked[:, pairing.NODE_KIND].astype(np.int8),
            outcome=out[:, pairing.OUT_OUTCOME].astype(np.int8),
            correlation_id=asked[:, pairing.NODE_CORRELATION].astype(np.int32),
            api_key=asked[:, pairing.NODE_KEY].astype(np.int16),
            api_version=asked[:, pairing.NODE_VERSION].astype(np.int16),
            response_version=out[:, pairing.OUT_RESPONSE_VERSION].astype(np.int16),
            client_id_start=place(request, has_request, pairing.NODE_CLIENT_ID),
            client_id_length=value(request, has_request, pairing.NODE_CLIENT_ID_LENGTH, 0).astype(np.int32),
            requested=value(request, has_request, pairing.NODE_FIRST_AT, NO_TIME),
            request_done=value(request, has_request, pairing.NODE_LAST_AT, NO_TIME),
            request_acked=np.where(has_both, _acknowledged(request, response), NO_TIME),
            round_trip=value(response, has_both, pairing.NODE_ROUND_TRIP, NO_TIME),
            least_round_trip=value(response, has_both, pairing.NODE_LEAST_ROUND_TRIP, NO_TIME),
            answered=value(response, has_response, pairing.NODE_FIRST_AT, NO_TIME),
            response_done=value(response, has_response, pairing.NODE_LAST_AT, NO_TIME),
            request_packet=value(request, has_request, pairing.NODE_PACKET, 0),
            response_packet=value(response, has_response, pairing.NODE_PACKET, 0),
            request_bytes=value(request, has_request, pairing.NODE_SIZE, 0),
            response_bytes=value(response, has_response, pairing.NODE_SIZE, 0),
            request_offset=np.where(has_request, request[:, pairing.NODE_END] - request[:, pairing.NODE_SIZE], -1),
            response_offset=np.where(has_response, response[:, pairing.NODE_END] - response[:, pairing.NODE_SIZE], -1),
            request_start=value(request, has_request, pairing.NODE_START, -1),
            request_body=place(request, has_request, pairing.NODE_BODY),
            request_end=np.where(has_request, request[:, pairing.NODE_START] + request[:, pairing.NODE_LENGTH], -1),
            request_whole=has_request & (request[:, pairing.NODE_WHOLE] == 1),
            response_start=value(response, has_response, pairing.NODE_START, -1),
            response_body=place(response, has_response, pairing.NODE_BODY),
            response_end=np.where(has_response, response[:, pairing.NODE_START] + response[:, pairing.NODE_LENGTH], -1),
            response_whole=has_response & (response[:, pairing.NODE_WHOLE] == 1),
        )


def _acknowledged(request: I64, response: I64) -> I64:
    """When requests had been acknowledged whole, as far as the first packet of their response tells, or of one before.

    What the client sent behind a request may have been acknowledged with it: then it was no later than that, which says
    something only if it was soon.
    """
    done, end, noted = (
        request[:, column] for column in (pairing.NODE_LAST_AT, pairing.NODE_END, pairing.NODE_ACKED_AT)
    )
    acked, at = response[:, pairing.NODE_ACKED], response[:, pairing.NODE_ACKED_AT]
    timed = (done != NO_TIME) & (at != NO_TIME)
    soon = np.where(timed, at, 0) - np.where(timed, done, 0) <= ACK_HELD
    by_answer = np.where(timed & ((acked == end) | ((acked > end) & soon)), at, NO_TIME)
    return np.where(noted != NO_TIME, noted, by_answer)


@kernel
def _move(source: U8, nodes: I64, which: I64, target: U8, used: int) -> int:
    """Copy the bytes of nodes behind those used of target and point the nodes there; returns how many are used then."""
    for index in range(which.shape[0]):
        node = which[index]
        start = nodes[node, pairing.NODE_START]
        length = nodes[node, pairing.NODE_LENGTH]
        copy_bytes(source, start, length, target, used)
        nodes[node, pairing.NODE_START] = used
        used += length
    return used
