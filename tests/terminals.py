"""Programs whose stderr is a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import threading
from collections.abc import Mapping, Sequence


def on_a_terminal(command: Sequence[str], environment: Mapping[str, str]) -> tuple[str, str]:
    """What comes out of stdout, a pipe, and of stderr, a terminal."""
    terminal, end = pty.openpty()
    seen = bytearray()

    def watch() -> None:
        while True:
            try:
                more = os.read(terminal, 4096)
            except OSError:  # the last process with the terminal has gone
                return
            if not more:
                return
            seen.extend(more)

    watcher = threading.Thread(target=watch)
    watcher.start()
    environment = {**environment, "TERM": "xterm", "COLUMNS": "80"}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=end, check=True, text=True, env=environment)
    os.close(end)
    watcher.join()
    os.close(terminal)
    return done.stdout, seen.decode()
