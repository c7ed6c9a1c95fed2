"""Faults put into the code, one at a time: which of them does no test find?

    python -m tools.mutants reports/groups/classic/readings.py reports/findings

prints each change of those files that the tests let pass, with its line before and after. Such a change needs a test,
or a reason: some change nothing. The faults are cosmic-ray's (``pip install cosmic-ray``), which by itself starts a
Python for each; here tests run in forks of a process that has imported everything and read the recordings once, those
of the changed file first. The sources are not touched.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
TESTS = (
    "tests/reports/groups",
    "tests/reports/findings",
    "tests/reports/views/test_groups.py",
    "tests/reports/answers/test_groups.py",
    "tests/reports/show/test_explanation.py",
)
MOST_SECONDS = 60  # for the tests of one fault; an endless loop is found

# Of each kind of operator some replacements: all would be three times as many, which the same tests find.
_INSTEAD = re.compile(
    r"ReplaceComparisonOperator_(Eq_NotEq|NotEq_Eq|Is_IsNot|IsNot_Is|In_NotIn|NotIn_In|[LG]tE?_[LG]tE?)|"
    r"ReplaceBinaryOperator_(Sub_Add|Add_Sub|Mul_Div|Div_Mul|FloorDiv_Mul|BitOr_BitAnd|BitAnd_BitOr)"
)
_NEVER = re.compile("RemoveDecorator|Variable")  # without them nothing runs; these need names


class Mutant(NamedTuple):
    """A file with a fault in it."""

    file: str
    text: str
    change: str  # the lines before and after, with the line's number


def mutants(file: str) -> Iterator[Mutant]:
    """Each fault in a file, in the order of its lines."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator, operator_names

    source = (ROOT / file).read_text()
    same, found = _that_runs(source), []
    for name in operator_names():
        kind = name.partition("/")[2]
        if _NEVER.match(kind) or (kind.startswith(("ReplaceC", "ReplaceBinary")) and not _INSTEAD.fullmatch(kind)):
            continue
        operator, occurrence = get_operator(name)(), 0
        while (text := mutate_code(source, operator, occurrence)) is not None:
            occurrence += 1
            try:
                differs = _that_runs(text) != same
            except SyntaxError:
                continue
            if differs:
                found.append(_mutant(file, source, text))
    yield from sorted(set(found), key=lambda one: int(one.change.partition(":")[0]))


def _mutant(file: str, source: str, text: str) -> Mutant:
    before, after = source.splitlines(), text.splitlines()
    for _, first, last, at, end in (
        code for code in difflib.SequenceMatcher(None, before, after, False).get_opcodes() if code[0] != "equal"
    ):
        gone = " ".join(line.strip() for line in before[first:last])
        come = " ".join(line.strip() for line in after[at:end])
        return Mutant(file, text, f"{first + 1}: {gone}\n    => {come}")
    raise AssertionError("no line differs")


def _that_runs(source: str) -> str:
    """The code without what changes nothing that a test could see: annotations, decorators, kinds of parameters."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef):
            node.returns, node.decorator_list = None, []
            node.args.args = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
            node.args.posonlyargs, node.args.kwonlyargs, node.args.kw_defaults = [], [], []
        elif isinstance(node, ast.ClassDef):
            node.decorator_list = []
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(0)
    return ast.dump(tree)


class _Instead(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports a module from its changed text."""

    def __init__(self, mutant: Mutant) -> None:
        self._name = "kafkascope." + mutant.file.removesuffix(".py").replace("/", ".")
        self._mutant = mutant

    def find_spec(self, fullname: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        return importlib.util.spec_from_loader(fullname, self, origin=str(ROOT / self._mutant.file))

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = str(ROOT / self._mutant.file)
        exec(compile(self._mutant.text, module.__file__, "exec"), module.__dict__)


def _tests(files: Sequence[str]) -> int:
    import pytest

    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly", "-o", "addopts=--import-mode=importlib"]
    return int(pytest.main([*options, "--no-header", "--tb=short", *files]))


def _in_child(mutant: Mutant, tests: Sequence[str]) -> int:
    """0 if the tests pass in spite of the fault."""
    import kafkascope
    from tests.reports import captured_tables

    captured = captured_tables.captured
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    signal.alarm(MOST_SECONDS)
    kept = ("kafkascope.decoders", "kafkascope.sniffer")
    for name in list(sys.modules):
        if name.startswith(("tests", "test_")) or (name.startswith("kafkascope.") and not name.startswith(kept)):
            del sys.modules[name]
    kafkascope.__dict__.pop("reports", None)
    sys.meta_path.insert(0, _Instead(mutant))
    from tests.reports import captured_tables as anew

    anew.captured = captured
    folder, name = os.path.split(mutant.file)
    twin = f"tests/{folder}/test_{name}"
    return _tests([twin, *tests] if os.path.exists(twin) else tests)


def survivors(all_of: Sequence[Mutant], tests: Sequence[str], jobs: int) -> Iterator[Mutant]:
    """The faults that the tests do not find, as they are met."""
    waiting, running = list(reversed(all_of)), dict[int, Mutant]()
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant = waiting.pop()
            child = os.fork()
            if not child:
                failed = 1
                try:
                    failed = _in_child(mutant, tests)
                finally:
                    os._exit(1 if failed else 0)
            running[child] = mutant
        child, status = os.wait()
        mutant = running.pop(child)
        if status == 0:
            yield mutant


def main() -> int:
    """Print the survivors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", metavar="FILE", help="files of decoders, sniffer, reports; or folders")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="what must find them; default: tests of the rules")
    parser.add_argument("--lines", metavar="A-B", help="faults in these lines alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    paths = [Path(one) for one in arguments.sources]
    files = sorted({str(file) for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path])})
    all_of = [mutant for file in files for mutant in mutants(file)]
    if arguments.lines:
        first, last = map(int, re.split("-", arguments.lines))
        all_of = [one for one in all_of if first <= int(one.change.partition(":")[0]) <= last]
    if _tests(arguments.tests):
        print("the tests fail without any fault", file=sys.stderr)
        return 2
    found = 0
    for mutant in survivors(all_of, arguments.tests, arguments.jobs):
        found += 1
        print(f"{mutant.file}:{mutant.change}", flush=True)
    print(f"{len(all_of)} faults, {found} not found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
