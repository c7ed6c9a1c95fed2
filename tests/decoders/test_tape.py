import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkascope.decoders import tape as tapes
from kafkascope.decoders.interpreter import DecodeError
from kafkascope.decoders.kernels import kernel
from kafkascope.decoders.program import Bytes, Layout, compile_layouts, programs
from kafkascope.decoders.schema import NEVER, Field, Message, Versions
from kafkascope.decoders.tape import (
    MOST_ROWS,
    ROWS_PER_BYTE,
    ROWS_PER_FRAME,
    Status,
    decode_bodies,
    text_step,
)
from tests.decoders.batches_of_bodies import (
    EXCHANGES,
    SEED,
    Body,
    body_of,
    canonical,
    changed,
    cuts,
    reference,
    small_bodies,
    tape_of,
    value_of,
)
from tests.decoders.bodies_of_tapes import tree
from tests.paths import ROOT


def compare_with_reference(bodies: list[Body]) -> None:
    """A frame is whole exactly if the reference reads it, and then says the same."""
    tape = tape_of(bodies)
    assert len(tape) == len(bodies)
    ends = np.cumsum([len(body[3]) for body in bodies])
    for frame, (body, end) in enumerate(zip(bodies, ends.tolist(), strict=True)):
        expected = reference(body)
        status = Status(tape.status[frame])
        if isinstance(expected, DecodeError):
            assert status not in (Status.OK, Status.LEFT_OVER), (body, expected)
            continue
        value, size = expected
        assert status == (Status.OK if size == len(body[3]) else Status.LEFT_OVER), body
        assert tape.stopped_at[frame] == end - len(body[3]) + size
        found = tree(tape, frame)
        assert found == value or canonical(found) == canonical(value), body


def test_every_sample_reads_as_the_reference_reads_it() -> None:
    compare_with_reference([body_of(sample) for sample in EXCHANGES])


@pytest.mark.no_cover  # the same ways, thousands of times
def test_bodies_cut_at_every_byte_are_refused_as_the_reference_refuses_them() -> None:
    compare_with_reference(cuts(small_bodies(200)))


@pytest.mark.no_cover  # the same ways, thousands of times
def test_changed_bodies_read_as_the_reference_reads_them() -> None:
    compare_with_reference(changed(small_bodies(400), 8000, SEED))


def test_bytes_behind_a_body_are_left_over() -> None:
    compare_with_reference([(*body[:3], body[3] + b"\0\0") for body in small_bodies(100)])


def test_rows_do_not_depend_on_the_other_frames_of_the_batch() -> None:
    bodies = [body_of(sample) for sample in EXCHANGES[::40]]
    together = tape_of(bodies)
    for frame, body in enumerate(bodies):
        alone = tape_of([body])
        rows = slice(together.frame_start[frame], together.frame_start[frame + 1])
        assert alone.field.tolist() == together.field[rows].tolist()
        assert alone.value.tolist() == together.value[rows].tolist()


def test_no_frames_and_empty_frames() -> None:
    none = decode_bodies(b"", [], [], [])
    assert len(none) == 0
    assert none.frame_start.tolist() == [0]
    assert none.strings(np.empty(0, np.int64)).to_pylist() == []
    empty = decode_bodies(b"", [0, 0], [0, 0], [-1, int(programs().program_of(1, 0, False))])
    assert [Status(status) for status in empty.status] == [Status.UNKNOWN, Status.SHORT]
    assert tree(empty, 0) == {}


@pytest.mark.parametrize(
    ("start", "end", "program"),
    [([0], [5], [0]), ([-1], [2], [0]), ([3], [2], [0]), ([0], [1], [99999]), ([0, 1], [1], [0])],
)
def test_frames_outside_the_data_are_refused(start: list[int], end: list[int], program: list[int]) -> None:
    with pytest.raises(ValueError, match=r"frame does not lie|program is not|starts,"):
        decode_bodies(b"1234", start, end, program)


# Metadata request: version 0 has an array of strings by int32 count, version 9 a compact one and tags.
METADATA = 3


@pytest.mark.parametrize(
    ("version", "data", "status"),
    [
        (0, b"\x7f\xff\xff\xff" + b"\0" * 40, Status.BAD_COUNT),
        (0, b"\xff\xff\xff\xfe", Status.BAD_COUNT),
        (0, b"\xff\xff\xff\xff", Status.NULL),
        (0, b"\0\0\0\1\xff\xff", Status.NULL),
        (0, b"\0\0\0\1\xff\xfe", Status.BAD_LENGTH),
        (0, b"\0\0\0\1\0\5abcd", Status.SHORT),
        (0, b"\0\0\0", Status.SHORT),
        (1, b"\xff\xff\xff\xff", Status.OK),
        (9, b"\xff\xff\xff\xff\x0f", Status.BAD_COUNT),
        (9, b"\xff\xff\xff\xff\x10", Status.BAD_VARINT),
        (9, b"\xff" * 20, Status.BAD_VARINT),
        (9, b"\x80" * 20, Status.BAD_VARINT),
        (9, b"\0\1\0\0\0", Status.OK),
        (9, b"\0\1\0\0\xff\xff\xff\xff\x0f", Status.SHORT),
        (9, b"\0\1\0\0\1\5\1\7", Status.OK),
        (9, b"\0\1\0\0\1\5\2\7", Status.SHORT),
        (99, b"\0", Status.UNKNOWN),
    ],
)
def test_what_is_wrong_with_a_frame_is_told(version: int, data: bytes, status: Status) -> None:
    body = (METADATA, version, False, data)
    assert Status(tape_of([body]).status[0]) == status
    if status != Status.UNKNOWN:
        compare_with_reference([body])


def test_unknown_tags_are_rows() -> None:
    tape = tape_of([(METADATA, 9, False, b"\0\1\0\0\2\5\1\7" + b"\xff\xff\xff\xff\x0f\2ab")])
    rows = rows_of(tape, 0)
    assert (tape.value[rows] & 0xFFFFFFFF).tolist() == [1, 2]
    assert tree(tape, 0)["_tags"] == {5: b"\7", 2**32 - 1: b"ab"}


def test_a_tagged_field_that_does_not_fill_its_size_is_refused() -> None:
    # Fetch request 12: tag 0 is a nullable compact string.
    head = struct.pack(">iiiibii", -1, 0, 0, 0, 0, 0, 0) + b"\1\1\1"
    good = (1, 12, False, head + b"\1\0\2\2x")
    wrong = (1, 12, False, head + b"\1\0\3\2xy")
    tape = tape_of([good, wrong])
    assert [Status(status) for status in tape.status] == [Status.OK, Status.BAD_TAG]
    assert tree(tape, 0)["clusterId"] == "x"
    compare_with_reference([good, wrong])


def test_the_last_of_a_tag_that_is_there_twice_counts() -> None:
    head = struct.pack(">iiiibii", -1, 0, 0, 0, 0, 0, 0) + b"\1\1\1"
    compare_with_reference([(1, 12, False, head + b"\2\0\2\2x\0\2\2y")])


def test_a_tape_that_is_too_small_grows() -> None:
    names = 40_000
    count = names + 1
    head = bytes([count & 127 | 128, count >> 7 & 127 | 128, count >> 14])
    body = (METADATA, 9, False, head + b"\1\0" * names + b"\0\0\0\0")
    before = (METADATA, 9, False, b"\0\1\0\0\0")
    tape = tape_of([before, body, before])
    assert tape.status.tolist() == [Status.OK] * 3
    assert len(tape.field) > 2 * names
    assert tape.frame_start.tolist()[1:] == [4, len(tape.field) - 4, len(tape.field)]
    topics = tree(tape, 1)["topics"]
    assert topics == [{"name": ""}] * names


def sample_message(*fields: Field, alternatives: tuple[Message, ...] = ()) -> Message:
    return Message("Sample", "data", None, Versions(0, 0), NEVER, fields, (), alternatives)


def sample_field(name: str, type_: str, *members: Field) -> Field:
    return Field(name, type_, Versions(0, 0), NEVER, NEVER, None, None, {} if type_[0].isupper() else 0, None, members)


def test_a_frame_that_makes_far_too_many_rows_is_refused() -> None:
    empties = (sample_field(f"empty{number}", "Empty") for number in range(100))
    element = (sample_field("number", "int8"), *empties)
    table = compile_layouts([Layout(sample_message(sample_field("elements", "[]Element", *element)), 0, False)])
    data = struct.pack(">i", 3000) + bytes(3000)
    tape = decode_bodies(data * 2, [0, 3004], [3004, 6008], [0, 0], table)
    assert [Status(status) for status in tape.status] == [Status.TOO_MANY] * 2
    most = ROWS_PER_BYTE * 3004 + ROWS_PER_FRAME
    assert most - 2 <= np.diff(tape.frame_start).max() <= most


def metadata_request(topics: int) -> bytes:
    return struct.pack(">i", topics) + bytes(2 * topics)


def test_of_a_frame_with_more_rows_than_any_may_have_the_first_are_read() -> None:
    data = metadata_request(100) + metadata_request(3)
    program = programs().program_of([3, 3], [0, 0], [False, False])
    tape = decode_bodies(data, [0, 204], [204, 214], program, most_rows=50)
    assert [Status(status) for status in tape.status] == [Status.TOO_MANY, Status.OK]
    assert tape.whole.tolist() == [False, True]
    assert tape.frame_start.tolist() == [0, 49, 56]
    assert tree(tape, 0) == {"topics": [{"name": ""}] * 24}
    whole = decode_bodies(data, [0, 204], [204, 214], program)
    assert whole.frame_start[1] == 201
    assert tape.stopped_at[0] < 204 == whole.stopped_at[0]


def test_of_a_frame_with_more_structs_than_any_may_have_the_first_are_read() -> None:
    data = metadata_request(100) + metadata_request(3)
    program = programs().program_of([3, 3], [0, 0], [False, False])
    tape = decode_bodies(data, [0, 204], [204, 214], program, most_elements=3)
    assert [Status(status) for status in tape.status] == [Status.TOO_MANY, Status.OK]
    assert tree(tape, 0) == tree(tape, 1) == {"topics": [{"name": ""}] * 3}


@pytest.mark.parametrize(
    ("held", "names"),
    [(5, 0), (6, 1), (11, 3), (2 * 3 + 4, 3), (2 * 100 + 4, 100)],  # bytes of the body that are there; whole elements
)
def test_of_an_array_that_the_capture_cut_the_elements_that_are_there_are_read(held: int, names: int) -> None:
    body = metadata_request(100)
    program = programs().program_of([3], [0], [False])
    tape = decode_bodies(body[:held], [0], [held], program, end_on_wire=[len(body)])
    assert [Status(status) for status in tape.status] == [Status.OK if held == len(body) else Status.SHORT]
    assert sum(programs().fields.path[field] == "topics[].name" for field in tape.field) == names
    assert tape.value[0] == 100
    as_it_is = decode_bodies(body[:held], [0], [held], program)
    assert held == len(body) or Status(as_it_is.status[0]) == Status.BAD_COUNT


def test_a_count_that_does_not_fit_on_the_wire_is_none() -> None:
    body = metadata_request(100)
    tape = decode_bodies(body[:20], [0], [20], programs().program_of([3], [0], [False]), end_on_wire=[len(body) - 1])
    assert Status(tape.status[0]) == Status.BAD_COUNT


@pytest.mark.parametrize("rows_at_once", [1, 30, 201, 202, 300, 409, 10_000])
def test_many_frames_are_decoded_so_many_rows_at_once(rows_at_once: int) -> None:
    sizes = [100, 100, 2, 1, 300, 0]
    data = b"".join(map(metadata_request, sizes))
    end = np.cumsum([4 + 2 * size for size in sizes])
    start = end - [4 + 2 * size for size in sizes]
    program = programs().program_of([3] * 6, [0] * 6, [False] * 6)
    whole = decode_bodies(data, start, end, program)
    rows, status, done = [], [], 0
    while done < len(sizes):
        part = decode_bodies(data, start[done:], end[done:], program[done:], rows_at_once=rows_at_once)
        assert len(part) == 1 or len(part.field) <= rows_at_once
        assert len(part.first(1).field) == whole.frame_start[done + 1] - whole.frame_start[done]
        rows += part.at.tolist()
        status += part.status.tolist()
        done += len(part)
    assert rows == whole.at.tolist()
    assert status == whole.status.tolist()


def test_a_metadata_answer_of_200_000_partitions_is_read_whole() -> None:
    def array(*elements: bytes) -> bytes:
        return struct.pack(">i", len(elements)) + b"".join(elements)

    replicas = array(*[struct.pack(">i", broker) for broker in (1, 2, 3)])
    partition = struct.pack(">hiii", 0, 0, 1, 5) + replicas + replicas + array()
    topic = struct.pack(">hh", 0, 5) + b"topic" + b"\0" + array(partition) + struct.pack(">i", 0)
    head = bytes(4) + array() + struct.pack(">h", -1) + struct.pack(">i", 1)
    body = head + struct.pack(">i", 200_000) + topic * 200_000 + bytes(4)
    tape = decode_bodies(body, [0], [len(body)], programs().program_of([3], [8], [True]))
    assert Status(tape.status[0]) == Status.OK
    assert len(tape.field) < 0.9 * MOST_ROWS


def test_of_two_layouts_the_one_that_fits_is_taken() -> None:
    other = sample_message(sample_field("wide", "int64"))
    first = sample_message(sample_field("a", "int16"), sample_field("b", "int16"), alternatives=(other,))
    table = compile_layouts([Layout(first, 0, False)])
    data = bytes(range(20))
    tape = decode_bodies(data, [0, 4, 12], [4, 12, 17], [0, 0, 0], table)
    assert [Status(status) for status in tape.status] == [Status.OK, Status.OK, Status.LEFT_OVER]
    assert tape.program.tolist() == [0, 1, 0]
    assert [list(tree(tape, frame)) for frame in range(3)] == [["a", "b"], ["wide"], ["a", "b"]]


def test_a_frame_that_fits_two_layouts_is_ambiguous_unless_they_agree() -> None:
    number = sample_field("number", "int32")
    same = sample_message(number)
    table = compile_layouts([Layout(sample_message(number, alternatives=(same,)), 0, False)])
    assert decode_bodies(b"1234", [0], [4], [0], table).status[0] == Status.OK
    halves = sample_message(sample_field("a", "int16"), sample_field("b", "int16"), alternatives=(same,))
    table = compile_layouts([Layout(halves, 0, False)])
    assert decode_bodies(b"1234", [0], [4], [0], table).status[0] == Status.AMBIGUOUS


def rows_of(tape: tapes.Tape, field: int) -> Any:
    return np.flatnonzero(tape.field == field)


def fetch_responses() -> tuple[list[Body], tapes.Tape]:
    samples = [sample for sample in EXCHANGES if (sample["key"], sample["dir"]) == (1, "response")]
    bodies = [body_of(sample) for sample in samples]
    return bodies, tape_of(bodies)


def test_columns_of_the_partitions_of_fetch_responses() -> None:
    bodies, tape = fetch_responses()
    topics: list[Any] = []
    partitions: list[Any] = []
    for frame, body in enumerate(bodies):
        value = value_of(body)
        topics += value["responses"]
        partitions += [(frame, partition) for topic in value["responses"] for partition in topic["partitions"]]

    def rows(path: str) -> Any:
        return rows_of(tape, programs().field_id(1, True, path))

    assert len(partitions) > 100
    high_watermarks = rows("responses[].partitions[].highWatermark")
    assert tape.frame_of(high_watermarks).tolist() == [frame for frame, _ in partitions]
    assert tape.numbers(high_watermarks, -7).tolist() == [partition["highWatermark"] for _, partition in partitions]
    names = tape.strings(rows("responses[].topic")).to_pylist()
    assert names == [topic["topic"] for topic in topics if "topic" in topic]
    ids = tape.uuids(rows("responses[].topicId")).to_pylist()
    assert ids == [topic["topicId"] for topic in topics if "topicId" in topic]
    assert names
    assert ids


def test_top_level_fields_of_frames() -> None:
    bodies, tape = fetch_responses()
    frames = np.arange(len(bodies))
    throttle = tape.numbers(tape.top(frames, programs().field_id(1, True, "throttleTimeMs")), -1)
    assert throttle.tolist() == [value_of(body).get("throttleTimeMs", -1) for body in bodies]


@given(st.lists(st.one_of(st.none(), st.binary(max_size=12), st.text(max_size=6).map(str.encode)), max_size=8))
def test_strings_are_decoded_as_python_decodes_them(names: list[bytes | None]) -> None:
    # FindCoordinator response 1: the error message may be null.
    coordinator = bytes(10)
    bodies: list[Body] = []
    for name in names:
        text = b"\xff\xff" if name is None else struct.pack(">h", len(name)) + name
        bodies.append((10, 1, True, b"\0\0\0\0\0\0" + text + coordinator))
    tape = tape_of(bodies)
    assert (tape.status == Status.OK).all()
    found = tape.strings(rows_of(tape, programs().field_id(10, True, "errorMessage"))).to_pylist()
    assert found == [None if name is None else name.decode(errors="backslashreplace") for name in names]


@kernel
def step_of(data: Bytes) -> Any:
    return text_step(data, 0, len(data))


@given(st.binary(min_size=1, max_size=6))
def test_a_character_ends_where_pythons_decoder_says(data: bytes) -> None:
    step = step_of(np.frombuffer(data, np.uint8))
    # Each byte that the decoder finds no character for becomes one surrogate.
    text = data.decode(errors="surrogateescape")
    if step > 0:
        assert data[:step].decode() == text[0]
    else:
        assert all("\udc80" <= character <= "\udcff" for character in text[:-step])
        assert data.decode(errors="replace") == "\ufffd" + data[-step:].decode(errors="replace")


@pytest.mark.deep
def test_every_kernel_stays_within_its_arrays(tmp_path: Path) -> None:
    here = Path(__file__).parent
    chosen = "cut or changed or wrong or grows or hostile or strings or columns or children or text"
    environment = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    files = [str(here / "test_tape.py"), str(here / "test_json_text.py")]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        *files,
        "-k",
        chosen,
    ]
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
