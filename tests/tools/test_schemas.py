import importlib.util
import io
import json
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.paths import ROOT

TOOL = ROOT / "tools" / "schemas.py"


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("schemas_tool", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


tool = load_tool()
CLIENTS = tool.JARS[0]


def definition(fields: list[dict[str, Any]], **facts: Any) -> dict[str, Any]:
    return {
        "apiKey": 7,
        "type": "request",
        "name": "SampleRequest",
        "validVersions": "0-2",
        "flexibleVersions": "2+",
        "fields": fields,
    } | facts


def message(fields: list[dict[str, Any]], release: str = "4.3.1", **facts: Any) -> Any:
    return tool.message_of(definition(fields, **facts), CLIENTS, release)


def field(name: str, type_: str = "int32", versions: str = "0+", **facts: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, "versions": versions, "about": "Not carried over."} | facts


def test_comments_go_and_what_looks_like_one_stays() -> None:
    text = '// first\n{"a": "//no", /* in\n between */ "b": "\\"/*no*/"} // end'
    assert json.loads(tool.without_comments(text)) == {"a": "//no", "b": '"/*no*/'}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"type": "int32", "default": "0x7fffffff"}, 0x7FFFFFFF),
        ({"type": "int64", "default": -1}, -1),
        ({"type": "bool", "default": "true"}, True),
        ({"type": "string", "default": "null"}, None),
        ({"type": "Struct", "default": "null"}, None),
        ({"type": "Struct", "default": None}, {}),
        ({"type": "[]int8"}, []),
        ({"type": "records"}, None),
        ({"type": "float64", "default": "0.5"}, 0.5),
    ],
)
def test_defaults(facts: dict[str, Any], expected: object) -> None:
    default = tool.default_of({"name": "x", **facts}, facts["type"])
    assert default == expected
    assert type(default) is type(expected)


def test_facts_of_a_field() -> None:
    (result,) = message([field("Some", "string", "1+", taggedVersions="2+", tag="3", nullableVersions="1+")]).fields
    assert (result.name, result.tag) == ("some", 3)
    assert (set(result.versions), set(result.nullable), set(result.tagged)) == ({1, 2}, {1, 2}, {2})
    untold = {"name": "Tagged", "type": "int8", "taggedVersions": "2+", "tag": 0}
    assert set(message([untold]).fields[0].versions) == {2}


def test_a_struct_that_fields_share_is_written_out_in_each() -> None:
    shared = [{"name": "Pair", "versions": "0+", "fields": [field("X")]}]
    result = message([field("A", "Pair"), field("B", "[]Pair")], commonStructs=shared)
    assert [[member.name for member in one.fields] for one in result.fields] == [["x"], ["x"]]


def test_the_union_of_two_releases() -> None:
    old = message([field("A"), field("Gone", versions="0"), field("B")], "3.9.1", validVersions="0-1")
    new = message([field("A"), field("B"), field("Added", versions="2+")], validVersions="1-2")
    both = tool.union(old, new)
    tool.check(both, old)
    tool.check(both, new)
    assert [one.name for one in both.fields] == ["a", "gone", "b", "added"]
    assert [sorted(one.versions) for one in both.fields] == [[0, 1, 2], [0], [0, 1, 2], [2]]
    assert not both.alternatives


def test_two_meanings_of_one_version_are_kept_apart() -> None:
    old = message([field("A")], "3.9.1", validVersions="0")
    new = message([field("A"), field("Inserted")], validVersions="0-1")
    both = tool.union(old, new)
    (alternative,) = both.alternatives
    assert [one.name for one in alternative.fields] == ["a"]
    assert set(alternative.versions) == {0}
    tool.check(both, old)
    tool.check(both, new)


def test_the_union_of_three_releases_tells_whose_each_reading_is() -> None:
    releases = (
        message([field("A")], "3.9.1", validVersions="0-1"),
        message([field("A"), field("Inserted", versions="1+")], "4.3.1", validVersions="0-2"),
        message([field("A"), field("Other", versions="2+"), field("Inserted", versions="1+")], "4.4.0"),
    )
    (everything,) = tool.union_of_all([{one.name: one} for one in releases])
    assert [name for name, *_ in everything.releases] == ["3.9.1", "4.3.1", "4.4.0"]
    readings = [
        ([one.name for one in other.fields if one.versions], set(other.versions), [name for name, *_ in other.releases])
        for other in everything.alternatives
    ]
    assert readings == [(["a", "inserted"], {2}, ["4.3.1"]), (["a"], {1}, ["3.9.1"])]


def test_a_name_stays_for_the_versions_that_had_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tool.KEPT_NAMES, ("SampleRequest", "aOrB"), ("a", 1))
    old = message([field("A")], validVersions="0-1")
    new = message([field("AOrB")], "4.4.0", validVersions="0-2")
    both = tool.union(old, new)
    tool.check(both, old)
    tool.check(both, new)
    assert [(one.name, sorted(one.versions)) for one in both.fields] == [("a", [0, 1]), ("aOrB", [2])]


def test_a_union_that_does_not_read_a_release_is_refused() -> None:
    old = message([field("A"), field("B")], "3.9.1", validVersions="0")
    new = message([field("B"), field("A")], validVersions="1")
    with pytest.raises(ValueError, match="SampleRequest version 0"):
        tool.check(tool.union(old, new), old)


def test_versions_with_a_hole_are_refused() -> None:
    with pytest.raises(ValueError, match="are not one range"):
        tool.range_text(frozenset({0, 2}), 2)


def test_drift_names_what_changed() -> None:
    request, response = message([field("A"), field("B")]), message([], name="SampleResponse", type="response")
    before = tool.tables([request, response])
    changed = message([field("A", versions="1+"), field("C")])
    after = tool.tables([changed, response])
    lines = list(tool.drift(before, after))
    assert [line.split(" {")[0] for line in lines] == [
        "007_Sample.json: changed SampleRequest.a from",
        "007_Sample.json: removed SampleRequest.b",
        "007_Sample.json: added SampleRequest.c",
    ]
    assert not list(tool.drift(before, before))
    twice = tool.tables([message([field("A", versions="0"), field("A", "int64", "1+")]), response])
    other = tool.tables([message([field("A", "int8", "0"), field("A", "int64", "1+")]), response])
    (line,) = tool.drift(twice, other)
    assert line.startswith("007_Sample.json: changed SampleRequest.a from")
    assert "Not carried over" not in "".join(before.values())


def test_definitions_are_read_from_jars(tmp_path: Path) -> None:
    for jar in tool.JARS:
        if "4.3.1" not in jar.releases:
            continue
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            if jar is CLIENTS:
                archive.writestr(jar.folder + "SampleRequest.json", "// (c)\n" + json.dumps(definition([field("A")])))
                stub = definition([], name="GoneRequest", validVersions="none")
                archive.writestr(jar.folder + "GoneRequest.json", json.dumps(stub))
        (tmp_path / f"{jar.artifact}-4.3.1.jar").write_bytes(packed.getvalue())
    assert list(tool.read_release(tmp_path, "4.3.1")) == ["SampleRequest"]
    with pytest.raises(FileNotFoundError, match=r"kafka-clients-3\.9\.1\.jar is nowhere below"):
        tool.read_release(tmp_path, "3.9.1")
