"""What happened around an incident, on one axis of time: brokers, connections, groups, latency, lag."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset as ds

from kafkascope.reports.answers.groups import Groups
from kafkascope.reports.answers.progress import Lag
from kafkascope.reports.columns.arrow import numbered
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import duration
from kafkascope.reports.groups.history import Rebalance
from kafkascope.reports.incidents.incident import Incident
from kafkascope.reports.measures.latency.parts import SLOW
from kafkascope.reports.vocabulary.events import ClusterEventKind
from kafkascope.reports.vocabulary.incident_kinds import Role
from kafkascope.reports.vocabulary.triggers import words
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

TIMELINES = 20  # incidents that have one
ITEMS = 60  # bars and marks of one lane; people can tell no more apart
CONNECTION_LANES = 12
CALM_LANES = 3  # of connections on which nothing happened, shown if there are no more of others
CURVES = 4  # groups whose lag is drawn
_HELD = 2_000  # rows of a table that are held for one incident
_SPANS = 120  # of a curve
_SHORTEST_MARGIN_NS = 3 * SECOND_NS  # before and after: what was ordinary is seen beside what was not
_MARGIN = 0.15  # of the length of the incident, if that is more
# Of the map of the cluster and of the table, not of what happened.
_NO_CHANGES = [ClusterEventKind.BROKER_LISTED, ClusterEventKind.LEFT_OUT]


@dataclass(frozen=True, slots=True)
class Item:
    """Something that lasted (a bar), or happened at once (a mark: until is None). Times are nanoseconds."""

    kind: str  # evidence, cluster; silence; open, reset, failed (connections); rebalance, unowned
    since: int
    until: int | None
    text: str
    packet: int | None = None
    generation: int | None = None  # of a rebalance


@dataclass(slots=True)
class Lane:
    """What happened to one party, in order of time."""

    kind: str  # evidence, cluster, broker, connection, group
    name: str
    items: list[Item] = field(default_factory=list)
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Curve:
    """Values over time; each holds from its time to the next. None: there was none."""

    kind: str  # latency (milliseconds), lag (records)
    name: str
    times: list[int]
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class IncidentTimeline:
    """The picture of one incident: from shortly before it began to shortly after it was over."""

    begin: int
    end: int
    lanes: list[Lane]
    curves: list[Curve]
    lanes_left_out: int


class _First:
    """The first rows of a table, by one of its columns and then by all: whatever the order in which they come."""

    def __init__(self, by: str) -> None:
        self._by = by
        self._parts: list[pa.Table] = []

    def take(self, rows: pa.Table, wanted: pa.ChunkedArray) -> None:
        """Take in the rows for which it holds, as far as there is room."""
        self._parts.append(rows.filter(pc.fill_null(wanted, False)))
        if sum(part.num_rows for part in self._parts) > _HELD:
            self._parts = [self._first()]

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """In order; asked for when all have been taken in."""
        return list(self._first().to_pylist()) if self._parts else []

    def _first(self) -> pa.Table:
        whole = pa.concat_tables(self._parts)
        columns = [self._by, *(name for name in whole.column_names if name != self._by)]
        return whole.take(pc.sort_indices(whole, [(name, "ascending") for name in columns])).slice(0, _HELD)


@dataclass(slots=True)
class _Scene:
    """An incident while its timeline is gathered, and whom it is about."""

    incident: Incident
    begin: int
    end: int
    connections: _First = field(default_factory=lambda: _First("connection"))
    silences: _First = field(default_factory=lambda: _First("since"))
    happened: _First = field(default_factory=lambda: _First("at"))
    latency: dict[int, tuple[int, float]] = field(default_factory=dict)  # end of the span and the longest, by its begin

    def named(self, *roles: Role) -> list[str]:
        return [one.name for one in self.incident.subjects if one.role in roles]

    @property
    def groups(self) -> list[str]:
        """Groups that it is about, whose rebalances it explains, or, of a broker, whose coordinator moved."""
        found = [*self.named(Role.GROUP), *sorted(group for group, _ in self.incident.rebalances)]
        if self.named(Role.BROKER):
            found += [
                row["group_id"] for row in self.happened.rows if row["event"] == ClusterEventKind.COORDINATOR_MOVED
            ]
        return list(dict.fromkeys(found))

    def touches(self, rows: pa.Table, broker: pa.ChunkedArray) -> pa.ChunkedArray:
        """Whether connections, by client, client id and address of the broker, are of its hosts or clients."""
        hosts, clients = (pa.array(self.named(role), pa.string()) for role in (Role.HOST, Role.CLIENT))
        of_host = pc.or_(pc.is_in(rows["client"], hosts), pc.is_in(broker, hosts))
        return pc.or_(of_host, pc.is_in(rows["client_id"], clients))


def timelines(
    shown: Sequence[Incident],
    tables: Mapping[str, ds.Dataset],
    groups: Groups | None,
    lag: Lag | None,
    begin: int,
    end: int,
) -> list[IncidentTimeline]:
    """Timelines of the first incidents. begin and end are those of the capture.

    Each table is read once; of each incident no more is held than a few times what a picture has room for.
    """
    scenes = [_scene(one, begin, end) for one in shown[:TIMELINES]]
    for name, columns, take in _TAKEN:
        table = tables.get(name) if scenes else None
        for batch in table.to_batches(columns=columns) if table is not None else ():
            rows = numbered(pa.Table.from_batches([batch]))
            for scene in scenes:
                take(scene, rows)
    return [_timeline(scene, groups, lag) for scene in scenes]


def _scene(incident: Incident, begin: int, end: int) -> _Scene:
    over = max(end, incident.started) if incident.ended is None else incident.ended
    known = [seen.at for seen in incident.evidence if seen.at is not None and not seen.rejected]
    since, until = min([incident.started, *known]), max([over, *known])
    margin = max(_SHORTEST_MARGIN_NS, int((until - since) * _MARGIN))
    return _Scene(incident, max(since - margin, min(begin, since)), min(until + margin, max(end, until)))


def _overlapping(scene: _Scene, since: pa.ChunkedArray, until: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which of these times have a part within the window; one that is not known is outside of the capture."""
    begun = pc.fill_null(pc.less_equal(since, scene.end), True)
    return pc.and_(begun, pc.fill_null(pc.greater_equal(until, scene.begin), True))


def _take_connections(scene: _Scene, rows: pa.Table) -> None:
    inside = _overlapping(scene, rows["opened"], rows["closed"])
    scene.connections.take(rows, pc.and_(inside, scene.touches(rows, rows["broker"])))


def _take_silences(scene: _Scene, rows: pa.Table) -> None:
    hosts = pa.array(scene.named(Role.HOST), pa.string())
    mine = pc.and_(_overlapping(scene, rows["since"], rows["until"]), pc.is_in(rows["host"], hosts))
    if not scene.named(Role.BROKER):  # of others it matters only if somebody waited
        felt = pc.add(rows["waiting"], pc.add(rows["refused"], rows["unanswered"]))
        mine = pc.and_(mine, pc.greater(felt, 0))
    scene.silences.take(rows, mine)


def _take_changes(scene: _Scene, rows: pa.Table) -> None:
    changes = pc.invert(pc.is_in(rows["event"], pa.array(_NO_CHANGES, pa.string())))
    scene.happened.take(rows, pc.and_(_overlapping(scene, rows["at"], rows["at"]), changes))


def _take_latency(scene: _Scene, rows: pa.Table) -> None:
    """The longest by span. A broker that is gone is felt in answers of the others."""
    rows = rows.filter(pc.and_(pc.equal(rows["part"], SLOW), pc.is_null(rows["topic"])))
    rows = rows.append_column("until", pc.add(rows["from"], pc.multiply(rows["width_ms"], MILLISECOND_NS)))
    mine = _overlapping(scene, rows["from"], rows["until"])
    if not scene.named(Role.BROKER):
        host = pc.replace_substring_regex(rows["broker"], r"^\[?(.*?)\]?:[0-9]+$", r"\1")
        mine = pc.and_(mine, scene.touches(rows, host))
    mine = rows.filter(pc.fill_null(mine, False))
    for row in mine.group_by("from").aggregate([("until", "max"), ("max", "max")]).to_pylist():
        until, longest = scene.latency.get(row["from"], (0, 0.0))
        scene.latency[row["from"]] = max(until, row["until_max"]), max(longest, row["max_max"] or 0.0)


_CONNECTION = ["connection", "client", "broker", "broker_port", "opened", "closed", "how_closed", "connect"]
_CONNECTION += ["reset_by", "closed_by", "client_id"]
_LATENCY = ["broker", "client_id", "client", "topic", "from", "width_ms", "part", "max"]
_SILENCE = ["host", "since", "until", "duration_ms", "waiting", "refused", "unanswered", "ended", "first_packet"]
_CLUSTER = ["at", "event", "node_id", "host", "topic", "partition", "count", "group_id", "before", "after", "packet"]
_TAKEN: tuple[tuple[str, list[str], Callable[[_Scene, pa.Table], None]], ...] = (
    ("connections", _CONNECTION, _take_connections),
    ("silences", _SILENCE, _take_silences),
    ("cluster_events", _CLUSTER, _take_changes),
    ("latency", _LATENCY, _take_latency),
)


def event_words(row: Mapping[str, Any]) -> str:
    """What a row of cluster_events says."""
    about = []
    if row["group_id"] is not None:
        about.append(f"of {row['group_id']}")
    if row["topic"] is not None:
        about.append(f"of {row['topic']}" + ("" if row["partition"] is None else f"-{row['partition']}"))
    if (row["count"] or 0) > 1:
        about.append(f"({counted(row['count'], 'partition')})")
    if row["before"] is not None or row["after"] is not None:
        about.append(f"{row['before'] or 'none'} → {row['after'] or 'none'}")
    elif row["node_id"] is not None:
        about.append(f"broker {row['node_id']}" + (f" ({row['host']})" if row["host"] else ""))
    return " ".join([row["event"].replace("_", " "), *about])


def _timeline(scene: _Scene, groups: Groups | None, lag: Lag | None) -> IncidentTimeline:
    seen = [
        Item("evidence", one.at, None, one.text, one.packet)
        for one in scene.incident.evidence
        if one.at is not None and not one.rejected
    ]
    changes = [Item("cluster", row["at"], None, event_words(row), row["packet"]) for row in scene.happened.rows]
    connections, eventful = _connections(scene)
    room = max(CALM_LANES, min(eventful, CONNECTION_LANES))
    lanes = [
        _lane(scene, "evidence", "what shows it", seen),
        *_brokers(scene),
        _lane(scene, "cluster", "cluster", changes),
        *connections[:room],
        *_groups(scene, groups),
    ]
    left_out = max(0, len(connections) - room)
    return IncidentTimeline(
        scene.begin, scene.end, [lane for lane in lanes if lane.items], list(_curves(scene, lag)), left_out
    )


def _lane(scene: _Scene, kind: str, name: str, items: Iterable[Item]) -> Lane:
    """A lane of what has a part within the window; what is too much for it is counted."""
    inside = [
        one
        for one in items
        if one.since <= scene.end and (one.since if one.until is None else one.until) >= scene.begin
    ]
    inside.sort(key=lambda one: (one.since, one.until or 0, one.text))
    return Lane(kind, name, inside[:ITEMS], max(0, len(inside) - ITEMS))


def _brokers(scene: _Scene) -> Iterator[Lane]:
    """Silences of the brokers that it is about."""
    hosts = scene.named(Role.HOST)
    node = next(iter(scene.named(Role.BROKER)), None)
    by_host: dict[str, list[Item]] = {}
    for row in scene.silences.rows:
        until = scene.end if row["until"] is None else row["until"]
        item = Item("silence", row["since"], until, silence_words(row), row["first_packet"])
        by_host.setdefault(row["host"], []).append(item)
    for host, items in sorted(by_host.items(), key=lambda one: hosts.index(one[0])):
        name = f"broker {node} ({host})" if node is not None and host == hosts[0] else f"broker {host}"
        yield _lane(scene, "broker", name, items)


def silence_words(row: Mapping[str, Any]) -> str:
    """What a row of silences says."""
    told = ["says nothing any more" if row["until"] is None else f"says nothing for {duration(row['duration_ms'])}"]
    for name, noun in (("waiting", "request"), ("ended", "connection"), ("refused", "connect")):
        if row[name]:
            told.append(f"{counted(row[name], noun)} {name}")
    if row["unanswered"]:
        told.append(f"{counted(row['unanswered'], 'connect')} that nobody answered")
    return ", ".join(told)


def _connections(scene: _Scene) -> tuple[list[Lane], int]:
    """Connections by who speaks with whom, those with most that failed first; and on how many something happened."""
    ids: dict[str, set[str]] = {}
    for row in scene.connections.rows:
        if row["client_id"]:
            ids.setdefault(row["client"], set()).add(row["client_id"])
    by_parties: dict[tuple[str, str], list[Item]] = {}
    for row in scene.connections.rows:
        known = ids.get(row["client"], set())  # a connect that failed tells no client id
        failed = row["connect"] in ("refused", "unanswered")
        who = row["client_id"] or (next(iter(known)) if failed and len(known) == 1 else row["client"])
        lane = by_parties.setdefault((who, f"{row['broker']}:{row['broker_port']}"), [])
        since = scene.begin if row["opened"] is None else row["opened"]
        until = scene.end if row["closed"] is None else row["closed"]
        kind = "failed" if failed else "reset" if row["how_closed"] == "rst" else "open"
        lane.append(Item(kind, since, until, _connection_words(row), row["connection"]))
    ranked = sorted(
        by_parties.items(), key=lambda one: (-sum(item.kind != "open" for item in one[1]), -len(one[1]), one[0])
    )
    lanes = [_lane(scene, "connection", f"{who} → {broker}", items) for (who, broker), items in ranked]
    return sorted(lanes, key=lambda lane: _is_calm(scene, lane)), sum(not _is_calm(scene, lane) for lane in lanes)


def _is_calm(scene: _Scene, lane: Lane) -> bool:
    """Whether connections only went on being open."""
    return all(
        item.kind == "open" and item.since <= scene.begin and (item.until or 0) >= scene.end for item in lane.items
    )


def _connection_words(row: Mapping[str, Any]) -> str:
    if row["connect"] == "refused":
        return "connect refused"
    if row["connect"] == "unanswered":
        return "connect that nobody answered"
    begun = "open before the capture" if row["opened"] is None else "opened"
    if row["closed"] is None:
        return f"{begun}, and not closed"
    if row["how_closed"] == "rst":
        return f"{begun}; reset" + (f" by the {row['reset_by']}" if row["reset_by"] else "")
    return f"{begun}; closed" + (f" by the {row['closed_by']}" if row["closed_by"] else "")


def _groups(scene: _Scene, groups: Groups | None) -> Iterator[Lane]:
    """Rebalances of its groups, and when partitions had no owner."""
    wanted = scene.groups
    for group in groups.shown if groups else ():
        if group.counts.group_id not in wanted:
            continue
        items = [item for row in group.rebalances for item in _rebalance(scene, row)]
        yield _lane(scene, "group", group.counts.group_id, items)


def _rebalance(scene: _Scene, row: Rebalance) -> Iterator[Item]:
    begin = next((at for at in (row.started, row.joined, row.stable) if at is not None), None)
    if begin is None:
        return
    until = next((at for at in (row.stable, row.recovered, row.joined) if at is not None), scene.end)
    who = f" – {row.trigger_client_id}" if row.trigger_client_id else ""
    before, after = ("?" if one is None else one for one in (row.from_generation, row.to_generation))
    text = f"{before} → {after}: {words(row.trigger)}{who}"
    packet = next((seen.packet for seen in row.evidence if seen.packet is not None and not seen.rejected), None)
    yield Item("rebalance", begin, max(begin, until), text, packet, row.to_generation)
    if row.unowned:
        since = min(gap.since for gap in row.unowned)
        end = max(gap.since + int(gap.ms * MILLISECOND_NS) for gap in row.unowned)
        partitions = counted(len(row.unowned), "partition")
        yield Item("unowned", since, end, f"{partitions} without an owner for up to {duration(row.unowned_ms)}")


def _curves(scene: _Scene, lag: Lag | None) -> Iterator[Curve]:
    if scene.latency:
        spans = sorted(scene.latency.items())
        step = -(-len(spans) // _SPANS)
        times: list[int] = []
        values: list[float | None] = []
        for together in (spans[i : i + step] for i in range(0, len(spans), step)):
            if times and times[-1] >= together[0][0]:
                del times[-1], values[-1]
            times += [together[0][0], together[-1][1][0]]
            values += [max(longest for _, (_, longest) in together), None]
        yield Curve("latency", "slowest answer, waiting left out", times, values)
    mine = [group for group in (lag.groups if lag else ()) if group.name in scene.groups]
    for group in mine[:CURVES]:
        points = list(zip(group.times, group.sums, strict=True))
        within = [point for point in points if scene.begin <= point[0] <= scene.end]
        earlier = [(scene.begin, value) for at, value in points if at < scene.begin][-1:]
        if within or earlier:
            shown = _thinned([*earlier, *within])
            yield Curve(
                "lag", f"lag of {group.name}, all partitions", [at for at, _ in shown], [value for _, value in shown]
            )


def _thinned(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Points of a curve, the highest of each few neighbours."""
    step = -(-len(points) // _SPANS)
    return [(points[i][0], max(value for _, value in points[i : i + step])) for i in range(0, len(points), step)]
