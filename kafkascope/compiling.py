"""The first run after installation: the kernel that takes longest is compiled by a process beside this one.

numba compiles with one thread. By the time that this process needs that kernel, it finds it in the cache, or waits for
the lock that the other one has.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress

LONGEST = "from kafkascope.sniffer.exchanges import Conversations; Conversations(lambda connections: {}).end(())"


def start() -> None:
    """Compile it in a process of its own, which ends by itself."""
    if not sys.executable:  # Python is part of another program
        return
    with suppress(OSError):
        subprocess.Popen(
            [sys.executable, "-c", LONGEST],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
