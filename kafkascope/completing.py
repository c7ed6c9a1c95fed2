"""What shells complete words with: names of the protocol, and names in the captures that the line has so far."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stderr, suppress

import pyarrow.compute as pc

from kafkascope.decoders.machine_code.progress import when_compiling
from kafkascope.engine import EngineOptions
from kafkascope.filters.fields import COLUMNS, Kind
from kafkascope.reading import Reading
from kafkascope.sniffer.sources.files import find_files, is_stream
from kafkascope.sniffer.sources.places import is_uri

MOST_SECONDS = 1.0
"""For so long captures are read, all together: somebody waits with a finger on the key."""

_PLAIN = re.compile(r"\w[\w./@+-]*", re.ASCII)
"""Names that mean themselves to every shell. Others come from strangers, and shells evaluate what they are given."""


class _NotCompiledError(Exception):
    """A kernel is not compiled yet, which would take too long."""


def columns(incomplete: str, known: Iterable[str]) -> list[str]:
    """The columns that a list, with commas between, may go on with, behind what it has."""
    before = incomplete.rpartition(",")[0]
    chosen = before.split(",")
    return [f"{before},{name}" if before else name for name in known if name not in chosen]


def names(column: str, places: Sequence[str]) -> list[str]:
    """What the exchanges at the beginning of captures have in a column that filters know.

    Nothing of pipes, whose packets are for somebody else, and of object stores. Whatever goes wrong, there are fewer
    names: a remark would stand in the midst of the line that is typed.
    """
    found: set[str] = set()
    with suppress(Exception), redirect_stderr(io.StringIO()):
        for name in _names(column, places):
            found.add(name)
    when_compiling(lambda: None)
    return sorted(filter(_PLAIN.fullmatch, found))


def _names(column: str, places: Sequence[str]) -> Iterator[str]:
    field = COLUMNS[column]
    needed = frozenset({"connection", *field.columns})
    options = EngineOptions(tables=frozenset({"exchanges"}), exchange_columns=needed, views=frozenset())
    end = time.monotonic() + MOST_SECONDS
    for file in find_files([place for place in places if not is_uri(place)]):
        if is_stream(file):
            continue
        with Reading([file], options, progress_bar=False) as reading:
            when_compiling(_give_up)
            for batch in reading.batches():
                if (exchanges := batch.tables.get("exchanges")) is not None:
                    values = field.values(batch.with_ends(exchanges), Kind.TEXT).values
                    yield from pc.unique(values).drop_null().to_pylist()
                if time.monotonic() > end:
                    return


def _give_up() -> None:
    raise _NotCompiledError
