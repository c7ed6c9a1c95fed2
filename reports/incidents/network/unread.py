"""Servers whose TLS nobody can read, so that they may be brokers, and that take no connections any more."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import pyarrow.compute as pc

from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import address, address_alone, counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.brokers.outages import outages
from kafkascope.reports.incidents.incident import Effect, Incident, Weighed, every
from kafkascope.reports.incidents.network.vanished import ON_ITS_WAY_NS, vanished
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_TALK = ("connection", "broker", "broker_port", "opened", "closed", "closed_by", "how_closed", "tls_last_answer")
_EVIDENCE_CONNECTS = 5
_ADVICE = (
    "See whether the process that listens there runs, and its log and its host's (out of memory, kill, disk) for that "
    "moment. What was said with it is encrypted: with the secrets that clients or brokers log (--tls-keylog) more is "
    "told."
)


def closed(signs: Signs) -> Iterator[Incident]:
    """Addresses that answered on connections with TLS, and at which no connect succeeds then."""
    talked = _talked(signs) if signs.failed_connects else {}
    for place, failed in sorted(_failed(signs, talked).items()):
        opened = [talk["opened"] or 0 for talk in talked[place]]
        runs: dict[int, list[Row]] = defaultdict(list)  # by how many connections had been opened before
        for row in failed:
            runs[bisect_right(opened, row["opened"])].append(row)
        for first, run in runs.items():
            before, back = talked[place][:first], opened[first] if opened[first:] else None
            if len(run) >= threshold("failed_connects") and before and not _goes_on(before, run[0]["opened"]):
                yield _closed(signs, place, run, before, back)


def _talked(signs: Signs) -> dict[str, list[Row]]:
    """Connections with TLS on which requests were answered that nobody can read, by address:port and time."""
    where = (pc.field("protocol") == "tls") & (pc.field("tls_requests") > 0)
    found: dict[str, list[Row]] = defaultdict(list)
    for row in signs.rows("connections", _TALK, where):
        if row["broker"] in signs.servers:
            found[address(row["broker"], row["broker_port"])].append(row)
    for rows in found.values():
        rows.sort(key=lambda row: (row["opened"] or 0, row["connection"]))
    return found


def _failed(signs: Signs, talked: Mapping[str, Sequence[Row]]) -> dict[str, list[Row]]:
    """Connects to these places that failed, by time: none of packets that vanish, nor of outages that are told."""
    out, lost = defaultdict(list), defaultdict(list)
    for outage in signs.once(outages) if talked else ():
        out[outage.address].append(outage)
    for path in signs.once(vanished) if talked else ():
        lost[path.client, path.broker].append(path)
    found: dict[str, list[Row]] = defaultdict(list)
    for row in signs.failed_connects:
        place, at = address(row["broker"], row["broker_port"]), row["opened"]
        if (
            place in talked
            and at is not None
            and not any(one.covers(at, signs.end) for one in out[row["broker"]])
            and not any(one.overlaps(at, at) for one in lost[row["client"], signs.where(place)])
        ):
            found[place].append(row)
    for rows in found.values():
        rows.sort(key=lambda row: (row["opened"], row["connection"]))
    return found


def _goes_on(talks: Sequence[Row], since: int) -> bool:
    """Whether something was answered on a connection from before: then what listens there is well."""
    return any((talk["tls_last_answer"] or 0) > since + ON_ITS_WAY_NS for talk in talks)


def _closed(signs: Signs, place: str, failed: Sequence[Row], before: Sequence[Row], back: int | None) -> Incident:
    """No connect succeeds; before are connections from before, back is when one succeeded again."""
    since, until = failed[0]["opened"], failed[-1]["opened"]
    lasted = ((until if back is None else back) - since) / MILLISECOND_NS
    hosts = sorted({row["client"] for row in failed})
    hows = " or ".join(
        "not answered" if how == "unanswered" else how for how in sorted({row["connect"] for row in failed})
    )
    returned = "" if back is None else f"; it took one again after {duration(lasted)}"
    return Incident(
        kind=IncidentKind.UNREACHABLE_LISTENER,
        severity=Severity.WARNING,
        certainty=Certainty.LIKELY,
        subjects=(*every(Role.HOST, [address_alone(place), place]), *every(Role.HOST, hosts)),
        started=since,
        ended=back,
        headline=f"{place}, which may be a broker behind TLS that cannot be read, takes no connection from "
        f"{clock(since)} on: {counted(len(failed), 'connect')} of {listed(hosts)} {hows}, the last at {clock(until)}"
        f"{returned}",
        evidence=(
            *_ended(before, since),
            *(
                Weighed(f"connect of {row['client']} {row['connect']}", row["connection"], row["opened"], 0.9)
                for row in failed[:_EVIDENCE_CONNECTS]
            ),
        ),
        advice=_ADVICE,
        cost_ms=lasted,
        effects=(Effect("connects", f"{counted(len(failed), 'connect')} failed", len(failed)),),
    )


def _ended(before: Sequence[Row], since: int) -> Iterator[Weighed]:
    """What became of the connections that were open when the first connect failed."""
    ended = [row for row in before if row["closed"] is not None and abs(row["closed"] - since) <= SECOND_NS]
    theirs = [row for row in ended if row["closed_by"] == "broker"]
    if theirs:
        by_reset = sum(row["how_closed"] == "rst" for row in theirs)
        text = f"it ended {counted(len(theirs), 'connection')} within a second of that, {by_reset:,} of them by RST"
        first = min(theirs, key=lambda row: (row["closed"], row["connection"]))
        yield Weighed(text, None, first["closed"], 0.7)
