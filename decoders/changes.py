"""What changed between two versions of a message: fields that came, went, or are written otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from kafkascope.decoders.schema import Field, Message


class How(Enum):
    """What became of a field."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Change:
    """A field that is not the same in two versions."""

    path: str  # topics[].partitions[].index; empty for the message as such
    how: How
    what: str  # its type where it came or went, else what is different


def changes(message: Message, old: int, new: int) -> list[Change]:
    """What is different in the new version, in order of the definition; the members of what came or went are left out.

    That a version is flexible, and the one before is not (KIP-482), is one change of the message, not of its strings.
    """
    found = []
    if (old in message.flexible) != (new in message.flexible):
        words = "flexible" if new in message.flexible else "no longer flexible"
        found.append(Change("", How.CHANGED, f"{words}: compact lengths, tagged fields, a header with tags"))
    found += _of_fields(message.fields, old, new, "")
    return found


def _of_fields(fields: tuple[Field, ...], old: int, new: int, above: str) -> Iterator[Change]:
    for field in fields:
        path = f"{above}{field.name}" + ("[]" if field.is_array else "")
        before, after = (version in field.versions for version in (old, new))
        if before and after:
            traits = [_traits(field, version) for version in (old, new)]
            if traits[0] != traits[1]:
                yield Change(path, How.CHANGED, f"{traits[0]} → {traits[1]}")
            yield from _of_fields(field.fields, old, new, f"{path}.")
        elif before or after:
            version, how = (new, How.ADDED) if after else (old, How.REMOVED)
            yield Change(path, how, _traits(field, version))


def _traits(field: Field, version: int) -> str:
    """How a field is written, whatever is flexible: ``string, nullable, tag 0``."""
    words = [field.type]
    if version in field.nullable:
        words.append("nullable")
    if version in field.tagged:
        words.append(f"tag {field.tag}")
    return ", ".join(words)
