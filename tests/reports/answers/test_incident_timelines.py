from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa

from kafkascope.reports.answers.answers import answers
from kafkascope.reports.answers.incident_timelines import (
    CALM_LANES,
    CONNECTION_LANES,
    ITEMS,
    TIMELINES,
    IncidentTimeline,
    Lane,
)
from kafkascope.reports.incidents.incident import Incident, Subject, incident_table
from kafkascope.reports.vocabulary.incident_kinds import Role
from kafkascope.reports.vocabulary.tables import CLUSTER_EVENTS, CONNECTIONS, LATENCY, SILENCES
from tests.reports.show.page.made_tables import (
    BEGIN,
    SECOND,
    SUMMARY,
    broker_down,
    cluster_events,
    connections,
    latency_row,
    restart,
    silence,
    tables_of,
    with_incidents,
)


def timeline(incident: Incident, **tables: pa.Table) -> IncidentTimeline:
    """Of the one incident of a capture."""
    every = with_incidents() | tables_of(incidents=incident_table([incident]), **tables)
    found = answers(every, SUMMARY)
    assert found.issues is not None
    assert "internal_error" not in {one.kind for one in found.issues}
    return found.timelines[0]


def seconds(one: IncidentTimeline) -> tuple[float, float]:
    return (one.begin - BEGIN) / SECOND, (one.end - BEGIN) / SECOND


def lanes(one: IncidentTimeline, kind: str) -> list[Lane]:
    return [lane for lane in one.lanes if lane.kind == kind]


def of_connections(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=CONNECTIONS)


def client_incident(**more: Any) -> Incident:
    subjects = (Subject(Role.CLIENT, "orders-0"), Subject(Role.HOST, "10.77.1.11"))
    return dataclasses.replace(broker_down(), subjects=subjects, **more)


def test_it_begins_shortly_before_and_ends_shortly_after() -> None:
    assert seconds(timeline(broker_down())) == (54, 106)  # 15 % of 40 s
    short = dataclasses.replace(broker_down(), ended=BEGIN + 61 * SECOND)
    assert seconds(timeline(short)) == (57, 64)
    assert seconds(timeline(restart())) == (140, 600)  # not over: to the end of the capture
    early = dataclasses.replace(broker_down(), started=BEGIN + SECOND, evidence=())
    assert seconds(timeline(early))[0] == 0  # of the capture


def test_evidence_that_was_rejected_or_has_no_time_is_no_mark() -> None:
    evidence = lanes(timeline(broker_down()), "evidence")[0]
    assert [(item.text, item.packet) for item in evidence.items] == [
        ("the last data of it", 4000),
        ("12 connects to it refused", 4001),
    ]


def test_a_broker_has_its_silences() -> None:
    (lane,) = lanes(timeline(broker_down()), "broker")
    assert lane.name == "broker 2 (10.77.0.2)"
    told = "says nothing for 40.0 s, 3 requests waiting, 1 connection ended, 12 connects refused"
    assert [(item.text, item.packet) for item in lane.items] == [(told, 4001)]
    for_good = pa.Table.from_pylist([silence() | {"until": None}], schema=SILENCES)
    (lane,) = lanes(timeline(broker_down(), silences=for_good), "broker")
    assert lane.items[0].text.startswith("says nothing any more")
    assert not lanes(timeline(client_incident()), "broker")  # of others they say nothing


def test_a_silence_in_which_nobody_waited_matters_only_of_a_broker() -> None:
    idle = silence() | {"waiting": 0, "refused": 0}
    by_address = dataclasses.replace(broker_down(), subjects=(Subject(Role.HOST, "10.77.0.2"),))
    for row, incident, there in (
        (idle, broker_down(), True),
        (idle, by_address, False),
        (idle | {"waiting": 1}, by_address, True),
        (idle | {"unanswered": 1}, by_address, True),
    ):
        found = lanes(timeline(incident, silences=pa.Table.from_pylist([row], schema=SILENCES)), "broker")
        assert bool(found) == there


def test_the_cluster_tells_what_changed_in_that_time() -> None:
    (lane,) = lanes(timeline(broker_down()), "cluster")
    assert [item.text for item in lane.items] == [
        "leader changed of orders (2 partitions) 2 → 3",
        "coordinator moved of group-1 2 → 3",
    ]
    assert not lanes(timeline(restart()), "cluster")


def test_connections_are_by_who_speaks_with_whom_and_those_that_failed_are_first() -> None:
    found = lanes(timeline(broker_down()), "connection")
    # the connects that failed tell no client id, but their host has told it
    assert [lane.name for lane in found] == ["orders-0 → 10.77.0.2:9092", "orders-2 → 10.77.0.2:9092"]
    assert [item.kind for item in found[0].items] == ["reset"] + ["failed"] * 12
    assert found[0].items[0].text == "open before the capture; reset by the broker"
    assert found[0].items[0].packet == 1
    found = lanes(timeline(client_incident()), "connection")
    assert [lane.name for lane in found] == ["orders-0 → 10.77.0.2:9092"]


def test_connections_are_bounded_and_calm_ones_few() -> None:
    failing = connections()[1] | {"opened": BEGIN + 70 * SECOND, "closed": BEGIN + 70 * SECOND}
    many = [failing | {"connection": i, "client": f"10.77.2.{i}"} for i in range(CONNECTION_LANES + 2)]
    one = timeline(broker_down(), connections=of_connections(many))
    assert len(lanes(one, "connection")) == CONNECTION_LANES
    assert one.lanes_left_out == 2
    calm = connections()[-1]
    quiet = [calm | {"connection": i, "client_id": f"c{i}"} for i in range(CALM_LANES + 5)]
    one = timeline(broker_down(), connections=of_connections(quiet))
    assert len(lanes(one, "connection")) == CALM_LANES
    assert one.lanes_left_out == 5
    storm = timeline(broker_down(), connections=of_connections([failing | {"connection": i} for i in range(ITEMS + 7)]))
    (lane,) = lanes(storm, "connection")
    assert (len(lane.items), lane.left_out) == (ITEMS, 7)


def test_groups_show_their_rebalances_of_that_time() -> None:
    one = timeline(broker_down())
    found = {lane.name: lane for lane in lanes(one, "group")}
    assert "orders-app" in found  # it is about this group
    for item in found["orders-app"].items:
        assert item.until is not None
        assert item.until >= one.begin
        assert item.since <= one.end
    rebalances = [item for item in found["orders-app"].items if item.kind == "rebalance"]
    assert rebalances
    assert all(f"→ {item.generation}: " in item.text and item.packet is not None for item in rebalances)


def test_a_group_that_begins_or_whose_beginning_was_not_seen_comes_from_nowhere() -> None:
    rebalances = with_incidents()["rebalances"].to_table()
    place = rebalances.schema.get_field_index("from_generation")
    unknown = pa.nulls(rebalances.num_rows, rebalances.schema.field(place).type)
    one = timeline(broker_down(), rebalances=rebalances.set_column(place, rebalances.schema.field(place), unknown))
    texts = [item.text for lane in lanes(one, "group") for item in lane.items if item.kind == "rebalance"]
    assert texts
    assert all(text.startswith("? → ") for text in texts)


def test_a_group_whose_coordinator_moved_is_touched_by_a_broker_alone() -> None:
    lags = [curve.name for curve in timeline(broker_down()).curves if curve.kind == "lag"]
    assert lags == ["lag of orders-app, all partitions", "lag of group-1, all partitions"]
    lags = [curve.name for curve in timeline(client_incident(rebalances=frozenset())).curves if curve.kind == "lag"]
    assert lags == []


def test_latency_is_that_of_who_is_touched() -> None:
    def slow(span: int, client: str, longest: float, topic: str | None = None, part: str = "slow") -> dict[str, Any]:
        row = latency_row("Produce", topic, part, span, np.array([longest]))
        return row | {"client": client, "client_id": f"of {client}", "broker": "[fe80::9]:9092"}

    rows = [
        slow(6, "10.77.1.11", 7.0),
        slow(6, "10.77.1.11", 5.0),
        slow(8, "10.77.1.11", 11.0),
        slow(8, "10.77.1.99", 900.0),
        slow(8, "10.77.1.11", 800.0, topic="orders"),  # counted once already
        slow(8, "10.77.1.11", 700.0, part="waiting"),
        slow(20, "10.77.1.11", 600.0),  # long after
    ]
    table = pa.Table.from_pylist(rows, schema=LATENCY)

    def curve(incident: Incident) -> list[tuple[int, float | None]]:
        (found,) = [one for one in timeline(incident, latency=table).curves if one.kind == "latency"]
        return [((at - BEGIN) // SECOND, value) for at, value in zip(found.times, found.values, strict=True)]

    assert curve(client_incident()) == [(60, 7.0), (70, None), (80, 11.0), (90, None)]  # nothing from 70 to 80
    assert curve(broker_down()) == [(60, 7.0), (70, None), (80, 900.0), (90, None)]  # who lacks it asks others
    by_address = dataclasses.replace(client_incident(), subjects=(Subject(Role.HOST, "fe80::9"),))
    assert curve(by_address) == curve(broker_down())


def test_only_the_first_incidents_have_one() -> None:
    many = [dataclasses.replace(broker_down(), cost_ms=float(i)) for i in range(TIMELINES + 5)]
    found = answers(with_incidents() | tables_of(incidents=incident_table(many)), SUMMARY)
    assert found.incidents is not None
    assert (len(found.incidents.shown), len(found.timelines)) == (TIMELINES + 5, TIMELINES)


def test_tables_that_are_not_there_have_no_lanes() -> None:
    alone = answers(tables_of(incidents=incident_table([broker_down()])), {})
    assert [lane.kind for lane in alone.timelines[0].lanes] == ["evidence"]
    empty = tables_of(
        incidents=incident_table([broker_down()]),
        connections=CONNECTIONS.empty_table(),
        cluster_events=CLUSTER_EVENTS.empty_table(),
        silences=SILENCES.empty_table(),
        latency=LATENCY.empty_table(),
    )
    assert [lane.kind for lane in answers(empty, {}).timelines[0].lanes] == ["evidence"]


def test_what_the_cluster_tells_is_in_order_of_time() -> None:
    backwards = pa.Table.from_pylist(cluster_events()[::-1], schema=CLUSTER_EVENTS)
    assert timeline(broker_down(), cluster_events=backwards) == timeline(broker_down())
