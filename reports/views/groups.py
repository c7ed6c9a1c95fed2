"""The view of groups: what any connection said of a group, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import numbered
from kafkascope.reports.columns.parties import Ends
from kafkascope.reports.columns.text import address
from kafkascope.reports.columns.told_clusters import client_key
from kafkascope.reports.columns.told_members import ToldMembers
from kafkascope.reports.columns.views import Known, keys_together
from kafkascope.reports.findings.finding import Finding, finding_table
from kafkascope.reports.findings.group_rules import group_findings
from kafkascope.reports.groups.body import body_of
from kafkascope.reports.groups.by_cluster import analyze_groups
from kafkascope.reports.groups.folding import folded
from kafkascope.reports.groups.history import GroupHistory, GroupLog, event_table, rebalance_table
from kafkascope.reports.groups.messages import group_messages, group_rows
from kafkascope.reports.vocabulary.group_apis import MEMBER_APIS
from kafkascope.reports.vocabulary.tables import GROUP_CONNECTIONS, GROUP_ROWS

_MOST_GROUPS = 1_000
"""Groups of members on one connection that are remembered until it ends: a client has one or a few."""

_ROWS_AT_ONCE = 16_384
"""Rows of small groups that are folded at once: so many that it costs little, so few that their values do too."""

_INTRODUCTION = {"clientSoftwareName": "software", "clientSoftwareVersion": "software_version"}
_OF_CONNECTIONS = [name for name in GROUP_CONNECTIONS.names if name not in ("group_id", "broker")]


class GroupsView:
    """Messages by group, and how the connections of members ended; of them, events, rebalances and findings."""

    name = "group_rows"
    schema = GROUP_ROWS
    key = "group_id"
    needs = frozenset({"exchanges", "connections"})
    results: tuple[str, ...] = ("group_events", "rebalances", "findings")

    def __init__(self) -> None:
        # Of connections that have not ended: what client it is, as it told first, and whose members spoke there.
        self._software: dict[int, dict[str, Any]] = {}
        self._groups: dict[int, dict[str, None]] = {}
        self._members: dict[tuple[str, str], None] = {}  # clients and their groups, that were not handed on yet

    def tell_members(self, told: ToldMembers) -> None:
        """Hand on what was learned of members since this was asked last."""
        told.learn(self._members)
        self._members = {}

    def observe(self, tables: Mapping[str, pa.Table], ends: Mapping[int, Ends]) -> pa.Table | None:
        """Rows of GROUP_ROWS that a batch gives; None without any."""
        found = []
        if "exchanges" in tables:
            self._introduce(tables["exchanges"])
            if (messages := group_messages(tables["exchanges"], ends)) is not None:
                found += [group_rows("message", messages), self._introduced(messages)]
        if "connections" in tables:
            found.append(self._ended(tables["connections"]))
        found = [rows for rows in found if rows.num_rows]
        return pa.concat_tables(found) if found else None

    def result(self, rows: pa.Table, known: Known) -> dict[str, pa.Table]:
        """Rows of group_events, rebalances and findings, groups in order of their names."""
        found = GroupHistory()
        findings: list[Finding] = []
        for log, history in histories(rows, known):
            found.events += history.events
            found.rebalances += history.rebalances
            findings += group_findings(log, history)
        tables = {
            "group_events": event_table(found.events),
            "rebalances": rebalance_table(found.rebalances),
            "findings": finding_table(findings),
        }
        return {name: table for name, table in tables.items() if table.num_rows}

    def _introduce(self, exchanges: pa.Table) -> None:
        asked = exchanges.filter(pc.equal(exchanges["api"], "ApiVersions"))
        for connection, text in zip(asked["connection"].to_pylist(), asked["request"].to_pylist(), strict=True):
            told = {column: body_of(text).get(field) for field, column in _INTRODUCTION.items()}
            if any(told.values()):
                self._software.setdefault(connection, told)

    def _introduced(self, messages: pa.Table) -> pa.Table:
        """Who the clients of members are, that speak of a group for the first time: until their connections end."""
        members = messages.filter(pc.is_in(messages["api"], pa.array(sorted(MEMBER_APIS))))
        who = ["client_id", "client", "client_port", "broker"]
        pairs = members.group_by(["connection", "group_id"], use_threads=False)
        rows = []
        for pair in pairs.aggregate([(name, "first") for name in who]).to_pylist():
            connection, group = pair["connection"], pair["group_id"]
            groups = self._groups.setdefault(connection, {})
            if group in groups or len(groups) >= _MOST_GROUPS:
                continue
            groups[group] = None
            if pair["client_id_first"]:
                self._members[client_key(pair["client_first"], pair["client_id_first"]), group] = None
            if connection in self._software:
                client = {name: pair[f"{name}_first"] for name in who}
                rows.append({"group_id": group, "connection": connection} | client | self._software[connection])
        return _connections(rows)

    def _ended(self, connections: pa.Table) -> pa.Table:
        for connection in connections["connection"].to_pylist():
            self._software.pop(connection, None)
        of_members = connections.filter(pc.is_in(connections["connection"], pa.array(self._groups, pa.int64())))
        rows = []
        for row in numbered(of_members).to_pylist():
            known = {name: row[name] for name in _OF_CONNECTIONS}
            broker = address(row["broker"], row["broker_port"])
            rows += [known | {"group_id": group, "broker": broker} for group in self._groups.pop(row["connection"])]
        return _connections(rows)


def _connections(rows: list[dict[str, Any]]) -> pa.Table:
    return group_rows("connection", pa.Table.from_pylist(rows, schema=GROUP_CONNECTIONS))


def histories(rows: pa.Table, known: Known) -> Iterator[tuple[GroupLog, GroupHistory]]:
    """What the rows say of each group, and what became of it; groups in order of their names."""
    for of_groups, groups in keys_together(rows, GroupsView.key, _ROWS_AT_ONCE):
        for group, messages, ended in folded(of_groups, groups):
            yield from analyze_groups(GroupLog(group, messages, ended, known.topics), known.clusters)
