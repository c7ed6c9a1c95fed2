"""Which APIs speak of groups, and of which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# APIs whose messages name one group, or several: where the ids of the groups are in the request.
LISTED_GROUPS: dict[str, Callable[[dict[str, Any]], list[Any]]] = {
    "FindCoordinator": lambda request: (
        (request.get("coordinatorKeys") or [request.get("key")]) if request.get("keyType", 0) == 0 else []
    ),
    "OffsetFetch": lambda request: [group.get("groupId") for group in request.get("groups") or []],
    "DescribeGroups": lambda request: request.get("groups") or [],
    "DeleteGroups": lambda request: request.get("groupsNames") or [],
    "ConsumerGroupDescribe": lambda request: request.get("groupIds") or [],
    "ShareGroupDescribe": lambda request: request.get("groupIds") or [],
    "StreamsGroupDescribe": lambda request: request.get("groupIds") or [],
}


_OF_ONE_GROUP = (
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "LeaveGroup",
    "OffsetCommit",
    "OffsetFetch",
    "OffsetDelete",
    "TxnOffsetCommit",
    "AddOffsetsToTxn",
    "ConsumerGroupHeartbeat",
    "ShareGroupHeartbeat",
    "StreamsGroupHeartbeat",
    "StreamsGroupTopologyDescriptionUpdate",
    "AlterShareGroupOffsets",
    "DeleteShareGroupOffsets",
)


GROUP_APIS = frozenset({*_OF_ONE_GROUP, *LISTED_GROUPS})


MEMBER_APIS = frozenset(
    {"JoinGroup", "SyncGroup", "Heartbeat", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat"}
)
