"""Which APIs speak of groups, and of which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_GROUP = 32  # ConfigResource.Type


def _configured_groups(request: dict[str, Any]) -> list[Any]:
    resources = request.get("resources") or []
    return [one.get("resourceName") for one in resources if one.get("resourceType") == _GROUP]


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
    "IncrementalAlterConfigs": _configured_groups,
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


def settings_given(request: dict[str, Any], group: str) -> dict[str, Any]:
    """Settings of a group that a request of IncrementalAlterConfigs changes, with their values; None: the default."""
    found: dict[str, Any] = {}
    for one in request.get("resources") or []:
        if one.get("resourceType") == _GROUP and one.get("resourceName") == group:
            found |= {config.get("name"): config.get("value") for config in one.get("configs") or []}
    return found


MEMBER_APIS = frozenset(
    {"JoinGroup", "SyncGroup", "Heartbeat", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat"}
)
