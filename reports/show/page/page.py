"""The page: answers as JSON, our script and our style in one file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from kafkascope.decoders.characters import safe_json
from kafkascope.reports.answers import coverage
from kafkascope.reports.answers.answers import Answers
from kafkascope.reports.columns.shown import shown_text
from kafkascope.reports.columns.text import counted
from kafkascope.reports.show.page.data import page_data

# What could end a script element; JSON may write any character so.
_ESCAPED = {character: f"\\u{ord(character):04x}" for character in "<>&"}


def page(answers: Answers, place: str = "capture", earlier: Sequence[Answers] = (), left_out: int = 0) -> str:
    """One HTML document. All text of the capture is in it as JSON, and reaches the reader as text.

    It is called after the capture and its time; place: what to call a capture whose files are not known. With answers
    of earlier runs, the reader chooses among them; left_out: how many runs before these are not on the page.
    """
    script = _own("report.js")
    return rendered(
        "page.html.j2",
        title=shown_text(f"{coverage.title(answers.summary, place)} – kafkascope"),
        name=shown_text(coverage.name(answers.summary, place)),
        answers=[Markup(embedded(page_data(one))) for one in (*earlier, answers)],
        runs=[shown_text(coverage.title(one.summary, place)) for one in (*earlier, answers)],
        left_out=counted(left_out, "earlier run") if left_out else None,
        script=Markup(script),
        script_hash=_hash(script),
    )


def rendered(template: str, **values: Any) -> str:
    """A template that lies beside this file, with our style and its values; text among these is escaped."""
    style = _own("report.css")
    return _compiled(template).render(style=Markup(style), style_hash=_hash(style), **values)


@cache
def _compiled(template: str) -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    return environment.from_string(_own(template))


def embedded(value: Any) -> str:
    """A value as JSON that may stand in a script element."""
    text = safe_json(json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False))
    for character, escaped in _ESCAPED.items():  # many times as fast as str.translate
        text = text.replace(character, escaped)
    return text


@cache
def _own(name: str) -> str:
    return (files("kafkascope.reports.show.page") / name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    """A source expression of the content security policy: only this script and this style may run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
