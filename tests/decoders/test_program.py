import numpy as np
import pytest

from kafkascope.decoders import program, schema
from kafkascope.decoders.program import Layout, compile_layouts, programs
from kafkascope.decoders.schema import NEVER, Field, Message, Versions

BOTH = Versions(0, 1)


def message(*fields: Field, name: str = "Sample") -> Message:
    return Message(name, "data", None, BOTH, NEVER, fields)


def field(name: str, type_: str, *members: Field, versions: Versions = BOTH) -> Field:
    return Field(name, type_, versions, NEVER, NEVER, None, None, {} if members else 0, None, members)


def test_every_version_of_every_api_has_a_program_in_both_directions() -> None:
    for api in schema.apis().values():
        for version in range(api.versions.first, api.versions.last + 1):
            for response, expected in ((False, api.request), (True, api.response)):
                found = int(programs().program_of(api.key, version, response))
                assert programs().message[found].name == expected.name
                assert programs().version[found] == version


def test_unknown_keys_and_versions_have_no_program() -> None:
    keys = np.array([1, 1, 1, -1, 95, 32767, -32768, 18], np.int16)
    versions = np.array([0, 99, -1, 0, 0, 32767, -32768, 0], np.int16)
    found = programs().program_of(keys, versions, np.zeros(8, np.bool_))
    assert found.dtype == np.int32
    assert (found >= 0).tolist() == [True, False, False, False, False, False, False, True]


def test_only_versions_with_two_layouts_have_an_alternative() -> None:
    firsts = [int(programs().program_of(87, 0, True)), *(int(programs().program_of(18, v, False)) for v in range(3))]
    assert np.flatnonzero(programs().alternative >= 0).tolist() == sorted(firsts)
    for first in firsts:
        other = int(programs().alternative[first])
        assert programs().message[other] in programs().message[first].alternatives


def test_a_field_has_one_id_over_all_versions() -> None:
    path = "responses[].partitions[].highWatermark"
    number = programs().field_id(1, True, path)
    fields = programs().fields
    assert fields.path[number] == path
    assert fields.name[number] == "highWatermark"
    assert fields.type[number] == "int64"
    assert (fields.api_key[number], fields.is_response[number]) == (1, True)
    rows = programs().rows
    for version in range(19):
        first = programs().entry[programs().program_of(1, version, True)]
        stop = first + np.flatnonzero(rows[first:, 0] == program.STOP)[0]
        assert number in rows[first:stop, 1]


def test_field_ids_by_path() -> None:
    table = programs()
    assert table.field_id(1, True, "responses") + 1 == table.field_id(1, True, "responses[]")
    assert table.field_id(1, True, "nothing") == -1
    assert table.fields.entity_type[table.field_id(1, True, "responses[].topic")] == "topicName"


def test_error_codes_are_the_int16_fields_that_are_called_so() -> None:
    fields = programs().fields
    paths = {(int(fields.api_key[number]), fields.path[number]) for number in np.flatnonzero(fields.is_error_code)}
    assert (1, "responses[].partitions[].errorCode") in paths
    assert (10, "coordinators[].errorCode") in paths
    assert all(fields.type[number] == "int16" for number in np.flatnonzero(fields.is_error_code))


def test_a_field_of_two_types_is_refused() -> None:
    either = message(
        field("a", "int8", versions=Versions(0, 0)),
        field("a", "string", versions=Versions(1, 1)),
    )
    with pytest.raises(ValueError, match="a: string in one version, int8 in another"):
        compile_layouts([Layout(either, 0, False)])


@pytest.mark.parametrize("types", [("int32", "int64"), ("int64", "int32")])
def test_an_integer_of_two_widths_is_one_field_of_the_greater(types: tuple[str, str]) -> None:
    either = message(*(field("a", type_, versions=Versions(version, version)) for version, type_ in enumerate(types)))
    compiled = compile_layouts([Layout(either, 0, False)])
    assert compiled.fields.type[compiled.field_id(0, False, "a")] == "int64"
    widths = [int(compiled.rows[compiled.entry[compiled.program_of(0, version, False)], 0]) for version in (0, 1)]
    assert widths == [program.FIXED_WIDTH[type_][0] for type_ in types]


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown type decimal"):
        compile_layouts([Layout(message(field("a", "decimal")), 0, False)])


def test_nesting_deeper_than_the_kernels_follow_is_refused() -> None:
    nested = field("a", "int8")
    for _ in range(program.MAX_DEPTH):
        nested = field("a", "Struct", nested)
    with pytest.raises(ValueError, match="nests deeper"):
        compile_layouts([Layout(message(nested), 0, False)])
