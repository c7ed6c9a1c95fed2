"""kafkascope: a network sniffer and analyzer for the Apache Kafka protocol.

``kafkascope.read("capture.pcap")`` gives the tables of a capture, see ``kafkascope.capture.Capture``;
``kafkascope.compare("before.pcap", "after.pcap")`` what differs between two; ``kafkascope.live("eth0")`` the exchanges
of an interface; ``kafkascope.decode_request(frame)`` and ``decode_response`` one message.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkascope.capture import Capture as Capture
    from kafkascope.capture import read as read
    from kafkascope.comparing import Comparison as Comparison
    from kafkascope.comparing import compare as compare
    from kafkascope.decoders import DecodeError as DecodeError
    from kafkascope.decoding import Message as Message
    from kafkascope.decoding import decode_request as decode_request
    from kafkascope.decoding import decode_response as decode_response
    from kafkascope.live_exchanges import Exchange as Exchange
    from kafkascope.live_exchanges import live as live

__version__ = "0.1.0"
__all__ = [
    "Capture",
    "Comparison",
    "DecodeError",
    "Exchange",
    "Message",
    "__version__",
    "compare",
    "decode_request",
    "decode_response",
    "live",
    "read",
]

# Where nobody has chosen, nor imported pyarrow before: memory goes back and forth between numpy and Arrow, so one
# allocator for both holds less of it, and asks for fewer fresh pages, which cost more than to fill them.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

_PLACES = {
    "Capture": "capture",
    "read": "capture",
    "Comparison": "comparing",
    "compare": "comparing",
    "DecodeError": "decoders",
    "Message": "decoding",
    "decode_request": "decoding",
    "decode_response": "decoding",
    "Exchange": "live_exchanges",
    "live": "live_exchanges",
}


def __getattr__(name: str) -> Any:
    """Load what needs pandas and numba when it is first used: ``kafkascope --help`` needs neither."""
    if name in _PLACES:
        return getattr(import_module(f"kafkascope.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
