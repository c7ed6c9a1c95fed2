"""Rebalances of groups, what else was heard of them, and who coordinated them when."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import pyarrow.compute as pc

from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.incidents.who_is_who import WhoIsWho

_COORDINATOR = re.compile(r"(?<!\S)(\S+) \(node \S+\)$")  # of coordinator_found; the latter one of coordinator_moved
_REBALANCE = (
    "group_id",
    "protocol",
    "from_generation",
    "to_generation",
    "inferred",
    "started",
    "joined",
    "stable",
    "recovered",
    "trigger",
    "trigger_member",
    "trigger_client_id",
    "certainty",
    "evidence",
    "contributing",
    "leader",
    "members",
    "unowned",
    "unowned_ms",
    "cost_ms",
    "reread_records",
    "last_client_id",
    "last_by_ms",
)
_WITHOUT_POLL_INTERVAL = ("kgo", "sarama")  # names of franz-go and sarama, whose rebalance timeout is of its own


class GroupRows(WhoIsWho):
    """Groups of one capture."""

    @cached_property
    def rebalances(self) -> list[Row]:
        """By group and time."""
        found = self.rows("rebalances", _REBALANCE)
        return sorted(found, key=lambda row: (row["group_id"], row["started"] or 0, row["to_generation"]))

    @cached_property
    def _by_group(self) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = defaultdict(list)
        for row in self.rebalances:
            found[row["group_id"]].append(row)
        return found

    def rebalances_of(self, group: str, until: int, since: int = 0) -> Sequence[Row]:
        """Rebalances of a group that started in a time, both ends with it, by time."""
        rows = self._by_group.get(group, [])
        low = bisect_left(rows, since, key=lambda row: row["started"] or 0)
        return rows[low : bisect_left(rows, until + 1, low, key=lambda row: row["started"] or 0)]

    @property
    def latest_rebalances(self) -> list[Row]:
        """The last one of each group."""
        return [rows[-1] for _, rows in sorted(self._by_group.items())]

    def heard_of(self, group: str, members: Iterable[str | None] = ()) -> set[str]:
        """Addresses from which these members of a group were heard; if none of them was, those of all its members."""
        found = self._heard_of.get(group, {})
        return {host for member in members for host in found.get(member, ())} or set().union(*found.values())

    @cached_property
    def _heard_of(self) -> dict[str, dict[str | None, set[str]]]:
        found: dict[str, dict[str | None, set[str]]] = defaultdict(lambda: defaultdict(set))
        which = ["group_id", "member_id", "client"]
        for batch in self.batches("group_events", which, pc.field("client").is_valid()):
            for row in batch.group_by(which).aggregate([]).to_pylist():
                found[row["group_id"]][row["member_id"]].add(row["client"])
        for row in self.rebalances:
            for member in row["members"] or ():
                if member["host"]:
                    found[row["group_id"]][member["member_id"]].add(member["host"])
        return found

    def poll_intervals(self, group: str) -> dict[str, int]:
        """max.poll.interval.ms of the members of a group, by client id: they tell it as their rebalance timeout.

        Not so libraries that have no such interval, nor aiokafka, which does not tell its name: that has its session
        timeout there, if nothing else is set.
        """
        return {
            member["client_id"]: member["rebalance_timeout_ms"]
            for member in self._with_rebalance_timeout(group)
            if member["software"] not in _WITHOUT_POLL_INTERVAL
            and (member["software"] or member["rebalance_timeout_ms"] != member["session_timeout_ms"])
        }

    def rebalance_timeouts(self, group: str) -> dict[str, int]:
        """For how long (ms) a rebalance waits for the members of a group, by client id."""
        return {member["client_id"]: member["rebalance_timeout_ms"] for member in self._with_rebalance_timeout(group)}

    def _with_rebalance_timeout(self, group: str) -> Iterator[Row]:
        rows = self.rebalances_of(group, self.end)
        return (member for row in rows for member in row["members"] or () if member["rebalance_timeout_ms"])

    @cached_property
    def groups_of(self) -> dict[str, list[str]]:
        """Groups in which each client id is a member."""
        found: dict[str, set[str]] = defaultdict(set)
        for row in self.rebalances:
            for member in row["members"] or ():
                if member["client_id"]:
                    found[member["client_id"]].add(row["group_id"])
        return {name: sorted(groups) for name, groups in found.items()}

    @cached_property
    def group_events(self) -> list[Row]:
        """Those that tell of silence, leaving and the broker's choice of coordinator, by time."""
        kinds = ["silence_begun", "coordinator_found", "coordinator_moved", "heartbeat_refused", "left"]
        found = self.rows("group_events", where=pc.field("event").isin(kinds))
        return sorted(found, key=lambda row: (row["at"], row["packet"] or 0, *map(str, row.values())))

    @cached_property
    def _events_by_group(self) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = defaultdict(list)
        for row in self.group_events:
            found[row["group_id"]].append(row)
        return found

    def events_of_group(self, group: str) -> Sequence[Row]:
        """Of `group_events` those of one group."""
        return self._events_by_group.get(group, [])

    @cached_property
    def _silent(self) -> dict[str, list[Row]]:
        return {
            group: [row for row in rows if row["event"] == "silence_begun"]
            for group, rows in self._events_by_group.items()
        }

    def silences_of(self, group: str, until: int) -> Sequence[Row]:
        """Silences of members of a group that had begun by then, by time."""
        rows = self._silent.get(group, [])
        return rows[: bisect_left(rows, until + 1, key=lambda row: row["at"])]

    @cached_property
    def _ended(self) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = defaultdict(list)
        rows = self.rows("group_events", where=pc.field("event") == "connection_ended")
        for row in sorted(rows, key=lambda row: (row["at"], row["member_id"] or "")):
            found[row["group_id"]].append(row)
        return found

    def ends_of(self, group: str, until: int) -> Sequence[Row]:
        """Events before a time by which connections of members that had not left ended, by time."""
        rows = self._ended.get(group, [])
        return rows[: bisect_left(rows, until, key=lambda row: row["at"])]

    @cached_property
    def _coordinators(self) -> dict[str, list[tuple[int, str]]]:
        """Coordinators of each group, by address or name, with the time when each was told, by time."""
        found: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for row in self.group_events:
            if row["event"].startswith("coordinator_") and (place := _COORDINATOR.search(row["detail"] or "")):
                found[row["group_id"]].append((row["at"], self.where(place[1])))
        return found

    def _coordinator_of(self, group: str, at: int) -> str | None:
        told = self._coordinators.get(group, [])
        place = bisect_left(told, (at, ""))
        return told[place - 1][1] if place else None

    def coordinated_by(self, host: str, at: int) -> set[str]:
        """Groups whose coordinator was there, as far as was told by then."""
        places = {host, *map(self.where, self.listed_as(self.node(host, at)))}
        return {group for group in self._coordinators if self._coordinator_of(group, at) in places}

    def coordinates(self, host: str, group: str, at: int) -> bool:
        """Whether a group's coordinator was there, as far as was told by then."""
        place = self._coordinator_of(group, at)
        return place is not None and place in {host, *map(self.where, self.listed_as(self.node(host, at)))}

    def may_coordinate(self, host: str, group: str, at: int) -> bool:
        """The same; or whether nothing was told by then of where it is, so that only who was asked for it knows."""
        return self._coordinator_of(group, at) is None or self.coordinates(host, group, at)
