"""What was the last, or the sum, of rows that each belong to something and to a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafkascope.sniffer.columns import I64


@dataclass(frozen=True, slots=True)
class Timeline:
    """Rows that each belong to a key and a span, and have a rank in it."""

    key: I64
    span: I64
    rank: I64

    def last(self, key: I64, span: I64) -> I64:
        """For each key and span given, the last row of the key up to the end of the span, or -1."""
        if not len(self.key):
            return np.full(len(key), -1, np.int64)
        order = np.lexsort((self.rank, self.span, self.key))
        place = np.searchsorted(*_comparable(self.key[order], self.span[order], key, span), side="right") - 1
        found = order[np.maximum(place, 0)]
        return np.where((place >= 0) & (self.key[found] == key), found, np.int64(-1))

    def sums(self, key: I64, span: I64, values: I64) -> I64:
        """For each key and span given (ascending) the sum of the values of the rows in it."""
        total = np.zeros(len(key), np.int64)
        if len(self.key) and len(key):
            ours, wanted = _comparable(self.key, self.span, key, span)
            place = np.minimum(np.searchsorted(wanted, ours), len(key) - 1)
            there = wanted[place] == ours
            np.add.at(total, place[there], values[there])
        return total

    def chosen(self, rows: I64) -> Timeline:
        """Some of the rows."""
        return Timeline(self.key[rows], self.span[rows], self.rank[rows])


def _comparable(key: I64, span: I64, other_key: I64, other_span: I64) -> tuple[I64, I64]:
    """One number for key and span of each row of both, in their order."""
    spans = np.unique(np.concatenate([span, other_span]))
    keys = np.unique(np.concatenate([key, other_key]))
    return (
        np.searchsorted(keys, key) * np.int64(len(spans)) + np.searchsorted(spans, span),
        np.searchsorted(keys, other_key) * np.int64(len(spans)) + np.searchsorted(spans, other_span),
    )
