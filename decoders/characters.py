"""Characters that do not show what they are: they steer a terminal, turn the direction of writing, or have no width."""

from __future__ import annotations

import re

HIDDEN = (
    (0x00, 0x1F),  # C0 controls: escape sequences, ends of lines
    (0x7F, 0x9F),  # delete, and C1 controls: escape sequences of one character
    (0xAD, 0xAD),  # soft hyphen
    (0x061C, 0x061C),  # mark of direction
    (0x180E, 0x180E),  # without width
    (0x200B, 0x200F),  # without width, marks of direction
    (0x2028, 0x202E),  # separators of lines and paragraphs, embeddings and overrides of direction
    (0x2060, 0x206F),  # without width, isolates of direction
    (0xFEFF, 0xFEFF),  # byte order mark, without width
    (0xFFF9, 0xFFFB),  # begin and end of what is left out of sight
)
"""First and last of each range, in ascending order; all of them lie in the basic plane."""

_CLASSES = [f"{chr(first)}-{chr(last)}" for first, last in HIDDEN]
HIDDEN_CLASS = "".join(_CLASSES)
"""They as the inside of a character class of a regular expression."""

# They are in Python's text where the bytes of a file's name, or an escape in JSON, make no character.
_SURROGATES = "\ud800-\udfff"
_UNSAFE = re.compile(f"[{HIDDEN_CLASS}{_SURROGATES}]")
_UNSAFE_IN_JSON = re.compile(f"[{''.join(_CLASSES[1:])}{_SURROGATES}]")  # JSON has escaped C0 controls already


def safe_text(text: str) -> str:
    """Text in which a replacement character stands for each that would be hidden."""
    return _UNSAFE.sub("\ufffd", text)


def safe_json(text: str) -> str:
    """JSON text with hidden characters written by their numbers: safe to look at, and read as the same value."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
