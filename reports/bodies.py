"""The bodies of a batch of exchanges on tapes, one for the requests and one for the responses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from decoders.program import Programs, programs
from decoders.tape import Tape, decode_bodies
from reports import tape_rows
from reports.roles import Roles, roles
from sniffer.columns import I16, I64, Bool, Exchanges, Kind


@dataclass(frozen=True)
class Bodies:
    """Frame i of either tape is that of exchange i; a side that is absent, or without a whole header, has no rows."""

    exchanges: Exchanges
    requests: Tape
    responses: Tape
    roles: Roles

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


class BodyDecoder:
    """Decodes batches of exchanges; made once, for its tables take a moment."""

    def __init__(self) -> None:
        self.programs = programs()
        self.roles = roles(self.programs)

    def decode(self, exchanges: Exchanges, wanted: Bool | None = None) -> Bodies:
        """The bodies of the exchanges, or of the wanted ones only."""
        readable = exchanges.kind == Kind.KAFKA
        if wanted is not None:
            readable &= wanted
        return Bodies(
            exchanges,
            self._side(
                exchanges, readable, exchanges.request_body, exchanges.request_end, exchanges.api_version, False
            ),
            self._side(
                exchanges, readable, exchanges.response_body, exchanges.response_end, exchanges.response_version, True
            ),
            self.roles,
        )

    def _side(self, exchanges: Exchanges, readable: Bool, start: I64, end: I64, version: I16, response: bool) -> Tape:
        there = readable & (start >= 0)
        program = self.programs.program_of(exchanges.api_key, version, np.full(len(start), response))
        return decode_bodies(
            exchanges.data,
            np.where(there, start, 0),
            np.where(there, end, 0),
            np.where(there, program, -1).astype(np.int32),
            self.programs,
        )
