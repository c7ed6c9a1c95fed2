"""Frames as they may be handed to anybody: with pseudonyms for names, and nothing of what records hold."""

from __future__ import annotations

import dataclasses

import numpy as np

from kafkascope.decoders.blanking import Blanked, blank_records
from kafkascope.decoders.interpreter import DecodeError
from kafkascope.decoders.payloads import CLUSTER_METADATA_TOPIC, decode_typed_value
from kafkascope.decoders.program import KIND_BYTES, KIND_RECORDS, KIND_STRING, KIND_UNKNOWN_TAG, UNKNOWN_TAG
from kafkascope.decoders.pseudonyms import Pseudonyms
from kafkascope.decoders.tape import Status, Tape
from kafkascope.reports.rows.anonymous import anonymous, blank, content_bytes
from kafkascope.reports.rows.bodies import BodyDecoder
from kafkascope.reports.rows.metadata_log import TOPIC_RECORD
from kafkascope.sniffer import recognise
from kafkascope.sniffer.columns import I64, U8, Exchanges, Kind
from kafkascope.sniffer.exchanges import LARGEST_TRIAL
from kafkascope.sniffer.frames import copy_runs
from kafkascope.sniffer.stream_content import Frames

_BEHIND_NAME_BYTES = 16 + 1  # of a TopicRecord: the id, no tagged fields
_SIZE_BYTES = 4  # of the prefix of a frame
_CONTENT = (KIND_STRING, KIND_BYTES, KIND_RECORDS, KIND_UNKNOWN_TAG)  # kinds of fields that may hold anything
_COLUMNS = tuple(field.name for field in dataclasses.fields(Exchanges) if field.name != "data")


class FrameBlanker:
    """Blanks the frames of batches of exchanges; `records` counts what became of their batches."""

    def __init__(self, pseudonyms: Pseudonyms) -> None:
        self._pseudonyms = pseudonyms
        self._decoder = BodyDecoder()
        self.records = Blanked()

    def frames(self, exchanges: Exchanges) -> Frames:
        """The frames of the exchanges: first the requests, then the responses."""
        made = anonymous(exchanges, self._decoder, self._pseudonyms, self._of_records)
        data = made.data
        self._blank_nameless(exchanges, data)
        places = np.concatenate([made.request_start, made.response_start])
        there = places >= 0
        places = places[there]
        sizes = np.concatenate([made.request_bytes, made.response_bytes])[there] - _SIZE_BYTES
        lengths = np.concatenate([made.request_end, made.response_end])[there] - places
        ends = np.cumsum(lengths + _SIZE_BYTES)
        out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
        copy_runs(data, places, lengths, out, ends - lengths)
        prefixes = (ends - lengths - _SIZE_BYTES)[:, None] + np.arange(_SIZE_BYTES)
        out[prefixes] = sizes.astype(">u4").view(np.uint8).reshape(-1, _SIZE_BYTES)
        return Frames(
            data=out,
            connection=np.tile(made.connection, 2)[there],
            is_response=np.repeat([False, True], len(made.connection))[there],
            offset=np.concatenate([made.request_offset, made.response_offset])[there],
            length=lengths + _SIZE_BYTES,
        )

    def _blank_nameless(self, exchanges: Exchanges, data: U8) -> None:
        """Blank responses of which several readings fit: whatever is text, bytes or records in any of them."""
        readings: list[tuple[int, int, int, int]] = []  # row, API, version, body
        nameless = (exchanges.api_key < 0) & exchanges.response_whole & (exchanges.kind == Kind.KAFKA)
        nameless &= exchanges.response_bytes <= LARGEST_TRIAL
        for row in np.flatnonzero(nameless).tolist():
            start, end = int(exchanges.response_start[row]), int(exchanges.response_end[row])
            found = [(row, *reading) for reading in recognise.fitting_readings(exchanges.data, start, end)]
            if found:
                data[start:end] = exchanges.data[start:end]
            readings += found
        if not readings:
            return
        rows, keys, versions, bodies = np.array(readings, np.int64).T
        columns = {name: getattr(exchanges, name)[rows] for name in _COLUMNS}
        columns |= {"api_key": keys.astype(np.int16), "response_version": versions.astype(np.int16)}
        read_so = dataclasses.replace(exchanges, **columns | {"response_body": bodies})
        tapes = [decoded.responses for decoded in self._decoder.decode(read_so)]
        # A reading that knows a tagged field tells more of it than one for which its bytes may be anything.
        unknown = np.concatenate([_unknown_tag_bytes(tape) for tape in tapes])
        least = np.full(len(exchanges.number), np.iinfo(np.int64).max)
        np.minimum.at(least, rows, unknown)
        parts = np.split(unknown == least[rows], np.cumsum([len(tape) for tape in tapes])[:-1])
        for tape, wanted in zip(tapes, parts, strict=True):
            blank(tape, data, _CONTENT, wanted)
        status = np.concatenate([tape.status for tape in tapes])
        for row in np.unique(rows[status != Status.OK]).tolist():  # there may be content that was not read
            data[exchanges.response_body[row] : exchanges.response_end[row]] = 0

    def _of_records(self, content: bytes, is_metadata: bool) -> bytes:
        made, counts = blank_records(content, self._of_topic_record if is_metadata else None)
        self.records.add(counts)
        return made

    def _of_topic_record(self, value: bytes) -> bytes | None:
        """A record of the metadata log that names a topic and its id, with a pseudonym; None for any other."""
        if not value.startswith(TOPIC_RECORD):
            return None
        try:
            told = decode_typed_value(CLUSTER_METADATA_TOPIC, value)
        except DecodeError:
            return None
        name = str(told.fields["name"]).encode("utf-8", "surrogateescape")
        before, _, behind = value.partition(name)
        if not name or told.rest or len(behind) != _BEHIND_NAME_BYTES:
            return None
        return before + self._pseudonyms.text(name) + behind


def _unknown_tag_bytes(tape: Tape) -> I64:
    """Of each frame the bytes of tagged fields that are not known."""
    rows = np.flatnonzero(tape.field == UNKNOWN_TAG)
    found = np.zeros(len(tape), np.int64)
    np.add.at(found, tape.frame_of(rows), content_bytes(tape, rows))
    return found
