"""kafkascope: a network sniffer and analyzer for the Apache Kafka protocol.

``kafkascope.read("capture.pcap")`` gives the tables of a capture, see ``kafkascope.capture.Capture``;
``kafkascope.compare("before.pcap", "after.pcap")`` what differs between two.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkascope.capture import Capture as Capture
    from kafkascope.capture import read as read
    from kafkascope.comparing import Comparison as Comparison
    from kafkascope.comparing import compare as compare

__version__ = "0.1.0"
__all__ = ["Capture", "Comparison", "__version__", "compare", "read"]
_PLACES = {"Capture": "capture", "read": "capture", "Comparison": "comparing", "compare": "comparing"}


def __getattr__(name: str) -> Any:
    """Load what needs pandas and numba when it is first used: ``kafkascope --help`` needs neither."""
    if name in _PLACES:
        return getattr(import_module(f"kafkascope.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
