"""First copies of the latest bytes of streams, which those that come again are compared with."""

from __future__ import annotations

import numpy as np

from kafkascope.decoders.kernels import borrowing, copy_bytes, kernel
from kafkascope.sniffer.columns import U8
from kafkascope.sniffer.reassembly.bounds import COMPARED_BYTES, COMPARED_SEGMENTS, COMPARED_TIME, elapsed
from kafkascope.sniffer.reassembly.state import Integer, State


@borrowing
def note_first(state: State, index: Integer, position: Integer, start: Integer, captured: Integer, at: Integer) -> None:
    """Note where in the batch bytes of a stream are that have not been seen before."""
    if captured <= 0 or start < 0:
        return
    totals, stream = state.totals[0], state.streams[index]
    if stream.firsts < 0:
        if totals.free_firsts >= 0:
            stream.firsts = totals.free_firsts
            totals.free_firsts = state.firsts[stream.firsts, 0].start
        else:
            stream.firsts = totals.firsts
            totals.firsts += 1
        stream.firsts_next = 0
        for place in range(COMPARED_SEGMENTS):
            state.firsts[stream.firsts, place].length = 0
            state.firsts[stream.firsts, place].kept = 0
    first = state.firsts[stream.firsts, stream.firsts_next]
    if first.kept:
        totals.unkept_bytes += first.length
    skipped = max(captured - COMPARED_BYTES, 0)
    first.position = position + skipped
    first.length = captured - skipped
    first.start = start + skipped
    first.kept = 0
    first.at = at
    stream.firsts_next = (stream.firsts_next + 1) % COMPARED_SEGMENTS
    stream.firsts_fresh = 1


@borrowing
def forget_firsts(state: State, index: Integer) -> None:
    """Give back what a stream has of first copies."""
    totals, stream = state.totals[0], state.streams[index]
    if stream.firsts < 0:
        return
    for place in range(COMPARED_SEGMENTS):
        first = state.firsts[stream.firsts, place]
        if first.kept:
            totals.unkept_bytes += first.length
    state.firsts[stream.firsts, 0].start = totals.free_firsts
    totals.free_firsts = stream.firsts
    stream.firsts = -1
    stream.firsts_fresh = 0


@borrowing
def differing(
    state: State,
    data: U8,
    kept: U8,
    index: Integer,
    position: Integer,
    start: Integer,
    captured: Integer,
    at: Integer,
) -> Integer:
    """How many bytes of a segment differ from their first copies, as far as those are still there."""
    stream = state.streams[index]
    different = np.int64(0)
    if stream.firsts < 0 or start < 0:
        return different
    total = np.int64(0)
    for back in range(1, COMPARED_SEGMENTS + 1):
        first = state.firsts[stream.firsts, (stream.firsts_next - back) % COMPARED_SEGMENTS]
        total += first.length
        if first.length == 0 or total > COMPARED_BYTES:
            break
        if abs(elapsed(at, first.at)) > COMPARED_TIME:
            continue
        source = kept if first.kept else data
        low = max(position, first.position)
        for here in range(low, min(position + captured, first.position + first.length)):
            different += data[start + here - position] != source[first.start + here - first.position]
    return different


@kernel
def limit_firsts(state: State) -> Integer:
    """Drop first copies beyond COMPARED_BYTES of a stream; return how many bytes of the others lie in the batch."""
    totals = state.totals[0]
    fresh = np.int64(0)
    for index in range(2 * totals.slots):
        stream = state.streams[index]
        if not stream.firsts_fresh:
            continue
        total = np.int64(0)
        for back in range(1, COMPARED_SEGMENTS + 1):
            first = state.firsts[stream.firsts, (stream.firsts_next - back) % COMPARED_SEGMENTS]
            total += first.length
            if total <= COMPARED_BYTES:
                fresh += 0 if first.kept else first.length
                continue
            if first.kept:
                totals.unkept_bytes += first.length
            first.length = 0
            first.kept = 0
    return fresh


@kernel
def keep_firsts(state: State, from_batch: bool, data: U8, into: U8, filled: Integer) -> Integer:
    """Copy first copies, those in the batch or those kept already; return the end of what is filled."""
    for index in range(2 * state.totals[0].slots):
        stream = state.streams[index]
        if stream.firsts < 0 or (from_batch and not stream.firsts_fresh):
            continue
        for place in range(COMPARED_SEGMENTS):
            first = state.firsts[stream.firsts, place]
            if first.length > 0 and (first.kept == 0) == from_batch:
                copy_bytes(data, first.start, first.length, into, filled)
                first.start = filled
                first.kept = 1
                filled += first.length
        if from_batch:
            stream.firsts_fresh = 0
    return filled
