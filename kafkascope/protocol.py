"""``kafkascope apis``: the protocol as its definitions have it, and which release knows what of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from kafkascope.decoders import plain, releases, schema
from kafkascope.decoders.apis import find
from kafkascope.decoders.changes import Change, How, changes
from kafkascope.decoders.releases import Known
from kafkascope.decoders.schema import OPEN_END, Api, Field, Message, Versions
from kafkascope.program import WRONG_USE, Remark
from kafkascope.reports.columns.nearest import no_such_api

_SIGNS = {How.ADDED: "[green]+[/]", How.REMOVED: "[red]-[/]", How.CHANGED: "[yellow]~[/]"}


def show_all(release: str | None, as_json: bool, remark: Remark) -> int:
    """Print the list of APIs, or of those that a release knows. Returns the exit status."""
    if release is not None and releases.minor(release) not in releases.releases():
        remark(f"--release {release}: known are {', '.join(releases.releases())}")
        return WRONG_USE
    if as_json:
        wanted = [api for api in schema.apis().values() if release is None or releases.known(release, api.key)]
        print(json.dumps([_facts(api) for api in wanted], indent=2))
        return 0
    _console().print(_list() if release is None else _list_of(release))
    return 0


def show(name: str, version: int | None, diff: tuple[int, int] | None, as_json: bool, remark: Remark) -> int:
    """Print one API: the layouts of a version, or what changed between two. Returns the exit status."""
    api = find(name)
    if api is None:
        remark(no_such_api(name))
        return WRONG_USE
    if diff is not None and version is not None:
        remark("--diff tells two versions, --version one of them: give one of both options")
        return WRONG_USE
    shown = diff or (api.versions.last if version is None else version,)
    for one in shown:
        if one not in api.versions:
            remark(f"{api.name} has versions {api.versions}, not {one}")
            return WRONG_USE
    if as_json:
        _print_json(api, shown)
    else:
        _print(api, shown)
    return 0


def _print_json(api: Api, versions: tuple[int, ...]) -> None:
    """The fields of one version, or what changed between two."""
    facts = _facts(api)
    for side, message in _messages(api).items():
        if len(versions) == 1:
            facts[side] = {"version": versions[0], "fields": list(_fields(message.fields, versions[0]))}
        else:
            found = changes(message, *versions)
            facts[side] = [{"path": it.path, "how": it.how.value, "what": it.what} for it in found]
    print(json.dumps(facts, indent=2))


def _print(api: Api, versions: tuple[int, ...]) -> None:
    """The same for people."""
    console = _console()
    console.print(f"[bold]{api.name}[/] key {api.key}, versions {api.versions}, flexible {api.request.flexible}")
    for line in _by_release(api.key):
        console.print(f"  Apache Kafka {line}")
    for side, message in _messages(api).items():
        if len(versions) == 1:
            console.print(_tree(f"{side} v{versions[0]}", message, versions[0]))
        else:
            console.print(f"[bold]{side} v{versions[0]} → v{versions[1]}[/]")
            for line in [*map(_change, changes(message, *versions))] or ["the same"]:
                console.print(f"  {line}")


def _messages(api: Api) -> dict[str, Message]:
    return {"request": api.request, "response": api.response}


def _console() -> Console:
    return Console(highlight=False, width=None if sys.stdout.isatty() else 160)


def _by_release(api_key: int) -> Iterator[str]:
    """``2.4 to 4.3: versions 0-4``: releases that follow each other and know the same are one line."""
    order = releases.releases()

    def what(release: str) -> tuple[Versions, Versions] | None:
        known = releases.known(release, api_key)
        return None if known is None else (known.versions, known.unstable)

    for known, same in groupby(order, what):
        if known is None:
            continue
        names = list(same)
        span = names[0] if names[0] == names[-1] else f"{names[0]} to {names[-1]}"
        unstable = f" (unstable: {known[1]})" if known[1] else ""
        before = "; of releases before nothing is known" if names[0] == order[0] else ""
        yield f"{span}: versions {known[0]}{unstable}{before}"


def _change(one: Change) -> str:
    path = f"{escape(one.path)}: " if one.path else ""
    return f"{_SIGNS[one.how]} {path}[cyan]{escape(one.what)}[/]"


def _list() -> Table:
    table = _table("key", "API", "versions", "flexible", "unstable", "first", "last")
    for api in schema.apis().values():
        unstable = [str(v) for v in range(api.versions.first, api.versions.last + 1) if api.unstable(v)]
        known = releases.known_by(api.key)
        table.add_row(
            str(api.key),
            api.name,
            str(api.versions),
            str(api.request.flexible),
            ",".join(unstable),
            *((known[0].release, known[-1].release) if known else ("", "")),
        )
    return table


def _list_of(release: str) -> Table:
    table = _table("key", "API", "versions", "unstable")
    for api in schema.apis().values():
        known = releases.known(release, api.key)
        if known is not None:
            table.add_row(str(api.key), api.name, str(known.versions), str(known.unstable) if known.unstable else "")
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        if column == "API":  # one name is longer than all others: it gives way on a narrow terminal
            table.add_column(column, overflow="fold")
        else:
            table.add_column(
                column, justify="right" if column == "key" else "left", no_wrap=True, min_width=len(column)
            )
    return table


def _tree(title: str, message: Message, version: int) -> Tree:
    tree = Tree(f"[bold]{title}[/]")
    _branches(tree, message.fields, version)
    return tree


def _branches(tree: Tree, fields: tuple[Field, ...], version: int) -> None:
    for field in fields:
        if version not in field.versions:
            continue
        words = [f"{field.name}: [cyan]{escape(field.type)}[/]"]
        if version in field.nullable:
            words.append("nullable")
        if version in field.tagged:
            words.append(f"tag {field.tag}")
        if field.entity_type:
            words.append(f"[dim]{field.entity_type}[/]")
        _branches(tree.add(" ".join(words)), field.fields, version)


def _facts(api: Api) -> dict[str, Any]:
    return {
        "key": api.key,
        "name": api.name,
        "versions": _range(api.versions),
        "flexible": _range(api.request.flexible),
        "releases": {known.release: _known(known) for known in releases.known_by(api.key)},
    }


def _known(known: Known) -> dict[str, Any]:
    return {"versions": _range(known.versions), "unstable": _range(known.unstable)}


def _range(versions: Versions) -> list[int | None] | None:
    """First and last version; the last is null where there is no end."""
    return [versions.first, None if versions.last == OPEN_END else versions.last] if versions else None


def _fields(fields: tuple[Field, ...], version: int) -> Iterator[dict[str, Any]]:
    for field in fields:
        if version not in field.versions:
            continue
        facts = {
            "name": field.name,
            "type": field.type,
            "nullable": version in field.nullable,
            "tag": field.tag if version in field.tagged else None,
            "default": plain(field.default),
            "entity": field.entity_type,
        }
        yield facts | ({"fields": list(_fields(field.fields, version))} if field.fields else {})
