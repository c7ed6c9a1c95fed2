"""The answers as a post-mortem in Markdown: for a ticket, a chat or a repository."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from kafkascope.reports.answers import coverage
from kafkascope.reports.answers.answers import Answers
from kafkascope.reports.answers.errors import ErrorAnswer
from kafkascope.reports.answers.groups import GroupAnswer, weight_ms
from kafkascope.reports.answers.latency import PART_NAMES, of_broker, shares_of
from kafkascope.reports.columns.shown import shown_text
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock, day_and_clock, duration
from kafkascope.reports.groups.history import Rebalance
from kafkascope.reports.show.explanation import explain
from kafkascope.reports.vocabulary.triggers import words

GROUPS = 20  # that are told in full
REBALANCES = 25  # of each, the costliest
ROWS = 25  # of any other table


def post_mortem(answers: Answers, title: str = "What the capture tells") -> str:
    """A document. Text of the capture in it is escaped: it is shown as it is, and marks nothing up."""
    lines = [f"# {escaped(title)}", "", escaped(" · ".join(coverage.headline(answers.summary))), ""]
    for section in (_incidents, _findings, _groups, _latency, _errors, _lag, _throughput, _coverage):
        lines += [*section(answers), ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def escaped(text: str) -> str:
    """Text that Markdown, and the HTML in it, show as it is, on one line."""
    return re.sub(r"([\\`*_{}\[\]()<>#|~!&])", r"\\\1", _one_line(text)).replace("\\<", "&lt;").replace("\\>", "&gt;")


def _one_line(text: str) -> str:
    return shown_text(" ".join(text.splitlines()))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'--|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _absent(table: str) -> str:
    return f"There is no table {escaped(table)} in this analysis, so nothing can be said here."


def _packet(number: int | None) -> str:
    return "" if number is None else f" (packet {number})"


def _incidents(answers: Answers) -> Iterator[str]:
    yield "## Incidents"
    yield ""
    if (found := answers.incidents) is None:
        yield _absent("incidents")
        return
    if not found.trouble:
        text = answers.nothing_wrong
        yield escaped(f"{text[:1].upper()}{text[1:]}.")
        yield ""
    for number, one in enumerate(found.shown[:ROWS], 1):
        yield f"### {number}. {one.severity}: {escaped(one.what)}"
        yield ""
        if one.effects:
            yield f"**What it cost:** {escaped('; '.join(effect.text for effect in one.effects))}"
            yield ""
        yield f"**What to do:** {escaped(one.advice)}"
        yield ""
        for seen in one.evidence:
            text = f"not {seen.text}" if seen.rejected else seen.text
            yield f"- {clock(seen.at)} {escaped(text)}{_packet(seen.packet)}".replace("-  ", "- ")
        yield f"- How sure: {one.certainty}"
        yield ""
    if (more := len(found.shown) - ROWS + found.left_out) > 0 and len(found.shown) >= ROWS:
        yield f"And {more:,} more, in the table incidents."


def _findings(answers: Answers) -> Iterator[str]:
    yield "## Findings"
    yield ""
    if (found := answers.findings) is None:
        yield _absent("findings")
        return
    if not found.shown and answers.no_kafka:
        yield "No Kafka was seen, so nothing can be said of problems."
    elif not found.shown:
        trouble = answers.incidents is not None and answers.incidents.trouble
        none = "Nothing besides the incidents." if trouble else "No problem was found."
        yield f"{none} Coverage, below, says what the capture does not show."
    for one in found.shown[:ROWS]:
        since = f", since {day_and_clock(one.since)}" if one.since is not None else ""
        until = f" until {clock(one.until)}" if one.until is not None and one.until != one.since else ""
        yield f"### {one.severity}: {escaped(one.title)}"
        yield ""
        yield f"{escaped(one.subject)}{since}{until}"
        yield ""
        if one.advice:
            yield f"**What to do:** {escaped(one.advice)}"
            yield ""
        for seen in one.evidence:
            yield f"- {clock(seen.at)} {escaped(seen.text)}{_packet(seen.packet)}".replace("-  ", "- ")
        yield ""
    if (more := len(found.shown) - ROWS + found.left_out) > 0 and len(found.shown) >= ROWS:
        yield f"And {more:,} more, in the table findings."


def _groups(answers: Answers) -> Iterator[str]:
    yield "## Groups and rebalances"
    yield ""
    if (groups := answers.groups) is None:
        yield _absent("rebalances")
        return
    causes = ", ".join(f"{words(trigger)} {count:,}" for trigger, count in groups.triggers.items())
    yield f"{counted(groups.rebalances, 'rebalance')} of {counted(groups.total, 'group')}" + (
        f": {causes}." if causes else "."
    )
    for group in groups.shown[:GROUPS]:
        yield from _group(group)
    if groups.total > GROUPS:
        yield ""
        yield f"And {groups.total - GROUPS:,} more groups, in the table rebalances."


def _group(group: GroupAnswer) -> Iterator[str]:
    yield ""
    yield f"### Group {escaped(group.counts.group_id)} ({' → '.join(group.counts.protocols) or 'protocol not known'})"
    yield ""
    if not group.rebalances:
        return
    costliest = sorted(group.rebalances, key=weight_ms, reverse=True)[:REBALANCES]
    shown = {id(row) for row in costliest}
    rows = (
        (
            day_and_clock(_begin(row)),
            f"{'?' if row.from_generation is None else row.from_generation} → {row.to_generation}",
            words(row.trigger),
            escaped(row.trigger_client_id or ""),
            row.certainty or "",
            duration(row.duration_ms) or "never stable",
            duration(row.unowned_ms),
        )
        for row in group.rebalances
        if id(row) in shown
    )
    yield from _table(("started", "generation", "cause", "who", "certainty", "took", "nobody owned"), rows)
    if group.counts.rebalances > len(shown):
        yield ""
        yield f"The costliest {len(shown)} of {group.counts.rebalances:,}."
    yield ""
    yield "The costliest in full:"
    yield ""
    yield "```text"
    yield from (line.replace("```", "'''") for line in explain(costliest[0]).split("\n"))
    yield "```"


def _begin(row: Rebalance) -> int | None:
    return next((at for at in (row.started, row.joined, row.stable) if at is not None), None)


def _latency(answers: Answers) -> Iterator[str]:
    yield "## Latency"
    yield ""
    if (latency := answers.latency) is None:
        yield _absent("latency")
        return
    rows = []
    for api in latency.apis[:ROWS]:
        broker, is_told = of_broker(api)
        shares = ", ".join(
            f"{PART_NAMES[name][0]} {share:.0%}" for name, share in shares_of(api).items() if share >= 0.005
        )
        p50, p90, p99, _ = map(duration, api.total.at)
        slowest = f"{'' if is_told else '≤'}{duration(broker.at[2])}" if broker else ""
        highest = duration(api.total.highest)
        rows.append((escaped(api.api), f"{api.total.count:,}", p50, p90, p99, highest, slowest, shares))
    yield from _table(("API", "answers", "p50", "p90", "p99", "max", "p99 of broker and disk", "time went to"), rows)


def _errors(answers: Answers) -> Iterator[str]:
    yield "## Errors"
    yield ""
    if (errors := answers.errors) is None:
        yield _absent("error_histogram")
        return
    if not errors.trouble:
        yield "No error that means trouble was answered."
    else:
        yield from _table(
            ("error", "API", "count", "first", "where", "meaning", "what to do"), map(_error, errors.trouble[:ROWS])
        )
    if errors.ordinary:
        yield ""
        yield "Ordinary in a handshake: " + ", ".join(
            f"{escaped(one.error)} in {escaped(one.api)} {one.count:,}" for one in errors.ordinary[:ROWS]
        )


def _error(one: ErrorAnswer) -> tuple[str, ...]:
    where = ", ".join(f"{kind} {escaped(name)} {count:,}" for kind, name, count in one.where())
    first = clock(one.first) + _packet(one.packet)
    return (
        escaped(one.error),
        escaped(one.api),
        f"{one.count:,}",
        first,
        where,
        escaped(one.meaning),
        escaped(one.advice),
    )


def _lag(answers: Answers) -> Iterator[str]:
    yield "## Lag"
    yield ""
    if (lag := answers.lag) is None:
        yield _absent("lag")
        return
    if not lag.groups:
        yield "No lag could be worked out."
        return
    rows = (
        (escaped(group.name), escaped(one.name), f"{one.lag:,}" if one.lag is not None else "", f"{one.highest:,}")
        for group in lag.groups[:GROUPS]
        for one in group.partitions[:5]
    )
    yield from _table(("group", "partition", "lag at the end", "highest"), rows)


def _throughput(answers: Answers) -> Iterator[str]:
    yield "## Throughput"
    yield ""
    if (flow := answers.throughput) is None:
        yield _absent("throughput")
        return
    rows = (
        (
            escaped(one.topic),
            one.direction,
            escaped(one.client_id or ""),
            f"{one.records:,}",
            f"{one.bytes:,}",
            f"{one.records / one.batches:,.1f}" if one.batches else "",
            "" if one.ratio is None else f"{one.ratio:.0%}",
        )
        for one in flow.flows[:ROWS]
    )
    yield from _table(("topic", "direction", "client", "records", "bytes", "records in a batch", "compressed to"), rows)


def _coverage(answers: Answers) -> Iterator[str]:
    yield "## Coverage"
    yield ""
    for name, value in coverage.facts(answers.summary, answers.remarks):
        yield f"- {escaped(name)}: {escaped(value)}"
    yield ""
    if answers.issues is None:
        yield _absent("issues")
    elif not answers.issues:
        yield "Nothing was lost, cut or left undecoded."
    else:
        rows = (
            (escaped(one.kind.replace("_", " ")), f"{one.count:,}", escaped(one.meaning), escaped(one.weakens))
            for one in answers.issues[:ROWS]
        )
        yield from _table(("not seen or not understood", "count", "meaning", "what it weakens"), rows)
