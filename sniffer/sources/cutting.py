"""When the kernel is to cut packets, so that it need not drop any: bodies of messages go before their headers do."""

from __future__ import annotations

import math

CUT_BYTES = 512
"""What stays of a packet then: 92 % of the messages in pcaps/ other than Produce and Fetch are whole in it, all
heartbeats among them (in 256 bytes 85 %), and where packets are of 1,500 bytes it is a third of what comes."""
MUCH = 1 / 2
LITTLE = 1 / 8
LEAST_S, MOST_S = 2.0, 60.0


class Cutting:
    """Whether packets are to be cut: at once when much waits, no more when for a while little has waited.

    That while is longer each time that whole packets were too many as soon as they came again.
    """

    def __init__(self) -> None:
        self.is_on = False
        self._since = -math.inf  # whole packets come, or no more than little has waited; seconds
        self._while_s = LEAST_S

    def decide(self, now: float, waiting: float, dropped: bool) -> bool:
        """Whether from now on packets are to be cut otherwise than before.

        now: seconds of a clock; waiting: the share of what may wait that does; dropped: whether the kernel just has.
        """
        if self.is_on:
            if waiting > LITTLE or dropped:
                self._since = now
            elif now - self._since >= self._while_s:
                self.is_on, self._since = False, now
                return True
        elif waiting > MUCH or dropped:
            was_too_soon = now - self._since < self._while_s
            self._while_s = min(2 * self._while_s, MOST_S) if was_too_soon else LEAST_S
            self.is_on, self._since = True, now
            return True
        return False
