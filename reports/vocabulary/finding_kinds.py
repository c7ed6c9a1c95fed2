"""Every kind of finding, and what it says; how grave one may be."""

from __future__ import annotations

from enum import StrEnum


class Severity(StrEnum):
    """How grave a finding is, the gravest first."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


FINDING_KINDS: dict[str, str] = {
    # Groups
    "rebalance_storm": "a group rebalances on and on, and whose fault it is",
    "poll_timeout": "an application takes longer between polls than max.poll.interval.ms",
    "leaving_and_returning": "a member leaves and comes back, again and again, as one does that polls too seldom",
    "rebalance_timeout": "a member did not join again, or give up its partitions, within its rebalance timeout",
    "member_lost": "the broker heard nothing from a member for its session timeout",
    "session_timeout_tight": "the session timeout leaves room for too few heartbeats",
    "member_paused": "a member said nothing for longer than it may, was not lost, and went on",
    "heartbeat_held_up": "heartbeats waited behind a slow request on the same connection",
    "instance_id_shared": "two processes use one instance id; one is fenced, or refused",
    "no_common_assignor": "a member has no assignor in common with the others, or asks for one that is not there",
    "join_refused": "a member may not join, for another reason",
    "source_topics_missing": "a Streams application is told that topics which it reads are not there",
    "topics_not_alike": "a Streams application joins topics with different numbers of partitions",
    "application_shut_down": "an instance of a Streams application had all instances end",
    "configurations_apart": "a worker of Connect does not come to its leader's configuration, and joins on and on",
    "eager_assignor": "an eager assignor stopped all partitions where a cooperative one would not",
    "uneven_assignment": "members with the same subscription have very different numbers of partitions",
    "members_idle": "a group has more members than there are partitions",
    "partition_unowned": "a partition had no owner for long",
    "slow_to_join": "all members waited for one",
    "commit_refused": "commits of a member were refused again and again",
    "protocol_changed": "a group went from one protocol to another",
    "coordinator_moved": "another broker became coordinator of the group",
    "consumer_stuck": "a consumer asks for one offset again and again",
    "commits_stopped": "a consumer does not commit any more",
    "lag_growing": "a group falls behind",
    "read_again": "a group was sent many records a second time",
    "commits_forgotten": "what a group had committed was gone when it asked",
    # Clients
    "metadata_storm": "a client asks for metadata all the time",
    "commit_storm": "a consumer commits after each record or so",
    "connection_churn": "a client opens connections all the time",
    "api_versions_storm": "a client asks for the broker's versions all the time",
    "authentication_failed": "a client's credentials were refused",
    "authorization_failed": "a client lacks a permission that it needs",
    "unanswered": "requests were never answered",
    "sent_again": "a producer sent records more than once",
    "error_loop": "a client gets the same error over and over",
    "leader_changed": "requests went to brokers that were no longer the leader",
    "old_protocol": "a client speaks a protocol so old that brokers refuse or convert",
    "throttled": "a quota holds a client back",
    "tiny_batches": "a producer sends many batches of hardly more than a record",
    "clock_difference": "a producer's clock is not that of the capture",
    "hanging_transaction": "an open transaction holds readers back",
    "idle_polling": "a consumer asks all the time and gets nothing",
    # The capture
    "capture_damaged": "the capture lacks packets, or has damage that weakens what is said",
}
