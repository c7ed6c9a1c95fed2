"""The answers on a terminal, in a screen or two: what a person would want first comes first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from kafkascope.reports.answers import coverage
from kafkascope.reports.answers.answers import Answers
from kafkascope.reports.answers.errors import Errors
from kafkascope.reports.answers.groups import Groups, weight_ms
from kafkascope.reports.answers.latency import PART_NAMES, ApiLatency, Latency, of_broker, shares_of, tone
from kafkascope.reports.answers.progress import Lag
from kafkascope.reports.columns.shown import shown_text
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.findings.finding import Finding
from kafkascope.reports.incidents.incident import Incident
from kafkascope.reports.measures.latency.parts import BROKER
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.triggers import words

_ROWS = 10  # of each table; what is left out is counted
_FINDINGS = 8
_TONES = {"bad": "red", "warn": "yellow"}
_STYLES: dict[str, str] = {Severity.CRITICAL: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}


def show(answers: Answers, console: Console) -> None:
    """Print the answers."""
    parts: list[RenderableType] = [Text(" · ".join(coverage.headline(answers.summary)))]
    for part in (
        _incidents(answers),
        _findings(answers),
        _groups(answers.groups),
        _latency(answers.latency),
        _errors(answers.errors),
        _lag(answers.lag),
        _coverage(answers),
    ):
        shown = list(part)
        if shown:
            parts += ["", *shown]
    console.print(Group(*parts))


def _incidents(answers: Answers) -> Iterator[RenderableType]:
    found = answers.incidents
    if found is None:
        return
    if not found.trouble:
        yield Text(answers.nothing_wrong, style="" if answers.no_kafka or answers.grave else "green")
    grid = Table.grid(padding=(0, 1))
    for one in found.shown[:_FINDINGS]:
        grid.add_row(Text(one.severity, style=_STYLES.get(one.severity, "")), incident_text(one))
    if found.shown:
        yield grid
    if (more := len(found.shown) + found.left_out - _FINDINGS) > 0:
        yield Text(f"and {more:,} more incidents, in the report")


def incident_text(one: Incident) -> Text:
    """What broke, what it cost, what to do: a line each."""
    cost = " · ".join(effect.text for effect in one.effects)
    text = Text(shown_text(one.what), style="bold")
    text.append(f"\n{shown_text(cost)}{' · ' if cost else ''}{one.certainty}", style="dim not bold")
    return text.append(f"\n→ {shown_text(one.advice)}", style="not bold")


def _findings(answers: Answers) -> Iterator[RenderableType]:
    found = answers.findings
    if found is None:
        return
    explained = answers.incidents.explained if answers.incidents else frozenset()
    others = [one for one in found.shown if one.id not in explained]
    if not others and answers.incidents is None and not answers.no_kafka:
        yield Text("no problem was found", style="green")
    count = len(others) + found.left_out
    if others:
        yield Text(counted(count, "finding") + (" besides" if explained else ""), style="bold")
        grid = Table.grid(padding=(0, 1))
        for one in others[:_FINDINGS]:
            grid.add_row(Text(one.severity, style=_STYLES.get(one.severity, "")), _finding(one))
        yield grid
    if count > _FINDINGS:
        yield Text(f"and {count - _FINDINGS:,} more, in the report")


def _finding(one: Finding) -> Text:
    since = f", since {clock(one.since)}" if one.since is not None else ""
    packets = list(dict.fromkeys(f"{seen.packet}" for seen in one.evidence if seen.packet is not None))[:3]
    told = f", packet{'s' if len(packets) > 1 else ''} {', '.join(packets)}" if packets else ""
    text = Text.assemble((shown_text(one.title), "bold"), (f"\n{shown_text(one.subject)}{since}{told}", "dim"))
    return text.append(f"\n→ {shown_text(one.advice)}") if one.advice else text


def _groups(groups: Groups | None) -> Iterator[RenderableType]:
    if groups is None or not groups.total:
        return
    table = _table("group", "protocol", "rebalances:", "causes", "worst:", "nobody owned:", "worst one")
    for group in groups.shown[:_ROWS]:
        one = group.counts
        worst = max(group.rebalances, key=weight_ms, default=None)
        told = ""
        if worst is not None:
            who = f" of {worst.trigger_client_id}" if worst.trigger_client_id else ""
            told = f"{clock(worst.started)} → {worst.to_generation}: {words(worst.trigger)}{who} ({worst.certainty})"
        causes = ", ".join(f"{words(trigger)} {count}" for trigger, count in one.causes[:3])
        _row(
            table,
            one.group_id,
            " → ".join(one.protocols),
            f"{one.rebalances:,}",
            causes + (", …" if len(one.causes) > 3 else ""),
            duration(one.worst_cost_ms),
            duration(one.worst_unowned_ms) if one.worst_unowned_ms else "",
            told,
        )
    yield _and_more(table, groups.total)


def _latency(latency: Latency | None) -> Iterator[RenderableType]:
    if latency is None or not latency.apis:
        return
    table = _table("latency", "count:", "p50:", "p99:", "max:", "broker\np99:", "mostly")
    table.columns[0].no_wrap = True  # names of APIs are no longer than a line has room for
    for api in latency.apis[:_ROWS]:
        p50, _, p99, _ = (duration(value) for value in api.total.at)
        broker, is_told = of_broker(api)
        most = "" if is_told else "≤"
        own = Text(most + duration(broker.at[2]), style=_TONES.get(tone(BROKER, broker), "")) if broker else Text()
        _row(table, api.api, f"{api.total.count:,}", p50, p99, duration(api.total.highest), own, _most(api))
    yield _and_more(table, len(latency.apis))


def _most(api: ApiLatency) -> str:
    """What most of the time went to, and how much of it: ``waiting 84%``."""
    shares = shares_of(api)
    if not shares:
        return ""
    name = max(shares, key=lambda one: shares[one])
    return f"{PART_NAMES[name][0]} {shares[name]:.0%}"


def _errors(errors: Errors | None) -> Iterator[RenderableType]:
    if errors is None:
        return
    if errors.trouble:
        table = _table("errors", "API", "count:", "first", "packet:", "where", style="red")
        for one in errors.trouble[:_ROWS]:
            where = ", ".join(f"{kind} {name}" for kind, name, _ in one.where()[:3])
            packet = "" if one.packet is None else str(one.packet)
            _row(table, one.error, one.api, f"{one.count:,}", clock(one.first), packet, where)
        yield _and_more(table, len(errors.trouble))
    elif errors.ordinary:
        yield Text("no error that means trouble", style="green")
    if errors.ordinary:
        counts: Counter[str] = Counter()
        for one in errors.ordinary:
            counts[one.error] += one.count
        told = ", ".join(f"{error} {count:,}" for error, count in counts.most_common(_ROWS))
        more = f" and {len(counts) - _ROWS} more" if len(counts) > _ROWS else ""
        yield Text(f"ordinary in a handshake: {shown_text(told)}{more}", style="dim")


def _lag(lag: Lag | None) -> Iterator[RenderableType]:
    if lag is None or not lag.groups:
        return
    table = _table("lag", "partitions:", "highest:", "of", "at the end:")
    for group in lag.groups[:_ROWS]:
        first = group.partitions[0]
        count = len(group.partitions) + group.partitions_left_out
        end = f"{group.sums[-1]:,}" if group.sums else ""
        _row(table, group.name, f"{count:,}", f"{group.highest:,}", first.name, end)
    yield _and_more(table, len(lag.groups) + lag.left_out)


def _coverage(answers: Answers) -> Iterator[RenderableType]:
    skipped = {"packets", "connections"}
    for name, value in coverage.facts(answers.summary, answers.remarks):
        if name not in skipped:
            yield Text(
                f"{name}: {shown_text(value)}",
                style="yellow" if name in ("encrypted", "clock", *answers.remarks) else "",
            )
    if answers.issues:
        table = _table("not seen or not understood", "count:", "what it weakens", style="yellow")
        for one in answers.issues[:_ROWS]:
            _row(table, one.kind.replace("_", " "), f"{one.count:,}", one.weakens)
        yield _and_more(table, len(answers.issues))


def _table(*heads: str, style: str = "") -> Table:
    """A table; a head that ends in a colon is of a column of numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for i, head in enumerate(heads):
        number = head.endswith(":")
        table.add_column(
            head.rstrip(":"),
            justify="right" if number else "left",
            no_wrap=number,
            overflow="fold",  # a name that is cut cannot be looked for
            style="" if i else style,
        )
    return table


def _row(table: Table, *cells: str | Text) -> None:
    table.add_row(*(cell if isinstance(cell, Text) else Text(shown_text(cell)) for cell in cells))


def _and_more(table: Table, rows: int) -> Table:
    if rows > _ROWS:
        table.add_row(f"and {rows - _ROWS:,} more")
    return table
