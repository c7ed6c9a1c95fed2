"""Which errors are part of how the protocol works, and how many of them are: a table of rules with their reasons.

An error that is ordinary once is trouble when it does not stop. So each rule has a number that may come within a span
of time to one client, group or partition; all that lie in a span with more are trouble. An error without a rule is
trouble. Of the same errors, those within a second count as one: clients differ in how fast they try again (the Java
client's retry.backoff.ms is 100 ms), and some have many requests under way when one thing happens to all of them. What
brokers do is that of Apache Kafka 4.3 (GroupCoordinator, ReplicaManager, FetchManager).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import Numbers, dictionary_codes
from kafkascope.sniffer.columns import I64, Bool
from kafkascope.sniffer.units import SECOND_NS


@dataclass(frozen=True, slots=True)
class Rule:
    """Up to `most` of these errors within `seconds` are ordinary, for each combination of what `by` names."""

    errors: tuple[str, ...]
    apis: tuple[str, ...]  # none: any
    by: tuple[str, ...]
    most: int
    seconds: int
    reason: str


_ADMINISTRATION = ("DescribeGroups", "ConsumerGroupDescribe", "ShareGroupDescribe", "StreamsGroupDescribe")
_BY_PARTITION = ("client_id", "topic", "partition")

RULES = (
    Rule(
        ("MEMBER_ID_REQUIRED",),
        ("JoinGroup",),
        ("group_id", "client_id"),
        30,  # members of one client id; storms show in the rebalances
        300,
        "A new member is given its id this way, and joins again with it (KIP-394).",
    ),
    Rule(
        ("REBALANCE_IN_PROGRESS",),
        ("Heartbeat", "SyncGroup", "JoinGroup", "OffsetCommit", "TxnOffsetCommit"),
        ("group_id", "member_id"),
        6,  # a rebalance costs one or two; more within a minute is a group that does not come to rest
        60,
        "This is how members are told to join again when their group rebalances.",
    ),
    Rule(
        ("STALE_MEMBER_EPOCH",),
        ("OffsetCommit", "OffsetFetch", "TxnOffsetCommit"),
        ("group_id", "member_id"),
        3,
        60,
        "The epoch moved on while the request was under way; the member tries again with the new one.",
    ),
    Rule(
        ("UNSUPPORTED_VERSION",),
        ("ApiVersions",),
        ("client_id", "broker"),
        20,  # one for each connection
        60,
        "A client newer than the broker asks again in a version that the broker names (KIP-511).",
    ),
    Rule(
        ("COORDINATOR_NOT_AVAILABLE",),
        ("FindCoordinator",),
        ("client_id", "group_id"),
        5,  # seconds that making a topic of 50 partitions may take
        60,
        "The topic in which coordinators keep their state is being made, or has no leader for a moment.",
    ),
    Rule(
        ("COORDINATOR_LOAD_IN_PROGRESS",),
        (),
        ("client_id", "group_id"),
        5,
        60,
        "A coordinator that has just got its partition reads its state first.",
    ),
    Rule(
        ("NOT_COORDINATOR",),
        (),
        ("client_id", "group_id", "member_id"),
        5,
        60,
        "The coordinator moved; the client looks it up again.",
    ),
    Rule(
        ("UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE"),
        ("Metadata", "DescribeTopicPartitions"),
        ("client_id", "topic"),
        3,
        60,
        "A topic that is being made is not known to all brokers, or has no leader, for a moment.",
    ),
    Rule(
        ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID", "INCONSISTENT_TOPIC_ID", "LEADER_NOT_AVAILABLE"),
        (),
        _BY_PARTITION,
        3,
        60,
        "A partition that was just made or moved is not known to its broker for a moment.",
    ),
    Rule(
        ("NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "OFFSET_NOT_AVAILABLE"),
        (),
        _BY_PARTITION,
        3,
        60,
        "The leader changed; the client learns of it by this, and renews its metadata.",
    ),
    Rule(
        ("NOT_CONTROLLER",),
        (),
        ("client_id",),
        3,
        60,
        "The controller changed; the client looks it up again.",
    ),
    Rule(
        ("FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH", "FETCH_SESSION_TOPIC_ID_ERROR"),
        ("Fetch",),
        ("client_id", "broker"),
        2,
        300,
        "The broker dropped the fetch session (restart, cache full); the client starts a new one at once.",
    ),
    Rule(
        ("SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH"),
        ("ShareFetch", "ShareAcknowledge"),
        ("client_id", "broker"),
        2,
        300,
        "The broker dropped the share session; the client starts a new one at once.",
    ),
    Rule(
        ("OFFSET_OUT_OF_RANGE",),
        ("Fetch",),
        _BY_PARTITION,
        1,
        600,
        "A reader whose offset is gone begins anew where auto.offset.reset says; once, this is how it finds its start.",
    ),
    Rule(
        ("OFFSET_MOVED_TO_TIERED_STORAGE",),
        ("Fetch",),
        _BY_PARTITION,
        3,
        60,
        "A follower learns by this from where on it has to copy.",
    ),
    Rule(
        ("UNSTABLE_OFFSET_COMMIT",),
        ("OffsetFetch",),
        ("client_id", "group_id"),
        5,
        60,
        "Offsets that belong to a transaction are told when it has ended (KIP-447).",
    ),
    Rule(
        ("CONCURRENT_TRANSACTIONS",),
        (),
        ("client_id",),
        5,
        60,
        "The transaction before this one is still being completed; the producer tries again soon.",
    ),
    Rule(
        ("DUPLICATE_SEQUENCE_NUMBER",),
        ("Produce",),
        _BY_PARTITION,
        3,
        60,
        "A batch that was sent again had arrived the first time; the producer takes this for success.",
    ),
    Rule(
        ("TOPIC_ALREADY_EXISTS",),
        ("CreateTopics",),
        ("client_id", "topic"),
        3,
        600,
        "Applications make sure that a topic is there by making it.",
    ),
    Rule(
        ("GROUP_ID_NOT_FOUND",),
        _ADMINISTRATION,
        ("client_id", "group_id"),
        5,
        60,
        "Tools ask for a group as one of the newer kinds first, and then as a classic one.",
    ),
    Rule(
        ("ELECTION_NOT_NEEDED",),
        ("ElectLeaders",),
        ("client_id",),
        1000,  # one for each partition
        60,
        "The partition has the leader that was asked for.",
    ),
    Rule(
        ("UNKNOWN_SUBSCRIPTION_ID",),
        ("PushTelemetry",),
        ("client_id",),
        2,
        300,
        "The subscription to metrics changed; the client asks for the new one.",
    ),
)


def ordinary(rows: pa.Table) -> tuple[Bool, pa.Array]:
    """Which rows of ERROR_COUNTS are ordinary, and the reason of each that is; all rows of an error must be there."""
    found = np.full(rows.num_rows, -1, np.int64)
    for place, rule in enumerate(RULES):
        errors = pc.is_in(rows["error"], pa.array(rule.errors))
        apis = pc.is_in(rows["api"], pa.array(rule.apis)) if rule.apis else pa.scalar(True)
        chosen = np.flatnonzero(pc.and_(errors, apis).to_numpy().astype(np.bool_) & (found < 0))
        if len(chosen):
            few = ~_too_many(rows.take(pa.array(chosen)), rule)
            found[chosen[few]] = place
    reasons = pa.array([rule.reason for rule in RULES])
    return found >= 0, reasons.take(pa.array(found, mask=found < 0))


def _too_many(rows: pa.Table, rule: Rule) -> Bool:
    """Which rows lie in a span of the rule's length that has more than it allows."""
    scope = _codes(rows, rule.by)
    span: I64 = rows["span"].to_numpy()
    lasted = rows["last_at"].to_numpy() - rows["first_at"].to_numpy()
    count: I64 = np.minimum(rows["count"].to_numpy(), lasted // SECOND_NS + 1)
    order = np.lexsort((span, scope))
    spans = np.unique(np.concatenate([span, span + np.int64(rule.seconds * SECOND_NS)]))
    key = scope * np.int64(len(spans))
    begin = (key + np.searchsorted(spans, span))[order]
    end = (key + np.searchsorted(spans, span + np.int64(rule.seconds * SECOND_NS)))[order]
    first, last = np.searchsorted(begin, begin), np.searchsorted(begin, end)
    total = np.concatenate([[0], np.cumsum(count[order])])
    over = total[last] - total[first] > rule.most
    marks = np.zeros(len(order) + 1, np.int64)
    np.add.at(marks, first[over], 1)
    np.add.at(marks, last[over], -1)
    result = np.empty(len(order), np.bool_)
    result[order] = np.cumsum(marks[:-1]) > 0
    return result


def _codes(rows: pa.Table, names: Sequence[str]) -> Numbers:
    code = np.zeros(rows.num_rows, np.int64)
    for name in names:
        values, distinct = dictionary_codes(rows[name])
        code = np.unique(code * np.int64(len(distinct) + 1) + values + 1, return_inverse=True)[1].reshape(-1)
    return code.astype(np.int64)
