"""What waits between the kernel and whoever takes packets; what comes of it is in tests/kafkascope/test_live.py."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from kafkascope.sniff_options import NOTHING, Display
from kafkascope.sniffer.sources.live import BATCH_BYTES, MOST_IDLE, _Batch, _Memory, _Waiting, between_ms
from kafkascope.sniffer.sources.live_options import LiveOptions
from tests.patience import PATIENCE_S


def batch(size: int) -> _Batch:
    made = _Batch(_Memory())
    made.add(np.zeros(size, np.uint8), False)
    return made


def test_whoever_adds_waits_for_room() -> None:
    waiting = _Waiting(100)
    first, second = batch(60), batch(60)
    waiting.put(first)
    assert waiting.share == 0.6
    adding = threading.Thread(target=waiting.put, args=[second])
    adding.start()
    assert waiting.take(PATIENCE_S) is first
    adding.join(PATIENCE_S)
    assert waiting.take(PATIENCE_S) is second
    assert waiting.share == 0


def test_a_batch_larger_than_what_may_wait_is_taken_alone() -> None:
    waiting = _Waiting(100)
    waiting.put(large := batch(1000))
    assert waiting.take(0) is large
    assert waiting.take(0) is None
    assert not waiting.is_over
    waiting.end()
    assert waiting.is_over


def test_when_nobody_takes_any_more_nobody_waits() -> None:
    waiting = _Waiting(100)
    waiting.put(batch(60))
    adding = threading.Thread(target=waiting.put, args=[batch(60)])
    adding.start()
    waiting.close()
    adding.join(PATIENCE_S)
    assert not adding.is_alive()


def test_what_ended_the_reader_is_raised_behind_what_it_had_read() -> None:
    waiting = _Waiting(100)
    waiting.put(batch(60))
    waiting.end(OSError("no more"))
    assert waiting.take(0) is not None
    assert not waiting.is_over
    with pytest.raises(OSError, match="no more"):
        waiting.take(0)


def test_memory_is_used_again_when_no_view_of_it_is_left() -> None:
    memory = _Memory()
    first = memory.array()
    place, view = first.ctypes.data, first[10:20]
    del first
    gc.collect()
    second = memory.array()
    assert second.ctypes.data != place
    view[:] = 7
    assert not second.any()
    del view
    gc.collect()
    assert memory.array().ctypes.data == place


def test_few_memories_are_kept() -> None:
    memory = _Memory()
    arrays = [memory.array() for _ in range(2 * MOST_IDLE)]
    assert {len(array) for array in arrays} == {BATCH_BYTES}
    arrays.clear()
    gc.collect()
    assert len(memory._idle) == MOST_IDLE


def test_who_can_wait_gets_fewer_batches() -> None:
    cheap = [LiveOptions(), LiveOptions(snap_bytes=200), LiveOptions(snap_bytes=200, is_prompt=False)]
    assert sorted({between_ms(options) for options in cheap}) == [between_ms(options) for options in cheap]
    shown = [
        Display(),
        Display(records=True),
        Display(incidents=True),
        Display(groups=True),
        Display(stats_s=10),
        Display(style=NOTHING),
    ]
    assert [display.is_prompt for display in shown] == [True, True, *[False] * 4]
