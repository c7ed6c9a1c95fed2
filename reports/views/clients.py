"""The view of clients: what each did, and the findings about it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import starmap

import pyarrow as pa

from kafkascope.reports.columns.answered import Answered
from kafkascope.reports.columns.parties import Ends
from kafkascope.reports.columns.views import Known
from kafkascope.reports.findings.client_rules import client_findings
from kafkascope.reports.findings.finding import Finding, finding_table
from kafkascope.reports.measures.client_facts import FACTS, Fact, facts_of, summed, with_names


class ClientsView:
    """The view of clients; its results are findings."""

    name = "client_facts"
    schema = FACTS
    key = "client"
    needs = frozenset({"connections", "exchanges", "errors", "partitions", "batches", "issues"})
    results: tuple[str, ...] = ("findings",)

    def __init__(self) -> None:
        self._answered = Answered()

    def observe(self, tables: Mapping[str, pa.Table], ends: Mapping[int, Ends]) -> pa.Table | None:
        """Facts of a batch."""
        parts = [part for part in facts_of(tables, ends, self._answered) if part.num_rows]
        if (connections := tables.get("connections")) is not None:
            self._answered.forget(connections["connection"].to_pylist())
        return summed(pa.concat_tables(parts)) if parts else None

    def result(self, rows: pa.Table, known: Known) -> dict[str, pa.Table]:
        """Findings about the clients in the rows."""
        by_client: dict[str, list[Fact]] = {}
        columns = [column.to_pylist() for column in summed(with_names(rows, known)).columns]  # as the fields of a fact
        for fact in starmap(Fact, zip(*columns, strict=True)):
            by_client.setdefault(fact.client, []).append(fact)
        findings: list[Finding] = []
        for client, facts in sorted(by_client.items()):
            facts.sort(key=lambda f: (f.span, f.kind, f.api or "", f.what or "", f.number or 0, f.broker or ""))
            findings += client_findings(client, facts)
        return {"findings": finding_table(findings)} if findings else {}
