"""Client ids that brokers give themselves to ask each other.

Those of ReplicaFetcherManager, TransactionMarkerChannelManager, KafkaRaftManager, of what coordinators ask other
brokers, and of NodeToControllerChannelManager, which is the node id alone.
"""

from __future__ import annotations

import re

_FOLLOWER = r"broker-([0-9]+)-fetcher-[0-9]+"
_OF_NODE = r"(?:raft-client-)?([0-9]+)"
_OF_COORDINATOR = (
    r"broker-[0-9]+-txn-marker-sender|(?:AddPartitionsManager|NetworkPartitionMetadataClient|Persister)-client-[0-9]+"
)

FOLLOWERS = f"^{_FOLLOWER}$"
"""Matches client ids of brokers that replicate, in Arrow too."""
OF_NODES = f"^(?:{_FOLLOWER}|{_OF_NODE})$"
"""Matches those by which a broker can be told, likewise."""


def is_of_broker(client_id: str | None) -> bool:
    """Whether a client id is one with which brokers ask each other."""
    return re.fullmatch(f"{_FOLLOWER}|{_OF_NODE}|{_OF_COORDINATOR}", client_id or "") is not None


def follower_node(client_id: str | None) -> str | None:
    """The id of the broker that replicates with a client id; None if that is none of those."""
    found = re.fullmatch(_FOLLOWER, client_id or "")
    return found and found[1]


def quorum_node(client_id: str | None) -> str | None:
    """The id of the broker that asks controllers with a client id; None if that is none of those."""
    found = re.fullmatch(_OF_NODE, client_id or "")
    return found and found[1]


def is_of_quorum(client_id: str | None) -> bool:
    """Whether it is one with which controllers are asked for the log of the cluster, and for votes."""
    return re.fullmatch(r"raft-client-[0-9]+", client_id or "") is not None
