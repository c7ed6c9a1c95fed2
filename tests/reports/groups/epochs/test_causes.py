"""Why an epoch was raised that no request explains: on either side of each rule, in logs written by hand."""

from __future__ import annotations

from kafkascope.reports.groups.migration import by_protocol
from tests.reports.groups.epochs.epoch_logs import mixed
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
