"""Text that comes from the network as people may see it: nothing in it hides or steers, and nothing is endless."""

from __future__ import annotations

import html
import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders.characters import HIDDEN_CLASS, safe_text

LONGEST_NAME = 249
"""No topic may have a longer name (Kafka's Topic.MAX_NAME_LENGTH); a longer one of whatever kind is shortened."""


LONGEST_TEXT = 2000
"""Longer sentences are shortened: they can be so only by names with blanks in them, or by endless lists."""


_HIDDEN = f"[{HIDDEN_CLASS}]"


_LONG_WORD = re.compile(rf"\S{{{LONGEST_NAME + 1},}}")
_ENDS = ":;,.)"  # of parts of a sentence


_HEAD, _TAIL = 160, 40  # of what is shortened: ends tell apart what begins alike, as member ids do


def safe(texts: Any) -> Any:
    """Texts without characters that could steer a terminal or break a line: each becomes a replacement character."""
    return pc.replace_substring_regex(texts, _HIDDEN, "\ufffd")


def shown_names(names: Any) -> Any:
    """Names as they are shown to people: safe, and shortened where they are too long to be looked at."""
    names = safe(names)
    length = pc.utf8_length(names)
    long = pc.greater(length, LONGEST_NAME)
    if not pc.any(long).as_py():
        return names
    head, tail = pc.utf8_slice_codeunits(names, 0, _HEAD), pc.utf8_slice_codeunits(names, -_TAIL)
    count = pc.binary_join_element_wise(" (", length.cast(pa.string()), " characters)", "")
    return pc.if_else(long, pc.binary_join_element_wise(head, "…", tail, count, ""), names)


def shown_text(text: str) -> str:
    """One text as it is shown to people: safe, on one line, with long names in it shortened. What is stored is whole.

    Shown once more it stays as it is.
    """
    text = safe_text(text)
    if len(text) <= LONGEST_NAME:
        return text
    text = _LONG_WORD.sub(_shortened_word, text)
    return text if len(text) <= LONGEST_TEXT else _shortened(text, 5)


def shown_html(text: str) -> str:
    """One text as it is shown to people, as HTML."""
    return html.escape(shown_text(text))


def _shortened_word(found: re.Match[str]) -> str:
    word = found[0].rstrip(_ENDS)
    return found[0] if len(word) <= LONGEST_NAME else _shortened(word, 1) + found[0][len(word) :]


def _shortened(text: str, times: int) -> str:
    return f"{text[: times * _HEAD]}…{text[-times * _TAIL :]} ({len(text)} characters)"
