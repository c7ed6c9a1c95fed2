"""All rules together: which kinds they tell, what they are given, and what a fault in one costs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from pyarrow import dataset as ds

from kafkascope.reports.columns.arrow import numbered
from kafkascope.reports.columns.faults import RAISE_FAULTS
from kafkascope.reports.findings.alike import together
from kafkascope.reports.incidents import rules, table_rows
from kafkascope.reports.incidents.incident import Effect, Incident, incident_of, incident_table
from kafkascope.reports.incidents.rules import NEEDED, RULES, conclusions
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.show.explanation import explain_incident
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS, INCIDENTS
from tests.reports.incidents.tables_of import (
    B2,
    BROKERS,
    H1,
    at,
    connection,
    dataset,
    error,
    exchange,
    finding,
    group_event,
    health,
    member,
    rebalance,
    row,
    silence,
)

REFUSED = finding("authentication_failed", f"client c1 ({H1})", "t", 10, 20)
DOWN = silence(B2, 10, 40, refused=5, ended=3)


def test_every_kind_has_a_rule() -> None:
    assert {kind for rule in RULES for kind in rule.kinds} == set(IncidentKind)
    assert ALL_SCHEMAS.keys() >= NEEDED


def test_without_tables_and_with_empty_ones_nothing_is_wrong() -> None:
    empty = {name: ds.dataset(schema.empty_table()) for name, schema in ALL_SCHEMAS.items()}
    for tables in ({}, empty):
        assert conclusions(tables, {})["incidents"].equals(INCIDENTS.empty_table())
        assert conclusions(tables, {"first": None, "last": None}).keys() == {"incidents"}


class _Watched(dict[str, ds.Dataset]):
    """Tables that remember which were asked for."""

    asked: set[str]

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.add(name)
        return super().get(name, default)


_SENT = {"packets": 100, "retransmits": 30, "rtt_samples": 9}
TABLES = {
    "tcp_health": [
        health(1, "client", [0], [], rtt_mean_ms=1, rtt_max_ms=1, **_SENT),
        health(1, "client", [10], [], rtt_mean_ms=100, rtt_max_ms=100, **_SENT),
    ],
    "issues": [row("issues", kind="plaintext_to_tls", connection=1, at=at(10), packet=5, detail="d")],
    "exchanges": [exchange(1, "CreateTopics", 10, 11), exchange(2, "Produce", 12, 30, request='{"acks": -1}')],
    "findings": [REFUSED, finding("connection_churn", f"client c2 ({H1})", "t", 10, 20)],
    "silences": [DOWN],
    "cluster_events": BROKERS,
    "connections": [connection(1)],
    "rebalances": [rebalance("session_timeout", 4, 30, trigger_client_id="c1", members=[member("c1")])],
    "group_events": [group_event("silence_begun", 20, client_id="c1", client=H1)],
    "error_histogram": [
        error(name, api, 10, 20, 30, topic="orders")
        for name, api in (
            ("OFFSET_OUT_OF_RANGE", "Fetch"),
            ("UNKNOWN_TOPIC_OR_PARTITION", "Metadata"),
            ("INVALID_TXN_STATE", "EndTxn"),
            ("NOT_LEADER_OR_FOLLOWER", "Fetch"),
            ("INVALID_RECORD_STATE", "ShareFetch"),
        )
    ],
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.find.__qualname__)
def test_tables_that_a_rule_looks_at_are_those_that_are_needed(rule: rules.Rule) -> None:
    tables = _Watched({name: dataset(name, rows) for name, rows in TABLES.items()})
    tables.asked = set()
    list(rule.find(Signs(tables)))
    assert tables.asked <= NEEDED


def _broken(rule: rules.Rule) -> rules.Rule:
    def find(signs: Signs) -> Iterator[Incident]:
        yield from rule.find(signs)
        raise RecursionError

    return dataclasses.replace(rule, find=find)


def test_a_fault_costs_one_rule_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {"findings": dataset("findings", [REFUSED]), "silences": dataset("silences", [DOWN])}
    monkeypatch.setattr(rules, "RULES", (_broken(RULES[0]), *RULES[1:]))
    with pytest.raises(RecursionError):
        conclusions(tables, {})
    monkeypatch.delenv(RAISE_FAULTS)
    made = conclusions(tables, {})
    assert made["incidents"]["kind"].to_pylist() == ["authentication_failed"]
    (issue,) = made["issues"].to_pylist()
    assert issue["kind"] == "internal_error"
    assert issue["detail"].startswith(
        "incidents address_taken, broker_down, broker_restarted, broker_stalled: RecursionError"
    )


def test_what_no_table_can_hold_costs_one_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(signs: Signs) -> Iterator[Incident]:
        for incident in RULES[0].find(signs):
            yield dataclasses.replace(incident, started=2**70)

    tables = {"findings": dataset("findings", [REFUSED]), "silences": dataset("silences", [DOWN])}
    monkeypatch.setattr(rules, "RULES", (dataclasses.replace(RULES[0], find=find), *RULES[1:]))
    monkeypatch.delenv(RAISE_FAULTS)
    made = conclusions(tables, {})
    assert made["incidents"]["kind"].to_pylist() == ["authentication_failed"]
    assert len(made["issues"]) == 1


def test_counts_are_as_large_as_a_table_can_hold() -> None:
    (one,) = RULES[0].find(Signs({"silences": dataset("silences", [DOWN])}))
    huge = dataclasses.replace(one, effects=(Effect("records", "very many", 2**70), Effect("time", "long")))
    (row,) = incident_table([huge]).to_pylist()
    assert [effect["count"] for effect in row["effects"]] == [2**63 - 1, None]


def test_what_is_too_much_is_left_out_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [finding("authentication_failed", f"client c{n} ({H1})", "t", 10, 20) for n in range(3)]
    tables = {"findings": dataset("findings", rows)}
    monkeypatch.setattr(table_rows, "MOST_ROWS", 3)
    assert conclusions(tables, {}).keys() == {"incidents"}
    monkeypatch.setattr(table_rows, "MOST_ROWS", 2)
    made = conclusions(tables, {})
    assert len(made["incidents"]) == 2
    (issue,) = made["issues"].to_pylist()
    assert (issue["kind"], issue["detail"].startswith("findings: ")) == ("too_many_rows", True)


@pytest.mark.parametrize(("explained", "told"), [(4, 1), (3, 0)])
def test_what_many_clients_have_alike_is_explained_if_all_of_it_is(explained: int, told: int) -> None:
    rows = [
        finding("unanswered", f"client c{n} ({H1})", "t", since, since + 10)
        for n, since in enumerate([10] * explained + [1000] * (4 - explained))
    ]
    tables = {
        "silences": dataset("silences", [DOWN]),
        "findings": dataset("findings", rows),
        "connections": dataset("connections", [connection(n, broker=B2, client_id=f"c{n}") for n in range(4)]),
    }
    (one,) = numbered(conclusions(tables, {})["incidents"]).to_pylist()
    alike = sorted(together(tables["findings"].to_table()).parts)
    assert (len(alike), one["explains"]["findings"]) == (1, alike[:told])


HOSTILE = "\x1b[2J<script>alert(1)</script>|`\u202e (10.0.0.1), \n"


def test_names_may_hold_anything() -> None:
    lost = rebalance("session_timeout", 4, 30, HOSTILE, trigger_client_id=HOSTILE, trigger_member="m")
    tables = {
        "findings": [
            finding(kind, f"client {HOSTILE} ({H1})", HOSTILE, 10, 20)
            for kind in ("throttled", "authentication_failed")
        ]
        + [finding("join_refused", f"group {HOSTILE}", HOSTILE, 10, 20)],
        "silences": [silence(B2, 10, 40, waiting=1, waiting_clients=[HOSTILE], acknowledged=1)],
        "rebalances": [lost, rebalance("poll_timeout", 5, 50, HOSTILE, trigger_client_id=HOSTILE)],
        "error_histogram": [error("MESSAGE_TOO_LARGE", "Produce", 10, 20, topic=HOSTILE, client_id=HOSTILE)],
        "connections": [connection(1, client_id=HOSTILE)],
    }
    made = conclusions({name: dataset(name, rows) for name, rows in tables.items()}, {})
    rows = numbered(made["incidents"]).to_pylist()
    assert len(rows) == 7
    for one in rows:
        text = explain_incident(incident_of(one))
        assert not set("\x1b\u202e") & set(text)
