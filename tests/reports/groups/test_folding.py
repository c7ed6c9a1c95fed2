"""Messages that say the same, folded into the first of them: nothing that is told may depend on it."""

from __future__ import annotations

import json
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest

from kafkascope.reports.columns.views import Known, by_key
from kafkascope.reports.findings.group_rules import group_findings
from kafkascope.reports.groups.history import GroupLog
from kafkascope.reports.groups.messages import group_messages, group_rows, in_order, messages_of
from kafkascope.reports.groups.one_group import analyze_group
from kafkascope.reports.views.groups import GroupsView, histories
from kafkascope.reports.vocabulary.tables import EXCHANGES
from tests.reports.captured_tables import observed

CAPTURES = [
    "cooperative-sticky",
    "migration",
    "rdk-slow",
    "eager-three-joins",
    "killed-consumer",
    "kip848",
    "troubles",
    "share-group",
]


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("lost", [0, 0.1, 0.3])
def test_what_becomes_of_groups_is_the_same_folded_or_not(capture: str, lost: float) -> None:
    rows = observed(GroupsView(), capture)
    rows = rows.filter(pa.array(np.random.default_rng(7).random(rows.num_rows) >= lost))
    known = Known()
    found = {log.group_id: (log, history) for log, history in histories(rows, known)}
    seen = folds = 0
    for group, of_group in by_key(rows, GroupsView.key):
        plain = GroupLog(group, *messages_of(of_group), known.topics)
        log, history = found.pop(group)
        each = sorted(chain.from_iterable(message.each() for message in log.messages), key=in_order)
        assert each == plain.messages
        assert log.ended == plain.ended
        expected = analyze_group(plain)
        assert history == expected
        assert group_findings(log, history) == group_findings(plain, expected)
        seen, folds = seen + len(each), folds + len(each) - len(log.messages)
    assert not found
    assert 0 < folds < seen


def test_a_quiet_group_has_as_many_values_however_long_it_is_quiet() -> None:
    def values(beats: int) -> list[list[int]]:
        request = json.dumps({"groupId": "g", "generationId": 3, "memberId": "m"})
        same = {"connection": 1, "api": "Heartbeat", "api_version": 4, "group_id": "g", "outcome": "answered"}
        same |= {"error": "NONE", "request": request, "response": "{}"}
        rows = [
            same | {"number": n, "requested": 10 * n, "answered": 10 * n + 5, "request_packet": 2 * n}
            | {"response_packet": 2 * n + 1}
            for n in range(1, beats + 1)
        ]  # fmt: skip
        messages = group_messages(pa.Table.from_pylist(rows, schema=EXCHANGES), {})
        assert messages is not None
        [(log, _)] = histories(group_rows("message", messages), Known())
        return [message.times.tolist() for message in log.messages]

    assert values(10) == [[10], list(range(20, 110, 10))]  # the first one is news
    assert values(1_000) == [[10], list(range(20, 10_010, 10))]
