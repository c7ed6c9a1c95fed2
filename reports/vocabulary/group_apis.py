"""Which APIs speak of groups, and of which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_GROUP = 32  # ConfigResource.Type


def _configured(request: dict[str, Any], name: str = "resources") -> list[dict[str, Any]]:
    return [one for one in request.get(name) or [] if one.get("resourceType") == _GROUP]


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
    "IncrementalAlterConfigs": lambda request: [one.get("resourceName") for one in _configured(request)],
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
    mine = [one for one in _configured(request) if one.get("resourceName") == group]
    return {config.get("name"): config.get("value") for one in mine for config in one.get("configs") or []}


def settings_answered(response: dict[str, Any], group: str) -> int | None:
    """The error code of an answer of IncrementalAlterConfigs for the settings of a group; None if it has none."""
    mine = (one for one in _configured(response, "responses") if one.get("resourceName") == group)
    return next((one.get("errorCode") for one in mine), None)


MEMBER_APIS = frozenset(
    {"JoinGroup", "SyncGroup", "Heartbeat", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat"}
)
