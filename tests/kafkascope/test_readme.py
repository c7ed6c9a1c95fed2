"""What README and GALLERY show is what the commands print: each ```console block is run again and compared.

`make golden` writes the blocks anew.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kafkascope.conftest import Command
from tests.paths import ROOT

README = ROOT / "README.md"
TABLES = {"accuracy": "tools.accuracy", "incident accuracy": "tools.incident_accuracy"}
BLOCK = re.compile(r"```console\n\$ (?P<command>.+)\n(?P<output>(?:.*\n)*?)```\n")


def of_shell(line: str, given: str = "") -> str:
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "120",
        "NO_COLOR": "1",
    }
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        cwd=ROOT,
        env=environment,
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (line, done.stderr)
    return done.stdout


def printed_by(line: str, command: Command, request: pytest.FixtureRequest) -> str:
    """What a line of shell prints: commands of ours without a process each, on the session of Spark that there is."""
    called, _, rest = line.partition(" | ")
    words = shlex.split(called)
    if words[0] not in ("sniff", "kafkascope"):
        return of_shell(line)
    if "analyze" in words and "--in-process" not in words:
        request.getfixturevalue("spark")
    printed = command(*words).stdout
    return of_shell(rest, printed) if rest else printed


@pytest.mark.parametrize("name", ["README.md", "GALLERY.md"])
def test_what_is_shown_is_what_the_commands_print(
    name: str,
    pytestconfig: pytest.Config,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(ROOT)
    text = (ROOT / name).read_text()
    blocks = list(BLOCK.finditer(text))
    assert len(blocks) >= 5
    for block in blocks:
        printed = "".join(line.rstrip() + "\n" for line in printed_by(block["command"], command, request).splitlines())
        if pytestconfig.getoption("--golden"):
            text = text.replace(block[0], f"```console\n$ {block['command']}\n{printed}```\n")
        else:
            assert block["output"] == printed, block["command"]
    if pytestconfig.getoption("--golden"):
        (ROOT / name).write_text(text)


@pytest.mark.deep  # test_truth.py holds each recording to its truth
@pytest.mark.parametrize("name", TABLES)
def test_the_readme_shows_how_right_the_answers_are(pytestconfig: pytest.Config, name: str) -> None:
    place = re.compile(rf"(?<=<!-- {name} -->\n)(?:.*\n)*?(?=<!-- /{name} -->)")
    command = [sys.executable, "-m", TABLES[name], "--markdown"]
    table = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    text = README.read_text()
    if pytestconfig.getoption("--golden"):
        README.write_text(place.sub(lambda _: table.stdout, text))
    else:
        shown = place.search(text)
        assert shown is not None
        assert shown[0] == table.stdout
    assert table.returncode == 0, "an answer is wrong: see make accuracy"
