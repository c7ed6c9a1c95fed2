"""What incidents are told by: rows of the tables, few columns of each, and who is who among hosts.

A layer each: `table_rows`, `connection_rows`, `who_is_who`, `group_rows`; here findings, errors, and how packets fared.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.arrow import dictionary_codes, labels
from kafkascope.reports.columns.tenths import TENTH_NS
from kafkascope.reports.columns.text import without_port
from kafkascope.reports.findings.finding import OF_CLIENT
from kafkascope.reports.findings.group import COMMITS
from kafkascope.reports.incidents.group_rows import GroupRows
from kafkascope.reports.incidents.table_rows import SPAN_NS, Row

REPLICA_ERRORS = frozenset({Error.NOT_ENOUGH_REPLICAS, Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND})
"""Too few replicas are in sync for what a topic demands."""
_STALE = (Error.NOT_LEADER_OR_FOLLOWER, Error.NOT_COORDINATOR)
_ERROR_ORDER = ("error", "api", "topic", "partition", "client_id", "broker", "group_id", "member_id")
_SPAN_KEYS = ("client", "broker", "sender", "at")
_SPAN_SUMS = (
    "packets",
    "retransmits",
    "fast_retransmits",
    "timeout_retransmits",
    "spurious_retransmits",
    "retransmits_to_closed",
    "acknowledgements",
    "duplicate_acks",
    "sacked_gaps",
    "rtt_samples",
    "rtt_us",
)
_SPAN_MEASURES = dict.fromkeys(_SPAN_SUMS, "sum") | {"rtt_max_ms": "max", "first": "min", "last": "max"}
_SPAN_COLUMNS = (*_SPAN_KEYS, *_SPAN_SUMS[:-1], "rtt_mean_ms", "rtt_max_ms", "first", "last")


@dataclass(frozen=True, slots=True)
class Life:
    """What a host sent on one connection in ten seconds, as `tcp_health` has it."""

    row: Row

    def tenths(self, name: str) -> list[int]:
        """Begins (ns) of the tenths of a second in which it sent packets (``sent_in``) or data (``payload_in``)."""
        bits = int.from_bytes(self.row[name], "little")
        return [self.row["at"] + n * TENTH_NS for n in range(100) if bits >> n & 1]


class Signs(GroupRows):
    """The tables of one capture, as rules look at them. Times are int nanoseconds."""

    @cached_property
    def findings(self) -> list[Row]:
        """By time."""
        return sorted(self.rows("findings"), key=lambda row: (row["since"] or 0, row["id"]))

    @cached_property
    def _findings_about(self) -> dict[str, list[Row]]:
        """By subject."""
        found: dict[str, list[Row]] = defaultdict(list)
        for row in self.findings:
            found[row["subject"]].append(row)
        return found

    @cached_property
    def _findings_of(self) -> dict[str, list[Row]]:
        """By client id: those about the client, not about the group that it is in."""
        found: dict[str, list[Row]] = defaultdict(list)
        for row in self.findings:
            for client_id in row["client_ids"] or () if row["subject"].startswith(OF_CLIENT) else ():
                found[client_id].append(row)
        return found

    def findings_in(self, kinds: Collection[str], since: int, until: int) -> list[Row]:
        """Findings of these kinds that overlap a time, or lie beside it: they are counted in spans."""
        return [row for row in self.findings if _is_in(row, kinds, since, until)]

    def commits_refused(
        self, errors: Collection[str], clients: Collection[str], since: int, until: int
    ) -> frozenset[str]:
        """Ids of findings that commits of these clients were refused in a time, if it was for these errors alone."""
        otherwise = {
            row["client_id"]
            for row in self.errors
            if row["api"] in COMMITS and row["error"] not in errors
            if since <= row["last"] and row["first"] <= until
        }
        found = self.findings_in(("commit_refused",), since, until)
        return frozenset(
            row["id"] for row in found if row["client_ids"] and {*row["client_ids"]} <= {*clients} - otherwise
        )

    def findings_about(
        self, subjects: Collection[str], kinds: Collection[str], since: int, until: int
    ) -> frozenset[str]:
        """Ids of findings of these kinds with some subjects, in a time."""
        found = chain.from_iterable(self._findings_about.get(subject, ()) for subject in subjects)
        return frozenset(row["id"] for row in found if _is_in(row, kinds, since, until))

    def explained(
        self, kinds: Collection[str], since: int, until: int, *, groups: Sequence[str] = (), clients: Sequence[str] = ()
    ) -> frozenset[str]:
        """Ids of findings of these kinds about some groups and clients, in a time."""
        of_groups = chain.from_iterable(self._findings_about.get(f"group {group}", ()) for group in groups)
        of_clients = chain.from_iterable(self._findings_of.get(client, ()) for client in clients)
        return frozenset(row["id"] for row in chain(of_groups, of_clients) if _is_in(row, kinds, since, until))

    @cached_property
    def errors(self) -> list[Row]:
        """Errors counted in spans, by time; also those that are ordinary by themselves."""
        found = [row for row in self.rows("error_histogram") if not row["rest"]]
        return sorted(found, key=lambda row: (row["first"], *(str(row[name]) for name in _ERROR_ORDER)))

    @cached_property
    def _errors_by_client(self) -> dict[str | None, list[Row]]:
        found: dict[str | None, list[Row]] = defaultdict(list)
        for row in self.errors:
            found[row["client_id"]].append(row)
        return found

    def errors_of(self, client_ids: Iterable[str | None]) -> list[Row]:
        """Of `errors` those of some clients, of one after the other."""
        return [row for name in client_ids for row in self._errors_by_client.get(name, ())]

    @cached_property
    def stale_leaders(self) -> list[Row]:
        """Errors by which brokers say that others lead or coordinate now, by the time of the last."""
        return sorted((row for row in self.errors if row["error"] in _STALE and row["broker"]), key=_last)

    @cached_property
    def rebootstraps(self) -> list[Row]:
        """Errors by which brokers say that they are not whom a client asked for (KIP-1242)."""
        return [row for row in self.errors if row["error"] == "REBOOTSTRAP_REQUIRED" and row["api"] == "ApiVersions"]

    @cached_property
    def silences(self) -> list[Row]:
        """Of brokers, by time."""
        return sorted(self.rows("silences"), key=lambda row: (row["since"], row["host"]))

    @cached_property
    def _silences_by_host(self) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = defaultdict(list)
        for row in self.silences:
            found[row["host"]].append(row)
        return found

    def silences_at(self, host: str, since: int, until: int) -> Sequence[Row]:
        """Silences of the broker at an address that overlap a time, by time: they come one after the other."""
        rows = self._silences_by_host.get(host, [])
        low = bisect_left(rows, since, key=lambda row: sys.maxsize if row["until"] is None else row["until"])
        return rows[low : bisect_left(rows, until, low, key=lambda row: row["since"])]

    @cached_property
    def health_spans(self) -> pa.Table | None:
        """`tcp_health` by two hosts, sender and span of ten seconds; broker is an address. None without any.

        Only of what was said with `servers`: what else is in a capture is not asked about.
        """
        servers = pa.array(self.servers, pa.string())
        parts = []
        for batch in self.batches("tcp_health", _SPAN_COLUMNS, pc.field("at").is_valid()):
            # Whole microseconds, so that the order of rows makes no difference to their sum.
            trips = pc.multiply(pc.cast(batch["rtt_samples"], "float64"), pc.fill_null(batch["rtt_mean_ms"], 0.0))
            rows = batch.append_column("rtt_us", pc.cast(pc.round(pc.multiply(trips, 1000)), "int64"))
            code, brokers = dictionary_codes(rows["broker"])
            hosts = labels(code, [without_port(broker) for broker in brokers.to_pylist()])
            rows = rows.set_column(rows.column_names.index("broker"), "broker", hosts)
            parts.append(_summed(rows.filter(pc.is_in(rows["broker"], servers))))
        return _summed(pa.concat_tables(parts)) if parts else None

    @cached_property
    def times_go_back(self) -> bool:
        """Whether what comes later in time may have come first: a clock was set back, or captures put together."""
        return bool(self.rows("issues", ("kind",), pc.field("kind") == "time_goes_back"))

    @cached_property
    def was_filtered(self) -> bool:
        """Whether the capture has nothing without payload: neither acknowledgements nor how connections end."""
        return self.health_spans is not None and not pc.sum(self.health_spans["acknowledgements"]).as_py()


def _summed(rows: pa.Table) -> pa.Table:
    summed = rows.group_by(list(_SPAN_KEYS), use_threads=False).aggregate(list(_SPAN_MEASURES.items()))
    return summed.select([*_SPAN_KEYS, *(f"{name}_{how}" for name, how in _SPAN_MEASURES.items())]).rename_columns(
        [*_SPAN_KEYS, *_SPAN_MEASURES]
    )


def _last(row: Row) -> int:
    return int(row["last"])


def group_of(finding: Row) -> str:
    """The group that a finding is about."""
    return str(finding["subject"]).removeprefix("group ")


def host_of(finding: Row) -> str:
    """The address of the client that a finding is about: ``client ID (ADDRESS)``."""
    return str(finding["subject"]).rpartition(" (")[2].removesuffix(")")


def _is_in(finding: Row, kinds: Collection[str], since: int, until: int) -> bool:
    """Whether a finding is of these kinds, and overlaps a time, or lies beside it."""
    begin, end = finding["since"] or 0, finding["until"] or finding["since"] or until
    return finding["kind"] in kinds and begin <= until + SPAN_NS and end >= since - SPAN_NS


def packet_of(finding: Row) -> int | None:
    """The first packet that a finding names."""
    return next((one["packet"] for one in finding["evidence"] or () if one["packet"] is not None), None)
