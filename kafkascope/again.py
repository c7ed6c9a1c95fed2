"""The files of a capture that was read, once more: for what its tables do not keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow.compute as pc

from kafkascope.decoding import HIDDEN
from kafkascope.engine import EngineOptions
from kafkascope.packets import OnePacket, find_packet
from kafkascope.reading import Reading
from kafkascope.reports.rows.frames import FRAMES
from kafkascope.reports.vocabulary.tables import EXCHANGES
from kafkascope.sniffer.capture_points import Content, Joined


@dataclass(frozen=True, slots=True)
class FilesAgain:
    """Files, no pipes. What is asked raises ``sniffer.sources.SourceError`` if they are not what they were."""

    contents: Mapping[str, Content]  # by path
    joined: Joined | None
    options: EngineOptions  # with which they were read

    def packet(self, number: int) -> OnePacket:
        """See `find_packet`."""
        return find_packet(
            number,
            [*self.contents],
            self.joined,
            expected=self.contents,
            pseudonyms=self.options.pseudonyms,
        )

    def frames(self, connection: int, number: int) -> Mapping[str, bytes | None]:
        """The columns of frames of one exchange; the files are read up to it. LookupError if none may be shown."""
        if self.options.pseudonyms is not None:
            raise LookupError(HIDDEN)
        columns = frozenset({"connection", "number", *(column.name for column in FRAMES)})
        tables = frozenset({"exchanges"})
        options = replace(self.options, tables=tables, exchange_columns=columns, views=frozenset(), filter=None)
        wanted = (pc.field("connection") == connection) & (pc.field("number") == number)
        with Reading([*self.contents], options, expected=self.contents) as again:
            for batch in again.batches():
                rows = batch.tables.get("exchanges", EXCHANGES.empty_table()).filter(wanted)
                if rows.num_rows:
                    row: dict[str, bytes | None] = rows.select([column.name for column in FRAMES]).to_pylist()[0]
                    return row
        raise LookupError(f"exchange {number} of connection {connection} is not there")
