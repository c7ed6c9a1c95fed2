"""BENCHMARKS.md, whose parts bench.py and live.py write, and the history of all figures."""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from commands import HERE

Rows = Sequence[Mapping[str, Any]]
_PAGE, _HISTORY = "BENCHMARKS.md", "benchmarks/history.jsonl"


def machine() -> dict[str, str]:
    """What the figures were measured on, and with."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", "pyarrow", "pandas", "pyspark"))
    return {
        "machine": f"{os.cpu_count()} cores {model or platform.machine()}, {memory_gb:.0f} GiB, {platform.system()}",
        "commit": _commit(),
        "versions": f"Python {platform.python_version()}, {packages}",
        "tshark": subprocess.getoutput("tshark --version 2>/dev/null").splitlines()[0].rstrip("."),
        "java": subprocess.getoutput("java -version 2>&1").splitlines()[0],
    }


def _commit() -> str:
    """What is measured; changes of what is written here are none of it."""
    git = f"git -C {HERE}"
    changes = subprocess.getoutput(f"{git} status --porcelain -uno -- . ':!{_PAGE}' ':!{_HISTORY}'")
    return subprocess.getoutput(f"{git} describe --always") + ("-dirty" if changes else "")


def table(rows: Rows) -> str:
    """Rows, which all have the same columns, as a table of Markdown."""
    head = list(rows[0])
    lines = [
        f"| {' | '.join(head)} |",
        "|" + "|".join("--" if isinstance(rows[0][name], str) else "--:" for name in head) + "|",
    ]
    lines += [f"| {' | '.join(str(row[name]) for name in head)} |" for row in rows]
    return "\n".join(lines)


def with_part(page: str, part: str) -> str:
    """The page with a part in the place of the one with the same title, with which it begins; else behind all."""
    title, _, _ = part.partition("\n")
    head, *parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)
    titles = [one.partition("\n")[0] for one in parts]
    place = titles.index(title) if title in titles else len(parts)
    parts[place : place + 1] = [part]
    return "\n\n".join(one.strip() for one in (head, *parts)) + "\n"


def keep(title: str, said: str, rows: Rows) -> None:
    """Write a part of the page, with what is to be said of its rows, and a line of the history."""
    when, about = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}", machine()
    command = f"python benchmarks/{Path(sys.argv[0]).name} {' '.join(sys.argv[1:])}"
    written = f"Written by `{command}` on {when}: {'; '.join(f'{name} {what}' for name, what in about.items())}."
    page = HERE / _PAGE
    page.write_text(with_part(page.read_text(), "\n\n".join((f"## {title}", said, written, table(rows)))))
    with (HERE / _HISTORY).open("a") as history:
        history.write(json.dumps({"when": when, "command": command, **about, "tables": {title: rows}}) + "\n")
