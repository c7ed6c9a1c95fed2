"""What is said beside packets, in other tools that show them: where incidents, rebalances and errors begin and end.

A moment that no packet stands for (a timeout of the broker's, the begin of a silence) is said at the first packet from
then on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

import pyarrow.compute as pc

from kafkascope.reports.columns.name_lists import in_words
from kafkascope.reports.columns.shown import shown_text
from kafkascope.reports.columns.words import duration
from kafkascope.reports.incidents.incident import incident_of
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.sniffer.units import MILLISECOND_NS

MOST_COMMENTED = 100_000  # packets, and moments
MOST_AT_ONE = 20  # comments of one packet; as many again are of moments

_ABOUT = ("api", "error", "topic", "partition", "group_id", "member_id", "broker", "client_id")  # of errors


@dataclass(slots=True)
class PacketComments:
    """Comments by number of the packet, and by time (ns): for the first packet from then on. They are safe to show."""

    of_packets: dict[int, list[str]] = field(default_factory=dict)
    of_times: list[tuple[int, str]] = field(default_factory=list)
    left_out: int = 0  # what was too much

    def at_packet(self, number: int, text: str) -> None:
        """Say something of a packet, once."""
        mine = self.of_packets.get(number, [])
        text = _said(text)
        if text in mine:
            return
        if len(mine) < MOST_AT_ONE and (mine or len(self.of_packets) < MOST_COMMENTED):
            self.of_packets[number] = [*mine, text]
        else:
            self.left_out += 1

    def at_time(self, at: int, text: str) -> None:
        """Say something of a moment."""
        if len(self.of_times) < MOST_COMMENTED:
            self.of_times.append((at, _said(text)))
        else:
            self.left_out += 1


def packet_comments(signs: Signs) -> PacketComments:
    """What the tables of a capture, incidents and errors among them, say of single packets and moments."""
    comments = PacketComments()
    _incidents(signs, comments)
    _rebalances(signs, comments)
    _errors(signs, comments)
    comments.of_times.sort(key=lambda one: one[0])
    return comments


def _said(text: str) -> str:
    return shown_text(f"kafkascope: {text}")


def _incidents(signs: Signs, comments: PacketComments) -> None:
    for row in signs.rows("incidents"):
        one, name = incident_of(row), f"incident {row['rank']}"
        took = one.ended and one.ended - one.started
        begins = "begins and ends" if took == 0 else "begins"
        comments.at_time(one.started, f"{name} {begins} ({one.severity}, {one.certainty}): {one.what}")
        if one.ended and took:
            comments.at_time(
                one.ended, f"{name} ends after {duration(took / MILLISECOND_NS)}: {one.kind} of {one.about}"
            )
        for seen in one.evidence:
            if seen.packet is not None and not seen.rejected:
                comments.at_packet(seen.packet, f"{name}: {seen.text}")


def _rebalances(signs: Signs, comments: PacketComments) -> None:
    for row in signs.rebalances:
        name = f"rebalance of group {row['group_id']}, generation {row['to_generation']}"
        who = row["trigger_client_id"] or row["trigger_member"]
        cause = f"{row['trigger']}{f' of {who}' if who else ''} ({row['certainty']})"
        started, stable = row["started"], row["stable"]
        if started is not None:
            comments.at_time(started, f"{name}, {'begins and ends' if started == stable else 'begins'}: {cause}")
        if stable is not None and stable != started:
            took = "" if started is None else f" after {duration((stable - started) / MILLISECOND_NS)}"
            comments.at_time(stable, f"{name}, ends{took}")
        for seen in row["evidence"] or ():
            if seen["packet"] is not None and not seen["rejected"]:
                comments.at_packet(seen["packet"], f"{name}: {seen['text']}")


def _errors(signs: Signs, comments: PacketComments) -> None:
    """At the packet with the response's first byte, all of one kind in one comment."""
    packets = {
        (row["connection"], row["number"]): row["response_packet"]
        for row in signs.rows(
            "exchanges",
            ("connection", "number", "response_packet"),
            pc.field("response_packet").is_valid() & pc.field("error").is_valid(),
        )
    }
    reasons = {
        (*(row[name] for name in _ABOUT), row["at"]): row["reason"].rstrip(".")
        for row in signs.errors
        if row["ordinary"]
    }
    width = next((row["width_ms"] * MILLISECOND_NS for row in signs.errors), 1)
    for exchange, rows in groupby(_error_rows(signs), key=lambda row: (row["connection"], row["number"])):
        packet = packets.get(exchange)
        if packet is None:
            comments.left_out += 1
            continue
        places: dict[tuple[str, str, str | None], list[str]] = {}
        for row in rows:
            key = (*(row[name] for name in _ABOUT), row["at"] // width * width)
            places.setdefault((row["api"], row["error"], reasons.get(key)), []).extend(_place(row))
        for (api, error, reason), found in places.items():
            where = f" for {in_words(found, 5)}" if found else ""
            comments.at_packet(packet, f"{api}: {error}{where}{f' (ordinary: {reason})' if reason else ''}")


def _error_rows(signs: Signs) -> Iterator[Row]:
    for batch in signs.batches("errors", ("connection", "number", "at", *_ABOUT)):
        yield from batch.to_pylist()


def _place(row: Row) -> Iterator[str]:
    if row["topic"] is not None:
        yield row["topic"] if row["partition"] is None else f"{row['topic']}-{row['partition']}"
    elif row["group_id"] is not None:
        yield f"group {row['group_id']}"
