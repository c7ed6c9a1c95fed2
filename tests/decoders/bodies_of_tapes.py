"""The bodies of a tape as nested dicts and lists, to be compared with those of the plain interpreter."""

from __future__ import annotations

import base64
from typing import cast

import numpy as np

from kafkascope.decoders import program as layouts
from kafkascope.decoders import schema
from kafkascope.decoders.interpreter import UNKNOWN_TAGS, default_value
from kafkascope.decoders.program import Bytes
from kafkascope.decoders.tape import Tape


def tree(tape: Tape, frame: int) -> dict[str, object]:
    """The body of a frame as `interpreter.decode` gives it: nested dicts and lists, defaults for absent tagged fields.

    Of a frame that is not whole: what was read of it, with defaults for tagged fields that were not.
    """
    fields = tape.programs.fields
    first, last = int(tape.frame_start[frame]), int(tape.frame_start[frame + 1])
    root: dict[str, object] = {}
    boxes: dict[int, dict[str, object] | list[object]] = {-1: root}
    program = int(tape.program[frame])
    if program < 0:
        return root
    message, version = tape.programs.message[program], int(tape.programs.version[program])
    # Structs with what their definition says, to find what is absent when all rows are in place.
    structs: list[tuple[dict[str, object], tuple[schema.Field, ...]]] = [(root, message.fields)]
    members: dict[int, tuple[schema.Field, ...]] = {-1: message.fields}
    numbers = tape.field[first:last].tolist()
    columns = (tape.at, tape.value, tape.parent)
    for row, (number, at, value, above) in enumerate(
        zip(numbers, *(column[first:last].tolist() for column in columns), strict=True), first
    ):
        box = boxes[above]
        kind = int(fields.kind[number])
        found: object
        if kind == layouts.KIND_UNKNOWN_TAG:
            assert isinstance(box, dict)
            unknown = cast(dict[int, bytes], box.setdefault(UNKNOWN_TAGS, {}))
            unknown[value >> 32 & 0xFFFFFFFF] = tape.data[at : at + (value & 0xFFFFFFFF)].tobytes()
            continue
        if kind in (layouts.KIND_ARRAY, layouts.KIND_STRUCT) and value >= 0:
            definition = next(field for field in members[above] if field.name == fields.name[number])
            members[row] = definition.fields
            if kind == layouts.KIND_ARRAY:
                elements: list[object] = []
                found = boxes[row] = elements
            else:
                struct: dict[str, object] = {}
                found = boxes[row] = struct
                structs.append((struct, definition.fields))
        elif kind == layouts.KIND_ELEMENT:
            element: dict[str, object] = {}
            found = boxes[row] = element
            members[row] = members[above]
            structs.append((element, members[above]))
        else:
            found = _python_value(kind, tape.data, at, value)
        if isinstance(box, list):
            box.append(found)
        else:
            box[fields.name[number]] = found
    if version in message.flexible:
        for struct, definitions in structs:
            for field in definitions:
                if version in field.tagged and version in field.versions and field.name not in struct:
                    struct[field.name] = default_value(field, version)
    return root


def _python_value(kind: int, data: Bytes, at: int, value: int) -> object:
    if kind == layouts.KIND_BOOL:
        return value != 0
    if kind == layouts.KIND_FLOAT:
        return float(np.int64(value).view(np.float64))
    if kind == layouts.KIND_UUID:
        return base64.urlsafe_b64encode(data[at : at + 16].tobytes()).rstrip(b"=").decode()
    if value < 0 and kind != layouts.KIND_INTEGER:
        return None
    if kind == layouts.KIND_STRING:
        return data[at : at + value].tobytes().decode(errors="backslashreplace")
    if kind in (layouts.KIND_BYTES, layouts.KIND_RECORDS):
        return data[at : at + value].tobytes()
    return value
