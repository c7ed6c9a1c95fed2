"""Why an epoch was raised that no request explains: on either side of each rule, in logs written by hand."""

from __future__ import annotations

from kafkascope.reports.groups.migration import by_protocol
from tests.reports.groups.epochs.epoch_logs import Shares, epochs, mixed, rejected, said
from tests.reports.groups.group_logs import of


def test_sessions_that_ran_out_one_after_the_other_did_so_in_the_order_in_which_they_were_due() -> None:
    talk = mixed()
    talk.heartbeat(7500, "b~1", 2)  # its session of 10 s ends at 17.5 s; that of c, 45 s long, at 52.0 s
    for at in range(8000, 60_000, 1000):
        talk.heartbeat(at, "a~1", 2)
    talk.beat(7001, "c", 2)
    talk.beat(60_000, "d", 0, 5, given=[])
    found = of(by_protocol(talk.log()))
    assert [(found[number].trigger, found[number].trigger_client_id) for number in (3, 4)] == [
        ("session_timeout", "b"),
        ("session_timeout", "c"),
    ]


def test_partitions_of_a_share_group_that_became_ready_came_into_being_before() -> None:
    talk = Shares()
    talk.beat(0, "a", 0, 1, given=[])
    talk.beat(2000, "a", 1, 2)
    talk.beat(3000, "a", 2, 3, given=[0, 1])
    found = of(epochs(talk.log()))
    text = "partitions were made ready in the epoch after this one: they came into being before"
    assert said(found[2]) == [("topic_partitions_changed", 0.4, 2000, text)]
    assert found[2].evidence[0].packet == 5
    assert rejected(found[3]) == []
