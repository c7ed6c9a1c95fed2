"""Samples as batches of frames for the tape, and what the reference makes of the same bytes."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np

from kafkascope import decoders
from kafkascope.decoders import schema
from kafkascope.decoders.interpreter import DecodeError, decode, decode_by_bytes
from kafkascope.decoders.program import programs
from kafkascope.decoders.tape import Tape, decode_bodies
from tests.decoders import oracle
from tests.paths import DATA

EXCHANGES = [sample for sample in oracle.samples(DATA / "oracle.ndjson.gz") if sample["dir"] in ("request", "response")]
SEED = 11

# API key, version, whether it is a response, body.
Body = tuple[int, int, bool, bytes]


def body_of(sample: oracle.Sample) -> Body:
    return sample["key"], sample["version"], sample["dir"] == "response", bytes.fromhex(sample["hex"])


def small_bodies(most_bytes: int) -> list[Body]:
    """The shortest two bodies that are not trivial of each API and direction in its first and last version."""
    by_layout: dict[tuple[int, bool, int], list[Body]] = {}
    for body in map(body_of, EXCHANGES):
        by_layout.setdefault((body[0], body[2], body[1]), []).append(body)
    edges = {(key, response): (version, version) for key, response, version in by_layout}
    for key, response, version in by_layout:
        first, last = edges[key, response]
        edges[key, response] = (min(first, version), max(last, version))
    chosen = []
    for (key, response, version), bodies in by_layout.items():
        if version in edges[key, response]:
            known = sorted((body for body in bodies if len(body[3]) <= most_bytes), key=lambda body: len(body[3]))
            chosen.extend(known[-2:])
    return chosen


def cuts(bodies: list[Body]) -> list[Body]:
    """Each body cut at every byte, the whole one too."""
    return [
        (key, version, response, data[:end]) for key, version, response, data in bodies for end in range(len(data) + 1)
    ]


def changed(bodies: list[Body], count: int, seed: int) -> list[Body]:
    """Bodies with a few bytes changed, taken out or put in."""
    print(f"seed {seed}")
    choice = random.Random(seed)
    result = []
    for _ in range(count):
        key, version, response, original = choice.choice(bodies)
        data = bytearray(original)
        for _ in range(choice.randint(1, 3)):
            place = choice.randrange(len(data) + 1)
            what = choice.randrange(3)
            value = choice.choice((0, 1, 2, 0x7F, 0x80, 0xFF, choice.randrange(256)))
            if what == 0 and place < len(data):
                data[place] = value
            elif what == 1:
                del data[place : place + choice.randint(1, 3)]
            else:
                data[place:place] = bytes([value]) * choice.randint(1, 5)
        result.append((key, version, response, bytes(data)))
    return result


def tape_of(bodies: list[Body]) -> Tape:
    end = np.cumsum([len(data) for _, _, _, data in bodies])
    start = end - [len(data) for _, _, _, data in bodies]
    keys, versions, responses = ([body[part] for body in bodies] for part in range(3))
    return decode_bodies(
        b"".join(data for _, _, _, data in bodies), start, end, programs().program_of(keys, versions, responses)
    )


def reference(body: Body) -> tuple[dict[str, Any], int] | DecodeError:
    """What the interpreter makes of a body: its dict and how many bytes it took, or its error."""
    key, version, response, data = body
    api = schema.apis()[key]
    readings = (api.response if response else api.request).readings(version)
    try:
        if len(readings) == 1:
            return decode(readings[0], version, data)
        return decode_by_bytes([(reading, version) for reading in readings], data)
    except DecodeError as error:
        return error


def value_of(body: Body) -> dict[str, Any]:
    """The dict that the interpreter makes of a whole body."""
    found = reference(body)
    assert not isinstance(found, DecodeError)
    return found[0]


def canonical(value: object) -> object:
    """A value to compare by: NaN equals itself, and the order of members does not count."""
    return json.dumps(json.loads(decoders.to_json(value)), sort_keys=True)
