"""Hold the decoders against samples that Kafka's own classes wrote, with what they mean (see tests/data/oracle.md).

    python tests/decoders/oracle.py FILE...    check every sample of each file; exit status 1 if any differs

Tests use differences(), one sample at a time.
"""

from __future__ import annotations

import gzip
import json
import sys
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kafkascope import decoders
from kafkascope.decoders import group_protocols, interpreter, payloads, schema
from kafkascope.decoders.schema import Field, Message

Sample = dict[str, Any]


def samples(path: Path | str) -> Iterator[Sample]:
    """The samples of a file, in order."""
    with gzip.open(path, "rt") as lines:
        yield from map(json.loads, lines)


def name_of(sample: Sample) -> str:
    """A sample's name, for people."""
    parts = ("from", "api", "dir", "version", "profile", "sample")
    return " ".join(str(sample[part]) for part in parts)


def differences(sample: Sample) -> list[str]:
    """What the decoders read otherwise than the sample says; empty if nothing."""
    return list(_BY_DIRECTION[sample["dir"]](sample))


# ------------------------------------------------------------------------------------------------ bodies and headers

# What a release calls otherwise than the decoders: 3.9.1 as it was called then, and 4.4.0 where names that it changed
# stay for the versions that had them. By release and API, up to a version.
OTHER_NAMES = {
    ("3.9.1", "Vote"): (
        99,
        {
            "candidateEpoch": "replicaEpoch",
            "candidateId": "replicaId",
            "candidateDirectoryId": "replicaDirectoryId",
        },
    ),
    ("3.9.1", "ListClientMetricsResources"): (
        99,
        {"clientMetricsResources": "configResources", "name": "resourceName"},
    ),
    ("4.4.0", "TxnOffsetCommit"): (5, {"generationIdOrMemberEpoch": "generationId"}),
    ("4.4.0", "StreamsGroupHeartbeat"): (0, {"acceptableRecoveryLagLegacy": "acceptableRecoveryLag"}),
}


def renamed(value: Any, names: dict[str, str]) -> Any:
    """A sample's values with the names of the decoders."""
    if isinstance(value, dict):
        return {names.get(name, name): renamed(member, names) for name, member in value.items()}
    return [renamed(element, names) for element in value] if isinstance(value, list) else value


def _exchange(sample: Sample) -> Iterator[str]:
    response = sample["dir"] != "request"
    key = sample["key"]
    version = sample["requested_version"] if "requested_version" in sample else sample["version"]
    body = bytes.fromhex(sample["hex"])
    decode = decoders.decode_response if response else decoders.decode_request
    decoded = decode(key, version, body)
    api = schema.apis()[key]
    message = api.response if response else api.request
    for reading in message.readings(sample["version"]):
        if fits(reading, sample["version"], decoded):
            message = reading
    last, names = OTHER_NAMES.get((sample["from"], sample["api"]), (-1, {}))
    names = names if sample["version"] <= last else {}
    body_json = renamed(sample["json"], names)
    tags = {entry["path"]: entry["tags"] for entry in sample.get("unknown_tags", ())}
    for other, name in names.items():
        tags = {path.replace(f"{other}[", f"{name}["): values for path, values in tags.items()}
    header_tags = tags.pop("$header", [])
    yield from struct_differences(message.fields, sample["version"], decoded, body_json, "", tags)
    yield from (f"{path}: unknown tags are missing" for path in tags)

    frame = bytes.fromhex(sample["frame_hex"])
    whole = decoders.decode_frame(frame, response_to=(key, version) if response else None)
    if whole.body != decoded and repr(whole.body) != repr(decoded):
        yield "the body in the frame differs from the body alone"
    if whole.rest:
        yield f"{len(whole.rest)} bytes of the frame are left"
    if whole.header_version != sample["header_version"]:
        yield f"header version {whole.header_version}"
    header = schema.response_header() if response else schema.request_header()
    expected_tags = {"": header_tags} if header_tags else {}
    yield from struct_differences(
        header.fields, whole.header_version, whole.header, sample["header"], "", expected_tags
    )
    for expected in sample.get("records", ()):
        yield from record_differences(expected, at_path(decoded, expected["field_path"]))


def fits(message: Message, version: int, decoded: dict[str, Any]) -> bool:
    """Whether a dict has just the fields of one reading of a version."""

    def same(fields: tuple[Field, ...], struct: Any) -> bool:
        here = [field for field in fields if version in field.versions]
        if {field.name for field in here} != struct.keys() - {interpreter.UNKNOWN_TAGS}:
            return False
        for field in here:
            value = struct[field.name]
            if field.is_struct and value is not None:
                elements = value if field.is_array else [value]
                if not all(same(field.fields, element) for element in elements):
                    return False
        return True

    return same(message.fields, decoded)


def struct_differences(
    fields: tuple[Field, ...],
    version: int,
    got: dict[str, Any],
    expected: dict[str, Any],
    path: str,
    tags: dict[str, list[list[Any]]],
) -> Iterator[str]:
    """Field by field. Entries of tags that were seen are taken out of it."""
    place = path or "message"
    unknown = {tag: value.hex() for tag, value in got.get(interpreter.UNKNOWN_TAGS, {}).items()}
    if unknown != dict(tags.pop(path, [])):
        yield f"{place}: unknown tags {unknown}"
    known = [field for field in fields if version in field.versions]
    for name in got.keys() - {field.name for field in known} - {interpreter.UNKNOWN_TAGS}:
        yield f"{place}: {name} should be absent"
    names = {f"{field.name}SizeInBytes" if field.type == "records" else field.name for field in known}
    for name in expected.keys() - names - {field.name for field in known}:
        yield f"{place}: {name} is expected, but not in the schema"
    for field in known:
        inner = f"{path}.{field.name}" if path else field.name
        if field.name not in got:
            yield f"{inner}: missing"
        elif field.type == "records":
            size = None if got[field.name] is None else len(got[field.name])
            if size != expected.get(f"{field.name}SizeInBytes"):
                yield f"{inner}: {size} bytes of records"
        elif field.name in expected:
            yield from value_differences(field, version, got[field.name], expected[field.name], inner, tags)
        elif version not in field.tagged:
            yield f"{inner}: not expected"
        elif got[field.name] != interpreter.default_value(field, version):
            yield f"{inner}: {got[field.name]!r} is not the default"


def value_differences(
    field: Field, version: int, got: Any, expected: Any, path: str, tags: dict[str, list[list[Any]]]
) -> Iterator[str]:
    """One value of a field."""
    if got is None or expected is None:
        if got is not expected:
            yield f"{path}: {got!r}, expected {expected!r}"
    elif field.is_array:
        if len(got) != len(expected):
            yield f"{path}: {len(got)} elements, expected {len(expected)}"
        for index, (one, other) in enumerate(zip(got, expected, strict=False)):
            inner = f"{path}[{index}]"
            if field.is_struct:
                yield from struct_differences(field.fields, version, one, other, inner, tags)
            else:
                yield from scalar_differences(field.element_type, one, other, inner)
    elif field.is_struct:
        yield from struct_differences(field.fields, version, got, expected, path, tags)
    else:
        yield from scalar_differences(field.type, got, expected, path)


PYTHON_TYPES = {"bool": bool, "float64": float, "string": str, "uuid": str, "bytes": bytes}


def scalar_differences(type_: str, got: Any, expected: Any, path: str) -> Iterator[str]:
    """A value without parts, and its type: True is not 1, and 0.0 is not -0.0."""
    if type(got) is not PYTHON_TYPES.get(type_, int):
        yield f"{path}: a {type(got).__name__} for {type_}"
    wanted = b64decode(expected) if type_ == "bytes" else float(expected) if type_ == "float64" else expected
    if got != wanted or (type_ == "float64" and repr(got) != repr(wanted)):
        yield f"{path}: {got!r}, expected {wanted!r}"


def at_path(value: Any, path: str) -> Any:
    """The value at a path as responses[0].records."""
    for step in path.replace("[", ".").replace("]", "").split("."):
        value = value[int(step)] if step.isdigit() else value[step]
    return value


def as_text(value: Any) -> Any:
    """Bytes as hex, tuples as lists, as samples have them."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | tuple):
        return [as_text(element) for element in value]
    if isinstance(value, dict):
        return {name: as_text(member) for name, member in value.items()}
    return value


def record_differences(expected: Sample, data: bytes) -> Iterator[str]:
    """Batch by batch, record by record; the fields that the sample names."""
    path = expected["field_path"]
    got = as_text(decoders.decode_records(data))
    trailing = len(data) - sum(batch["size_in_bytes"] for batch in got)
    if trailing != expected["trailing_bytes"]:
        yield f"{path}: {trailing} bytes behind the last whole batch, expected {expected['trailing_bytes']}"
    if len(got) != len(expected["batches"]):
        yield f"{path}: {len(got)} batches, expected {len(expected['batches'])}"
    for number, (batch, wanted) in enumerate(zip(got, expected["batches"], strict=False)):
        place = f"{path} batch {number}"
        for name, value in wanted.items():
            if name != "records" and batch.get(name) != value:
                yield f"{place}: {name} is {batch.get(name)!r}, expected {value!r}"
        if len(batch["records"]) != len(wanted["records"]):
            yield f"{place}: {len(batch['records'])} records, expected {len(wanted['records'])}"
        for record, other in zip(batch["records"], wanted["records"], strict=False):
            for name, value in other.items():
                if record.get(name) != value:
                    yield f"{place} offset {other['offset']}: {name} is {record.get(name)!r}, expected {value!r}"


# ------------------------------------------------------------------------------------------------------ data, headers


def _header(sample: Sample) -> Iterator[str]:
    yield from _definition_differences(sample, schema.data_message(sample["api"]), sample["version"])


def _definition_differences(sample: Sample, message: Message, version: int) -> Iterator[str]:
    """A bare body against its definition."""
    body = bytes.fromhex(sample["hex"])
    payload = payloads.read(message, version, body)
    yield from _payload_differences(sample, payload, message, version)


def _payload_differences(sample: Sample, payload: payloads.Payload, message: Message, version: int) -> Iterator[str]:
    if payload.rest:
        yield f"{len(payload.rest)} bytes are left"
    if payload.name != message.name or payload.version != version:
        yield f"read as {payload.name} version {payload.version}"
    tags = {entry["path"]: entry["tags"] for entry in sample.get("unknown_tags", ())}
    for reading in message.readings(version):
        if fits(reading, version, payload.fields):
            message = reading
    yield from struct_differences(message.fields, version, payload.fields, sample["json"], "", tags)
    yield from (f"{path}: unknown tags are missing" for path in tags)


def _data(sample: Sample) -> Iterator[str]:
    yield from _BY_KIND[sample["kind"]](sample)


def _consumer_protocol(sample: Sample) -> Iterator[str]:
    wire = bytes.fromhex(sample["frame_hex"])
    message = schema.data_message(sample["api"])
    subscription = sample["api"] == "ConsumerProtocolSubscription"
    decode = group_protocols.decode_subscription if subscription else group_protocols.decode_assignment
    yield from _payload_differences(sample, decode(wire, "range"), message, sample["version"])


def _principal(sample: Sample) -> Iterator[str]:
    payload = payloads.decode_principal(bytes.fromhex(sample["frame_hex"]))
    yield from _payload_differences(sample, payload, schema.data_message(sample["api"]), sample["version"])


def _control_record(sample: Sample) -> Iterator[str]:
    wire = bytes.fromhex(sample["frame_hex"])
    message = schema.data_message(sample["api"])
    if sample["api"] in ("ControlRecordTypeSchema", "EndTxnMarker"):
        payload = payloads.read_version_first(message, wire)
    else:  # the version is a field of it
        payload = payloads.read(message, sample["version"], wire)
    yield from _payload_differences(sample, payload, message, sample["version"])


OLD_OFFSET_COMMIT_NAMES = {"OffsetCommitKey": "LegacyOffsetCommitKey", "LegacyOffsetCommitValue": "OffsetCommitValue"}


def _coordinator(sample: Sample) -> Iterator[str]:
    wire = bytes.fromhex(sample["frame_hex"])
    topic, record_type = sample["topic"], sample["key"]
    if sample["kind"] == "coordinator-key":
        payload = payloads.decode_coordinator_key(topic, wire)
        version = 0  # in older releases the version of a key is the record type
    else:
        payload = payloads.decode_coordinator_value(topic, record_type, wire)
        version = sample["version"]
    old = record_type == payloads.OLD_OFFSET_COMMIT and topic == "__consumer_offsets"
    name: str = sample["api"]
    if old:
        name = OLD_OFFSET_COMMIT_NAMES.get(name, name)
    yield from _payload_differences(sample, payload, schema.data_message(name), version)


def _typed_value(sample: Sample) -> Iterator[str]:
    payload = payloads.decode_typed_value(sample["topic"], bytes.fromhex(sample["frame_hex"]))
    yield from _payload_differences(sample, payload, schema.data_message(sample["api"]), sample["version"])


def _user_data(sample: Sample) -> Iterator[str]:
    wire = bytes.fromhex(sample["frame_hex"])
    if sample["api"] == "CooperativeStickyAssignorUserData":
        payload = group_protocols.decode_cooperative_sticky(wire)
    else:
        payload = group_protocols.decode_sticky(wire)
    yield from _plain_differences(sample, payload, sample["json"])


def _connect(sample: Sample) -> Iterator[str]:
    wire = bytes.fromhex(sample["frame_hex"])
    expected = dict(sample["json"])
    expected.pop("version")
    if sample["api"] == "ConnectAssignment":
        expected |= expected.pop("wire")
        payload = group_protocols.decode_connect_assignment(wire)
    else:
        payload = group_protocols.decode_connect_metadata(wire)
        if sample["version"] > 0:
            allocation = expected.pop("allocationHex")
            nested = allocation and group_protocols.decode_connect_assignment(bytes.fromhex(allocation)).as_dict()
            expected["allocation"] = b"" if allocation == "" else nested
    yield from _plain_differences(sample, payload, expected)


def _streams(sample: Sample) -> Iterator[str]:
    wire = bytes.fromhex(sample["frame_hex"])
    if sample["api"] == "SubscriptionInfoData":
        payload = group_protocols.decode_streams_subscription(wire)
        yield from _payload_differences(sample, payload, schema.data_message(sample["api"]), sample["version"])
    else:
        yield from _plain_differences(sample, group_protocols.decode_streams_assignment(wire), sample["json"])


def _plain_differences(sample: Sample, payload: payloads.Payload, expected: dict[str, Any]) -> Iterator[str]:
    if payload.version != sample["version"]:
        yield f"read as version {payload.version}"
    if payload.fields != expected:
        yield f"{payload.fields}, expected {expected}"
    if payload.rest:
        yield f"{len(payload.rest)} bytes are left"


_BY_DIRECTION = {
    "request": _exchange,
    "response": _exchange,
    "response-fallback": _exchange,
    "header": _header,
    "data": _data,
}
_BY_KIND = {
    "consumer-protocol": _consumer_protocol,
    "principal": _principal,
    "control-record": _control_record,
    "coordinator-key": _coordinator,
    "coordinator-value": _coordinator,
    "metadata-record": _typed_value,
    "remote-log-metadata-record": _typed_value,
    "consumer-userdata": _user_data,
    "connect": _connect,
    "streams-userdata": _streams,
}


def main(paths: list[str]) -> int:
    """Check whole files."""
    status = 0
    for path in paths:
        counts: Counter[str] = Counter()
        for sample in samples(path):
            try:
                found = differences(sample)
            except Exception as error:  # any escape is a finding
                found = [f"{type(error).__name__}: {error}"]
            counts["samples"] += 1
            if found:
                counts["wrong"] += 1
                status = 1
                if counts["wrong"] <= 20:
                    print(f"{name_of(sample)}: {'; '.join(found)[:500]}")
        print(f"{path}: {counts['samples']} samples, {counts['wrong']} wrong")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
