"""Which release of Apache Kafka knows which versions of which API; tools/releases.py wrote the table.

A release here is a minor one (0.10.2, 3.9), for within one versions stay as they are. What it knows, its clients and
its brokers know; a broker may offer less (what belongs to ZooKeeper, to controllers, or is unstable), and those up to
0.9 also knew requests among brokers that the table has not.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from kafkascope.decoders.schema import NEVER, Versions

_RELEASE = re.compile(r"(0\.\d+\.\d+|[1-9]\d*\.\d+)(?:\.\d+)?")  # those that others build have more in their names


@dataclass(frozen=True, slots=True)
class Known:
    """The versions of an API that a release knows."""

    release: str
    versions: Versions  # with the unstable ones
    unstable: Versions  # those of them that are only offered where unstable versions are enabled

    @property
    def stable(self) -> Versions:
        """The versions that can be used without more ado."""
        return Versions(self.versions.first, self.unstable.first - 1) if self.unstable else self.versions


@cache
def _table() -> Mapping[int, Mapping[str, Known]]:
    found: dict[int, dict[str, Known]] = {}
    text = (resources.files("kafkascope.decoders") / "schemas" / "releases.tsv").read_text()
    for row in csv.DictReader(text.splitlines(), delimiter="\t"):
        first, last, unstable = int(row["first"]), int(row["last"]), row["first unstable"]
        release = minor(row["release"])
        known = Known(release, Versions(first, last), Versions(int(unstable), last) if unstable else NEVER)
        found.setdefault(int(row["key"]), {})[release] = known
    return found


def minor(release: str) -> str:
    """The minor release that a release belongs to: 3.9.1 to 3.9, 0.10.2.2 to 0.10.2; what is called otherwise stays."""
    found = _RELEASE.fullmatch(release)
    return found[1] if found else release


@cache
def releases() -> tuple[str, ...]:
    """All minor releases of the table, oldest first. Of older ones it is not known what they know."""
    return tuple(dict.fromkeys(release for api in _table().values() for release in api))


def known_by(api_key: int) -> tuple[Known, ...]:
    """What each release knows of an API, oldest first; without those that do not know it."""
    return tuple(_table().get(api_key, {}).values())


def known(release: str, api_key: int) -> Known | None:
    """What a release (3.9 or 3.9.1) knows of an API; None if it knows nothing, or is not in the table."""
    return _table().get(api_key, {}).get(minor(release))


@cache
def oldest_taken() -> Mapping[int, int]:
    """The first version that the newest release knows, by API key, of those APIs of which it has dropped some."""
    newest = {key: of.get(releases()[-1]) for key, of in _table().items()}
    return {key: one.versions.first for key, one in newest.items() if one is not None and one.versions.first > 0}


def refused_since(api_key: int, version: int) -> str | None:
    """The first release that does not know a version any more; None if the newest one does, or none ever did."""
    dropped = (one.release for one in known_by(api_key) if one.versions.first > version)
    return next(dropped, None)
