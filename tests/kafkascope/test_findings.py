"""Every kind of finding on a recording where it must appear, and none where nothing is wrong; incidents likewise."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

import kafkascope
from kafkascope.reports.vocabulary.finding_kinds import FINDING_KINDS, Severity
from tests.kafkascope.conftest import Command
from tests.kafkascope.joined_captures import SECOND, records_of, write
from tests.kafkascope.test_truth import NAMES, truth_of
from tests.paths import PCAPS
from tools.incident_accuracy import scored

# Findings of each recording: kind, and of whom (a part of the subject), reviewed one by one against its story.
EXPECTED: dict[str, set[tuple[str, str]]] = {
    # Groups that do what they should, clients that get what they want.
    "bench_batches": set(),
    "clients_codecs": set(),
    "clients_librdkafka": set(),
    "cooperative-sticky": set(),
    "eager-three-joins": set(),
    "net_ipv6": set(),
    "net_jumbo_gso": set(),
    "net_noise": set(),
    "net_vlan": set(),
    "subscription-change": set(),
    "transactions": set(),
    "all-well": set(),
    "client-deploy": set(),
    "offsets-reset": set(),
    "shared-group": set(),
    "two-deployments": set(),
    "no-offset-none": set(),
    "partitions-added-latest": set(),
    "partitions-added-848": set(),
    "never-commits-latest": set(),
    "killed-restarted-short": set(),
    "typo-created": set(),
    "not-kafka": {("unanswered", "c2"), ("unanswered", "c3")},
    "producer-cut": {("capture_damaged", "capture"), ("tiny_batches", "p2")},
    "monitoring": {("api_versions_storm", "adminclient-1"), ("connection_churn", "adminclient-1")},
    # One thing is wrong, and it is said.
    "commit-each": {("commit_storm", "c1")},
    "restart-loop": {("rebalance_storm", "shop"), ("connection_churn", "c2")},
    "idle-members": {("members_idle", "shop")},
    "other-cluster": {("error_loop", "raft-client-3"), ("idle_polling", "raft-client-3")},
    "tx-expired": set(),
    "frozen-short": {("member_paused", "shop")},
    "acks-zero-refused": {("api_versions_storm", "p2"), ("connection_churn", "p2")},
    "acl-revoked": {("authorization_failed", "c1")},
    "quota-fetch": {("commits_stopped", "audit"), ("throttled", "c2")},
    "streams-no-source": {("source_topics_missing", "wordcount")},
    "streams-not-alike": {("topics_not_alike", "joiner")},
    "streams-shared-id": {("join_refused", "wordcount")},
    "scram-wrong": {("authentication_failed", "c2"), ("authentication_failed", "c3")},
    "oauth-scope": {("authentication_failed", "c2")},
    "commit-metadata": {("commit_refused", "audit")},
    "assignment-too-large": {("error_loop", "c2")},
    "connect-shared": {("configurations_apart", "connect-cluster")},
    "streams-shutdown": {("application_shut_down", "wordcount")},
    "killed-long-session": set(),
    "killed-all": set(),
    "rebalance-waits": set(),
    "rebalance-waited": {("partition_unowned", "shop"), ("slow_to_join", "shop")},
    "clients-cut": {("member_lost", "shop"), ("commit_refused", "shop")},
    "broker-killed": {
        ("coordinator_moved", "shop"),
        ("leader_changed", "broker-1-fetcher-0"),
    },
    "address-taken": {
        ("coordinator_moved", "shop"),
        ("error_loop", "c1"),
        ("idle_polling", "c1"),
        ("member_lost", "shop"),
        ("partition_unowned", "shop"),
        ("sent_again", "p1"),
        ("unanswered", "p1"),
    },
    "wrong-cluster": {("coordinator_moved", "shop")},
    "named-brokers": {("heartbeat_held_up", "shop")},
    "two-named": {("coordinator_moved", "shop@QkJCQkJCQkJCQkJCQkJCQg")},
    "same-host": {("heartbeat_held_up", "shop"), ("unanswered", "c1"), ("unanswered", "c2")},
    "unresolved-listener": {("metadata_storm", "c1")},
    "forwarded-ports": {("heartbeat_held_up", "shop"), ("idle_polling", "c2")},
    "broker-paused": {("heartbeat_held_up", "shop")},
    "client-cut": {("commit_refused", "shop"), ("member_lost", "shop"), ("partition_unowned", "shop")},
    "connection-storm": {
        ("api_versions_storm", "metrics-probe"),
        ("connection_churn", "metrics-probe"),
        ("metadata_storm", "metrics-probe"),
    },
    "lagging": set(),
    "no-topic": {("error_loop", "p2")},
    "offsets-lost": set(),
    "poison-record": {("consumer_stuck", "shop"), ("commits_stopped", "shop"), ("read_again", "shop")},
    "records-lost": {("heartbeat_held_up", "shop"), ("unanswered", "c1"), ("coordinator_moved", "shop")},
    "too-old": {
        ("connection_churn", "old-c09"),
        ("connection_churn", "old-p09"),
        ("metadata_storm", "old-c09"),
        ("old_protocol", "old-p09"),
    },
    "poison-thrown": set(),
    "poison-restarts": {
        ("rebalance_storm", "shop"),
        ("connection_churn", "c1"),
        ("commits_stopped", "shop"),
        ("read_again", "shop"),
    },
    "poison-kills": {("session_timeout_tight", "shop"), ("commits_stopped", "shop"), ("eager_assignor", "shop")},
    "offsets-gone": {("commits_forgotten", "shop"), ("commits_forgotten", "more")},
    "too-few-replicas": {
        ("leader_changed", "p1"),
        ("sent_again", "p1"),
    },
    "too-large": {("error_loop", "p2"), ("sent_again", "p2")},
    "rdk-slow": {("leaving_and_returning", "pay")},
    "two-at-once": {
        ("coordinator_moved", "shop"),
        ("heartbeat_held_up", "slow"),
        ("poll_timeout", "slow"),
    },
    "wrong-listener": {("metadata_storm", "c1")},
    "wrong-password": {("authentication_failed", "c2")},
    "clients_admin": {
        ("leader_changed", "adm-producer"),
        ("leader_changed", "broker-2-fetcher-0"),
        ("sent_again", "adm-producer"),
    },
    "clients_go": {("uneven_assignment", "sarama-group")},
    "clients_sasl": {
        ("authentication_failed", "java-plain-wrong"),
        ("authentication_failed", "java-scram-wrong"),
        ("authentication_failed", "rdk-oauth-expired"),
        ("authorization_failed", "java-bob-denied"),
    },
    "join-errors": {
        ("instance_id_shared", "modern"),
        ("join_refused", "picky"),
        ("no_common_assignor", "modern"),
        ("no_common_assignor", "picky"),
    },
    "killed-consumer": {("member_lost", "pay")},
    "killed-silent": {("member_lost", "pay"), ("commit_refused", "pay")},
    "kip848": {("member_lost", "next")},
    "migration": {("protocol_changed", "moving")},
    "max-poll-exceeded": {("poll_timeout", "workers")},
    "missed-rejoin": {("rebalance_timeout", "tmo"), ("slow_to_join", "tmo")},
    "net_capture_drops": {
        ("capture_damaged", "capture"),
        ("tiny_batches", "loss-prod-loss-b"),
        ("uneven_assignment", "loss-g"),
    },
    "net_fetch_latency": {("throttled", "lat-throttled")},
    "restless-kip848": {
        ("commit_refused", "next"),
        ("error_loop", "c2"),
        ("leaving_and_returning", "next"),
        ("member_lost", "next"),
        ("rebalance_storm", "next"),
    },
    "share-group": {("member_lost", "sharers")},
    "static-members": {("instance_id_shared", "static"), ("member_lost", "static")},
    "streams-classic": {("member_lost", "wordcount")},
    "streams-kip1071": {("member_lost", "wordcount")},
    "streams-4.4": {("member_lost", "wordcount")},
    # Much is wrong.
    "rebalance-storm": {
        ("rebalance_storm", "storm"),
        ("rebalance_timeout", "storm"),
        ("poll_timeout", "storm"),
        ("commits_stopped", "storm"),
        ("read_again", "storm"),
        ("session_timeout_tight", "storm"),
    },
    "troubles": {
        ("api_versions_storm", "one-shot"),
        ("clock_difference", "fast-clock"),
        ("commits_stopped", "ledger"),
        ("connection_churn", "one-shot"),
        ("consumer_stuck", "ledger"),
        ("eager_assignor", "slow"),
        ("hanging_transaction", "ledger-reader"),
        ("heartbeat_held_up", "behind"),
        ("heartbeat_held_up", "held"),
        ("heartbeat_held_up", "slow"),
        ("lag_growing", "behind"),
        ("leader_changed", "broker-1-fetcher-0"),
        ("member_lost", "slow"),
        ("partition_unowned", "slow"),
        ("slow_to_join", "slow"),
        ("unanswered", "c1"),
        ("unanswered", "c2"),
        ("unanswered", "c3"),
        ("unanswered", "c3b"),
        ("unanswered", "c7"),
    },
}
# Recordings whose many findings are checked by kind alone.
KINDS: dict[str, set[str]] = {
    "clients_kcat_old_java": {"old_protocol"},
    "clients_old_formats": {"old_protocol", "error_loop", "idle_polling"},
    "mixed-versions": {"old_protocol"},
    "rolling-restart": {"coordinator_moved", "leader_changed", "idle_polling", "sent_again"},
    "zk-2.8.2": {
        "coordinator_moved",
        "error_loop",
        "leader_changed",
        "metadata_storm",
        "old_protocol",
        "unanswered",
        "uneven_assignment",
    },
}


@cache
def read(story: str) -> kafkascope.Capture:
    (file,) = (PCAPS / story).glob("capture.pcap*")
    capture: kafkascope.Capture = kafkascope.read(file)
    return capture


def findings(story: str) -> pd.DataFrame:
    found: pd.DataFrame = read(story).findings
    return found


def title(story: str, kind: str) -> str:
    """The title of a finding of which the recording has one."""
    (found,) = (row for row in findings(story).to_dict("records") if row["kind"] == kind)
    return str(found["title"])


def named(subject: str) -> str:
    """The group, client id, or what else a subject names."""
    return re.sub(r"^(group|client) |( \(.*\))$", "", subject)


@pytest.mark.parametrize("story", EXPECTED)
def test_a_recording_has_the_findings_of_its_story_and_no_others(story: str) -> None:
    found = findings(story).explode("subjects")
    assert {(kind, named(subject)) for kind, subject in zip(found.kind, found.subjects, strict=True)} == EXPECTED[story]


@pytest.mark.parametrize("story", KINDS)
def test_a_recording_has_the_kinds_of_findings_of_its_story(story: str) -> None:
    assert set(findings(story).kind) == KINDS[story]


@pytest.mark.parametrize("name", [n for n in NAMES if truth_of(n).get("incidents") is not None])
def test_incidents_are_what_was_done(name: str) -> None:
    score = scored(read(name), truth_of(name))
    assert (score.missed, score.alarms, score.first) == ([], [], True)
    assert all(row["evidence"] for row in read(name).arrow("incidents").to_pylist())


def test_nothing_is_forgotten_where_times_go_back(command: Command, tmp_path: Path) -> None:
    """Who asked before the first commit may seem to ask behind it."""
    header, packets = records_of(PCAPS / "offsets-gone" / "capture.pcap.gz")
    at, original, data = packets[-1]
    file = write(tmp_path / "back.pcap", header, [*packets[:-1], (at - 5 * SECOND, original, data)])
    capture = kafkascope.read(file)
    assert "time_goes_back" in capture.summary["issues"]
    assert capture.arrow("forgotten_commits").num_rows
    command("kafkascope", "analyze", file, "-o", str(tmp_path / "out"), "--in-process")
    for one in (capture, kafkascope.read(tmp_path / "out")):
        assert "commits_forgotten" not in set(one.findings.kind)


def test_every_kind_of_finding_appears_on_a_recording() -> None:
    seen = {kind for story in EXPECTED.values() for kind, _ in story}.union(*KINDS.values())
    assert seen == set(FINDING_KINDS)


@pytest.mark.parametrize("story", ["rebalance-storm", "troubles", "zk-2.8.2"])
def test_findings_come_in_order_of_weight_with_evidence_and_advice(story: str) -> None:
    found = findings(story)
    ranks = [list(Severity).index(severity) for severity in found.severity]
    assert ranks == sorted(ranks)
    for _, same in found.groupby("severity"):
        assert list(same.weight) == sorted(same.weight, reverse=True)
    assert all(found.advice.str.len() > 20)
    assert all(len(evidence) > 0 for evidence in found.evidence)
    packets = [one["packet"] for evidence in found.evidence for one in evidence if one["packet"]]
    assert all(packet > 0 for packet in packets)
    ended = found[found.until.notna()]
    assert (ended.since <= ended.until).all()


def test_a_storm_names_who_keeps_it_going_not_who_joins() -> None:
    storm = title("rebalance-storm", "rebalance_storm")
    assert "poll timeout of c3" in storm
    assert "c2" in storm
    assert "c1" not in storm


def test_who_does_not_give_up_its_partitions_is_named() -> None:
    assert title("troubled-kip848", "rebalance_timeout") == "c2 did not give up its partitions in 4.0 s"
    assert title("missed-rejoin", "rebalance_timeout") == "raw5 did not join again in 6.0 s"


def test_a_group_that_migrates_and_back_is_told() -> None:
    assert title("migration", "protocol_changed") == "The group changed its protocol: classic → consumer → classic"


def test_a_storm_is_the_fault_of_who_leaves_and_comes_back_not_of_who_is_lost_in_it() -> None:
    assert "leaving and returning of c1 (7 times)" in title("restless-kip848", "rebalance_storm")
    restless = title("restless-kip848", "leaving_and_returning")
    assert "c1 left without a reason and came back, 7 times" in restless
    assert "(5,000 ms)" in restless


@pytest.mark.parametrize(
    ("story", "kind", "client_ids"),
    [
        ("broker-killed", "coordinator_moved", []),
        ("broker-paused", "heartbeat_held_up", ["c1", "c2"]),
        ("client-cut", "commit_refused", ["c2"]),
        ("client-cut", "member_lost", ["c2"]),
        ("join-errors", "instance_id_shared", ["n3"]),
        ("join-errors", "join_refused", ["c2s"]),
        ("quota-fetch", "commits_stopped", ["c2"]),
        ("missed-rejoin", "rebalance_timeout", ["raw5"]),
        ("missed-rejoin", "slow_to_join", ["raw5"]),
        ("rdk-slow", "leaving_and_returning", ["py-b"]),
        ("rebalance-storm", "read_again", ["c1", "c2", "c3"]),
        ("rebalance-storm", "session_timeout_tight", ["c1"]),
        ("restless-kip848", "rebalance_storm", ["c1", "c2", "c3"]),
        ("troubles", "lag_growing", ["c6"]),
        ("wrong-password", "authentication_failed", ["c2"]),
    ],
)
def test_findings_tell_whom_they_are_about(story: str, kind: str, client_ids: list[str]) -> None:
    assert [*findings(story).set_index("kind").client_ids[[kind]].iloc[0]] == client_ids
