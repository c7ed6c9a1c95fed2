"""What is known of members, whatever they said it with: who and where they are, and with which software."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kafkascope.reports.groups.history import GroupLog
from kafkascope.reports.groups.messages import ConnectionEnd, Message

# Brokers make the id of a dynamic member of its client id and a UUID, that of a static one of its instance id and one.
_ENDS_IN_UUID = re.compile(r"(?s)(.+)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")


@dataclass(slots=True)
class Profile:
    """Who a member is; None: not known."""

    client_id: str | None = None
    host: str | None = None
    software: str | None = None
    software_version: str | None = None


class Profiles:
    """Profiles by member id, of what connections and descriptions of the group tell."""

    def __init__(self, log: GroupLog) -> None:
        self._ended = log.ended
        self._known: dict[str, Profile] = {}

    def heard(self, member_id: str, message: Message) -> None:
        """A member spoke in this message."""
        known = self._known.setdefault(member_id, Profile())
        end = self._ended.get(message.connection)
        known.client_id = known.client_id or message.client_id or (end.client_id if end else None)
        known.host = known.host or message.client or None
        if end is not None and known.software is None:
            known.software, known.software_version = end.software, end.software_version

    def described(self, member_id: str, client_id: str | None, host: str | None) -> None:
        """A description of the group tells who a member is; hosts there have a slash before them."""
        known = self._known.setdefault(member_id, Profile())
        known.client_id = known.client_id or client_id or None
        known.host = known.host or (host or "").lstrip("/") or None

    def of(self, member_id: str, instance_id: str | None = None) -> Profile:
        """What is known of a member; its client id may be read from its id."""
        known = self._known.setdefault(member_id, Profile())
        if known.client_id is None and not instance_id and (match := _ENDS_IN_UUID.match(member_id)):
            known.client_id = match[1]
        return known

    def connection_ends(self, connections: list[int]) -> list[ConnectionEnd]:
        """How these connections ended, of those that did."""
        ends = [self._ended[each] for each in connections if each in self._ended]
        return [end for end in ends if end.closed is not None and end.how_closed != "open"]
