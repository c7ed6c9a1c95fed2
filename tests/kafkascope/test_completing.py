"""Words that shells are offered, as the scripts that typer gives them ask for these."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkascope import completing
from tests.kafkascope.conftest import Command
from tests.paths import PCAPS, ROOT

TWO = str(PCAPS / "two-at-once" / "capture.pcap.gz")
Shell = Callable[[str], list[str]]


@pytest.fixture(params=["bash", "zsh"])
def completed(request: pytest.FixtureRequest, command: Command, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """What a shell is offered for the last word of a line; nothing else may be said."""

    def call(line: str) -> list[str]:
        name = line.split()[0]
        monkeypatch.setattr(sys.modules["__main__"], "__package__", None)  # as of a console script
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
        monkeypatch.setenv(f"_{name.upper()}_COMPLETE", f"complete_{request.param}")
        done = command(name)
        assert (done.returncode, done.stderr) == (0, "")
        if request.param == "zsh":
            offered = done.stdout.partition("((")[2].partition("))")[0]
            return [word.partition('":"')[0].strip('"') for word in offered.splitlines()]
        return done.stdout.split()

    return call


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("sniff --no-", ["--no-payload", "--no-colour"]),
        ("kafkascope sniff --gr", ["--groups", "--group"]),
        ("sniff --api Jo", ["JoinGroup"]),
        ("kafkascope apis Jo", ["JoinGroup"]),
        ("kafkascope decode --api Jo", ["JoinGroup"]),
        ("sniff --fields api,topics,api", ["api,topics,api_key", "api,topics,api_version"]),
        (f"sniff -r {TWO} --group ", ["shop", "slow"]),
        (f"sniff {TWO} --topic o", ["orders"]),
        (f"kafkascope sniff -r {TWO} --errors --client-id c", ["c1", "c2", "c3"]),
        (f"sniff -r {TWO} --host 10.77.42.11", ["10.77.42.11"]),
        ("sniff --group ", []),
        ("sniff -r - --group ", []),
        (f"sniff -r {ROOT}/README.md -D --group ", []),
        ("sniff -r /nowhere --group ", []),
    ],
)
def test_options_and_names_are_offered(completed: Shell, line: str, words: list[str]) -> None:
    assert completed(line) == words


def test_what_a_shell_would_evaluate_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    there = ["a", 'a\\" ; touch x ; "', "$(touch x)", "a b", "-r", "it's", "a.b-c_1", "id:x", "ä"]
    monkeypatch.setattr(completing, "_names", lambda column, places: iter(there))
    assert completing.names("group", []) == ["a", "a.b-c_1"]


@pytest.mark.parametrize("compiled", [True, False])
def test_a_real_bash_completes_with_the_script_that_is_installed_and_compiles_nothing(
    compiled: bool, tmp_path: Path
) -> None:
    (tmp_path / "sniff").write_text(f"#!{sys.executable}\nfrom kafkascope.cli import sniff_main\nsniff_main()\n")
    (tmp_path / "sniff").chmod(0o755)
    script = """
        eval "$(_SNIFF_COMPLETE=source_bash sniff)"
        COMP_WORDS=(sniff -r "$1" --group s) COMP_CWORD=4
        _sniff_completion sniff
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    environment = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    if not compiled:
        environment["NUMBA_CACHE_DIR"] = str(tmp_path)
    done = subprocess.run(
        ["bash", "-c", script, "bash", TWO], env=environment, capture_output=True, text=True, check=True
    )
    assert (done.stdout.split(), done.stderr) == (["shop", "slow"] if compiled else [], "")
    assert not [*tmp_path.rglob("*.kernel")]
