"""Where packets come from: capture files, standard input, a live interface."""

from kafkascope.sniffer.sources.errors import SourceError
from kafkascope.sniffer.sources.files import Capture, CaptureFile, open_capture

__all__ = ["Capture", "CaptureFile", "SourceError", "open_capture"]
