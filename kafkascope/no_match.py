"""Why filters match nothing: the names that there are, those first that are near to what was asked for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reading import Batch
from kafkascope.reports.columns.shown import shown_text
from kafkascope.reports.columns.text import counted

MOST_NAMES = 1_000
"""Of each kind, that are remembered."""

_SHOWN = 3
_COLUMNS = {"--api": "api", "--group": "group_id", "--client-id": "client_id", "--topic": "topics"}
_HOST = "--host"


class NoMatch:
    """Batches that were filtered in; at the end a remark, if filters let nothing through."""

    def __init__(self, wanted: Mapping[str, Iterable[str]]) -> None:
        """wanted: the names that were asked for, by option; those without names are left out."""
        self._wanted = {option: sorted(names) for option, names in wanted.items() if names}
        self._there: dict[str, set[str]] = {option: set() for option in self._wanted}
        self._seen = self._matched = 0

    def observe(self, batch: Batch, matched: int) -> None:
        """Take in a batch, of which so many exchanges passed."""
        exchanges = batch.tables.get("exchanges")
        if exchanges is None or not len(exchanges):
            return
        self._seen += len(exchanges)
        self._matched += matched
        if self._matched:
            return
        for option, names in self._there.items():
            if len(names) < MOST_NAMES:
                names.update(_names(batch, exchanges, option))

    def remark(self) -> str | None:
        """What to say at the end; None if something matched, or there was nothing to match."""
        if self._matched or not self._seen:
            return None
        said = [f"0 of {counted(self._seen, 'exchange')} matched"]
        for option, wanted in self._wanted.items():
            there = self._there[option]
            for name in wanted:
                if not any(name.lower() == one.lower() for one in there):
                    said.append(f"{option} {shown_text(name)}: {_instead(name, there)}")
        return "; ".join(said)


def nearest(name: str, there: Iterable[str]) -> list[str]:
    """Names that this one may have been meant for, the likeliest first; case does not count."""
    by_lower = {one.lower(): one for one in sorted(there, reverse=True)}
    inside = sorted(one for lower, one in by_lower.items() if name.lower() in lower)
    near = [by_lower[lower] for lower in difflib.get_close_matches(name.lower(), by_lower, _SHOWN)]
    return list(dict.fromkeys([*near, *inside]))[:_SHOWN]


def _instead(name: str, there: set[str]) -> str:
    if not there:
        return "no exchange names any"
    if near := nearest(name, there):
        return f"not there; near are {', '.join(map(shown_text, near))}"
    some = sorted(there)[:_SHOWN]
    more = f" and {len(there) - len(some)} more" if len(there) > len(some) else ""
    return f"not there; there are {', '.join(map(shown_text, some))}{more}"


def _names(batch: Batch, exchanges: pa.Table, option: str) -> Iterable[str]:
    if option == _HOST:
        return {host for end in batch.endpoints.values() for host in (end.client, end.broker)}
    column = exchanges[_COLUMNS[option]].combine_chunks()
    values = column.flatten() if pa.types.is_list(column.type) else column
    return [name for name in pc.unique(values).slice(0, MOST_NAMES).to_pylist() if name is not None]
