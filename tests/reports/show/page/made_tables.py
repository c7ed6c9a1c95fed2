"""Tables as an analysis makes them, of groups that never were: small, wide, and as large as a page must bear."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import dataset as ds

from kafkascope.reports.findings.finding import Finding
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed, incident_table
from kafkascope.reports.measures.latency.histogram import buckets_of, percentiles
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.tables import (
    CLUSTER_EVENTS,
    CONNECTIONS,
    ERROR_HISTOGRAM,
    FINDINGS,
    GROUP_EVENTS,
    ISSUES,
    LAG,
    LATENCY,
    REBALANCES,
    SILENCES,
    THROUGHPUT,
)
from kafkascope.reports.vocabulary.triggers import TRIGGERS, Certainty

BEGIN = 1_795_244_520_000_000_000  # 2026-11-21T07:02:00Z
SECOND = 1_000_000_000
HOSTILE = "</script><img src=x onerror=alert(1)>\u2028&\u202e"
"""A client id that tries to be markup, to end the script, and to turn the direction of writing."""

SUMMARY: dict[str, Any] = {
    "captures": ["shop/capture.pcap"],
    "first": "2026-11-21T07:02:00.000000000Z",
    "last": "2026-11-21T07:12:00.000000000Z",
    "packets": 123_456,
    "connections": {"kafka": 41, "tls": 3},
    "tls_ports": {"9094": 3},
    "tls_talks": [{"port": 9094, "connections": 1, "requests": 70, "requests_a_second": 40.0, "answer_ms": 3.0}],
    "exchanges": {"answered": 40_210, "one_way": 12, "unanswered": 3},
    "decoded": {"full": 40_200, "header": 25},
    "apis": [],
    "errors": {},
    "clients": {},
    "topics": [],
    "issues": {},
}


def tables_of(**tables: pa.Table) -> dict[str, ds.Dataset]:
    """Tables as answers take them."""
    return {name: ds.dataset(table) for name, table in tables.items()}


@cache
def everything(seed: int = 7) -> dict[str, ds.Dataset]:
    """Three groups and all other tables."""
    rebalances, events = group_tables(groups=3, rebalances=12, members=4, seed=seed)
    return tables_of(
        rebalances=rebalances,
        group_events=events,
        latency=latency_table(),
        error_histogram=error_table(),
        lag=lag_table(),
        throughput=throughput_table(),
        findings=finding_table(),
        issues=issue_table(),
    )


@cache
def with_incidents() -> dict[str, ds.Dataset]:
    """Everything, and a broker that goes away, with what it explains, after it a planned restart."""
    return everything() | tables_of(
        findings=finding_table(4),
        incidents=incident_table([broker_down(), restart()]),
        connections=pa.Table.from_pylist(connections(), schema=CONNECTIONS),
        silences=pa.Table.from_pylist([silence()], schema=SILENCES),
        cluster_events=pa.Table.from_pylist(cluster_events(), schema=CLUSTER_EVENTS),
    )


def broker_down() -> Incident:
    """Broker 2 is gone from the 60th to the 100th second; group orders-app is in trouble by it."""
    return Incident(
        IncidentKind.BROKER_DOWN,
        Severity.CRITICAL,
        Certainty.CERTAIN,
        (Subject(Role.BROKER, "2"), Subject(Role.HOST, "10.77.0.2"), Subject(Role.GROUP, "orders-app")),
        BEGIN + 60 * SECOND,
        BEGIN + 100 * SECOND,
        f"broker 2 (10.77.0.2) went away {HOSTILE}; 2 leaders moved",
        (
            Weighed("the last data of it", 4000, BEGIN + 60 * SECOND, 0.9),
            Weighed("12 connects to it refused", 4001, BEGIN + 61 * SECOND, 0.8),
            Weighed("a shutdown on request: nothing announced it", None, None, 0.3, rejected=True),
        ),
        "Look at the broker's log for that moment.",
        40_000.0,
        (Effect("leaders", "2 leaders moved", 2),),
        findings=frozenset({finding_id(finding_table(1).to_pylist()[0])}),
        rebalances=frozenset({("orders-app", 3), ("orders-app", 8)}),
    )


def restart() -> Incident:
    """Planned work."""
    return Incident(
        IncidentKind.BROKER_RESTARTED,
        Severity.INFO,
        Certainty.LIKELY,
        (Subject(Role.BROKER, "1"), Subject(Role.HOST, "10.77.0.1")),
        BEGIN + 200 * SECOND,
        None,
        "broker 1 (10.77.0.1) was shut down in an orderly way",
        (),
        "Nothing, if this was planned.",
        0.0,
    )


def finding_id(row: dict[str, Any]) -> str:
    """The id of a row of findings."""
    names = [one.name for one in dataclasses.fields(Finding)]
    return Finding(**{name: row[name] for name in names}).id


def connections() -> list[dict[str, Any]]:
    """Of orders-0 with broker 2: one that ends by RST, connects that are refused, one that is open all the time."""

    def row(number: int, opened: int | None, closed: int | None, **more: Any) -> dict[str, Any]:
        times = {"opened": opened and BEGIN + opened * SECOND, "closed": closed and BEGIN + closed * SECOND}
        ends = {"client": "10.77.1.11", "client_port": 40_000, "broker": "10.77.0.2", "broker_port": 9092}
        return {"connection": number, **ends, **times, "connect": "established", "how_closed": "fin", **more}

    return [
        row(1, None, 60, client_id="orders-0", how_closed="rst", reset_by="broker"),
        *(row(4001 + i, 61 + i, 61 + i, connect="refused") for i in range(12)),
        row(5000, None, None, client="10.77.1.12", client_id="orders-1", broker="10.77.0.9"),
        row(5001, None, None, client="10.77.1.13", client_id="orders-2"),
    ]


def silence() -> dict[str, Any]:
    """Of broker 2."""
    counts = {"waiting": 3, "waiting_connections": 1, "ended": 1, "reset": 1, "refused": 12, "unanswered": 0}
    times = {"since": BEGIN + 60 * SECOND, "until": BEGIN + 100 * SECOND, "duration_ms": 40_000.0}
    return {"host": "10.77.0.2", **times, **counts, "first_packet": 4001}


def cluster_events() -> list[dict[str, Any]]:
    """Broker 2 is told of, loses its leaders, and its group's coordinator moves."""
    told = {"host": "10.77.0.3:9092", "told_by": "10.77.0.1:9092"}
    return [
        {"at": BEGIN, "event": "broker_listed", "node_id": 2, "packet": 2, **told},
        {"at": BEGIN + 65 * SECOND, "event": "leader_changed", "topic": "orders", "count": 2, "before": "2"}
        | {"after": "3", "node_id": 3, "packet": 4100, **told},
        {"at": BEGIN + 80 * SECOND, "event": "coordinator_moved", "group_id": "group-1", "before": "2", "after": "3"}
        | {"node_id": 3, "packet": 4200, **told},
    ]


def group_tables(groups: int, rebalances: int, members: int, seed: int = 7) -> tuple[pa.Table, pa.Table]:
    """Rebalances and events: so many of each group, each of so many members with 3 partitions each."""
    chance = random.Random(seed)
    rows: list[dict[str, Any]] = []
    happened: list[dict[str, Any]] = []
    for g in range(groups):
        group_id = f"group-{g}" if g else "orders-app"
        at = BEGIN + chance.randrange(20) * SECOND
        before: dict[int, list[str]] = {}
        for generation in range(rebalances):
            at += chance.randrange(15, 40) * SECOND
            row = rebalance(chance, group_id, generation, at, members, before)
            before = {k: member["assignment"] for k, member in enumerate(row["members"])}
            rows.append(row)
            happened += [
                {
                    "group_id": group_id,
                    "at": at - SECOND,
                    "event": event,
                    "member_id": row["trigger_member"],
                    "client_id": row["trigger_client_id"],
                    "client": "10.77.1.11",
                    "generation": generation,
                    "packet": 100 * generation + 7,
                    "detail": "silent for 10,012 ms",
                }
                for event in ("silence_begun", "joined")
            ]
    return pa.Table.from_pylist(rows, schema=REBALANCES), pa.Table.from_pylist(happened, schema=GROUP_EVENTS)


def rebalance(
    chance: random.Random, group_id: str, generation: int, at: int, members: int, before: dict[int, list[str]]
) -> dict[str, Any]:
    """One rebalance; ever other one is cooperative and leaves most partitions where they were."""
    trigger = "member_joined" if not generation else chance.choice(list(TRIGGERS))
    took = chance.choice([30, 120, 800, 3100, 12_000])
    partitions = [f"orders-{p}" for p in range(3 * members)]
    if generation % 2 and before:
        owned = before
    else:
        chance.shuffle(partitions)
        owned = {k: sorted(partitions[3 * k : 3 * k + 3]) for k in range(members)}
    who = chance.randrange(members)
    names = [f"orders-{k}" if group_id != "group-1" else HOSTILE for k in range(members)]
    made = [
        {
            "member_id": f"{names[k]}-3f2a{k:04}-7c11-4b7e-9a3b-0d6f{k:08}",
            "client_id": names[k],
            "host": f"10.77.1.{11 + k}",
            "software": "apache-kafka-java",
            "software_version": "3.9.1",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 300_000,
            "assignors": ["range", "cooperative-sticky"],
            "subscription": ["orders"],
            "joined": at + k * 3_000_000,
            "synced": at + took * 1_000_000 - k * 1_000_000,
            "join_ms": took * 0.6,
            "sync_ms": took * 0.1,
            "assignment_before": before.get(k),
            "assignment": owned[k],
        }
        for k in range(members)
    ]
    return {
        "group_id": group_id,
        "protocol": "classic",
        "from_generation": generation,
        "to_generation": generation + 1,
        "started": at,
        "joined": at + took * 600_000,
        "stable": at + took * 1_000_000,
        "duration_ms": float(took),
        "trigger": trigger,
        "trigger_member": made[who]["member_id"],
        "trigger_client_id": names[who],
        "certainty": chance.choice(["certain", "likely", "guessed"]),
        "evidence": [
            evidence(
                "LeaveGroup with the reason “consumer poll timeout has expired.”",
                100 * generation + 11,
                at,
                0.9,
                trigger,
                False,
            ),
            evidence("the member's connection ended with RST", 100 * generation + 12, at, 0.2, "session_timeout", True),
        ],
        "contributing": [
            {"trigger": "member_joined", "client_id": names[0], "at": at, "packet": 100 * generation + 40}
        ],
        "leader": made[0]["member_id"],
        "assignor": "range",
        "members": made,
        "moved": ["orders-1"],
        "unowned": [{"partition": p, "since": at, "ms": float(took)} for p in owned[who]],
        "unowned_ms": float(took),
        "recovered": at + took * 1_200_000,
        "cost_ms": took * 1.2,
        "last_client_id": names[-1],
        "last_by_ms": took * 0.3,
        "reread_records": 12,
        "inferred": generation == 5,
    }


def evidence(text: str, packet: int, at: int, weight: float, trigger: str, rejected: bool) -> dict[str, Any]:
    return {"text": text, "packet": packet, "at": at, "weight": weight, "trigger": trigger, "rejected": rejected}


def latency_table(spans: int = 30) -> pa.Table:
    random_numbers = np.random.default_rng(11)
    typical = {"Fetch": 480.0, "Produce": 4.0, "Heartbeat": 0.8, "JoinGroup": 2900.0, "Metadata": 1.2}
    rows = []
    for span in range(spans):
        for api, centre in typical.items():
            shares = {"total": 1.0, "slow": 0.05, "transfer": 0.01}
            if api != "Metadata":
                shares |= {"network": 0.002, "broker": 0.047, "unclear": 0.001}
            if api in ("Fetch", "JoinGroup"):
                shares |= {"waiting": 0.94}
            if api == "Fetch":
                shares |= {"application": 2.0, "throttled": 0.01}
            for topic in (None, "orders") if api in ("Fetch", "Produce") else (None,):
                for part, share in shares.items():
                    count = int(random_numbers.integers(5, 200))
                    worse = 20.0 if 12 <= span <= 15 else 1.0
                    rows.append(
                        latency_row(
                            api, topic, part, span, random_numbers.lognormal(0, 0.7, count) * centre * share * worse
                        )
                    )
    return pa.Table.from_pylist(rows, schema=LATENCY)


def latency_row(api: str, topic: str | None, part: str, span: int, values: Any) -> dict[str, Any]:
    bucket, counts = np.unique(buckets_of((values * 1e6).astype(np.int64)), return_counts=True)
    fractions = (0.5, 0.9, 0.99, 0.999)
    highest = np.array([values.max()])
    found = percentiles(np.zeros(len(bucket), np.int64), bucket, counts.astype(np.int64), highest, fractions)
    return {
        "api": api,
        "api_version": 12,
        "broker": "10.77.0.2:9092",
        "client_id": f"orders-{span % 3}",
        "client": "10.77.1.11",
        "topic": topic,
        "from": BEGIN + span * 10 * SECOND,
        "width_ms": 10_000,
        "part": part,
        "count": len(values),
        "sum_ms": float(values.sum()),
        **dict(zip(("p50", "p90", "p99", "p999"), (float(p) for p in found[:, 0]), strict=True)),
        "max": float(values.max()),
        "bucket": bucket.tolist(),
        "counts": counts.tolist(),
    }


def error_table() -> pa.Table:
    def row(error: str, code: int, api: str, span: int, count: int, ordinary: bool) -> dict[str, Any]:
        return {
            "api": api,
            "error": error,
            "code": code,
            "topic": "orders" if api == "Fetch" else None,
            "partition": 2 if api == "Fetch" else None,
            "group_id": "orders-app" if api != "Fetch" else None,
            "broker": "10.77.0.2:9092",
            "client_id": HOSTILE if span % 2 else "orders-1",
            "at": BEGIN + span * 10 * SECOND,
            "width_ms": 10_000,
            "count": count,
            "first": BEGIN + span * 10 * SECOND + 5,
            "last": BEGIN + span * 10 * SECOND + SECOND,
            "first_packet": 700 + span,
            "first_connection": 1,
            "first_number": 5,
            "ordinary": ordinary,
            "reason": "a member learns of a rebalance so" if ordinary else None,
            "retriable": not ordinary,
            "meaning": f"what {error} means",
            "advice": None if ordinary else f"what to do about {error}",
            "rest": False,
        }

    rows = [row("NOT_LEADER_OR_FOLLOWER", 6, "Fetch", span, 3 + span, False) for span in range(4, 9)]
    rows += [row("COORDINATOR_LOAD_IN_PROGRESS", 14, "OffsetCommit", 20, 2, False)]
    rows += [row("REBALANCE_IN_PROGRESS", 27, "Heartbeat", span, 1, True) for span in range(0, 30, 3)]
    return pa.Table.from_pylist(rows, schema=ERROR_HISTOGRAM)


def lag_table() -> pa.Table:
    rows = []
    for span in range(30):
        for group, factor in (("orders-app", 40), ("group-1", 3), (None, 1)):
            for partition in range(4):
                end = 1000 + span * 100
                committed = end - factor * max(0, 15 - abs(span - 15)) - partition
                rows.append(
                    {
                        "group_id": group,
                        "topic": "orders",
                        "partition": partition,
                        "at": BEGIN + span * 10 * SECOND,
                        "width_ms": 10_000,
                        "committed_offset": committed,
                        "end_offset": end,
                        "lag": end - committed,
                        "client_id": "orders-1",
                    }
                )
    return pa.Table.from_pylist(rows, schema=LAG)


def finding_table(count: int = 5) -> pa.Table:
    subjects: Sequence[tuple[str, str, str, str]] = [
        (
            "critical",
            "rebalance_storm",
            "orders-app rebalances again and again: orders-1 does not poll in time",
            "group orders-app",
        ),
        ("warning", "eager_assignor", "All partitions stop at each rebalance", "group group-1"),
        (
            "warning",
            "tiny_batches",
            f"A producer sends batches of one record {HOSTILE}",
            "client orders-1 (10.77.1.11)",
        ),
        ("info", "old_versions", "A client speaks Fetch version 3", "client old (10.77.1.19)"),
    ]
    rows = [
        {
            "severity": severity,
            "kind": kind,
            "title": title,
            "subject": subject,
            "since": BEGIN + i * SECOND,
            "until": BEGIN + 300 * SECOND,
            "weight": 1 - i / 10,
            "evidence": [
                {"text": f"LeaveGroup of {HOSTILE}: poll timeout", "packet": 4711 + i, "at": BEGIN + i * SECOND},
                {"text": "and 12 more like these", "packet": None, "at": None},
            ],
            "advice": "Raise max.poll.interval.ms above 12 s, or poll fewer records at a time (max.poll.records).",
        }
        for i, (severity, kind, title, subject) in enumerate((list(subjects) * count)[:count])
    ]
    return pa.Table.from_pylist(rows, schema=FINDINGS)


def issue_table() -> pa.Table:
    rows = [
        {"connection": 5, "at": BEGIN, "packet": 99, "kind": "tcp_gap", "detail": f"1,448 bytes {HOSTILE}", "count": 3},
        {"connection": None, "at": None, "packet": None, "kind": "kernel_drops", "detail": "17 packets", "count": 17},
    ]
    return pa.Table.from_pylist(rows, schema=ISSUES)


def throughput_table() -> pa.Table:
    def row(topic: str | None, direction: str, span: int, records: int) -> dict[str, Any]:
        sums = {"batches": records // 2, "single_record_batches": 1, "records": records, "bytes": 90 * records}
        sums |= {"bytes_uncompressed": 120 * records}
        return {
            "topic": topic,
            "client_id": "orders-1",
            "client": "10.77.1.11",
            "direction": direction,
            "from": BEGIN + span * 10 * SECOND,
            "width_ms": 10_000,
            "requests": 10,
            "empty": 2,
            **sums,
            "codecs": [{"codec": "lz4", **sums}],
        }

    rows = [
        row(topic, direction, span, 100 + 10 * span)
        for span in range(30)
        for direction in ("produce", "fetch")
        for topic in ("orders", "payments", None)
    ]
    return pa.Table.from_pylist(rows, schema=THROUGHPUT)
