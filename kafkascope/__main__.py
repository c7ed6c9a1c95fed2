"""Entry points of the commands; ``python -m kafkascope``; the file that spark-submit is given (it must end in .py)."""

from __future__ import annotations

import os
import signal


def main() -> None:
    """``kafkascope``."""
    _run("main")


def sniff_main() -> None:
    """``sniff``."""
    _run("sniff_main")


def _run(entry: str) -> None:
    """What takes the words of a command. Ctrl-C while it is imported ends the program without a traceback."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start a thread a core for matrices; here are none
    is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_heard:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from kafkascope.program import ended, importing

    with importing():
        from kafkascope import cli

    if is_heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    ended(getattr(cli, entry))


if __name__ == "__main__":
    main()
