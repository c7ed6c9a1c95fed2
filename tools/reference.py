"""Write the pages of the reference documentation, out of the help of commands, schemas, and tables of kinds.

    python tools/reference.py DIRECTORY

`make docs` has mkdocs make a site of them, together with README, GALLERY, DESIGN and others.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from typer.main import get_command

from kafkascope.cli import app
from kafkascope.decoders.errors import ERRORS
from kafkascope.reports.vocabulary.events import ClusterEventKind, EventKind
from kafkascope.reports.vocabulary.finding_kinds import FINDING_KINDS
from kafkascope.reports.vocabulary.incident_kinds import INCIDENT_KINDS
from kafkascope.reports.vocabulary.issue_kinds import ISSUE_KINDS
from kafkascope.reports.vocabulary.tables import ASKED, CONCLUSIONS, MEANING, RESULTS, RUN, SCHEMA_VERSION, SCHEMAS
from kafkascope.reports.vocabulary.thresholds import THRESHOLDS
from kafkascope.reports.vocabulary.triggers import TRIGGERS

ROOT = Path(__file__).resolve().parent.parent
_TEXTS = {
    "README.md": "index.md",
    "GALLERY.md": "gallery.md",
    "DESIGN.md": "design.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "BENCHMARKS.md": "benchmarks.md",
    "CHANGELOG.md": "changelog.md",
}
_LINK = re.compile(r"\[([^]]+)\]\((?!https?:|#)([^)]+)\)")


def pages() -> dict[str, str]:
    """All pages by file name, as Markdown."""
    return {
        "command_line.md": "".join(_command_line()),
        "notebooks.md": _NOTEBOOKS,
        "tables.md": "".join(_tables()),
        "incidents.md": "".join(_incidents()),
        "findings.md": "".join(_findings()),
        "groups.md": "".join(_groups()),
        "clusters.md": "".join(_clusters()),
        "issues.md": "".join(_issues()),
        "errors.md": "".join(_errors()),
        "stability.md": _STABILITY.format(version=SCHEMA_VERSION),
        **{page: _text((ROOT / name).read_text()) for name, page in _TEXTS.items()},
    }


_NOTEBOOKS = """# Notebooks

::: kafkascope.capture.read

::: kafkascope.capture.Capture
    options: {inherited_members: true}

::: kafkascope.one_exchange.DecodedExchange

::: kafkascope.groups.Group

::: kafkascope.figures.Answer

::: kafkascope.comparing.compare

::: kafkascope.comparing.Comparison

## Single messages and interfaces

::: kafkascope.decoding.decode_request

::: kafkascope.decoding.decode_response

::: kafkascope.decoding.Message

::: kafkascope.live_exchanges.live

::: kafkascope.live_exchanges.Exchange
"""

_STABILITY = """# What stays as it is

Tables (in notebooks and as Parquet), `summary.json`, `kafkascope report --format json` and the JSON lines of `sniff`
are an interface. It has a version, `schema_version` in `summary.json`; this documentation is of version **{version}**.

- Within a version no table and no column goes away, changes its name or its type, or means something else.
- A new table or column raises the version too, and is in the [changelog](changelog.md). Read columns by name, and pass
  over what you do not know.
- Columns that name a kind (of findings, triggers, events, issues) may have new values in any release. None changes its
  meaning without a line in the changelog.
- The order of rows is by time, in findings by weight. The cut into Parquet files is no promise.
- Text for people (lines of `sniff`, the summary, reports as HTML and Markdown, titles, evidence, advice) may change at
  any time. So may what a rule finds, as the rules get better.
- Of Python, what [Notebooks](notebooks.md) has is an interface. All other modules are not.
"""


def _row(*cells: object) -> str:
    """One row of a Markdown table."""
    texts = (str(cell).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(texts)} |\n"


def _head(*titles: str) -> str:
    return "\n" + _row(*titles) + "|" + "--|" * len(titles) + "\n"


def _command_line() -> Iterator[str]:
    yield "# Command line\n\n`sniff` is `kafkascope sniff`. Each command ends with status 0 if all went well, 1 if "
    yield "something could not be read or written, 2 if it was called wrongly.\n"
    group: Any = get_command(app)  # whose classes are typer's own, without types
    for name, command in group.commands.items():
        yield f"\n## kafkascope {name}\n\n{command.help}\n" + _head("option or argument", "meaning")
        for parameter in command.params:
            is_option = parameter.param_type_name == "option"
            takes = "" if is_option and parameter.is_flag else parameter.metavar or parameter.type.name.upper()
            names = ", ".join([*parameter.opts, *parameter.secondary_opts]) if is_option else ""
            yield _row(f"`{f'{names} {takes}'.strip()}`", parameter.help or "")


def _tables() -> Iterator[str]:
    yield "# Tables\n\nTimes are UTC nanoseconds, columns whose names end in `_ms` milliseconds, sizes bytes. "
    yield "Packets are numbered over the whole capture from 1; `files` in `summary.json` has the numbers of each file. "
    yield f"In the directory of an analysis each table has one column more, `{RUN.name}`: {_meaning(RUN)}. Numbers of "
    yield "packets and connections are those of their run. Parquet files carry these meanings as metadata of their "
    yield "columns.\n"
    seen, means = ("What was seen", SCHEMAS), ("What it means", CONCLUSIONS | RESULTS)
    for title, schemas in (seen, means, ("What notebooks work out of these", ASKED)):
        yield f"\n## {title}\n"
        for name, schema in schemas.items():
            yield f"\n### {name}\n\n{_meaning(schema)}.\n" + _head("column", "type", "meaning")
            for column, kind, meaning in _columns(schema):
                yield _row(f"`{column}`", f"`{kind}`", meaning)


def _columns(columns: Iterable[pa.Field], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Name, type and meaning of each column, and below it of the fields of structs in it."""
    for column in columns:
        kind = column.type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        inner = kind.value_type if pa.types.is_list(kind) else kind
        is_struct = pa.types.is_struct(inner)
        yield (
            prefix + column.name,
            ("list of struct" if inner is not kind else "struct") if is_struct else str(kind),
            _meaning(column),
        )
        if is_struct:
            yield from _columns(inner, f"{prefix}{column.name}.")


def _meaning(of: pa.Field | pa.Schema) -> str:
    meaning: bytes = (of.metadata or {}).get(MEANING, b"")
    return meaning.decode()


def _findings() -> Iterator[str]:
    yield "# Findings\n\nEach row of the table `findings` names who it is about, and has its evidence with "
    yield "packets, and advice.\n" + _head("kind", "what it says")
    for kind, meaning in FINDING_KINDS.items():
        yield _row(f"`{kind}`", meaning)
    yield "\n## Thresholds\n\nWhat counts as a problem.\n" + _head("threshold", "value", "unit", "reason")
    for name, one in THRESHOLDS.items():
        yield _row(f"`{name}`", f"{one.value:g}", one.unit, one.reason)


def _incidents() -> Iterator[str]:
    yield "# Incidents\n\nEach row of the table `incidents` is one cause with all that came of it: who, when, what it "
    yield "cost, how one knows, and what to do.\n" + _head("kind", "what happened")
    for kind, meaning in INCIDENT_KINDS.items():
        yield _row(f"`{kind}`", meaning)


def _groups() -> Iterator[str]:
    yield "# Groups\n\n## Triggers of rebalances\n" + _head("trigger", "called", "meaning", "mark in pictures")
    for name, trigger in TRIGGERS.items():
        yield _row(f"`{name}`", trigger.words, trigger.meaning, trigger.mark)
    yield "\n## Events\n" + _head("event", "meaning")
    for kind in EventKind:
        yield _row(f"`{kind}`", kind.meaning)


def _clusters() -> Iterator[str]:
    yield "# Clusters\n\nEvents of the table `cluster_events`. What is known when a thing is told of first is no "
    yield "event, but for brokers and their addresses.\n" + _head("event", "meaning")
    for kind in ClusterEventKind:
        yield _row(f"`{kind}`", kind.meaning)


def _issues() -> Iterator[str]:
    yield "# Issues\n\nDamage and oddities are counted, never hidden; none ends a run.\n"
    yield _head("kind", "meaning", "what it weakens")
    for name, kind in ISSUE_KINDS.items():
        yield _row(f"`{name}`", kind.meaning, kind.weakens)


def _errors() -> Iterator[str]:
    yield "# Errors\n\nError codes of Kafka, and what to do about each.\n"
    yield _head("code", "name", "retriable", "meaning", "advice")
    for code, error in ERRORS.items():
        advice = error.advice if code else ""
        yield _row(code, f"`{error}`", "yes" if error.retriable else "no", error.meaning, advice)


def _text(text: str) -> str:
    """A text of the repository; links to other texts lead to their pages, those to files are the files' names."""

    def target(link: re.Match[str]) -> str:
        name, mark, place = link[2].partition("#")
        return f"[{link[1]}]({_TEXTS[name]}{mark}{place})" if name in _TEXTS else f"`{link[2]}`"

    return _LINK.sub(target, text)


def main() -> None:
    """Write the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    directory = parser.parse_args().directory
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (directory / name).write_text(text)


if __name__ == "__main__":
    main()
