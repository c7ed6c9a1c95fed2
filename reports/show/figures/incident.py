"""What happened around one incident, on one axis of time: lanes of who it touched, and below them latency and lag."""

from __future__ import annotations

from textwrap import wrap

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from kafkascope.reports.answers.incident_timelines import IncidentTimeline, Item, Lane
from kafkascope.reports.incidents.incident import Incident
from kafkascope.reports.show.figures.style import (
    COLOURS,
    LANE_PIXELS,
    REST,
    SEVERITIES,
    labels,
    laid_out,
    markup,
    moment,
    short,
)
from kafkascope.sniffer.units import MILLISECOND_NS

_CURVE_PIXELS = 130
_KINDS: dict[str, tuple[str, str]] = {
    "evidence": ("what shows it", SEVERITIES["critical"]),
    "cluster": ("told by the cluster", "#51637d"),
    "open": ("open", REST),
    "silence": ("silent", SEVERITIES["critical"]),
    "reset": ("reset", SEVERITIES["warning"]),
    "failed": ("failed to connect", "#7d1a1f"),
    "rebalance": ("rebalance", "#f5c26b"),
    "unowned": ("without an owner", SEVERITIES["critical"]),
}
"""Of an item: what the legend calls it, and its colour."""
_UNITS = {"latency": "ms", "lag": "records"}


def timeline(incident: Incident, drawn: IncidentTimeline) -> go.Figure:
    """Lanes of brokers, connections and groups, with marks for evidence; hover tells packets. Shaded: the incident."""
    kinds = list(dict.fromkeys(curve.kind for curve in drawn.curves))
    lanes_pixels = LANE_PIXELS * max(len(drawn.lanes), 2)
    figure = make_subplots(
        rows=1 + len(kinds),
        shared_xaxes=True,
        vertical_spacing=0.06 if kinds else 0.0,
        row_heights=[lanes_pixels, *(_CURVE_PIXELS for _ in kinds)],
    )
    whole = [f"{lane.name}{f' (and {lane.left_out} more)' if lane.left_out else ''}" for lane in drawn.lanes]
    names = [*map(labels(whole, 44).__getitem__, whole)]
    for kind, (word, colour) in _KINDS.items():
        _items(figure, kind, word, colour, names, drawn.lanes)
    for row, kind in enumerate(kinds, 2):
        for number, curve in enumerate(one for one in drawn.curves if one.kind == kind):
            figure.add_scatter(
                x=[moment(at) for at in curve.times],
                y=curve.values,
                name=short(curve.name),
                mode="lines",
                line={"shape": "hv", "color": COLOURS[(number + row) % len(COLOURS)]},
                row=row,
                col=1,
            )
        figure.update_yaxes(title=_UNITS[kind], rangemode="tozero", row=row, col=1)
    until = drawn.end if incident.ended is None else incident.ended
    figure.add_vrect(
        x0=moment(incident.started), x1=moment(until), fillcolor="#f5c26b", opacity=0.18, line_width=0, layer="below"
    )
    figure.update_yaxes(type="category", categoryorder="array", categoryarray=names[::-1], row=1, col=1)
    figure.update_xaxes(type="date", range=[moment(drawn.begin), moment(drawn.end)])
    figure.update_xaxes(title="UTC", row=1 + len(kinds), col=1)
    height = 240 + lanes_pixels + _CURVE_PIXELS * len(kinds)
    title = "<br>".join(markup(line) for line in wrap(f"{incident.severity}: {incident.what}", 90)[:3])
    laid_out(figure, "", height, barmode="overlay", bargap=0.3, hovermode="closest", dragmode="pan")
    legend = {"orientation": "h", "x": 0, "xanchor": "left", "y": -85 / height, "yanchor": "top"}
    return figure.update_layout(title=title, legend=legend, margin={"t": 100, "b": 110})


def _items(figure: go.Figure, kind: str, word: str, colour: str, names: list[str], lanes: list[Lane]) -> None:
    """All items of one kind: bars of what lasted, marks of what happened at once."""
    found = [(name, item) for name, lane in zip(names, lanes, strict=True) for item in lane.items if item.kind == kind]
    bars = [(name, item.since, item.until, item) for name, item in found if item.until is not None]
    marks = [(name, item) for name, item in found if item.until is None]
    if bars:
        figure.add_bar(
            orientation="h",
            y=[name for name, *_ in bars],
            base=[moment(since) for _, since, _, _ in bars],
            x=[(until - since) / MILLISECOND_NS for _, since, until, _ in bars],
            name=word,
            marker={"color": colour, "line": {"color": colour, "width": 1}},
            hovertext=[_told(item) for *_, item in bars],
            hoverinfo="text",
            row=1,
            col=1,
        )
    if marks:
        figure.add_scatter(
            x=[moment(item.since) for _, item in marks],
            y=[name for name, _ in marks],
            mode="markers",
            name=word,
            marker={"symbol": "diamond", "size": 8, "color": colour},
            hovertext=[_told(item) for _, item in marks],
            hoverinfo="text",
            row=1,
            col=1,
        )


def _told(item: Item) -> str:
    return markup(item.text if item.packet is None else f"{item.text}\npacket {item.packet}")
