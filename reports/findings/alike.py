"""Findings that say the same of many clients are one, with a list of them: forty clients with a habit are one thing to
read, and one thing to mend.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import numbered
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.findings.finding import OF_CLIENT, Finding, Observation, finding_table
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.thresholds import threshold

Row = dict[str, Any]

_GOES_BACK = "time_goes_back"
_FORGOTTEN = "commits_forgotten"  # who asked before the first commit seems to ask behind it


@dataclass(frozen=True, slots=True)
class Together:
    """Findings of which those alike are one. parts: ids of what each of these is made of, by its own id."""

    findings: pa.Table
    parts: dict[str, frozenset[str]]


def together(findings: pa.Table, issues: Collection[str] = ()) -> Together:
    """Findings of a whole capture, a row of each client, as people read them; issues: the kinds that it has.

    Those of one kind and severity about `alike` clients and more are one; nothing else of the rows is changed. Without
    those that hang on what came first where times go back.
    """
    if _GOES_BACK in issues:
        findings = findings.filter(pc.not_equal(findings["kind"], _FORGOTTEN))
    is_of_client = pc.starts_with(findings["subject"], OF_CLIENT)
    alike: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in numbered(findings.filter(is_of_client)).to_pylist():
        alike[row["kind"], row["severity"]].append(row)
    made, parts = list[Finding](), dict[str, frozenset[str]]()
    for rows in alike.values():
        if len({row["subject"] for row in rows}) >= threshold("alike"):
            one = _one(rows)
            made.append(one)
            parts[one.id] = frozenset(row["id"] for row in rows)
    if not made:
        return Together(findings, {})
    gone = pa.array(sorted(set().union(*parts.values())), pa.string())
    others = findings.filter(pc.invert(pc.is_in(findings["id"], gone)))
    return Together(pa.concat_tables([others, finding_table(made)]), parts)


def _one(rows: list[Row]) -> Finding:
    rows = sorted(rows, key=lambda row: (-row["weight"], row["subject"], row["title"]))
    worst = rows[0]
    subjects = sorted({row["subject"] for row in rows})
    names = listed(subject.removeprefix(OF_CLIENT) for subject in subjects)
    is_same = all(row["title"] == worst["title"] for row in rows)
    return Finding(
        severity=Severity(worst["severity"]),
        kind=worst["kind"],
        title=f"{len(subjects):,} clients alike{'' if is_same else ', the worst'}: {worst['title']}",
        subject=f"clients {names}",
        since=min((row["since"] for row in rows if row["since"] is not None), default=None),
        until=max((row["until"] for row in rows if row["until"] is not None), default=None),
        evidence=[_seen(row) for row in rows],
        advice=worst["advice"],
        weight=worst["weight"],
        subjects=subjects,
        client_ids=sorted({name for row in rows for name in row["client_ids"]}),
    )


def _seen(row: Row) -> Observation:
    """What was found of one client, at the first packet that shows it."""
    told = next((one for one in row["evidence"] or () if one["packet"] is not None), {"packet": None, "at": None})
    text = f"{row['subject'].removeprefix(OF_CLIENT)}: {row['title']}"
    return Observation(text, told["packet"], told["at"] if told["at"] is not None else row["since"])
