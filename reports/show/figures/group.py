"""The timeline of one group: the picture of the page, in plotly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import plotly.graph_objects as go

from kafkascope.reports.answers.lanes import Bar, lanes
from kafkascope.reports.columns.name_lists import in_words
from kafkascope.reports.columns.words import in_milliseconds
from kafkascope.reports.groups.history import Event, Member, Rebalance
from kafkascope.reports.show.figures.style import LANE_PIXELS, markup, moment
from kafkascope.reports.vocabulary.triggers import TRIGGERS, words
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_COLOURS = ("#8ab4e8", "#86cdb3", "#c3a7e6", "#9fd0e6", "#b9cf86", "#e3b1d4", "#a9b6c9", "#d9c39a")
_GAP, _OPEN = "#c9252d", "#f5c26b"
_NOBODY, _TRIGGER = "nobody owns", "trigger"
_SHADED = 500  # rebalances whose open time is shaded: each is a shape, and shapes are slow


def timeline(rebalances: Sequence[Rebalance], events: Sequence[Event] = ()) -> go.Figure:
    """Members as lanes, what they owned in each generation, gaps in red, triggers on top; hover tells packets.

    Takes rows of one group as values (`reports.answers.groups.rebalances_of` and ``events_of`` make them of tables);
    the order does not matter.
    """
    rows = sorted(rebalances, key=lambda row: _begin(row) or 0)
    drawn = lanes(rows)
    end = _end(rows, events)
    figure = go.Figure()
    for lane, name in enumerate(drawn.names):
        _owned(figure, rows, [bar for bar in drawn.bars if bar.lane == lane], name, end)
    _unowned(figure, rows)
    _events(
        figure, events, {rows[bar.rebalance].members[bar.member].member_id: drawn.names[bar.lane] for bar in drawn.bars}
    )
    _triggers(figure, rows)
    for row in rows[:_SHADED]:
        if (begin := _begin(row)) is not None and row.stable is not None:
            figure.add_vrect(
                x0=moment(begin), x1=moment(row.stable), fillcolor=_OPEN, opacity=0.3, line_width=0, layer="below"
            )
    order = [_NOBODY, *reversed(drawn.names), _TRIGGER]
    group = rows[0].group_id if rows else ""
    figure.update_layout(
        title=markup(f"{group}: {len(rows)} rebalances" if rows else "no rebalance was seen"),
        barmode="overlay",
        bargap=0.25,
        showlegend=False,
        template="plotly_white",
        height=140 + LANE_PIXELS * len(order),
        margin={"l": 10, "r": 10, "t": 50, "b": 30},
        xaxis={"type": "date", "title": "UTC"},
        yaxis={"type": "category", "categoryorder": "array", "categoryarray": [markup(name) for name in order]},
        hovermode="closest",
        dragmode="pan",
    )
    return figure


def _owned(figure: go.Figure, rows: Sequence[Rebalance], bars: Iterable[Bar], name: str, end: int) -> None:
    shown = [bar for bar in bars if bar.begin is not None]
    if not shown:
        return
    members = [rows[bar.rebalance].members[bar.member] for bar in shown]
    begins = [bar.begin or 0 for bar in shown]
    ends = [bar.end if bar.end is not None else end for bar in shown]
    figure.add_bar(
        orientation="h",
        y=[markup(name)] * len(shown),
        base=[moment(at) for at in begins],
        x=[max(0.0, (until - at) / MILLISECOND_NS) for at, until in zip(begins, ends, strict=True)],
        marker={
            "color": _COLOURS[shown[0].lane % len(_COLOURS)],
            "opacity": [1.0 if m.assignment else 0.25 for m in members],
        },
        text=[markup(in_words(member.assignment or ())) for member in members],
        textposition="inside",
        insidetextanchor="start",
        hovertext=[markup(_of_member(rows[bar.rebalance], m)) for bar, m in zip(shown, members, strict=True)],
        hoverinfo="text",
    )


def _of_member(row: Rebalance, member: Member) -> str:
    held = "not known" if member.assignment is None else in_words(member.assignment) or "no partition"
    who = " ".join(filter(None, (member.client_id, member.host))) or member.member_id
    return f"{who}\n{row.to_generation}: {held}\n{member.member_id}"


def _unowned(figure: go.Figure, rows: Sequence[Rebalance]) -> None:
    gaps = [gap for row in rows for gap in row.unowned]
    if gaps:
        figure.add_bar(
            orientation="h",
            y=[_NOBODY] * len(gaps),
            base=[moment(gap.since) for gap in gaps],
            x=[gap.ms for gap in gaps],
            marker={"color": _GAP},
            hovertext=[markup(f"{gap.partition}: nobody for {in_milliseconds(gap.ms)}") for gap in gaps],
            hoverinfo="text",
        )


def _triggers(figure: go.Figure, rows: Sequence[Rebalance]) -> None:
    told = [(row, at) for row in rows if (at := _begin(row)) is not None]
    figure.add_scatter(
        x=[moment(at) for _, at in told],
        y=[_TRIGGER] * len(told),
        mode="markers+text",
        marker={"size": 18, "color": "white", "line": {"color": "#a35c00", "width": 1.5}},
        text=[TRIGGERS[row.trigger].mark if row.trigger in TRIGGERS else "?" for row, _ in told],
        hovertext=[markup(_of_trigger(row)) for row, _ in told],
        hoverinfo="text",
    )


def _of_trigger(row: Rebalance) -> str:
    took = "never stable" if row.duration_ms is None else in_milliseconds(row.duration_ms)
    lines = [
        f"{row.from_generation if row.from_generation is not None else '?'} → {row.to_generation}: {words(row.trigger)}"
        f"{f', {row.trigger_client_id}' if row.trigger_client_id else ''} ({row.certainty}), {took}"
    ]
    for one in row.evidence[:6]:
        packet = "" if one.packet is None else f" (packet {one.packet})"
        lines.append(f"{'not ' + words(one.trigger) + ': ' if one.rejected else ''}{one.text}{packet}")
    return "\n".join(lines)


def _events(figure: go.Figure, events: Sequence[Event], lane_of: dict[str, str]) -> None:
    told = [event for event in events if event.member_id in lane_of]
    if told:
        figure.add_scatter(
            x=[moment(event.at) for event in told],
            y=[markup(lane_of[event.member_id or ""]) for event in told],
            mode="markers",
            marker={"symbol": "diamond", "size": 7, "color": "#51637d"},
            hovertext=[
                markup(f"{event.event.replace('_', ' ')} (packet {event.packet})\n{event.detail or ''}")
                for event in told
            ],
            hoverinfo="text",
        )


def _begin(row: Rebalance) -> int | None:
    return next((at for at in (row.started, row.joined, row.stable) if at is not None), None)


def _end(rows: Sequence[Rebalance], events: Sequence[Event]) -> int:
    times = [at for row in rows for at in (row.started, row.stable, row.recovered) if at is not None]
    return max([*times, *(event.at for event in events)], default=0) + SECOND_NS
