"""The bodies of a batch of exchanges on tapes, one for the requests and one for the responses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from kafkascope.decoders.limits import DEFAULT, Limits
from kafkascope.decoders.program import Programs, programs
from kafkascope.decoders.tape import MOST_ROWS, ROWS_AT_ONCE, ROWS_PER_ELEMENT, Tape, decode_bodies
from kafkascope.reports.rows import tape_rows
from kafkascope.reports.rows.roles import Roles, roles
from kafkascope.sniffer.columns import I64, Bool, Exchanges, Kind


@dataclass(frozen=True)
class Bodies:
    """Frame i of either tape is that of exchange i; a side that is absent, or without a whole header, has no rows."""

    exchanges: Exchanges
    requests: Tape
    responses: Tape
    roles: Roles
    skipped: Bool  # exchanges whose bodies were not to be read

    @property
    def programs(self) -> Programs:
        """What the field ids of the tapes mean."""
        return self.requests.programs

    @cached_property
    def first_in_requests(self) -> I64:
        """The first row of each role in each request, see `tape_rows.first_rows`."""
        return self._first(self.requests)

    @cached_property
    def first_in_responses(self) -> I64:
        """The first row of each role in each response, see `tape_rows.first_rows`."""
        return self._first(self.responses)

    @cached_property
    def request_decoded(self) -> Bool:
        """Requests that the capture holds whole and that were read to their last field."""
        return self.exchanges.request_whole & (self.exchanges.request_body >= 0) & self.requests.whole

    @cached_property
    def response_decoded(self) -> Bool:
        """Responses that the capture holds whole and that were read to their last field."""
        return self.exchanges.response_whole & (self.exchanges.response_body >= 0) & self.responses.whole

    def _first(self, tape: Tape) -> I64:
        return tape_rows.first_rows(tape.field, tape.value, tape.frame_start, self.roles.role)


_PREFIX = 4  # bytes of a frame that tell the size of the others


class BodyDecoder:
    """Decodes batches of exchanges; made once, for its tables take a moment."""

    def __init__(self, limits: Limits = DEFAULT) -> None:
        self._elements = limits.elements
        self.programs = programs()
        self.roles = roles(self.programs)

    def decode(self, exchanges: Exchanges, wanted: Bool | None = None) -> Iterator[Bodies]:
        """The bodies of the exchanges, or of the wanted ones only; of so many at a time as keep their tapes small."""
        readable = exchanges.kind == Kind.KAFKA
        if wanted is not None:
            readable &= wanted
        done, count = 0, len(exchanges.number)
        while done < count:
            rest = some(exchanges, done, count)
            requests = self._side(rest, readable[done:], response=False)
            rest = some(rest, 0, len(requests))
            responses = self._side(rest, readable[done:], response=True)
            skipped = np.zeros(len(responses), np.bool_) if wanted is None else ~wanted[done : done + len(responses)]
            yield Bodies(some(rest, 0, len(responses)), requests.first(len(responses)), responses, self.roles, skipped)
            done += len(responses)

    def _side(self, exchanges: Exchanges, readable: Bool, *, response: bool) -> Tape:
        e = exchanges
        first, start, end, size, whole, version = (
            (e.response_start, e.response_body, e.response_end, e.response_bytes, e.response_whole, e.response_version)
            if response
            else (e.request_start, e.request_body, e.request_end, e.request_bytes, e.request_whole, e.api_version)
        )
        there = readable[: len(start)] & (start >= 0)
        program = self.programs.program_of(e.api_key, version, np.full(len(start), response))
        return decode_bodies(
            e.data,
            np.where(there, start, 0),
            np.where(there, end, 0),
            np.where(there, program, -1).astype(np.int32),
            self.programs,
            most_rows=max(MOST_ROWS, ROWS_PER_ELEMENT * self._elements),
            most_elements=self._elements,
            rows_at_once=ROWS_AT_ONCE,
            end_on_wire=np.where(there, np.where(whole, end, first + size - _PREFIX), 0),
        )


_COLUMNS = tuple(field.name for field in fields(Exchanges) if field.name != "data")


def some(exchanges: Exchanges, first: int, last: int) -> Exchanges:
    """The exchanges from first up to last; themselves if these are all."""
    if first == 0 and last == len(exchanges.number):
        return exchanges
    return replace(exchanges, **{name: getattr(exchanges, name)[first:last] for name in _COLUMNS})
