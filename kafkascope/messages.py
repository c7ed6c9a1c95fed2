"""The subcommands that need no capture: decode one message, show the protocol."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from kafkascope import decoders
from kafkascope.decoders import schema
from kafkascope.decoders.nested import Knowledge, decode_nested
from kafkascope.decoders.schema import Api, Field, Message

Remark = Callable[[str], None]


def find_api(name: str) -> Api | None:
    """An API by name (whatever its case) or key; None if there is no such."""
    for api in schema.apis().values():
        if name.lower() == api.name.lower() or name == str(api.key):
            return api
    return None


def decode(
    file: str,
    name: str,
    version: int,
    response: bool,
    frame: bool,
    show_secrets: bool,
    secret_names: tuple[str, ...],
    remark: Remark,
) -> int:
    """Decode the bytes of a file (see bytes_meant) as one message; print JSON. Returns the exit status."""
    api = find_api(name)
    if api is None:
        remark(f"no API is called {name!r}; `kafkascope apis` lists them")
        return 2
    if version not in api.versions:
        remark(f"{api.name} has versions {api.versions}, not {version}")
        return 2
    try:
        data = bytes_meant(sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes())
    except OSError as error:
        remark(f"{file}: {error.strerror or error}")
        return 1
    except ValueError as error:
        remark(f"{file}: {error}")
        return 2
    known = Knowledge(reveal_secrets=show_secrets, secret_names=secret_names)
    header: dict[str, Any] = {}
    try:
        if frame:
            whole = decoders.decode_frame(data, response_to=(api.key, version) if response else None)
            if (whole.api_key, whole.api_version) != (api.key, version):
                remark(f"{file}: the header says API {whole.api_key} version {whole.api_version}")
                return 1
            header, body, rest = {"header": whole.header}, whole.body or {}, whole.rest
        else:
            body, rest = decoders.decode_body(api.key, version, data, response=response)
    except decoders.DecodeError as error:
        remark(f"{file}: {error}")
        if isinstance(error.partial, dict) and error.partial:
            remark("what could be read up to there:")
            partial = error.partial.get("body") or {} if frame else error.partial
            _print_json(decode_nested(api.key, partial, response=response, known=known))
        return 1
    body = decode_nested(api.key, body, response=response, known=known)
    _print_json(header | {"body": body} if frame else body)
    if rest:
        remark(f"{file}: {len(rest)} bytes left over behind the body")
    return 0


def _print_json(value: dict[str, Any]) -> None:
    """In UTF-8 whatever the locale: JSON is, and an escape of the terminal's encoding would be none of JSON."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    print(decoders.to_json(value, indent=2))


def apis(name: str | None, version: int | None, remark: Remark) -> int:
    """Print the list of APIs, or one of them. Returns the exit status."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    if name is None:
        console.print(_list())
        return 0
    api = find_api(name)
    if api is None:
        remark(f"no API is called {name!r}; `kafkascope apis` lists them")
        return 2
    shown = api.versions.last if version is None else version
    if shown not in api.versions:
        remark(f"{api.name} has versions {api.versions}, not {shown}")
        return 2
    console.print(f"[bold]{api.name}[/] key {api.key}, versions {api.versions}, flexible {api.request.flexible}")
    for release in api.request.releases:
        unstable = f" (unstable: {release.unstable})" if release.unstable else ""
        console.print(f"  Apache Kafka {release.name}: versions {release.versions}{unstable}")
    for title, message in (("request", api.request), ("response", api.response)):
        console.print(_tree(f"{title} v{shown}", message, shown))
    return 0


def _list() -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("key", "API", "versions", "flexible", "unstable", "first release", "last release"):
        table.add_column(column, justify="right" if column == "key" else "left", no_wrap=True)
    for api in schema.apis().values():
        unstable = [str(v) for v in range(api.versions.first, api.versions.last + 1) if api.unstable(v)]
        releases = [release.name for release in api.request.releases if release.versions]
        table.add_row(
            str(api.key),
            api.name,
            str(api.versions),
            str(api.request.flexible),
            ",".join(unstable),
            releases[0],
            releases[-1],
        )
    return table


def _tree(title: str, message: Message, version: int) -> Tree:
    tree = Tree(f"[bold]{title}[/]")
    _branches(tree, message.fields, version)
    return tree


def _branches(tree: Tree, fields: tuple[Field, ...], version: int) -> None:
    for field in fields:
        if version not in field.versions and version not in field.tagged:
            continue
        words = [f"{field.name}: [cyan]{escape(field.type)}[/]"]
        if version in field.nullable:
            words.append("nullable")
        if version in field.tagged:
            words.append(f"tag {field.tag}")
        if field.entity_type:
            words.append(f"[dim]{field.entity_type}[/]")
        _branches(tree.add(" ".join(words)), field.fields, version)


_WHITE_SPACE = " \t\n\r\v\f"
_NOT_HEX = re.compile(rf"[^0-9a-fA-F{_WHITE_SPACE}]")
# What may stand between or before bytes in hex; only there, lest the offsets of a dump be taken for bytes.
_DECORATION = re.compile(r"(?<![0-9a-fA-FxX])0[xX](?=[0-9a-fA-F])|(?<=[0-9a-fA-F]{2}):(?=[0-9a-fA-F]{2})")


def bytes_meant(data: bytes) -> bytes:
    """The bytes that a file's content means: those of hex digits if it is text, else the content itself.

    In hex there may be white space anywhere, colons between bytes, and 0x before them. Raises ValueError for text that
    is anything else: no message is all text, so it was not meant as it is.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data
    if not all(character.isprintable() or character in _WHITE_SPACE for character in text):
        return data
    digits = _DECORATION.sub(lambda found: " " * len(found[0]), text)
    if wrong := _NOT_HEX.search(digits):
        before = text[: wrong.start()].split("\n")
        raise ValueError(
            f"not hex: {wrong[0]!r} at line {len(before)}, column {len(before[-1]) + 1}, and not a message either, for "
            "it is all text; give hex digits, or the bytes as they are"
        )
    digits = "".join(digits.split())
    if len(digits) % 2:
        raise ValueError(f"not hex: {len(digits)} digits, and each byte has two")
    return bytes.fromhex(digits)
