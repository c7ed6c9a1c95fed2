"""Tables of places by key for kernels: a key's place is at its slot, or in one of those behind it (open addressing)."""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkascope.decoders.kernels import borrowing
from kafkascope.sniffer.columns import I32

_GOLDEN = np.int64(-0x61C8864680B583EB)  # 2**64 by the golden ratio: products of neighbours lie far apart (Knuth, 6.4)


def empty_slots(keys: int) -> I32:
    """Slots for so many keys, i32, a power of two of them, of which half stay free at least; -1: free."""
    return np.full(2 << keys.bit_length(), -1, np.int32)


@borrowing
def slot_of(key: Any, slots: I32) -> Any:
    """Where to look for a key first."""
    return key * _GOLDEN >> 32 & slots.shape[0] - 1


@borrowing
def slot_behind(slot: Any, slots: I32) -> Any:
    """Where to look next."""
    return slot + 1 & slots.shape[0] - 1
