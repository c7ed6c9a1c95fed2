"""The bytes that stand in hex beside the fields of messages (`sniff -x`)."""

from __future__ import annotations

import re

_ROW = re.compile(r"^ {4} *\d+ {1,8}\d* {2,}((?:[0-9a-f]{2} )*[0-9a-f]{2})(?: {2,}|$)", re.MULTILINE)


def bytes_beside(text: str) -> bytes:
    """All of them, one behind the other as they are shown."""
    return b"".join(bytes.fromhex(row) for row in _ROW.findall(text))
