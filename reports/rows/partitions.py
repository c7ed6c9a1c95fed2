"""The partitions that a batch of requests or responses speaks of, as columns, and which of both belong together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kafkascope.decoders.tape import Tape
from kafkascope.reports.columns import topics
from kafkascope.reports.columns.arrow import dictionary_codes, equal_columns, first_of_equals
from kafkascope.reports.rows import tape_rows
from kafkascope.reports.rows.roles import SLOT_PARTITION, SLOT_TOPIC, SLOT_TOPIC_ID
from kafkascope.sniffer.columns import I8, I64


@dataclass(frozen=True, slots=True)
class Partitions:
    """One row a partition, in order of exchanges, and as the message lists them."""

    tape: Tape
    exchange: I64  # index of the exchange
    rows: I64  # [SLOTS, n] rows of the tape, -1: the message does not say
    topic: pa.Array  # name, or as written by id
    topic_code: I64  # a number for each topic, the same for as long as the `TopicCodes` lives
    partition: I64  # -1: the frame ends before it

    def __len__(self) -> int:
        return len(self.exchange)

    def number(self, slot: int, absent: int) -> I64:
        """The number in a slot, or the given one where the message does not say."""
        return self.tape.numbers(self.rows[slot], absent)

    def place(self, slot: int) -> I64:
        """Where the bytes of a slot begin; -1 where the message does not say."""
        return self.tape.places(self.rows[slot])


class TopicCodes:
    """Small numbers that stand for topics, so that arrays can compare them."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def of(self, texts: pa.Array) -> I64:
        """A number for each topic, -1 for null."""
        places, distinct = dictionary_codes(texts)
        codes = [self._codes.setdefault(text, len(self._codes)) for text in distinct.to_pylist()]
        return np.array([*codes, -1], np.int64)[places]


def read_partitions(tape: Tape, exchanges: I64, slots: I8, codes: TopicCodes) -> Partitions:
    """The partitions of the given exchanges' frames; frame i of the tape is that of exchange i."""
    exchange, rows = tape_rows.partition_rows(tape.field, tape.frame_start, slots, exchanges)
    texts = topics_of_rows(tape, rows[SLOT_TOPIC], rows[SLOT_TOPIC_ID])
    partition = tape.numbers(rows[SLOT_PARTITION], -1)
    return Partitions(tape, exchange, rows, texts, codes.of(texts), partition)


def topics_of_rows(tape: Tape, names: I64, ids: I64) -> pa.Array:
    """Topics by the rows of their names and of their ids (-1: none)."""
    named = tape.strings(names)
    if not (ids >= 0).any():
        return topics.topics(named, pa.nulls(len(ids), pa.string()))
    return topics.topics(named, topics.written_by_id(tape.uuids(ids)))


def partners(asked: Partitions, told: Partitions) -> I64:
    """For each row of asked, the row of told of the same exchange, topic and partition, or -1.

    A response mostly lists partitions in the order of the request; only where it does not is there a search.
    """
    if not len(asked) or not len(told):
        return np.full(len(asked), -1, np.int64)
    first_asked = first_of_equals(asked.exchange)
    first_told = np.searchsorted(told.exchange, asked.exchange)
    guess = np.minimum(first_told + np.arange(len(asked)) - first_asked, len(told) - 1)
    same = (
        (told.exchange[guess] == asked.exchange)
        & (told.topic_code[guess] == asked.topic_code)
        & (told.partition[guess] == asked.partition)
    )
    found = np.where(same, guess, np.int64(-1))
    rest = np.flatnonzero(~same)
    if len(rest):
        others = np.flatnonzero(np.isin(told.exchange, asked.exchange[rest]))
        found[rest] = _search(asked, rest, told, others)
    return found


def _search(asked: Partitions, rest: I64, told: Partitions, others: I64) -> I64:
    result = np.full(len(rest), -1, np.int64)
    if not len(others):
        return result
    keys = [
        np.stack([side.exchange[chosen], side.topic_code[chosen], side.partition[chosen]])
        for side, chosen in ((told, others), (asked, rest))
    ]
    group = equal_columns(np.concatenate(keys, axis=1))
    distinct, first = np.unique(group[: len(others)], return_index=True)
    place = np.minimum(np.searchsorted(distinct, group[len(others) :]), len(distinct) - 1)
    hit = distinct[place] == group[len(others) :]
    result[hit] = others[first[place[hit]]]
    return result
