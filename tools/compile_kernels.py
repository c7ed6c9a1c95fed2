"""Compiles all kernels, once, for tests that run side by side: each process would compile them anew.

python tools/compile_kernels.py
"""

from __future__ import annotations

from pathlib import Path

import kafkascope
from kafkascope.sniffing import JSON, TREE, Display, SniffOptions, rehearse

PCAPS = Path(__file__).parent.parent / "pcaps"
CAPTURES = ("clients_admin/capture.pcap", "net_formats/two-sections.pcapng.gz", "net_odd_tcp/capture.pcap")


def main() -> None:
    """Do once what needs them."""
    for name in CAPTURES:
        capture = kafkascope.read(PCAPS / name, records=True)
        for table in capture.tables:
            capture.arrow(table)
    for display in (Display(style=JSON, records=True), Display(style=TREE, records=True), Display(groups=True)):
        rehearse(SniffOptions(display=display))


if __name__ == "__main__":
    main()
