"""Settings, quotas, limits and credentials that somebody changed before trouble began."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import client_name
from kafkascope.reports.columns.words import clock
from kafkascope.reports.groups.body import body_of, number, rows, text
from kafkascope.reports.incidents.incident import Weighed
from kafkascope.reports.incidents.planned.changes import changes_made
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.sniffer.units import SECOND_NS

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
    """Whose credentials somebody altered last, shortly before they were refused: of one of these users, or of several.

    Commands alter those of one user with each request.
    """
    of_users = {*users}
    found = [
        Alteration("the credentials", name, None, row)
        for row in signs.once(changes_made)
        if row["api"] == "AlterUserScramCredentials"
        for key in ("upsertions", "deletions")
        for one in rows(body_of(row["request"]).get(key))
        if (name := text(one.get("name"))) in of_users
    ]
    last = _last_before(found, since)
    if last is None:
        return None
    who, until = (last.made["client_id"], last.made["host"]), last.made["requested"]
    near = until - int(threshold("one_trouble") * SECOND_NS)
    same = {
        one.of
        for one in found
        if (one.made["client_id"], one.made["host"]) == who and near <= one.made["requested"] <= until
    }
    return replace(last, of=listed(same))


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
