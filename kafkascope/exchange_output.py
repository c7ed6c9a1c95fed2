"""Exchanges as they are written: those that pass the filters, as lines, trees, JSON or columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.outlet import Writable
from kafkascope.program import Remark
from kafkascope.reading import Batch
from kafkascope.reports.columns.faults import isolated
from kafkascope.reports.columns.parties import ExchangePlaces
from kafkascope.reports.columns.shown import shown_names
from kafkascope.reports.columns.topics import ID_PREFIX
from kafkascope.reports.columns.woven import Part, Strings, woven
from kafkascope.reports.show.json_lines import control_types, json_lines, records_of_each
from kafkascope.reports.show.lines import fields as field_lines
from kafkascope.reports.show.lines import lines
from kafkascope.reports.vocabulary.issue_kinds import INTERNAL_ERROR
from kafkascope.reports.vocabulary.tables import RECORDS
from kafkascope.sniff_options import FIELDS, JSON, VERBOSE, Display, SniffOptions
from kafkascope.sniffer.issues import Issue
from kafkascope.sniffer.session import Endpoint

if TYPE_CHECKING:
    from kafkascope.exchange_trees import Trees

RECORDS_SHOWN = 500_000
"""Of one exchange: they are lines, or a list in a line, that are put together before they are written."""


def with_records(
    batches: Iterable[Batch],
    remark: Remark,
    choose: Callable[[Batch], pa.Table | None] = lambda batch: batch.tables["exchanges"],
) -> Iterator[Batch]:
    """Exchanges with their records, which come behind them in parts; of one exchange at most `RECORDS_SHOWN` records.

    What is held are the records of one exchange, and a part. choose: the exchanges that will be shown.
    """
    exchanges: pa.Table | None = None  # whose records are still coming
    endpoints: Mapping[int, Endpoint] = {}
    held: list[pa.Table] = []  # of the first of them
    left_out = 0
    for batch in batches:
        records = batch.tables.get("records")
        if records is None:
            if exchanges is not None:
                yield Batch({"exchanges": exchanges, "records": _joined(held)}, endpoints)
            exchanges, endpoints, held = batch.tables.get("exchanges"), batch.endpoints, []
            continue
        assert exchanges is not None
        place = ExchangePlaces(exchanges).of(records)  # ascending; what is held is of the exchange at place 0
        rank = np.arange(len(place)) - np.searchsorted(place, place) + np.where(place == 0, sum(map(len, held)), 0)
        shown = rank < RECORDS_SHOWN
        if not shown.all():
            wanted = choose(Batch({"exchanges": exchanges}, endpoints))
            if wanted is not None:
                left_out += int(np.count_nonzero(ExchangePlaces(wanted).of(records.filter(pa.array(~shown))) >= 0))
            records, place = records.filter(pa.array(shown)), place[shown]
        last = int(place[-1]) if len(place) else 0
        if last > 0:
            first = int(np.searchsorted(place, last))
            whole = _joined([*held, records.slice(0, first)])
            yield Batch({"exchanges": exchanges.slice(0, last), "records": whole}, endpoints)
            exchanges, held, records = exchanges.slice(last), [], records.slice(first)
        held.append(records)
    if exchanges is not None:
        yield Batch({"exchanges": exchanges, "records": _joined(held)}, endpoints)
    if left_out:
        remark(
            f"{left_out:,} records are not shown: of one exchange they are at most {RECORDS_SHOWN:,}; analyze has all"
        )


class Writer(Protocol):
    """Who writes exchanges that were chosen; faults of ours that it meets are told behind a write, or at the end."""

    def write(self, exchanges: pa.Table | None, rows: Mapping[str, pa.Table]) -> list[Issue]:
        """Write those chosen out of a batch, with both ends of their connections, None if none was; rows: all of it."""

    def finish(self) -> list[Issue]:
        """Come back when all of them are written."""


class TextWriter:
    """Writes exchanges as text; for one that cannot be shown because of a fault of ours there is a line to say so."""

    def __init__(self, display: Display, out: Writable, trees: Trees | None = None) -> None:
        """trees: writes the messages, if they are to be shown as trees."""
        self._display = display
        self._out = out
        self._trees = trees

    def write(self, exchanges: pa.Table | None, rows: Mapping[str, pa.Table]) -> list[Issue]:
        """See `Writer`; records are those of all exchanges of the batch (`with_records`)."""
        if exchanges is None:
            return []
        records = rows["records"] if self._display.records else None
        faults: list[Issue] = []

        def as_text(places: Sequence[int]) -> list[Any]:
            return [_texts(exchanges.slice(places[0], len(places)), records, self._display, self._trees)]

        def without(places: Sequence[int], said: str) -> list[Any]:
            of = exchanges.slice(places[0], len(places)).select(["connection", "number"]).to_pylist()
            faults.extend(Issue(INTERNAL_ERROR, f"exchange {row['number']}: {said}", row["connection"]) for row in of)
            if self._display.style == JSON:
                texts = [json.dumps(row | {"issue": said}) for row in of]
            else:
                texts = [f"conn={row['connection']} number={row['number']}: {said}" for row in of]
            return [woven(pa.array(texts, pa.large_string()), "\n")]

        for texts in isolated(range(len(exchanges)), as_text, without):
            if len(texts):
                self._out.write(memoryview(texts.buffers()[2]))
        return faults

    def finish(self) -> list[Issue]:
        """See `Writer`."""
        return []


def chosen(batch: Batch, options: SniffOptions) -> pa.Table | None:
    """The exchanges of a batch that pass the filters, with both ends of their connections."""
    exchanges = batch.tables.get("exchanges")
    if exchanges is None or not len(exchanges):
        return None
    return options.filters.choose(batch.with_ends(exchanges))


def are_nameless(batch: Batch) -> bool:
    """Whether exchanges name topics by id alone, so that nobody knows whether they are of the topics wanted."""
    exchanges = batch.tables.get("exchanges")
    return exchanges is not None and bool(
        pc.any(pc.starts_with(pc.list_flatten(exchanges["topics"]), ID_PREFIX)).as_py()
    )


def _texts(exchanges: pa.Table, records: pa.Table | None, display: Display, trees: Trees | None) -> Any:
    """What is written of each exchange, with its line feeds."""
    if display.style == JSON:
        return json_lines(exchanges, records, display.payload)
    if display.style == FIELDS:
        texts = field_lines(exchanges.select(display.fields))
    else:
        texts = lines(exchanges, display.colour, verbose=display.style == VERBOSE)
    if trees is not None:
        texts = trees.texts(texts, exchanges)
    if records is None:
        return woven(texts, "\n")
    return woven(texts, records_of_each(exchanges, records, partial(_record_lines, payload=display.payload)), "\n")


def _record_lines(records: pa.Table, payload: bool) -> list[Part]:
    where = pc.binary_join_element_wise(
        pc.fill_null(shown_names(records["topic"]), "?"), pc.fill_null(records["partition"].cast(pa.string()), "?"), "-"
    )
    offset = pc.fill_null(records["offset"].cast(pa.string()), "?")
    parts: list[Part] = ["\n    ", records["direction"], " ", where, " @ ", offset]
    parts += control_types(records, " control ")
    for name in ("key", "value"):
        if payload:
            parts += [" ", Strings(records[name], name)]
        else:
            parts += [f" {name} ", pc.fill_null(pc.binary_length(records[name]).cast(pa.string()), "null"), " B"]
    return parts


def _joined(records: Iterable[pa.Table]) -> pa.Table:
    return pa.concat_tables([RECORDS.empty_table(), *records])
