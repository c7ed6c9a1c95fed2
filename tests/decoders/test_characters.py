"""Characters that hide, and what stands for them."""

from __future__ import annotations

import itertools
import json

from kafkascope import decoders
from kafkascope.decoders.characters import HIDDEN, safe_json, safe_text


def test_ranges_ascend_and_do_not_meet() -> None:
    numbers = [number for limits in HIDDEN for number in limits]
    assert numbers == sorted(numbers)
    assert all(last + 1 < first for (_, last), (first, _) in itertools.pairwise(HIDDEN))


def test_text_keeps_what_shows_itself() -> None:
    assert safe_text("Grüße, 日本 🦀 a-b_c\\x1b") == "Grüße, 日本 🦀 a-b_c\\x1b"
    assert safe_text("a\x1b\n\x9b\xad\u061c\u200b\u2028\u202e\u2066\ufeffb\udcff") == "a" + 10 * "\ufffd" + "b\ufffd"


def test_json_has_them_by_number_and_means_the_same() -> None:
    value = {"é\x7f\x9b": ["\u202e\u2028", "\ud800", "\x1b"], "🦀": 1}
    text = decoders.to_json(value, indent=1)
    assert json.loads(text) == value
    assert safe_text(text.replace("\n", "")) == text.replace("\n", "")
    assert "é" in text
    assert "\\u202e\\u2028" in text
    assert safe_json('{"a": "plain"}') == '{"a": "plain"}'
