"""Answers whose rows happened at some time: bars of what lasted, marks of what happened at once, in lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from kafkascope.reports.answers.incident_timelines import event_words, silence_words
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.show.figures.style import (
    COLOURS,
    MOST_ROWS,
    REST,
    SEVERITIES,
    UTC,
    height_of,
    labels,
    laid_out,
    markup,
    nothing,
    short,
    texts,
)
from kafkascope.reports.vocabulary.triggers import words

_Told = Callable[[Mapping[str, Any]], str]
_SYMBOLS = ("circle", "diamond", "square", "x", "triangle-up")  # with the colours more than there are kinds


def incidents(frame: pd.DataFrame) -> go.Figure:
    """Each incident from its begin to its end, what to look at first on top; open at the right: it was not over."""
    if frame.empty:
        return nothing("nothing broke that is looked for")
    labels = [f"{rank}. {headline}" for rank, headline in texts(frame, "rank", "headline")]
    ends = frame["ended"].fillna(pd.concat([frame["started"], frame["ended"]]).max())
    rows = frame.assign(lane=labels, begin=frame["started"], end=ends, told=frame["headline"])
    return _by_severity("Incidents", rows)


def findings(frame: pd.DataFrame) -> go.Figure:
    """Each finding from when it was seen first to when it was seen last, the weightiest on top."""
    if frame.empty:
        return nothing("nothing was found")
    labels = [f"{place}. {title}" for place, (title,) in enumerate(texts(frame, "title"), 1)]
    told = ["\n".join(row) for row in texts(frame, "title", "subject")]
    return _by_severity("Findings", frame.assign(lane=labels, begin=frame["since"], end=frame["until"], told=told))


def _by_severity(title: str, rows: pd.DataFrame) -> go.Figure:
    shown = rows.head(MOST_ROWS)
    shown = shown.assign(lane=shown["lane"].map(labels(shown["lane"], 48)))
    figure = go.Figure()
    for severity, colour in SEVERITIES.items():
        _spans(figure, shown[shown["severity"] == severity], severity, colour)
    return _in_lanes(figure, title, list(shown["lane"]), len(rows))


def clients(frame: pd.DataFrame) -> go.Figure:
    """Each client from its first request to its last; hover tells how it is set."""
    heard = frame[frame["first"].notna()].sort_values(["first", "client_id"])
    if heard.empty:
        return nothing("no client was heard")
    rows = _told(heard.head(MOST_ROWS), _of_client)
    whole = [f"{name} {host}" for name, host in texts(rows, "client_id", "client")]
    lanes = [*map(labels(whole).__getitem__, whole)]
    trouble = rows[["errors", "failed_connects", "resets"]].sum(axis=1) > 0
    rows = rows.assign(lane=lanes, begin=rows["first"], end=rows["last"])
    figure = go.Figure()
    _spans(figure, rows[~trouble], "without trouble", COLOURS[0])
    _spans(figure, rows[trouble], "errors, resets, failed connects", SEVERITIES["warning"])
    return _in_lanes(figure, "Clients", lanes, len(heard))


def _of_client(row: Mapping[str, Any]) -> str:
    shown = ["software", "software_version", "groups", "topics", "acks", "compression", "max_wait_ms"]
    shown += ["session_timeout_ms", "rebalance_timeout_ms", "requests", "errors", "unanswered", "failed_connects"]
    lines = []
    for name in shown:
        value = ", ".join(row[name]) if isinstance(row[name], list | np.ndarray) else row[name]
        if value not in (None, ""):
            lines.append(f"{name} {value}")
    return "\n".join(lines)


def rebalances(frame: pd.DataFrame) -> go.Figure:
    """A lane a group, a bar from what set a rebalance off to when all were working again; colours are triggers."""
    begins = frame["started"].fillna(frame["joined"]).fillna(frame["stable"])
    ends = frame["recovered"].fillna(frame["stable"]).fillna(frame["joined"]).fillna(begins)
    rows = _told(frame.assign(lane=frame["group_id"], begin=begins, end=ends), _of_rebalance)
    rows = rows[begins.notna()]
    if rows.empty:
        return nothing("no rebalance was seen")
    figure, (shown, lanes) = go.Figure(), _laned(rows)
    triggers = list(shown["trigger"].value_counts().index)
    for trigger, colour in zip(triggers, COLOURS, strict=False):
        _spans(figure, shown[shown["trigger"] == trigger], words(trigger), colour)
    _spans(figure, shown[shown["trigger"].isin(triggers[len(COLOURS) :])], "others", REST)
    return _in_lanes(figure, "Rebalances", lanes, rows["lane"].nunique())


def _of_rebalance(row: Mapping[str, Any]) -> str:
    before = "?" if row["from_generation"] is None else row["from_generation"]
    who = f", {row['trigger_client_id']}" if row["trigger_client_id"] else ""
    lines = [f"{row['group_id']} {before} → {row['to_generation']}: {words(row['trigger'])}{who} ({row['certainty']})"]
    lines.append("never stable" if row["duration_ms"] is None else f"stable after {duration(row['duration_ms'])}")
    if row["cost_ms"] is not None:
        last = f", the last was {row['last_client_id']}" if row["last_client_id"] else ""
        lines.append(f"all working again after {duration(row['cost_ms'])}{last}")
    if row["unowned_ms"]:
        lines.append(f"partitions without an owner for up to {duration(row['unowned_ms'])}")
    if row["reread_records"]:
        lines.append(f"{counted(row['reread_records'], 'record')} read again")
    return "\n".join(lines)


def silences(frame: pd.DataFrame) -> go.Figure:
    """A lane a broker, a bar a silence; red: it never spoke again, or connects failed; grey: nobody waited in it."""
    if frame.empty:
        return nothing("no broker was silent though answers were due")
    ends = frame["until"].fillna(frame["since"] + pd.to_timedelta(frame["duration_ms"].astype(float), "ms"))
    told = _told(frame.assign(lane=frame["host"], begin=frame["since"], end=ends), silence_words)
    rows, lanes = _laned(told)
    gone = rows["until"].isna() | (rows[["refused", "unanswered"]].sum(axis=1) > 0)
    waited = ~gone & (rows["waiting"] > 0)
    figure = go.Figure()
    _spans(figure, rows[gone], "connects failed, or to the end", SEVERITIES["critical"])
    _spans(figure, rows[waited], "requests waited", SEVERITIES["warning"])
    _spans(figure, rows[~gone & ~waited], "nobody waited", REST)
    return _in_lanes(figure, "Silences of brokers", lanes, told["lane"].nunique())


def cluster_events(frame: pd.DataFrame) -> go.Figure:
    """A lane a broker, group and topic, a mark an event."""

    def lane(row: Mapping[str, Any]) -> str:
        if row["group_id"] is not None:
            return f"group {row['group_id']}"
        if row["topic"] is not None:
            return f"topic {row['topic']}"
        return "cluster" if row["node_id"] is None else f"broker {row['node_id']}"

    rows = frame.assign(lane=[lane(row) for row in _rows(frame)])
    told = _told(rows, lambda row: _with_packet(event_words(row), row))
    return _events("What happened to the cluster", told, "nothing happened to a cluster")


def group_events(frame: pd.DataFrame) -> go.Figure:
    """A lane a group and client, a mark an event."""

    def told(row: Mapping[str, Any]) -> str:
        event = _spaced(row["event"])
        return _with_packet(f"{event}: {row['detail']}" if row["detail"] else event, row)

    lanes = [f"{row['group_id']} {row['client_id'] or row['client'] or ''}" for row in _rows(frame)]
    return _events("What happened to groups", _told(frame.assign(lane=lanes), told), "no group was heard of")


def _with_packet(text: str, row: Mapping[str, Any]) -> str:
    return text if row["packet"] is None else f"{text}\npacket {row['packet']}"


def _spaced(event: str) -> str:
    return event.replace("_", " ")


def _events(title: str, rows: pd.DataFrame, none: str) -> go.Figure:
    """Marks with a colour and symbol for each kind of event, the most frequent first."""
    if rows.empty:
        return nothing(none)
    figure, (shown, lanes) = go.Figure(), _laned(rows)
    for number, event in enumerate(shown["event"].value_counts().index):
        _marks(figure, shown[shown["event"] == event], _spaced(event), number)
    return _in_lanes(figure, title, lanes, rows["lane"].nunique())


def rereads(frame: pd.DataFrame) -> go.Figure:
    """A lane a group, topic and partition, a mark where records came again; colours are who read them."""
    if frame.empty:
        return nothing("no record was read again")

    def told(row: Mapping[str, Any]) -> str:
        again = f"{counted(row['records'], 'record')} again, offsets {row['from_offset']} to {row['to_offset'] - 1}"
        return f"{row['client_id'] or row['client']}: {again}"

    return _by_reader(frame, "Records read again", told)


def forgotten_commits(frame: pd.DataFrame) -> go.Figure:
    """A lane a group, topic and partition, a mark where what was committed was gone; colours are who asked."""
    if frame.empty:
        return nothing("no commit was gone")

    def told(row: Mapping[str, Any]) -> str:
        read = "" if row["read_from"] is None else f", read from {row['read_from']:,} on"
        had = "" if row["committed_offset"] is None else f", where {row['committed_offset']:,} had been"
        return f"{row['client_id'] or row['client']}: nothing committed{had}{read}"

    return _by_reader(frame, "Commits that were gone", told)


def _by_reader(frame: pd.DataFrame, title: str, told: _Told) -> go.Figure:
    lanes = [f"{group} {topic}-{number}" for group, topic, number in texts(frame, "group_id", "topic", "partition")]
    rows = _told(frame.assign(lane=lanes, reader=frame["client_id"].fillna("?")), told)
    figure, (shown, lanes) = go.Figure(), _laned(rows)
    for number, reader in enumerate(shown["reader"].value_counts().head(MOST_ROWS).index):
        _marks(figure, shown[shown["reader"] == reader], reader, number)
    return _in_lanes(figure, title, lanes, rows["lane"].nunique())


def _rows(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Rows with None for what is not known."""
    known = frame.astype(object).where(frame.notna(), None)  # type: ignore[call-overload]  # pandas-stubs lack None
    yield from known.to_dict("records")


def _told(frame: pd.DataFrame, words_of: _Told) -> pd.DataFrame:
    """The rows with what hover says of them."""
    return frame.assign(told=[words_of(row) for row in _rows(frame)])


def _laned(rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The rows of the lanes with most of them, and these lanes by name."""
    lanes = sorted(rows["lane"].value_counts().head(MOST_ROWS).index)
    shown = rows[rows["lane"].isin(lanes)]
    called = labels(lanes)
    return shown.assign(lane=shown["lane"].map(called)), [called[lane] for lane in lanes]


def _spans(figure: go.Figure, rows: pd.DataFrame, name: str, colour: str) -> None:
    """Bars in time; a line around them keeps short ones visible."""
    rows = rows[rows["begin"].notna()]
    if rows.empty:
        return
    figure.add_bar(
        orientation="h",
        y=rows["lane"],
        base=rows["begin"],
        x=(rows["end"] - rows["begin"]).dt.total_seconds() * 1000,
        marker={"color": colour, "line": {"color": colour, "width": 2}},
        name=short(name),
        hovertext=_hover(rows["begin"], rows["told"]),
        hoverinfo="text",
        width=0.6,
    )


def _marks(figure: go.Figure, rows: pd.DataFrame, name: str, number: int) -> None:
    """Marks in time, told apart from those of other numbers."""
    rows = rows[rows["at"].notna()]
    symbol = _SYMBOLS[number // len(COLOURS) % len(_SYMBOLS)]
    figure.add_scatter(
        x=rows["at"],
        y=rows["lane"],
        mode="markers",
        marker={"symbol": symbol, "size": 9, "color": COLOURS[number % len(COLOURS)], "opacity": 0.8},
        name=short(name),
        hovertext=_hover(rows["at"], rows["told"]),
        hoverinfo="text",
    )


def _hover(times: pd.Series, told: pd.Series) -> list[str]:
    return [markup(f"{clock(at.value)} {text}") for at, text in zip(times, told, strict=True)]


def _in_lanes(figure: go.Figure, title: str, lanes: list[str], of: int) -> go.Figure:
    """The figure with its lanes from top to bottom; of: how many there would be."""
    title += f": {len(lanes)} of {of:,}" if of > len(lanes) else ""
    figure.update_yaxes(type="category", categoryorder="array", categoryarray=lanes[::-1])
    rows = max(len(lanes), len(figure.data) * 2 // 3)  # the legend has three names in the height of two lanes
    laid_out(figure, title, height_of(rows), xaxis=UTC, barmode="overlay", hovermode="closest")
    return figure.update_layout(showlegend=True)
