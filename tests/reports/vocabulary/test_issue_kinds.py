"""The table of kinds against the source: every kind that is emitted is in it, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from kafkascope.reports.vocabulary import issue_kinds
from kafkascope.reports.vocabulary.issue_kinds import INTERNAL_ERROR, ISSUE_KINDS, LIMITED, OF_FRAMES, OF_RECORDS
from kafkascope.sniffer.exchanges import EVENTS
from kafkascope.sniffer.link import REMARKS
from kafkascope.sniffer.tcp import ISSUES
from tests.paths import ROOT

# Where kinds are chosen before they are handed on, as names and the first elements of tuples.
CHOSEN_IN = {"damage.py", "record_tables.py"}
KIND = re.compile(r"[a-z]+(_[a-z]+)+")
# Kinds that more than one module speaks of, by the names that they have there.
NAMED = {name: kind for name, kind in vars(issue_kinds).items() if name.isupper() and isinstance(kind, str)}
FUNCTIONS = {"Issue", "Loss", "count_issues", "_count", "count", "_add_issue"}


def constants(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and KIND.fullmatch(part.value):
            yield part.value


def emitted() -> dict[str, str]:
    """Kinds that the source emits, with the place of one of them."""
    found = {kind: "sniffer/tcp.py" for kind, _ in ISSUES.values()}
    found |= {kind: "sniffer/exchanges.py" for kind, _ in EVENTS.values()}
    found |= {remark.kind: "sniffer/link.py" for remark in REMARKS if remark.detail is not None}
    found[INTERNAL_ERROR] = "reports/columns/faults.py"
    for path in sorted(
        path for package in ("sniffer", "reports", "kafkascope") for path in ROOT.glob(f"{package}/**/*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text())):
            kinds: list[str] = []
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                direct = node.args if name in FUNCTIONS else []
                kinds = [kind for one in direct if isinstance(one, ast.Constant) for kind in constants(one)]
                kinds += [NAMED[one.id] for one in direct if isinstance(one, ast.Name) and one.id in NAMED]
            elif path.name in CHOSEN_IN and isinstance(node, ast.Assign):
                if any(isinstance(target, ast.Name) and target.id == "kind" for target in node.targets):
                    value = node.value
                    parts = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
                    kinds = [kind for one in parts if isinstance(one, ast.Constant) for kind in constants(one)]
            elif path.name == "damage.py" and isinstance(node, ast.Tuple) and isinstance(node.elts[0], ast.Constant):
                kinds = list(constants(node.elts[0]))
            found |= dict.fromkeys(kinds, f"{path.name}:{getattr(node, 'lineno', 0)}")
    return found


def test_the_table_has_every_kind_that_is_emitted_and_no_other() -> None:
    found = emitted()
    assert {kind: place for kind, place in found.items() if kind not in ISSUE_KINDS} == {}
    assert set(ISSUE_KINDS) - set(found) == set()


def test_every_kind_is_explained() -> None:
    for kind, what in ISSUE_KINDS.items():
        assert KIND.fullmatch(kind)
        assert what.meaning
        assert what.weakens
        assert not what.meaning.endswith(".")


def test_groups_of_kinds_are_kinds() -> None:
    assert not (LIMITED | OF_FRAMES | OF_RECORDS) - ISSUE_KINDS.keys()
