"""What administrators ask brokers to change, and what their requests name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow.compute as pc

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.text import client_name
from kafkascope.reports.columns.words import clock
from kafkascope.reports.groups.body import Json, body_of, number, rows, text
from kafkascope.reports.incidents.incident import Weighed
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.incident_kinds import Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.sniffer.units import SECOND_NS

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
_ALL_CLIENTS = "all clients"
_OF_ALL = {"client-id": _ALL_CLIENTS, "ip": "all addresses"}  # that have no other quota
_TOPIC, _BROKER, _SET = 2, 4, 0  # a type of resource, and what is done to a setting
_SIZES = frozenset({"max.message.bytes"})
_REPLICAS = frozenset({"min.insync.replicas"})
_LIMITS = (
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "max.connection.creation.rate",
)
_RETENTION = frozenset({"retention.ms", "retention.bytes"})
_REFUSED_FOR = {
    Error.MESSAGE_TOO_LARGE: _SIZES,
    Error.RECORD_LIST_TOO_LARGE: _SIZES,
    Error.NOT_ENOUGH_REPLICAS: _REPLICAS,
    Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _REPLICAS,
    Error.INVALID_TIMESTAMP: frozenset(
        {
            "message.timestamp.after.max.ms",
            "message.timestamp.before.max.ms",
            "message.timestamp.difference.max.ms",
            "message.timestamp.type",
        }
    ),
    Error.INVALID_RECORD: frozenset({"cleanup.policy"}),  # records without keys
}
"""Settings of topics for which records are refused so."""


@dataclass(frozen=True, slots=True)
class Alteration:
    """A setting of a topic, a quota, or credentials, that somebody changed."""

    setting: str
    of: str  # the topic, or whom it is for
    value: str | None  # None: it was set to the default, or a part of it changed
    made: Row  # the request

    @property
    def words(self) -> str:
        """Who did what, and when."""
        what = f"changed {self.setting}" if self.value is None else f"set {self.setting}={self.value}"
        who = f"{client_name(self.made['client_id'])} ({self.made['host']})"
        return f"{who} had {what} of {self.of} at {clock(self.made['requested'])}"

    def evidence(self, weight: float) -> Weighed:
        """It, with its packet."""
        return Weighed(self.words, self.made["request_packet"], self.made["requested"], weight)


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


def altered_before(signs: Signs, errors: Iterable[str], topics: Iterable[str], since: int) -> Alteration | None:
    """The setting that somebody changed last, shortly before records to these topics were refused for what it says."""
    settings = {name for error in errors if error in Error.__members__ for name in _REFUSED_FOR.get(Error[error], ())}
    of_them = {*topics}
    return _last_before((one for one in signs.once(_altered) if one.setting in settings and one.of in of_them), since)


def quota_before(signs: Signs, client_ids: Iterable[str], since: int) -> Alteration | None:
    """The quota of some client ids, or of all, that somebody set last, shortly before these were held back."""
    of_them = {_ALL_CLIENTS, *(f"client {name}" for name in client_ids)}
    return _last_before((one for one in signs.once(_quotas) if one.of in of_them), since)


def retention_before(signs: Signs, topic: str, until: int) -> Alteration | None:
    """How somebody changed last, before a time, how long a topic keeps its records, unless it is for ever.

    Brokers look every some minutes for what is too old (log.retention.check.interval.ms), and readers come later.
    """
    found = (one for one in signs.once(_altered) if one.setting in _RETENTION and one.of == topic and one.value != "-1")
    before = (one for one in found if one.made["requested"] <= until)
    return max(before, key=lambda one: (one.made["requested"], one.setting), default=None)


def credentials_before(signs: Signs, users: Iterable[str], since: int) -> Alteration | None:
    """Whose credentials somebody altered last, shortly before they were refused."""
    of_users = {*users}
    found = (
        Alteration("the credentials", text(one.get("name")), None, row)
        for row in signs.once(changes_made)
        if row["api"] == "AlterUserScramCredentials"
        for key in ("upsertions", "deletions")
        for one in rows(body_of(row["request"]).get(key))
    )
    return _last_before((one for one in found if one.of in of_users), since)


def limit_before(signs: Signs, host: str, since: int) -> Alteration | None:
    """The limit of connections that somebody changed last, shortly before those of a host were closed."""
    of_address = {f"ip {host}", _OF_ALL["ip"]}
    found = [one for one in signs.once(_altered) if one.of == "brokers" and one.setting.endswith(_LIMITS)]
    found += [one for one in signs.once(_quotas) if one.setting == "connection_creation_rate" and one.of in of_address]
    return _last_before(found, since)


def _last_before(found: Iterable[Alteration], since: int) -> Alteration | None:
    near = since - int(threshold("one_trouble") * SECOND_NS)
    before = (one for one in found if near <= one.made["answered"] and one.made["requested"] <= since)
    return max(before, key=lambda one: (one.made["requested"], one.setting), default=None)


def _altered(signs: Signs) -> list[Alteration]:
    """Settings of topics and brokers that were changed, in order of time."""
    return [
        Alteration(
            text(setting.get("name")),
            text(resource.get("resourceName")) if resource["resourceType"] == _TOPIC else "brokers",
            setting.get("value") if number(setting.get("configOperation"), _SET) == _SET else None,
            row,
        )
        for row in signs.once(changes_made)
        if row["api"] in ("AlterConfigs", "IncrementalAlterConfigs")
        for resource in rows(body_of(row["request"]).get("resources"))
        if resource.get("resourceType") in (_TOPIC, _BROKER)
        for setting in rows(resource.get("configs"))
    ]


def _quotas(signs: Signs) -> list[Alteration]:
    """Quotas by client id, or by address, alone that were set, in order of time: who is of a user is not asked."""
    return [
        Alteration(
            text(one.get("key")), _OF_ALL[kind] if name is None else f"{kind.split('-')[0]} {name}", f"{value:g}", row
        )
        for row in signs.once(changes_made)
        if row["api"] == "AlterClientQuotas"
        for entry in rows(body_of(row["request"]).get("entries"))
        for entity in [[(text(part.get("entityType")), part.get("entityName")) for part in rows(entry.get("entity"))]]
        if len(entity) == 1 and entity[0][0] in _OF_ALL
        for kind, name in entity
        for one in rows(entry.get("ops"))
        if not one.get("remove") and isinstance(value := one.get("value"), int | float)
    ]


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
