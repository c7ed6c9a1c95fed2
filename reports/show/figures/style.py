"""What all figures have in common: colours, times, text that is no markup, margins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, count
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from kafkascope.reports.columns.shown import shown_text

COLOURS = ("#2f6fb3", "#1b8a6b", "#8a55c4", "#c2681a", "#b0307c", "#5d7f22", "#3a9fbf", "#7a6a58")
"""Told apart on white, also by most who do not see all colours."""
REST = "#a9b6c9"  # what is not looked at
SEVERITIES = {"critical": "#c9252d", "warning": "#d9822b", "info": "#3d7ea6"}
LANE_PIXELS = 34
MOST_ROWS = 30  # bars or lanes that are shown: more is a table
UTC = {"type": "date", "title": "UTC"}


def moment(at: int) -> Any:
    """Nanoseconds since 1970 as plotly takes them."""
    return np.datetime64(at // 1000, "us")


def markup(text: str) -> str:
    """Text as plotly shows it: it takes some markup, so what could be markup is taken apart."""
    lines = map(shown_text, text.split("\n"))
    return "<br>".join(line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") for line in lines)


def short(text: str, most: int = 60) -> str:
    """A sentence, as far as there is room for it."""
    text = shown_text(text)
    return markup(text if len(text) <= most else f"{text[: most - 1]}…")


def labels(names: Iterable[str], most: int = 60) -> dict[str, str]:
    """What each of some names is called, no two of them alike: a bar, a lane or a line is what has one label."""
    found: dict[str, str] = {}
    used: set[str] = set()
    for name in dict.fromkeys(names):
        text, half = shown_text(name), most // 2  # what tells a name from the next one is often at its end
        wanted = markup(text if len(text) <= most else f"{text[:half]}…{text[len(text) - most + half + 1 :]}")
        label = next(one for one in chain([wanted], (f"{wanted} ({n})" for n in count(2))) if one not in used)
        used.add(label)
        found[name] = label
    return found


def texts(frame: pd.DataFrame, *names: str) -> Iterator[tuple[str, ...]]:
    """Some columns of each row as text."""
    for row in frame[list(names)].itertuples(index=False):
        yield tuple("?" if pd.isna(value) else str(value) for value in row)


def height_of(rows: int) -> int:
    """Pixels of a figure with so many bars or lanes."""
    return 130 + LANE_PIXELS * max(rows, 2)


def laid_out(figure: go.Figure, title: str, height: int = 380, **layout: Any) -> go.Figure:
    """The figure with its title, and the look of all."""
    return figure.update_layout(
        title=markup(title),
        template="plotly_white",
        height=height,
        margin={"l": 10, "r": 10, "t": 60, "b": 40},
        **layout,
    )


def nothing(title: str) -> go.Figure:
    """A figure that says that there is nothing to show."""
    return laid_out(go.Figure(), title, 120, xaxis={"visible": False}, yaxis={"visible": False})
