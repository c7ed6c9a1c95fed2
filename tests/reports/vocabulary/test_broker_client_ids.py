"""Brokers are told from clients by the client ids that they give themselves."""

from __future__ import annotations

import pytest

from kafkascope.reports.vocabulary.broker_client_ids import follower_node, is_of_broker, quorum_node


@pytest.mark.parametrize(
    ("client_id", "is_broker", "follower", "of_quorum"),
    [
        ("1", True, None, "1"),
        ("broker-12-fetcher-3", True, "12", None),
        ("broker-2-txn-marker-sender", True, None, None),
        ("raft-client-3", True, None, "3"),
        ("Persister-client-1", True, None, None),
        ("AddPartitionsManager-client-1", True, None, None),
        ("NetworkPartitionMetadataClient-client-1", True, None, None),
        ("broker-1", False, None, None),
        ("broker-fetcher-0", False, None, None),
        ("my-broker-1-fetcher-0", False, None, None),
        ("broker-1-fetcher-0-mine", False, None, None),
        ("1st", False, None, None),
        ("c1", False, None, None),
        ("", False, None, None),
        (None, False, None, None),
    ],
)
def test_brokers_have_client_ids_of_their_own(
    client_id: str | None, is_broker: bool, follower: str | None, of_quorum: str | None
) -> None:
    assert is_of_broker(client_id) == is_broker
    assert follower_node(client_id) == follower
    assert quorum_node(client_id) == of_quorum
