"""Incidents as lines: for people, or as JSON."""

from __future__ import annotations

from kafkascope.decoders import to_json
from kafkascope.reports.columns.shown import shown_text
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.incident import Incident, incident_table
from kafkascope.reports.show.as_json import with_times
from kafkascope.reports.vocabulary.finding_kinds import Severity

_COLOURS = {Severity.CRITICAL: "\x1b[1;31m", Severity.WARNING: "\x1b[33m", Severity.INFO: "\x1b[36m"}
_PLAIN = "\x1b[0m"


def lines(one: Incident, is_over: bool, colour: bool = False) -> list[str]:
    """What, what it cost, what to do: a line each; one line to say that it is over."""
    severity = f"{one.severity:<8}"
    if colour:
        severity = f"{_COLOURS[one.severity]}{severity}{_PLAIN}"
    if is_over:
        return [f"{clock(one.ended)} {severity} over: {shown_text(one.headline)}"]
    cost = "; ".join(effect.text for effect in one.effects)
    told = [f"{clock(one.started)} {severity} {shown_text(one.what)} ({one.certainty})"]
    if cost:
        told.append(f"{'':21} {shown_text(cost)}")
    return [*told, f"{'':21} → {shown_text(one.advice)}"]


def json_line(one: Incident, is_over: bool) -> str:
    """The row of the table, without its rank, and whether it is told because it is over."""
    table = incident_table([one]).drop_columns(["rank"])
    [row] = with_times(table)
    return to_json({"table": "incidents", "over": is_over} | row)
