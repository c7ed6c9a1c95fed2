"""Read Kafka's message definitions out of its jars and write the fact tables of decoders/schemas/.

The tables are the union of the releases below. The newest release that knows a version says how it looks. If another
means different bytes by it, that reading is kept beside the newer one as an alternative; so is what clients write and
no release defines (OF_CLIENTS). Every version of every release is compared with the result before anything is written,
so that a definition this tool does not understand stops it.

    python tools/schemas.py                    fetch the jars with Maven, write the tables, say what changed
    python tools/schemas.py --jars DIRECTORY   take the jars from DIRECTORY or any directory below it
    python tools/schemas.py --check            write nothing; exit status 1 if the tables would change
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

RELEASES = ("3.9.1", "4.3.1", "4.4.0")  # oldest first
TABLES = Path(__file__).resolve().parent.parent / "decoders" / "schemas"


@dataclass(frozen=True, slots=True)
class Jar:
    """A jar with definitions: where they lie in it, and the family its data definitions belong to."""

    artifact: str
    folder: str
    family: str
    releases: tuple[str, ...] = RELEASES


JARS = (
    Jar("kafka-clients", "common/message/", "clients"),
    Jar("kafka-group-coordinator", "common/message/", "group_coordinator"),
    Jar("kafka-transaction-coordinator", "common/message/", "transaction_coordinator"),
    Jar("kafka-share-coordinator", "common/message/", "share_coordinator", ("4.3.1", "4.4.0")),
    Jar("kafka-metadata", "common/metadata/", "metadata"),
    Jar("kafka-storage", "message/", "remote_log_metadata"),
    Jar("kafka-streams", "common/message/", "streams"),
)

SKIPPED = ("ProducerSnapshot", "AbortedTxn")  # files of the log directory; never on the wire or in a topic

# What 3.9.1 called otherwise and wrote in the same bytes: (message, field path there) -> name of today.
RENAMED_MESSAGES = {
    "ListClientMetricsResourcesRequest": "ListConfigResourcesRequest",
    "ListClientMetricsResourcesResponse": "ListConfigResourcesResponse",
}
RENAMED_FIELDS = {
    ("VoteRequest", "topics.partitions.candidateEpoch"): "replicaEpoch",
    ("VoteRequest", "topics.partitions.candidateId"): "replicaId",
    ("VoteRequest", "topics.partitions.candidateDirectoryId"): "replicaDirectoryId",
    ("ListConfigResourcesResponse", "clientMetricsResources"): "configResources",
    ("ListConfigResourcesResponse", "clientMetricsResources.name"): "resourceName",
}

# What a later release calls otherwise than these tables did, in the same bytes: (message, field path there) -> the name
# that stays, and the last version that has it. Filters and scripts ask for fields by name.
KEPT_NAMES = {
    ("StreamsGroupHeartbeatResponse", "acceptableRecoveryLagLegacy"): ("acceptableRecoveryLag", 0),
    ("TxnOffsetCommitRequest", "generationIdOrMemberEpoch"): ("generationId", 5),
}


@dataclass(frozen=True, slots=True)
class FieldFacts:
    """A field of one release, or of the union: its ranges as sets of versions that are valid."""

    name: str
    type: str
    versions: frozenset[int]
    nullable: frozenset[int]
    tagged: frozenset[int]
    tag: int | None
    flexible: frozenset[int] | None
    default: object
    entity: str | None
    fields: tuple[FieldFacts, ...]


@dataclass(frozen=True, slots=True)
class MessageFacts:
    """A message of one release, or of the union."""

    name: str
    kind: str
    key: int | None
    family: str
    versions: frozenset[int]
    flexible: frozenset[int]
    fields: tuple[FieldFacts, ...]
    releases: tuple[tuple[str, frozenset[int], frozenset[int]], ...]  # release, versions, unstable ones among them
    alternatives: tuple[MessageFacts, ...] = ()


# What clients write and brokers take, though no release defines it. librdkafka up to 1.3 follows the first draft of
# KIP-35 and names the APIs that it asks for: none of them, for all.
OF_CLIENTS: dict[str, dict[str, Any]] = {
    "ApiVersionsRequest": {
        "validVersions": "0-2",
        "fields": [{"name": "ApiKeys", "type": "[]int16", "versions": "0+"}],
    }
}


# ------------------------------------------------------------------------------------------------ reading definitions


def without_comments(text: str) -> str:
    """The JSON text without // and /* */ comments; what looks like one inside a string stays."""
    kept: list[str] = []
    at = 0
    while at < len(text):
        if text[at] == '"':
            end = at + 1
            while text[end] != '"':
                end += 2 if text[end] == "\\" else 1
            kept.append(text[at : end + 1])
            at = end + 1
        elif text.startswith("//", at):
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif text.startswith("/*", at):
            at = text.index("*/", at) + 2
        else:
            kept.append(text[at])
            at += 1
    return "".join(kept)


def versions_of(text: str | None, valid: Iterable[int]) -> frozenset[int]:
    """The versions a range ("3", "0-4", "2+", "none") means, of those that are valid."""
    if not text or text == "none":
        return frozenset()
    if text.endswith("+"):
        return frozenset(version for version in valid if version >= int(text[:-1]))
    first, _, last = text.partition("-")
    return frozenset(version for version in valid if int(first) <= version <= int(last or first))


def all_versions(text: str) -> frozenset[int]:
    """The versions of a message's closed range."""
    if text == "none":
        return frozenset()
    first, _, last = text.partition("-")
    return frozenset(range(int(first), int(last or first) + 1))


def camel(name: str) -> str:
    """The name as Kafka's JSON converters print it."""
    return name[0].lower() + name[1:]


def default_of(definition: dict[str, Any], type_: str) -> object:
    """The default as JSON writes it, None for null; the type's zero where the definition names none.

    A literal null counts as no default: that is how Kafka's generator takes it. Only the text "null" means null.
    """
    given = definition.get("default")
    if given == "null" or (given is None and type_ == "records"):
        return None
    if type_.startswith("[]"):
        return []
    if type_ == "bool":
        return given is True or given == "true"
    if type_ == "float64":
        return float(given or 0)
    if type_.startswith(("int", "uint")):
        return int(given, 0) if isinstance(given, str) and given else int(given or 0)
    if type_ == "string":
        return given or ""
    if type_ in ("bytes", "uuid"):
        if given:
            raise ValueError(f"default {given!r} of {definition['name']}: not understood")
        return ""
    return {}


def field_of(definition: dict[str, Any], shared: dict[str, Any], valid: frozenset[int]) -> FieldFacts:
    """The facts of a field; a struct shared by several fields is written out in each."""
    type_ = definition["type"]
    element = type_.removeprefix("[]")
    tagged = definition.get("taggedVersions", "none")
    versions = versions_of(definition.get("versions", tagged), valid)
    members = definition.get("fields") or (shared[element] if element[0].isupper() else ())
    return FieldFacts(
        name=camel(definition["name"]),
        type=type_,
        versions=versions,
        nullable=versions_of(definition.get("nullableVersions"), versions),
        tagged=versions_of(tagged, versions),
        tag=int(definition["tag"]) if "tag" in definition else None,
        flexible=versions_of(definition["flexibleVersions"], versions) if "flexibleVersions" in definition else None,
        default=default_of(definition, type_),
        entity=definition.get("entityType"),
        fields=tuple(field_of(member, shared, versions) for member in members),
    )


def message_of(definition: dict[str, Any], jar: Jar, release: str) -> MessageFacts:
    """The facts of a message as one release defines it."""
    valid = all_versions(definition["validVersions"])
    shared = {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", ())}
    unstable = frozenset({max(valid)}) if valid and definition.get("latestVersionUnstable") else frozenset()
    message = MessageFacts(
        name=RENAMED_MESSAGES.get(definition["name"], definition["name"]),
        kind=definition["type"],
        key=definition.get("apiKey"),
        family=jar.family,
        versions=valid,
        flexible=versions_of(definition.get("flexibleVersions"), valid),
        fields=tuple(field_of(field, shared, valid) for field in definition.get("fields", ())),
        releases=((release, valid, unstable),),
    )
    if message.kind == "data" and jar.family.endswith("_coordinator"):
        message = as_coordinator_message(message)
    return renamed(message)


def as_coordinator_message(message: MessageFacts) -> MessageFacts:
    """A key or value of an internal topic, as releases write it that have the record type as an attribute.

    The older releases let the record type be the version of the key definition. (OffsetCommitKey had two; record type 0
    has a definition of its own today.) Their values do not say their record type.
    """
    if message.name.endswith("Value"):
        return replace(message, kind="coordinator-value")

    def at_version_0(field: FieldFacts) -> FieldFacts:
        return replace(field, versions=frozenset({0}), fields=tuple(at_version_0(member) for member in field.fields))

    ((release, versions, unstable),) = message.releases
    return replace(
        message,
        kind="coordinator-key",
        key=max(versions),
        versions=frozenset({0}),
        fields=tuple(at_version_0(field) for field in message.fields),
        releases=((release, frozenset({0}), unstable),),
    )


def renamed(message: MessageFacts) -> MessageFacts:
    """The message with the field names of the tables."""

    def rename(fields: tuple[FieldFacts, ...], prefix: str) -> Iterator[FieldFacts]:
        for field in fields:
            path = prefix + field.name
            name = RENAMED_FIELDS.get((message.name, path), field.name)
            new = replace(field, name=name, fields=tuple(rename(field.fields, path + ".")))
            kept, last = KEPT_NAMES.get((message.name, path), (name, -1))
            before = frozenset(version for version in field.versions if version <= last)
            if before:
                yield restricted(replace(new, name=kept), before)
            if new.versions != before:
                yield restricted(new, new.versions - before)

    return replace(message, fields=tuple(rename(message.fields, "")))


def find_jar(root: Path, jar: Jar, release: str) -> Path:
    """The path of a jar below root."""
    name = f"{jar.artifact}-{release}.jar"
    for path in sorted(root.rglob(name)):
        return path
    raise FileNotFoundError(f"{name} is nowhere below {root}")


def read_release(root: Path, release: str) -> dict[str, MessageFacts]:
    """All messages of one release by name."""
    messages: dict[str, MessageFacts] = {}
    for jar in JARS:
        if release not in jar.releases:
            continue
        with zipfile.ZipFile(find_jar(root, jar, release)) as archive:
            for name in sorted(archive.namelist()):
                if name.startswith(jar.folder) and name.endswith(".json"):
                    definition = json.loads(without_comments(archive.read(name).decode()))
                    message = message_of(definition, jar, release)
                    if message.versions and definition["name"] not in SKIPPED:
                        messages[message.name] = message
    return messages


# --------------------------------------------------------------------------------------------------------- the union


def restricted(field: FieldFacts, versions: frozenset[int]) -> FieldFacts:
    """The field as if only these versions existed."""
    return replace(
        field,
        versions=field.versions & versions,
        nullable=field.nullable & versions,
        tagged=field.tagged & versions,
        flexible=None if field.flexible is None else field.flexible & versions,
        fields=tuple(restricted(member, versions) for member in field.fields),
    )


def merged_field(old: FieldFacts, new: FieldFacts) -> FieldFacts:
    """One field of both; their versions do not overlap."""
    if old.type.startswith("[]") != new.type.startswith("[]"):
        raise ValueError(f"{new.name}: {old.type} became {new.type}")
    return replace(
        new,
        versions=old.versions | new.versions,
        nullable=old.nullable | new.nullable,
        tagged=old.tagged | new.tagged,
        tag=old.tag if new.tag is None else new.tag,
        flexible=None if new.flexible is None or old.flexible is None else old.flexible | new.flexible,
        entity=new.entity or old.entity,
        fields=merged_fields(old.fields, new.fields),
    )


def merged_fields(old: tuple[FieldFacts, ...], new: tuple[FieldFacts, ...]) -> tuple[FieldFacts, ...]:
    """The fields of both in the newer order; what only the older has stands behind its neighbour there."""
    by_name = {field.name: field for field in old}
    result = [merged_field(by_name[field.name], field) if field.name in by_name else field for field in new]
    place = 0
    for field in old:
        names = [other.name for other in result]
        if field.name in names:
            place = names.index(field.name) + 1
        elif field.versions:
            result.insert(place, field)
            place += 1
    return tuple(field for field in result if field.versions)


Layout = tuple[object, ...]


def layout(message: MessageFacts, version: int, *, tagged: bool = True) -> Layout:
    """Everything that says how the bytes of one version look, in their order; comparable."""

    def struct(fields: tuple[FieldFacts, ...]) -> Layout:
        here = [field for field in fields if version in field.versions]
        plain = [one(field) for field in here if version not in field.tagged]
        by_tag = sorted(((field.tag, one(field)) for field in here if version in field.tagged), key=lambda x: x[0] or 0)
        return (tuple(plain), tuple(by_tag) if tagged else ())

    def one(field: FieldFacts) -> Layout:
        flexible = (version in message.flexible) if field.flexible is None else (version in field.flexible)
        element = field.type.removeprefix("[]")
        type_ = field.type if element[0].islower() else field.type.replace(element, "struct")
        return (field.name, type_, version in field.nullable, flexible, struct(field.fields))

    return struct(message.fields)


def union(old: MessageFacts, new: MessageFacts) -> MessageFacts:
    """One message of the older releases, which may be a union itself, and of a newer one."""
    only_old = old.versions - new.versions
    fields = merged_fields(tuple(restricted(field, only_old) for field in old.fields), new.fields)
    conflicts = [
        version
        for version in sorted(old.versions & new.versions)
        if layout(old, version, tagged=False) != layout(new, version, tagged=False)
    ]
    alternatives = tuple(
        replace(
            old,
            versions=frozenset({version}),
            flexible=old.flexible & {version},
            fields=tuple(restricted(field, frozenset({version})) for field in old.fields),
            releases=releases_of_reading(old, version),
            alternatives=(),
        )
        for version in conflicts
    )
    return replace(
        new,
        versions=old.versions | new.versions,
        flexible=(old.flexible & only_old) | new.flexible,
        fields=fields,
        releases=old.releases + new.releases,
        alternatives=alternatives + old.alternatives,
    )


def releases_of_reading(message: MessageFacts, version: int) -> tuple[tuple[str, frozenset[int], frozenset[int]], ...]:
    """The releases that read a version as the message does, and not as one of its alternatives."""
    others = {name for other in message.alternatives if version in other.versions for name, *_ in other.releases}
    return tuple(
        (name, frozenset({version}), unstable & {version})
        for name, versions, unstable in message.releases
        if version in versions and name not in others
    )


def check(result: MessageFacts, release: MessageFacts) -> None:
    """Raise if a version of the release would be read otherwise than the release says."""
    for version in release.versions:
        expected = layout(release, version)
        readings = [layout(result, version)]
        readings += [layout(other, version) for other in result.alternatives if version in other.versions]
        newer_tags = layout(result, version, tagged=False) == layout(release, version, tagged=False)
        if expected not in readings and not newer_tags:
            raise ValueError(f"{result.name} version {version}: the union does not read what {release.releases} says")


def union_of_all(releases: list[dict[str, MessageFacts]]) -> list[MessageFacts]:
    """The messages of all releases (the oldest first), each once, by name."""
    names = sorted({name for release in releases for name in release})
    messages = [reduce(union, (release[name] for release in releases if name in release)) for name in names]
    value_keys = {message.name: message.key for message in messages if message.kind == "coordinator-key"}
    finished = []
    for message in messages:
        for release in releases:
            if message.name in release:
                check(message, release[message.name])
        if message.kind == "coordinator-value" and message.key is None:
            message = replace(message, key=value_keys[message.name.removesuffix("Value") + "Key"])
        finished.append(with_reading_of_clients(message))
    return finished


def with_reading_of_clients(message: MessageFacts) -> MessageFacts:
    """The message with what clients mean by some of its versions, behind what releases mean."""
    if message.name not in OF_CLIENTS:
        return message
    definition = OF_CLIENTS[message.name]
    versions = all_versions(definition["validVersions"])
    other = replace(
        message,
        versions=versions,
        flexible=message.flexible & versions,
        fields=tuple(field_of(field, {}, versions) for field in definition["fields"]),
        releases=(),
        alternatives=(),
    )
    return replace(message, alternatives=(*message.alternatives, other))


# ------------------------------------------------------------------------------------------------------------ writing


def range_text(versions: frozenset[int], last: int) -> str:
    """A range as a definition writes it; open at the end if it reaches the message's last version."""
    if not versions:
        return "none"
    first, end = min(versions), max(versions)
    if len(versions) != end - first + 1:
        raise ValueError(f"versions {sorted(versions)} are not one range")
    return f"{first}+" if end == last else f"{first}" if first == end else f"{first}-{end}"


def closed_text(versions: frozenset[int]) -> str:
    """A range as text, closed."""
    return range_text(versions, -1)


def field_lines(field: FieldFacts, last: int, indent: str) -> Iterator[str]:
    """One line for the field, and one for each of its members."""
    facts: dict[str, object] = {"name": field.name, "type": field.type, "versions": range_text(field.versions, last)}
    if field.nullable:
        facts["nullable"] = range_text(field.nullable, last)
    if field.tagged:
        facts |= {"tagged": range_text(field.tagged, last), "tag": field.tag}
    if field.flexible is not None:
        facts["flexible"] = range_text(field.flexible, last)
    if field.default or (field.default is None and field.type != "records"):
        facts["default"] = field.default
    if field.entity:
        facts["entity"] = field.entity
    text = json.dumps(facts)
    if field.fields:
        yield f'{indent}{text[:-1]}, "fields": ['
        yield from separated([list(field_lines(member, last, indent + "  ")) for member in field.fields])
        yield f"{indent}]}}"
    else:
        yield indent + text


def separated(blocks: list[list[str]]) -> Iterator[str]:
    """The lines of all blocks, with a comma behind each block but the last."""
    for number, lines in enumerate(blocks):
        yield from lines[:-1]
        yield lines[-1] + ("" if number == len(blocks) - 1 else ",")


def message_lines(message: MessageFacts, indent: str, label: str = "") -> Iterator[str]:
    """A message as JSON."""
    last = max(message.versions)
    facts: dict[str, object] = {"name": message.name, "kind": message.kind}
    if message.key is not None:
        facts["key"] = message.key
    facts |= {"versions": closed_text(message.versions), "flexible": range_text(message.flexible, last)}
    facts["releases"] = {release: closed_text(versions) for release, versions, _ in message.releases}
    unstable = {release: closed_text(versions) for release, _, versions in message.releases if versions}
    if unstable:
        facts["unstable"] = unstable
    yield f'{indent}{label}{json.dumps(facts)[:-1]}, "fields": ['
    yield from separated([list(field_lines(field, last, indent + "  ")) for field in message.fields])
    if message.alternatives:
        yield f'{indent}], "alternatives": ['
        yield from separated([list(message_lines(other, indent + "  ")) for other in message.alternatives])
    yield f"{indent}]}}"


def api_text(request: MessageFacts, response: MessageFacts) -> str:
    """The table of one API."""
    name = request.name.removesuffix("Request")
    lines = [f'{{"key": {request.key}, "name": {json.dumps(name)},']
    lines += separated(
        [list(message_lines(request, "", '"request": ')), list(message_lines(response, "", '"response": '))]
    )
    return "\n".join([*lines, "}", ""])


def family_text(family: str, messages: list[MessageFacts]) -> str:
    """The table of a family of data definitions."""
    lines = [f'{{"family": {json.dumps(family)}, "messages": [']
    lines += separated([list(message_lines(message, "  ")) for message in messages])
    return "\n".join([*lines, "]}", ""])


def tables(messages: list[MessageFacts]) -> dict[str, str]:
    """The text of every file by its name."""
    by_name = {message.name: message for message in messages}
    files: dict[str, str] = {}
    families: dict[str, list[MessageFacts]] = {}
    for message in messages:
        if message.kind == "request":
            name = message.name.removesuffix("Request")
            files[f"{message.key:03}_{name}.json"] = api_text(message, by_name[name + "Response"])
        elif message.kind != "response":
            families.setdefault("headers" if message.kind == "header" else message.family, []).append(message)
    for family, members in families.items():
        members.sort(key=lambda message: (message.kind, -1 if message.key is None else message.key, message.name))
        files[f"data_{family}.json"] = family_text(family, members)
    return dict(sorted(files.items()))


# -------------------------------------------------------------------------------------------------------------- drift


def flattened(text: str) -> dict[str, str]:
    """Each message and field of a table by its path, with its own facts as text."""
    facts: dict[str, str] = {}

    def walk(node: dict[str, Any], path: str) -> None:
        own = json.dumps({name: value for name, value in node.items() if not isinstance(value, list | dict)})
        facts[path] = f"{facts[path]} and {own}" if path in facts else own  # two fields of one name, in other versions
        for name in ("releases", "unstable"):
            if name in node:
                facts[f"{path} {name}"] = json.dumps(node[name])
        for member in node.get("fields", ()):
            walk(member, f"{path}.{member['name']}")
        for other in node.get("alternatives", ()):
            walk(other, f"{path} as of {', '.join(other['releases']) or 'clients'}")

    table = json.loads(text)
    for message in (table["request"], table["response"]) if "request" in table else table["messages"]:
        walk(message, message["name"])
    return facts


def drift(before: dict[str, str], after: dict[str, str]) -> Iterator[str]:
    """One line for every message or field that was added, removed or changed."""
    for file in sorted(before.keys() | after.keys()):
        old = flattened(before[file]) if file in before else {}
        new = flattened(after[file]) if file in after else {}
        for path in sorted(old.keys() | new.keys()):
            if path not in old:
                yield f"{file}: added {path} {new[path]}"
            elif path not in new:
                yield f"{file}: removed {path} {old[path]}"
            elif old[path] != new[path]:
                yield f"{file}: changed {path} from {old[path]} to {new[path]}"
        if old == new and before.get(file) != after.get(file):
            yield f"{file}: other order or layout"


# ------------------------------------------------------------------------------------------------------------- command


def fetch_jars(release: str, directory: Path) -> None:
    """Copy the jars of one release from Maven Central into the directory."""
    dependencies = "".join(
        f"<dependency><groupId>org.apache.kafka</groupId><artifactId>{jar.artifact}</artifactId>"
        f"<version>{release}</version></dependency>"
        for jar in JARS
        if release in jar.releases
    )
    project = (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>kafkascope</groupId><artifactId>definitions</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "pom.xml").write_text(project)
    subprocess.run(
        ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DexcludeTransitive=true", "-DoutputDirectory=."],
        cwd=directory,
        check=True,
    )


def main() -> int:
    """Rebuild the tables, or check them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--jars", type=Path, help="directory below which the jars lie; fetched with Maven if absent")
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if anything would change")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = arguments.jars
        if root is None:
            root = Path(scratch)
            for release in RELEASES:
                fetch_jars(release, root / release)
        after = tables(union_of_all([read_release(root, release) for release in RELEASES]))
    before = {path.name: path.read_text() for path in TABLES.glob("*.json")}
    changes = list(drift(before, after))
    print(*changes, sep="\n", end="\n" if changes else "")
    print(f"{len(after)} tables, {len(changes)} changes", file=sys.stderr)
    if arguments.check:
        return 1 if changes else 0
    TABLES.mkdir(exist_ok=True)
    for name in before.keys() - after.keys():
        (TABLES / name).unlink()
    for name, text in after.items():
        (TABLES / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
