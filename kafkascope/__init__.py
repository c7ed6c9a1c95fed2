"""kafkascope: a network sniffer and analyzer for the Apache Kafka protocol.

``kafkascope.read("capture.pcap")`` gives the tables of a capture, see ``kafkascope.capture.Capture``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkascope.capture import Capture as Capture
    from kafkascope.capture import read as read

__version__ = "0.1.0"
__all__ = ["Capture", "__version__", "read"]


def __getattr__(name: str) -> Any:
    """Load what needs pandas and numba when it is first used: ``kafkascope --help`` needs neither."""
    if name in ("Capture", "read"):
        from kafkascope import capture

        return getattr(capture, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
