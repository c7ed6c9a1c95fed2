"""``--debug``: the decisions of the stages on standard error, through Python's logging.

Modules log to loggers of their own names, with the numbers of packets; a connection is the number of its first packet.
"""

from __future__ import annotations

import logging
import sys

from kafkascope.reports.columns.shown import shown_text


class SafeFormatter(logging.Formatter):
    """One line for each record, with the module's name, in which text of a capture can neither hide nor steer."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        return shown_text(f"{record.name.removeprefix('kafkascope.')}: {record.getMessage()}")


def log_decisions() -> None:
    """Write the debug messages of all of kafkascope to standard error, from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(SafeFormatter())
    logger = logging.getLogger("kafkascope")
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
