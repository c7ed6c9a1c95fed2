"""Answers that are DataFrames as figures. A figure shows the rows that it is given: a part of an answer is one too."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from kafkascope.reports.answers.latency import PART_NAMES
from kafkascope.reports.columns.series import FINEST
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import duration
from kafkascope.reports.measures.latency.parts import APPLICATION, PARTS, SLOW, TOTAL
from kafkascope.reports.show.figures import in_time
from kafkascope.reports.show.figures.style import (
    COLOURS,
    MOST_ROWS,
    REST,
    SEVERITIES,
    UTC,
    height_of,
    labels,
    laid_out,
    nothing,
    short,
    texts,
)

_PAIRS = 6  # of lines
_DURATIONS = {
    "type": "log",
    "tickvals": [10.0**n for n in range(-3, 7)],
    "ticktext": ["1 µs", "10 µs", "0.1 ms", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s", "17 min"],
}
_SHORTEST_MS = 1e-3  # on an axis that has no zero


def latency(frame: pd.DataFrame) -> go.Figure:
    """Over time if there is ``from``: p50 and p99. Else a row each: p50 to p99, and what the time was spent on."""
    keys = _keys(frame, "count")
    if frame.empty:
        return nothing("no exchange was answered")
    if "from" in keys:
        return _latency_in_time(frame, keys)
    if "part" not in keys:
        figure, rows = go.Figure(), _labelled(frame, keys, "sum_ms")
        _percentiles(figure, rows)
        title = f"Latency: p50 to p99, and the longest{_of_all(len(rows), len(frame))}"
        return laid_out(figure, title, height_of(len(rows)), xaxis=_DURATIONS)
    frame = _labels(frame, [name for name in keys if name != "part"])
    totals = frame[frame["part"] == TOTAL]
    whole = totals.nlargest(MOST_ROWS, "sum_ms")
    if whole.empty:
        return nothing("percentiles need the rows with part total")
    figure = make_subplots(
        cols=2, shared_yaxes=True, horizontal_spacing=0.03, column_titles=["p50 to p99, and the longest", "spent on"]
    )
    _percentiles(figure, whole, row=1, col=1)
    _shares(figure, frame, whole)
    figure.update_yaxes(showticklabels=False, col=2)
    figure.update_xaxes(_DURATIONS, col=1)
    figure.update_xaxes(tickformat=".0%", range=[0, 1], col=2)
    title = f"Latency{_of_all(len(whole), len(totals))}"
    return laid_out(figure, title, height_of(len(whole)) + 30, barmode="stack").update_layout(margin={"t": 80})


def _latency_in_time(frame: pd.DataFrame, keys: list[str]) -> go.Figure:
    figure = go.Figure()
    series = [*_series(frame, keys, "from", "sum_ms")]
    for colour, (label, rows) in zip(COLOURS[:_PAIRS], series, strict=False):
        for column, dash in (("p99", "solid"), ("p50", "dot")):
            figure.add_scatter(
                x=rows["from"],
                y=rows[column].clip(lower=_SHORTEST_MS),
                name=label or "all",
                legendgroup=label,
                showlegend=column == "p99",
                mode="lines+markers",
                marker={"size": 4},
                line={"color": colour, "dash": dash, "width": 1.5},
                hovertext=[f"{label} {column} {duration(value)}" for value in rows[column]],
                hoverinfo="x+text",
            )
    title = f"Latency: p99, dotted p50{_of_all(min(len(series), _PAIRS), len(series))}"
    return laid_out(figure, title, 420, xaxis=UTC, yaxis=_DURATIONS)


def _percentiles(figure: go.Figure, rows: pd.DataFrame, **place: int) -> None:
    """A bar from p50 to p99 on a logarithmic axis, marks at both, and at the longest."""
    low, high, longest = (rows[name].clip(lower=_SHORTEST_MS) for name in ("p50", "p99", "max"))
    told = [
        f"{label}: {counted(count, 'time')}, p50 {duration(p50)}, p99 {duration(p99)}, the longest {duration(most)}"
        for label, count, p50, p99, most in zip(
            rows["label"], rows["count"], rows["p50"], rows["p99"], rows["max"], strict=True
        )
    ]
    about = {"y": rows["label"], "hovertext": told, "hoverinfo": "text", "showlegend": False}
    figure.add_bar(orientation="h", base=low, x=high - low, width=0.35, marker={"color": COLOURS[0]}, **about, **place)
    for values, symbol in ((low, "line-ns"), (longest, "circle")):
        mark = {"symbol": symbol, "size": 7, "color": REST, "line": {"color": COLOURS[0], "width": 1.5}}
        figure.add_scatter(x=values, mode="markers", marker=mark, **about, **place)
    figure.update_yaxes(type="category", autorange="reversed", **place)


def _shares(figure: go.Figure, frame: pd.DataFrame, whole: pd.DataFrame) -> None:
    """What the time of each row was spent on; of what was slow, what is the network's and what the broker's."""
    total = whole.set_index("label")["sum_ms"]
    parts = [part for part in PARTS if part not in (TOTAL, SLOW, APPLICATION)]
    for number, part in enumerate(parts):
        rows = frame[frame["part"] == part]
        share = (rows.set_index("label")["sum_ms"].reindex(total.index) / total.where(total > 0)).fillna(0)
        if share.gt(0.005).any():
            word, words = PART_NAMES[part]
            figure.add_bar(
                orientation="h",
                y=total.index,
                x=share,
                name=word,
                marker={"color": COLOURS[number % len(COLOURS)]},
                hovertext=[f"{label}: {words} {one:.1%}" for label, one in share.items()],
                hoverinfo="text",
                row=1,
                col=2,
            )


def throughput(frame: pd.DataFrame) -> go.Figure:
    """Bytes a second over time if there is ``from``; else bytes in all, the most first."""
    keys = _keys(frame, "batches" if "codec" in frame.columns else "requests")
    if frame.empty:
        return nothing("nothing was produced or fetched")
    figure = go.Figure()
    if "from" in keys:
        series = [*_series(frame, keys, "from", "bytes")]
        times = _times(frame["from"])
        for colour, (label, rows) in zip(COLOURS, series, strict=False):
            # Where nothing moved there is no row.
            rate = rows.set_index("from")["bytes_per_second"].astype(float).reindex(times, fill_value=0.0)
            figure.add_scatter(x=rate.index, y=rate, name=label or "all", mode="lines", line={"color": colour})
        title = f"Throughput{_of_all(len(figure.data), len(series))}"
        return laid_out(figure, title, xaxis=UTC, yaxis={"title": "bytes a second", "rangemode": "tozero"})
    rows = _labelled(frame, keys, "bytes")
    told = [
        f"{label}: {size:,} bytes, {counted(records, 'record')} in {batches:,} batches"
        for label, size, records, batches in zip(
            rows["label"], rows["bytes"], rows["records"], rows["batches"], strict=True
        )
    ]
    figure.add_bar(
        orientation="h",
        y=rows["label"],
        x=rows["bytes"],
        marker={"color": COLOURS[0]},
        hovertext=told,
        hoverinfo="text",
    )
    figure.update_yaxes(type="category", autorange="reversed")
    title = f"Throughput{_of_all(len(rows), len(frame))}"
    return laid_out(figure, title, height_of(len(rows)), xaxis={"title": "bytes"})


def errors(frame: pd.DataFrame) -> go.Figure:
    """How many: over time if there is ``at``, else in all. Trouble is red, or has colours; what is ordinary is grey."""
    keys = _keys(frame, "count")
    if frame.empty:
        return nothing("no error was answered")
    figure = go.Figure()
    ordinary = frame["count"] - frame["trouble"]
    if "at" in keys:
        width = _width(frame["at"])
        series = [one for one in _series(frame, keys, "at", "trouble") if one[1]["trouble"].any()]
        shown = series if len(series) <= len(COLOURS) else series[: len(COLOURS) - 1]
        if others := series[len(shown) :]:
            shown.append((f"{len(others)} others", pd.concat([rows for _, rows in others])))
        for colour, (label, rows) in zip(COLOURS, shown, strict=False):
            _counted(figure, rows["trouble"].groupby(rows["at"]).sum(), width, label or "trouble", colour)
        _counted(figure, ordinary.groupby(frame["at"]).sum(), width, "ordinary", REST)
        return laid_out(figure, "Errors", xaxis=UTC, yaxis={"title": "errors"}, barmode="stack")
    rows = _labelled(frame.assign(ordinary=ordinary), keys, "count")
    meanings = rows["meaning"] if "meaning" in rows else pd.Series("", rows.index)
    told = [short(f"{label}: {text or ''}", 200) for label, text in zip(rows["label"], meanings, strict=True)]
    for column, colour in (("trouble", SEVERITIES["critical"]), ("ordinary", REST)):
        figure.add_bar(
            orientation="h", y=rows["label"], x=rows[column], name=column, marker={"color": colour}, hovertext=told
        )
    figure.update_yaxes(type="category", autorange="reversed")
    title = f"Errors{_of_all(len(rows), len(frame))}"
    return laid_out(figure, title, height_of(len(rows)), barmode="stack", xaxis={"title": "errors"})


def _counted(figure: go.Figure, counts: pd.Series, width: pd.Timedelta, name: str, colour: str) -> None:
    """A bar a span, from its begin to its end."""
    figure.add_bar(
        x=counts.index, y=counts, width=width.total_seconds() * 1000, offset=0, name=name, marker={"color": colour}
    )


def lag(frame: pd.DataFrame) -> go.Figure:
    """Records that are not committed (where no commit is known: not fetched), by partition; the furthest behind."""
    behind = frame["lag"].astype("Float64").fillna(frame["fetch_lag"].astype("Float64"))
    known = frame.assign(behind=behind, of=frame["group_id"].fillna("no group known"))[behind.notna()]
    if known.empty:
        return nothing("no lag could be worked out")
    figure = go.Figure()
    keys = ["topic", "partition"] if known["of"].nunique() == 1 else ["of", "topic", "partition"]
    for colour, (label, rows) in zip(COLOURS, _series(known, keys, "at", "behind"), strict=False):
        ends = rows["at"] + pd.to_timedelta(rows["width_ms"].astype(float), unit="ms")  # of spans: it is known then
        figure.add_scatter(x=ends, y=rows["behind"], name=label, mode="lines", line={"color": colour, "shape": "hv"})
    groups = sorted(known["of"].unique())
    more = known.groupby(keys).ngroups - len(figure.data)
    title = f"Lag of {groups[0]}" if len(groups) == 1 else "Lag"
    title += f": the {len(figure.data)} partitions furthest behind of {len(figure.data) + more}" if more > 0 else ""
    return laid_out(figure, title, xaxis=UTC, yaxis={"title": "records", "rangemode": "tozero"})


def topology(frame: pd.DataFrame) -> go.Figure:
    """Clients that send on the left, brokers, clients that receive on the right; widths are bytes, colours topics."""
    if frame.empty:
        return nothing("nobody spoke with a broker")
    of_topics = frame[frame["topic"].notna()]
    links = of_topics if of_topics[["bytes_up", "bytes_down"]].to_numpy().sum() else frame
    topics = links.groupby("topic", dropna=False)[["bytes_up", "bytes_down"]].sum().sum(axis=1).nlargest(len(COLOURS))
    colours = {topic: COLOURS[i] for i, topic in enumerate(topics.index) if isinstance(topic, str)}
    nodes: dict[tuple[str, str], int] = {}
    drawn: list[tuple[int, int, int, str, str]] = []
    for (name, host), row in zip(texts(links, "client_id", "client"), links.to_dict("records"), strict=True):
        client, topic = f"{name} {host}", row["topic"] if isinstance(row["topic"], str) else "all that was said"
        for size, side in ((row["bytes_up"], "sends"), (row["bytes_down"], "receives")):
            if size and len(drawn) < _LINKS:
                broker, node = (
                    nodes.setdefault(key, len(nodes)) for key in (("broker", row["broker"]), (side, client))
                )
                ends = (node, broker) if side == "sends" else (broker, node)
                drawn.append((*ends, size, colours.get(topic, REST), short(f"{client}: {topic}, {size:,} bytes", 200)))
    places = _places([side for side, _ in nodes], drawn)
    source, target, value, colour, text = zip(*drawn, strict=True) if drawn else ([], [], [], [], [])
    called = labels((label for _, label in nodes), 40)
    figure = go.Figure(
        go.Sankey(
            node={
                "label": [called[label] for _, label in nodes],
                "x": [x for x, _ in places],
                "y": [y for _, y in places],
                "color": REST,
                "pad": 14,
                "thickness": 12,
                "hovertemplate": "%{label}: %{value:,} bytes<extra></extra>",
            },
            link={
                "source": source,
                "target": target,
                "value": value,
                "color": [f"rgba({int(c[1:3], 16)},{int(c[3:5], 16)},{int(c[5:7], 16)},0.45)" for c in colour],
                "customdata": text,
                "hovertemplate": "%{customdata}<extra></extra>",
            },
        )
    )
    for topic, of_topic in colours.items():  # a Sankey diagram has no legend
        mark = {"color": of_topic, "size": 10, "symbol": "square"}
        figure.add_scatter(x=[None], y=[None], mode="markers", marker=mark, name=short(topic, 40))
    height = max(300, 28 * len(nodes))
    hidden = {"visible": False}
    return laid_out(figure, "Who speaks with whom", height, xaxis=hidden, yaxis=hidden, showlegend=True)


_LINKS = 300  # of a diagram: more is a knot
_COLUMNS = {"sends": 0.001, "broker": 0.5, "receives": 0.999}  # 0 and 1 are no places to plotly


def _places(sides: list[str], links: list[tuple[int, int, int, str, str]]) -> list[tuple[float, float]]:
    """Where nodes are: in the column of their side, below those that were met before."""
    sizes = [
        max(sum(size for source, _, size, *_ in links if source == node), sum(x[2] for x in links if x[1] == node))
        for node in range(len(sides))
    ]
    places = []
    for node, side in enumerate(sides):
        mine = [i for i, of in enumerate(sides) if of == side]
        by_size = (sum(sizes[i] for i in mine if i < node) + sizes[node] / 2) / sum(sizes[i] for i in mine)
        by_number = (mine.index(node) + 0.5) / len(mine)  # so that names of small ones do not overlap
        places.append((_COLUMNS[side], (by_size + by_number) / 2))
    return places


FIGURES: dict[str, Callable[[pd.DataFrame], go.Figure]] = {
    "latency": latency,
    "throughput": throughput,
    "error_histogram": errors,
    "lag": lag,
    "incidents": in_time.incidents,
    "findings": in_time.findings,
    "clients": in_time.clients,
    "topology": topology,
    "rebalances": in_time.rebalances,
    "group_events": in_time.group_events,
    "rereads": in_time.rereads,
    "forgotten_commits": in_time.forgotten_commits,
    "silences": in_time.silences,
    "cluster_events": in_time.cluster_events,
}
"""By the table that an answer is made of."""


def _keys(frame: pd.DataFrame, until: str) -> list[str]:
    """The columns by which an answer is grouped: those before its measures."""
    return list(frame.columns[: frame.columns.get_loc(until)])


def _labels(frame: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """The rows with what they are called: their keys."""
    rows = frame[keys].itertuples(index=False) if keys else [()] * len(frame)
    names = [" ".join("–" if pd.isna(value) else str(value) for value in row) for row in rows]
    return frame.assign(label=[*map(labels(names, 90).__getitem__, names)])


def _labelled(frame: pd.DataFrame, keys: list[str], weight: str) -> pd.DataFrame:
    """The rows with most of something, with what they are called."""
    return _labels(frame.nlargest(MOST_ROWS, weight), keys)


def _series(frame: pd.DataFrame, keys: list[str], time: str, weight: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """Rows by all keys but the time, in order of time, those with most of something first."""
    named = _labels(frame, [name for name in keys if name != time])
    for label in named.groupby("label")[weight].sum().sort_values(ascending=False, kind="stable").index:
        yield str(label), named[named["label"] == label].sort_values(time)


def _of_all(shown: int, there: int) -> str:
    """What a title says of rows for which there is no room."""
    return f" (the first {shown} of {there:,})" if shown < there else ""


def _width(at: pd.Series) -> pd.Timedelta:
    """How wide spans are that begin at these times."""
    steps = at.drop_duplicates().sort_values().diff().dropna()
    return pd.Timedelta(FINEST, "ns") if steps.empty else pd.Timedelta(steps.min())


def _times(at: pd.Series) -> pd.DatetimeIndex:
    """The begins of all spans from the first to the last of these."""
    return pd.date_range(at.min(), at.max(), freq=_width(at))
