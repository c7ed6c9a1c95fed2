"""The map of files in DESIGN.md is that of the files that are there."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.paths import ROOT

FOLDERS = ("decoders", "sniffer", "reports", "kafkascope", "benchmarks", "tools")
_ONE_FILE_EACH = {"reports/answers", "reports/views"}
"""Of what is alike in them the map says this, instead of all names."""
_ROW = re.compile(r"^\| (.+?) \|(.*)\|$", re.MULTILINE)
_NAME = re.compile(r"`([\w/]+(?:\.py|/))`")


def told() -> Iterator[tuple[str, str | None]]:
    """Each module that the map names, and its path; None: there is none."""
    text = (ROOT / "DESIGN.md").read_text().partition("\n## Files\n")[2].partition("\n## ")[0]
    section = ""
    for names, meaning in _ROW.findall(text):
        if begun := re.fullmatch(r"\*\*([\w/]+)/\*\*", names):
            section, names = begun[1], ""
        folders = [name.rstrip("/") for name in _NAME.findall(names) if name.endswith("/")]
        places = [*(f"{section}/{folder}/" for folder in folders), f"{section}/", ""]
        for name in _NAME.findall(f"{names} {meaning}"):
            if name.endswith(".py"):
                yield name, next((place + name for place in places if (ROOT / place / name).exists()), None)


def modules(folder: str) -> Iterator[str]:
    """The modules of a folder; of what the package links to only those that lie there."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        if path.name != "__init__.py" and not any(parent.is_symlink() for parent in path.parents):
            yield path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_map_names_every_module(folder: str) -> None:
    there = {path for path in modules(folder) if path.rpartition("/")[0] not in _ONE_FILE_EACH}
    assert there
    assert sorted(there - {path for _, path in told()}) == []


def test_the_map_names_no_module_that_is_not_there() -> None:
    assert [name for name, path in told() if path is None] == []
