from __future__ import annotations

from kafkascope.sniffer.issues import Issue, IssueLog
from tests.steps import steps


def test_the_first_packet_tells_the_detail_of_all() -> None:
    log = IssueLog([Issue("gap", "b", 1, packet=7), Issue("gap", "a", 1, packet=3), Issue("gap", "c", 1, count=5)])
    assert list(log) == [Issue("gap", "a", 1, packet=3, count=7)]
    assert len(log) == 1


def test_issues_of_a_connection_are_taken_once() -> None:
    of_one = [Issue("gap", "", 1), Issue("snap_length", "", 1)]
    log = IssueLog([*of_one, Issue("gap", "", 2), Issue("gap", "")])
    assert log.of(None) == [Issue("gap", "")]
    assert log.take(1) == of_one
    assert log.take(1) == []
    assert len(log) == 2


def test_taking_the_issues_of_a_connection_looks_at_no_others() -> None:
    def steps_of_taking_all(count: int) -> int:
        log = IssueLog(Issue("gap", "", connection) for connection in range(count))
        return steps(lambda: [log.take(connection) for connection in range(count)])

    assert steps_of_taking_all(400) < 4.2 * steps_of_taking_all(100)
