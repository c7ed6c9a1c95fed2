"""Parts of decoded bodies, whatever may be missing in them: a body may be cut short, null, or of an unknown kind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]


def body_of(text: str | None) -> Json:
    """A body by its text; empty if that was cut."""
    try:
        read = json.loads(text or "{}")
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def number(value: Any, otherwise: int = -1) -> int:
    """A whole number, or otherwise."""
    return value if isinstance(value, int) else otherwise


def text(value: Any) -> str:
    """Text; empty if there is none."""
    return value if isinstance(value, str) else ""


def rows(value: Any) -> list[Json]:
    """The objects of a list; empty if it is none."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def committed_offsets(answer: Json) -> Iterator[tuple[str, int, int]]:
    """What an answer to OffsetFetch tells: topic (its id from version 10 on), partition and offset, -1 for none."""
    for group in rows(answer.get("groups")) or [answer]:  # groups from version 8 on
        for topic in rows(group.get("topics")):
            for one in rows(topic.get("partitions")):
                if isinstance(one.get("committedOffset"), int):
                    yield text(topic.get("name", topic.get("topicId"))), one["partitionIndex"], one["committedOffset"]


def listed_offsets(answer: Json) -> Iterator[tuple[str, int, int]]:
    """What an answer to ListOffsets tells: topic, partition and offset; version 0 tells several, the others one."""
    for topic in rows(answer.get("topics")):
        for one in rows(topic.get("partitions")):
            for offset in one.get("oldStyleOffsets") or [one.get("offset")]:
                if isinstance(offset, int) and offset >= 0:
                    yield text(topic.get("name")), number(one.get("partitionIndex")), offset
