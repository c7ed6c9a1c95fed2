"""Silences of brokers: when one said nothing to anybody, and what else happened meanwhile."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from kafkascope.decoders import apis
from kafkascope.reports.columns.answered import Answered, Begun
from kafkascope.reports.columns.clusters import Clusters
from kafkascope.reports.columns.views import Known
from kafkascope.reports.measures import silences as silences_module
from kafkascope.reports.measures.silences import of_connections, of_exchanges, of_health
from kafkascope.reports.views.hosts import HostsView
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS, TERMS
from tests.reports.ends import Ends
from tests.reports.incidents.tables_of import B1, BEGIN, Row, connection, exchange, health, seconds

ENDS = {number: Ends("10.0.1.1", 40000 + number, B1, 9092) for number in (1, 2, 3)}
TALK = [health(1, "broker", [0, 0.1, 0.2, 3, 3.1], [0, 0.1, 0.2, 3, 3.1])]  # silent from 0.3 s to 3.0 s


def table(name: str, rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=TERMS if name == "terms" else ALL_SCHEMAS[name])


def asked(number: int, due: float, answered: float | None, api: int = apis.METADATA, **given: Any) -> Row:
    """A request that is due, and answered."""
    known = {"api_key": api, "request_done": BEGIN + round(due * 1e9), "throttle_ms": 0} | given
    outcome = "unanswered" if answered is None else "answered"
    return exchange(number, "", due, answered, outcome=outcome, **known)


ANSWERED = asked(1, 0, 0.01) | {"connection": 3}


def silences(
    requests: list[Row] | None = None,
    talk: list[Row] | None = None,
    connections: list[Row] | None = None,
    terms: list[Row] | None = None,
) -> list[Row]:
    """What the view makes of a broker that has answered before, whatever the order of rows and how many at a time."""
    tables = {
        "tcp_health": table("tcp_health", TALK if talk is None else talk),
        "connections": table("connections", [connection(1)] if connections is None else connections),
        "exchanges": table("exchanges", [ANSWERED, *(requests or [])]),
    }
    if terms is not None:
        tables["terms"] = table("terms", terms)
    rows = HostsView().observe(tables, ENDS)
    assert rows is not None
    made = HostsView().result(rows, Known())
    order = random.Random(1).sample(range(rows.num_rows), rows.num_rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(silences_module, "_ROWS_AT_ONCE", 2)
        assert HostsView().result(rows.take(order), Known()) == made
    return made["silences"].to_pylist() if made else []


def only(*arguments: Any, **named: Any) -> Row:
    (one,) = silences(*arguments, **named)
    return one


def times(one: Row) -> tuple[float | None, ...]:
    return tuple(seconds(one[name] and one[name].value) for name in ("since", "until"))


# --- what waited -----------------------------------------------------------------------------------------------------


def test_a_request_that_waits_while_nothing_comes_makes_a_silence() -> None:
    one = only([asked(5, 0.5, 3)])
    assert one["host"] == B1
    assert times(one) == (0.3, 3.0)
    assert one["duration_ms"] == 2700
    assert (one["waiting"], one["waiting_connections"], one["waiting_clients"]) == (1, 1, ["c1"])
    assert (one["first_packet"], one["waiting_replicas"], one["timeouts"]) == (5, 0, 0)


@pytest.mark.parametrize(("due", "overdue"), [(0, 2700), (0.5, 2500), (2.6, 400)])
def test_for_how_long_of_it_something_was_due(due: float, overdue: float) -> None:
    assert only([asked(5, due, 3), asked(6, 2.65, 3)])["overdue_ms"] == overdue


@pytest.mark.parametrize(
    ("given", "count"),
    [
        ({}, 1),
        ({"how_closed": "rst"}, 1),
        ({"closed_by": "client"}, 0),
        ({"opened": 0.2}, 0),  # it was there before
        ({"closed": 3.2}, 0),
        ({"broker_port": 9999}, 0),  # of a port at which it never said anything
    ],
)
def test_connections_that_its_side_takes_and_closes_in_it(given: Row, count: int) -> None:
    taken: Row = {"opened": 1.0, "closed": 1.1, "how_closed": "fin", "closed_by": "broker"}
    one = only([asked(5, 0.5, 3)], connections=[connection(1), connection(5, **taken | given)])
    assert one["turned_away"] == count
    assert count == 0 or one["ended"] == 0


def test_without_a_request_it_is_rest() -> None:
    assert silences() == []
    assert silences([asked(5, 0.1, 0.2), asked(6, 3, 3.1)]) == []


@pytest.mark.parametrize(("due", "answered", "told"), [(2.75, 3.0, True), (2.76, 3.0, False), (0.05, 0.45, True)])
def test_a_request_has_to_wait_for_long_enough(due: float, answered: float, told: bool) -> None:
    assert len(silences([asked(5, due, answered)])) == told


@pytest.mark.parametrize(("pause", "told"), [(0.2, True), (0.1, False)])
def test_a_silence_has_to_last(pause: float, told: bool) -> None:
    spoke = [0, 0.1, 0.1 + pause + 0.1]
    assert len(silences([asked(5, 0.05, 0.5)], [health(1, "broker", spoke, spoke)])) == told


def test_data_on_any_connection_ends_it() -> None:
    other = health(2, "broker", [1.5], [1.5])
    both = [connection(1), connection(2)]
    assert [times(one) for one in silences([asked(5, 0.5, 3)], [*TALK, other], both)] == [(0.3, 1.5), (1.6, 3.0)]


def test_one_that_was_never_answered_waits_in_the_first_silence_alone() -> None:
    other = health(2, "broker", [1.5], [1.5])
    both = [connection(1), connection(2)]
    assert times(only([asked(5, 0.5, None)], [*TALK, other], both)) == (0.3, 1.5)
    # The first that is long enough: one that is due at the very end of a silence waits in the next.
    assert times(only([asked(5, 1.45, None)], [*TALK, other], both)) == (1.6, 3.0)
    closed = [connection(1, closed=1.7, how_closed="fin"), connection(2)]
    assert [one["waiting"] for one in silences([asked(5, 1.45, None)], [*TALK, other], closed)] == [0]


def test_one_behind_which_the_broker_answered_others_was_answered_too() -> None:
    later = asked(6, 0.6, 0.7)
    assert only([asked(5, 0.5, None), later | {"connection": 2}])["waiting"] == 1
    assert silences([asked(5, 0.5, None), later]) == []
    view = HostsView()  # answered in a batch before, as those without an answer come with the end of a connection
    batches = [{"exchanges": table("exchanges", [row])} for row in (later, asked(5, 0.5, None))]
    rows = [view.observe(batch, ENDS) for batch in batches]
    assert [len(one or ()) for one in rows] == [1, 0]  # that it answers
    assert len(HostsView().observe(batches[1], ENDS) or ()) == 1


def test_requests_that_may_wait_are_due_when_their_time_is_over() -> None:
    fetch = [asked(5, 0.5, 3, apis.FETCH)]
    assert silences(fetch) == []  # for how long it may wait is not known
    may_wait = {"connection": 1, "number": 5, "max_wait_ms": 500}
    assert only(fetch, terms=[may_wait])["waiting"] == 1
    assert silences(fetch, terms=[may_wait | {"max_wait_ms": 2400}]) == []
    for api in (apis.JOIN_GROUP, apis.SYNC_GROUP):
        assert silences([asked(5, 0.5, 3, api)]) == []


MAY_WAIT = [{"connection": 1, "number": 4, "max_wait_ms": 2400}]  # up to 2.6 s, or until 3.0 s if it is asked later


@pytest.mark.parametrize(
    ("before", "waiting"),
    [
        ([asked(4, 0.2, 2.9, apis.FETCH)], 2),  # it should have been answered at 2.6 s, and both wait since
        ([asked(4, 0.6, 2.9, apis.FETCH)], 0),
        ([asked(4, 0.2, 0.4, apis.FETCH)], 1),  # answered at once, long before
        ([asked(4, 0.4, 2.9, apis.JOIN_GROUP)], 0),  # as long as it likes
        ([asked(3, 0.2, None, apis.FETCH)], 0),  # for how long nobody knows
        ([asked(4, 0.6, 2.9, apis.FETCH) | {"connection": 2}], 1),  # elsewhere
        ([asked(6, 2.9, 3, apis.FETCH)], 1),  # behind it
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_requests_wait_their_turn(before: list[Row], waiting: int, at_once: bool) -> None:
    requests = sorted([*before, asked(5, 0.5, 3)], key=lambda row: int(row["number"]))
    if at_once:
        made = silences(requests, terms=MAY_WAIT)
        assert [one["waiting"] for one in made] == [waiting] * bool(waiting)
        return
    view = HostsView()
    parts = [
        view.observe({"exchanges": table("exchanges", [one]), "terms": table("terms", MAY_WAIT)}, ENDS)
        for one in requests
    ]
    kinds = [kind for part in parts if part is not None for kind in part["kind"].to_pylist()]
    assert kinds.count("asked") == waiting


def test_writes_that_wait_for_replicas_are_counted_for_themselves() -> None:
    writes = [asked(number, 0.5, 3, apis.PRODUCE) for number in (5, 6)]
    terms = [{"connection": 1, "number": number, "acks": acks} for number, acks in ((5, -1), (6, 1))]
    one = only(writes, terms=terms)
    assert (one["waiting"], one["waiting_replicas"]) == (2, 1)


@pytest.mark.parametrize(
    ("told_at", "ms", "waits"), [(0.2, 100, True), (0.2, 101, False), (2.9, 1, False), (3, 9, True)]
)
def test_a_client_that_was_told_to_hold_back_does_not_wait(told_at: float, ms: float, waits: bool) -> None:
    throttled = asked(4 if told_at < 3 else 6, told_at, told_at, throttle_ms=ms)
    earlier = asked(3, 0.1, 0.1, throttle_ms=1)
    assert bool(silences([earlier, throttled, asked(5, 0.5, 3)])) == waits
    assert len(silences([throttled | {"connection": 2}, asked(5, 0.5, 3)])) == 1


# --- what else -------------------------------------------------------------------------------------------------------


def test_behind_its_last_word_a_silence_has_no_end() -> None:
    talk = [health(1, "broker", [0, 0.1], [0, 0.1]), health(1, "client", [5], [])]
    one = only([asked(5, 0.5, None)], talk)
    assert (times(one), one["duration_ms"]) == ((0.2, None), 4900)


@pytest.mark.parametrize(("back", "until"), [(1.2, 1.2), (1.1, None)])
def test_a_broker_that_speaks_as_a_client_after_a_pause_is_back(back: float, until: float | None) -> None:
    talk = [health(1, "broker", [0, 0.1], [0, 0.1]), health(1, "client", [5], [])]
    to_others = health(9, "client", [back], [back], client=B1, broker="10.0.0.7:9092")
    assert times(only([asked(5, 0.3, None)], [*talk, to_others])) == (0.2, until)


@pytest.mark.parametrize(
    ("goes_on", "new", "until", "on"),
    [
        ((), (), None, None),  # it shuts down, and asks others once more
        ((6.3,), (), 1.3, 9),  # it had stood still
        ((6.2,), (), None, None),
        ((), (4.0,), 4.0, 10),
        ((), (1.3,), 1.3, 10),
    ],
)
def test_a_broker_that_asks_others_on_a_connection_from_before_is_back_if_it_goes_on(
    goes_on: tuple[float, ...], new: tuple[float, ...], until: float | None, on: int | None
) -> None:
    talk = [health(1, "broker", [0, 0.1], [0, 0.1]), health(1, "client", [9], [])]
    given = {"client": B1, "broker": "10.0.0.7:9092"}
    before = health(9, "client", [0, 1.3, *goes_on], [0, 1.3, *goes_on], **given)
    opened = [health(10, "client", [*new], [*new], **given)] if new else []
    one = only([asked(5, 0.3, None)], [*talk, before, *opened])
    assert (times(one), one["back_connection"]) == ((0.2, until), on)


@pytest.mark.parametrize(("before", "by"), [([], "opened"), ([0.2], "kept")])
def test_what_came_back_first_is_told_by_its_data_if_no_beginning_is_there(before: list[float], by: str) -> None:
    talk = [health(1, "broker", [0, 0.1, 0.2], [0, 0.1, 0.2]), health(2, "broker", [*before, 3.0], [*before, 3.0])]
    one = only([asked(5, 0.5, 3)], talk, [connection(1), connection(2)])
    assert (one["back_connection"], one["back_by"]) == (2, by)


@pytest.mark.parametrize(("opened", "by"), [(None, "kept"), (0.2, "kept"), (0.3, "opened"), (2.9, "opened")])
def test_what_came_back_first(opened: float | None, by: str) -> None:
    talk = [health(1, "broker", [0, 0.1, 0.2], [0, 0.1, 0.2]), health(2, "broker", [3.0], [3.0])]
    later = health(3, "broker", [3.05, 3.3], [3.05, 3.3])
    lives = [connection(1), connection(2, opened=opened), connection(3, opened=2)]
    one = only([asked(5, 0.5, 3)], [*talk, later], lives)
    assert (one["back_connection"], one["back_by"]) == (2, by)


def test_one_that_never_came_back_or_came_as_a_client_says_so() -> None:
    last = silences([asked(5, 3.4, None)], [*TALK, health(1, "client", [4], [4])])[-1]
    assert (last["until"], last["back_connection"], last["back_by"]) == (None, None, None)
    elsewhere = health(7, "client", [4.5], [4.5], client=B1, broker="10.0.0.7:9092")
    last = silences([asked(5, 3.4, None)], [*TALK, health(1, "client", [6], [6]), elsewhere])[-1]
    assert (times(last), last["back_connection"], last["back_by"]) == ((3.2, 4.5), 7, "as_client")


def test_what_its_host_did_and_was_sent_meanwhile() -> None:
    talk = [*TALK, health(2, "broker", [1, 2], []), health(1, "client", [1.1, 1.2], [1.3, 1.4, 9])]
    one = only([asked(5, 0.5, 3)], [row | {"timeout_retransmits": 2} for row in talk])
    assert (one["asked"], one["acknowledged"], one["timeouts"]) == (2, 2, 4)


def test_what_its_host_acknowledges_to_brokers_counts_as_well() -> None:
    """A fetch that it had asked another broker for is acknowledged by its host; data would be the broker's."""
    to_another = health(7, "client", [1, 1.1, 1.2], [1.2], client=B1, broker="10.0.0.7:9092")
    assert only([asked(5, 0.5, 3)], [*TALK, to_another])["acknowledged"] == 2


@pytest.mark.parametrize(("packet", "in_vain"), [(0.2, 1), (0.3, 0)])
def test_what_may_have_been_acknowledged_in_the_first_tenth_was_not_asked_in_vain(packet: float, in_vain: int) -> None:
    talk = [*TALK, health(2, "broker", [packet, 3.3], []), health(1, "client", [0.3], [0.3])]
    one = only([asked(5, 0.5, 3)], talk)
    assert (one["asked"], one["acknowledged"]) == (in_vain, 0)


@pytest.mark.parametrize(("bare", "acknowledged"), [(3.3, 0), (None, None)])
def test_what_it_acknowledged_is_unknown_where_nothing_does_that_alone(
    bare: float | None, acknowledged: int | None
) -> None:
    talk = [*TALK, health(2, "broker", [bare or 3.1], [] if bare else [3.1]), health(1, "client", [0.3], [0.3])]
    assert only([asked(5, 0.5, 3)], talk)["acknowledged"] == acknowledged


def test_connects_that_fail_make_a_silence() -> None:
    rows = [
        connection(number, opened=time, connect=how, protocol=None)
        for number, time, how in ((7, 0.5, "refused"), (8, 1, "unanswered"), (9, 2, "refused"), (10, 4, "refused"))
    ]
    one = only(connections=[connection(1), *rows])
    assert (one["refused"], one["unanswered"], one["first_packet"], one["waiting"]) == (2, 1, 7, 0)


def test_a_port_at_which_it_never_spoke_may_have_no_listener() -> None:
    """Its host refuses, which is a packet of it; that is no silence, if nothing else is wrong."""
    refused = connection(7, opened=0.5, connect="refused", protocol=None, broker_port=9192)
    talk = [*TALK, health(7, "broker", [0.5], [], broker=f"{B1}:9192")]
    assert silences(talk=talk, connections=[connection(1), refused]) == []
    assert only(talk=talk, connections=[connection(1), refused | {"broker_port": 9092}])["refused"] == 1


def test_who_never_answers_at_a_port_owes_nothing_there() -> None:
    """What listens there may be no broker: a web server, whose address is advertised by mistake."""
    other = {number: Ends("10.0.1.1", 40000 + number, B1, 8080) for number in (1, 2)} | {3: ENDS[3]}
    tables = {
        "tcp_health": table("tcp_health", [*TALK, health(1, "broker", [3.1], [3.1], broker=f"{B1}:8080")]),
        "connections": table("connections", [connection(1, broker_port=8080), connection(3)]),
        "exchanges": table("exchanges", [ANSWERED, asked(5, 0.5, None), asked(5, 0.5, None) | {"connection": 2}]),
    }
    view = HostsView()
    for ends, told in ((ENDS, 2), (other, None)):
        rows = view.observe(tables, ends)
        assert rows is not None
        found = view.result(rows, Known()).get("silences", pa.table({"waiting": []}))["waiting"].to_pylist()
        assert next(iter(found), None) == told


def test_connections_that_end_open_or_stay() -> None:
    rows = [
        connection(1),
        connection(2, closed=1, how_closed="rst", reset_by="broker"),
        connection(3, "10.0.1.2", closed=0.1, how_closed="fin"),  # it ended as the broker spoke its last
        connection(4, closed=0.09, how_closed="fin"),
        connection(5, opened=2.5, connect="established"),
        connection(6, opened=1, closed=2, how_closed="fin", protocol="tls"),
    ]
    one = only(connections=rows)
    assert [one[name] for name in ("ended", "ended_clients", "reset", "opened", "kept")] == [2, 2, 1, 1, 1]


def test_a_host_of_which_no_kafka_is_known_is_no_broker() -> None:
    assert silences([asked(5, 0.5, 3)], connections=[connection(1, protocol="tls")]) == []
    assert silences([asked(5, 0.5, 3)], [health(1, "broker", [1], [])]) == []


def test_packets_without_a_time_are_passed_over() -> None:
    one = only([asked(5, 0.5, 3)], [*TALK, TALK[0] | {"at": None}])
    assert times(one) == (0.3, 3.0)


# --- several brokers at one address -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ({f"{B1}:9092": "1", f"{B1}:9192": "2"}, [(f"{B1}:9092", 0.3, 3.0)]),
        ({"k.example:9092": "1", "k.example:9192": "2"}, [(f"{B1}:9092", 0.3, 3.0)]),
        ({f"{B1}:9092": "1", f"{B1}:9192": "1"}, []),  # two listeners of one: it spoke on the other one
        ({f"{B1}:9092": "1"}, []),
        ({"k1.example:9092": "1", "k2.example:9092": "2", "k.example:9192": "3"}, []),  # which one, nobody tells
        ({f"{B1}:9092": "1", "10.0.0.9:9192": "2"}, []),
    ],
)
def test_each_broker_of_a_host_is_silent_for_itself(nodes: dict[str, str], told: list[Any]) -> None:
    other = health(2, "broker", [n / 10 for n in range(40)], [n / 10 for n in range(40)], broker=f"{B1}:9192")
    as_client = health(3, "client", [1.5], [1.5], client=B1, broker="10.0.0.9:9092")
    tables = {
        "tcp_health": table("tcp_health", [*TALK, other, as_client]),
        "connections": table("connections", [connection(1), connection(2, broker_port=9192)]),
        "exchanges": table("exchanges", [asked(1, 0.5, 3)]),
    }
    rows = HostsView().observe(tables, ENDS)
    assert rows is not None
    made = HostsView().result(rows, Known(clusters=Clusters(nodes=nodes)))
    found = made["silences"].to_pylist() if made else []
    assert [(row["host"], *times(row)) for row in found] == told


def test_rows_are_by_the_brokers_address() -> None:
    there = of_health(table("tcp_health", [health(1, "client", [0], [0], broker="[fd77::1]:9092")]))
    told = [(row["host"], row["port"], row["kind"]) for row in there.to_pylist()]
    assert told == [("fd77::1", 9092, "received"), ("10.0.1.1", None, "sent_as_client")]
    assert of_connections(table("connections", [connection(1, broker="fd77::1")]))["host"].to_pylist() == ["fd77::1"]
    rows = of_exchanges(table("exchanges", [asked(5, 0, 9)]), None, ENDS, Answered(), Begun())
    assert (rows["host"].to_pylist(), rows["port"].to_pylist()) == ([B1, B1], [9092, 9092])
    assert HostsView().observe({}, ENDS) is None
