"""What administrators ask brokers to change, and what their requests name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import pyarrow.compute as pc

from kafkascope.reports.groups.body import Json, body_of, rows, text
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.incident_kinds import Role

CHANGES = (
    "CreateTopics",
    "DeleteTopics",
    "CreatePartitions",
    "DeleteRecords",
    "AlterConfigs",
    "IncrementalAlterConfigs",
    "AlterPartitionReassignments",
    "ElectLeaders",
    "DeleteGroups",
    "OffsetDelete",
    "AlterShareGroupOffsets",
    "DeleteShareGroupOffsets",
    "CreateAcls",
    "DeleteAcls",
    "AlterClientQuotas",
    "AlterUserScramCredentials",
    "AlterReplicaLogDirs",
    "UpdateFeatures",
    "UnregisterBroker",
    "UnregisterController",
    "AddRaftVoter",
    "RemoveRaftVoter",
)
"""APIs by which something is changed; their requests are read."""
_TRIAL = '"validateOnly": true'
_GROUPS = ("groupId", "groupsNames")  # where requests name groups,
_TOPICS = ("topics", "topicNames", "topicPartitions")  # topics,
_OTHERS = ("resources", "upsertions")  # and topics, brokers, groups, users
_NAMES = ("name", "topic", "topicName", "resourceName")


def settings_in(request: str | None) -> set[str]:
    """Settings and quotas that a request sets, with whom quotas are for."""
    body = body_of(request)
    configs = (one for resource in rows(body.get("resources")) for one in rows(resource.get("configs")))
    quotas = (
        f"{key} of {_whose(entry)}"
        for entry in rows(body.get("entries"))
        for one in rows(entry.get("ops"))
        if (key := text(one.get("key")))
    )
    return {name for one in configs if (name := text(one.get("name")))} | {*quotas}


def _whose(entry: Json) -> str:
    """Whom a quota is for: ``client-id c1, user u``; without a name it is for all that have no other."""
    parts = [(text(part.get("entityType")), part.get("entityName")) for part in rows(entry.get("entity"))]
    return ", ".join(f"any {kind}" if name is None else f"{kind} {name}" for kind, name in sorted(parts, key=str))


def _is_trial(request: str) -> bool:
    """Whether a request asks only whether it would be done; also one that was cut, as far as it says so."""
    return _TRIAL in request and bool(body_of(request).get("validateOnly", True))


def changes_made(signs: Signs) -> list[Row]:
    """Requests by which administrators changed something, in order of time; those that brokers hand on are left out.

    What was refused, if only in part, or not answered, changed nothing that is known; nor did a trial.
    """
    of_them = pc.field("api").isin(CHANGES)
    refused = {(row["connection"], row["number"]) for row in signs.rows("errors", ("connection", "number"), of_them)}
    columns = ("connection", "number", "client_id", "api", "requested", "answered", "request_packet", "request")
    asked = [
        row
        for row in signs.rows("exchanges", columns, of_them & pc.field("answered").is_valid())
        if row["requested"] is not None and (row["connection"], row["number"]) not in refused
    ]
    hosts = signs.connections_by_number(sorted({row["connection"] for row in asked}))
    made = [row | {"host": hosts.get(row["connection"], {}).get("client")} for row in asked]
    made = [row for row in made if row["host"] is not None and not signs.is_broker(row["host"], row["client_id"])]
    made = [row for row in made if not _is_trial(row["request"] or "")]
    return sorted(made, key=lambda row: (row["requested"], row["request_packet"]))


def topics_deleted(signs: Signs) -> dict[str, list[Row]]:
    """Requests by which topics were deleted, by topic, in order of time."""
    return by_topic(row for row in signs.once(changes_made) if row["api"] == "DeleteTopics")


def by_topic(made: Iterable[Row]) -> dict[str, list[Row]]:
    """Requests by the topics that they name, in their order."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in made:
        for _, topic in named_in(row["request"]):
            found[topic].append(row)
    return found


def named_in(request: str | None) -> Iterator[tuple[Role | None, str]]:
    """What a request names; of what may be a topic or something else the role is None."""
    body = body_of(request)
    roles = {**dict.fromkeys(_GROUPS, Role.GROUP), **dict.fromkeys(_TOPICS, Role.TOPIC), **dict.fromkeys(_OTHERS)}
    for key, role in roles.items():
        told = body.get(key)
        for one in told if isinstance(told, list) else [told]:
            names = (
                [one] if isinstance(one, str) else [one.get(name) for name in _NAMES] if isinstance(one, dict) else []
            )
            yield from ((role, name) for name in names if isinstance(name, str) and name)
