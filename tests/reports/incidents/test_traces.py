"""What clients left around some time, read for many at once."""

from __future__ import annotations

import pytest

from kafkascope.reports.incidents import table_rows as looks
from kafkascope.reports.incidents.members import traces as module
from kafkascope.reports.incidents.members.traces import Traces, Whereabouts, traces
from kafkascope.reports.incidents.signs import Signs
from tests.reports.incidents.tables_of import B1, H1, H2, at, connection, health, signs

# Three connections of two clients at two hosts; another one of the first host; one that is over before.
CONNECTIONS = [
    connection(1, opened=1),
    connection(2, client=H2, client_id="c2", opened=1, closed=50),
    connection(3, client_id="other", opened=1),
    connection(4, opened=1, closed=5),
]
SENT = [health(n, "client", [s], [s], client=host) for n, host in ((1, H1), (2, H2), (3, H1)) for s in (12, 25, 38)]
HEARD = [health(n, "broker", [s], [s], client=host) for n, host in ((1, H1), (2, H2), (3, H1)) for s in (13, 26)]
WHOSE = [
    Whereabouts(host, frozenset({name}), at(begin), at(begin + 10))
    for host, name in ((H2, "c2"), (H1, "c1"), (H1, "c2"), ("nowhere", "c1"))
    for begin in (30, 10, 20)
]


def tables() -> Signs:
    """The tables anew: what was left out is noted in them."""
    return signs(connections=CONNECTIONS, tcp_health=[*SENT, *HEARD])


def told(left: Traces, one: Whereabouts) -> tuple[object, ...]:
    """Numbers of connections, and when packets were sent on which."""
    sent, received = (
        [(life.row["connection"], life.row["at"]) for life in lives]
        for lives in (left.sent(one.since, one.until), left.received(one.since, one.until))
    )
    return sorted(left.connections), sent, received


def test_a_host_has_all_that_it_sent_and_a_client_what_was_sent_to_it() -> None:
    one = Whereabouts(H1, frozenset({"c1"}), at(25), at(29))
    (left,) = traces(tables(), [one])
    assert told(left, one) == ([1], [(1, at(20)), (3, at(20))], [(1, at(20))])
    assert {life.row["host"] for life in left.received(at(25), at(29))} == {B1}


def test_spans_that_overlap_a_time_count() -> None:
    one = Whereabouts(H1, frozenset({"c1"}), at(20) - 1, at(30))
    (left,) = traces(tables(), [one])
    assert [life.row["at"] for life in left.sent(*one[2:])] == [at(s) for s in (10, 10, 20, 20, 30, 30)]
    assert [life.row["at"] for life in left.sent(at(20), at(30) - 1)] == [at(20), at(20)]


@pytest.mark.parametrize("at_once", [1, 2, 100])
@pytest.mark.parametrize("near", [0, 10**12])
@pytest.mark.parametrize("rows", [6, 9, 1000])
def test_many_at_once_have_what_each_has_alone(
    monkeypatch: pytest.MonkeyPatch, at_once: int, near: int, rows: int
) -> None:
    """However many are read together, and if there are more rows than are held at once."""
    alone = [told(traces(tables(), [one])[0], one) for one in WHOSE]
    monkeypatch.setattr(module, "_AT_ONCE", at_once)
    monkeypatch.setattr(module, "_NEAR_NS", near)
    monkeypatch.setattr(looks, "MOST_ROWS", rows)
    known = tables()
    assert [told(left, one) for left, one in zip(traces(known, WHOSE), WHOSE, strict=True)] == alone
    assert not known.left_out
