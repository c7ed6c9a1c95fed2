"""Where things lie that tests need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PCAPS = ROOT / "pcaps"
DATA = ROOT / "tests" / "data"

# Folders of the project, and where they are in the package.
_PLACES = {"kafkascope": "kafkascope"} | {name: f"kafkascope/{name}" for name in ("decoders", "sniffer", "reports")}


def package_files() -> Iterator[tuple[Path, str]]:
    """The files of the package, and the path that each has in it."""
    for folder, place in _PLACES.items():
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path, f"{place}/{path.relative_to(ROOT / folder)}"
