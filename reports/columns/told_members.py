"""What connections tell of groups that others need: of which group a client is a member, who fetches elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

_MEMBER = "member "  # a client, as `ToldMembers.learned` has it
_SEVERAL = ""  # groups that a client is in: of which it fetches, is not told
MOST_MEMBERS = 100_000
"""Clients that are remembered; of more nobody is, as it would hang on their order who."""


class ToldMembers:
    """What is told so far; in whatever order it is taken in, it is the same."""

    def __init__(self) -> None:
        self._groups: dict[str, str] = {}
        self._are_too_many = False

    def learn(self, told: Iterable[tuple[str, str]]) -> None:
        """Take in pairs of a client (`told_clusters.client_key`) and a group that it is a member of."""
        for client, group in told:
            if self._groups.setdefault(client, group) != group:
                self._groups[client] = _SEVERAL
        if len(self._groups) > MOST_MEMBERS or self._are_too_many:
            self._groups, self._are_too_many = {}, True

    @property
    def groups(self) -> dict[str, str]:
        """The group of each client that is in one alone."""
        return {client: group for client, group in self._groups.items() if group != _SEVERAL}

    def learned(self) -> dict[str, str]:
        """All of it as texts, each of which `take` takes in."""
        too_many = {_MEMBER: _SEVERAL} if self._are_too_many else {}
        return too_many | {_MEMBER + client: group for client, group in self._groups.items()}

    def take(self, key: str, value: str) -> bool:
        """Take in what another part of the capture learned; False if it is not of groups."""
        if not key.startswith(_MEMBER):
            return False
        self._are_too_many |= key == _MEMBER
        self.learn([(key.removeprefix(_MEMBER), value)])
        return True
