"""The view of groups: what any connection said of a group, and what became of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from reports.findings.finding import Finding, finding_table
from reports.findings.group_rules import group_findings
from reports.groups.analysis import analyze_group
from reports.groups.history import GroupHistory, GroupLog, event_table, rebalance_table
from reports.groups.messages import MEMBER_APIS, Ends, group_messages, messages_of
from reports.tables import GROUP_MESSAGES
from reports.text import address
from reports.views import Known, by_key

_MOST_GROUPS = 1_000
"""Groups of members on one connection that are remembered until it ends: a client has one or a few."""

_HOW_IT_ENDED = ("opened", "closed", "how_closed", "software", "software_version")


class GroupsView:
    """Messages by group, and how the connections of members ended; of them, events, rebalances and findings."""

    name = "group_messages"
    schema = GROUP_MESSAGES
    key = "group_id"
    needs = frozenset({"exchanges", "connections"})
    results: tuple[str, ...] = ("group_events", "rebalances", "findings")

    def __init__(self) -> None:
        self._groups: dict[int, dict[str, None]] = {}  # whose members spoke on a connection that has not ended

    def observe(self, tables: Mapping[str, pa.Table], ends: Mapping[int, Ends]) -> pa.Table | None:
        """Rows of GROUP_MESSAGES that a batch gives; None without any."""
        found = []
        if "exchanges" in tables and (messages := group_messages(tables["exchanges"], ends)) is not None:
            self._remember(messages)
            found.append(messages)
        if "connections" in tables and (ended := self._ended(tables["connections"])) is not None:
            found.append(ended)
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

    def _remember(self, messages: pa.Table) -> None:
        members = messages.filter(pc.is_in(messages["api"], pa.array(sorted(MEMBER_APIS))))
        pairs = members.select(["connection", "group_id"]).group_by(["connection", "group_id"], use_threads=False)
        for pair in pairs.aggregate([]).to_pylist():
            groups = self._groups.setdefault(pair["connection"], {})
            if len(groups) < _MOST_GROUPS:
                groups[pair["group_id"]] = None

    def _ended(self, connections: pa.Table) -> pa.Table | None:
        if not self._groups:
            return None
        of_members = connections.filter(pc.is_in(connections["connection"], pa.array(self._groups)))
        times = {"opened": pa.int64(), "closed": pa.int64()}
        whole = pa.schema([pa.field(f.name, times.get(f.name, f.type)) for f in of_members.schema])
        rows = [
            {
                "group_id": group,
                "kind": "connection",
                "connection": row["connection"],
                "client_id": row["client_id"],
                "client": row["client"],
                "client_port": row["client_port"],
                "broker": address(row["broker"], row["broker_port"]),
                "request": json.dumps({name: row[name] for name in _HOW_IT_ENDED}),
            }
            for row in of_members.cast(whole).to_pylist()
            for group in self._groups.pop(row["connection"])
        ]
        return pa.Table.from_pylist(rows, schema=GROUP_MESSAGES) if rows else None


def histories(rows: pa.Table, known: Known) -> Iterator[tuple[GroupLog, GroupHistory]]:
    """What the rows say of each group, and what became of it; groups in order of their names."""
    for group, of_group in by_key(rows, GroupsView.key):
        log = GroupLog(group, *messages_of(of_group), known.topics)
        yield log, analyze_group(log)
