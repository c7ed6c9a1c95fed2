"""What is said of a capture as such, beside its results: what was not read as Kafka, and what could not be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkascope.reports.columns.shown import shown_text
from kafkascope.reports.columns.text import counted
from kafkascope.reports.vocabulary.issue_kinds import ISSUE_KINDS

PORTS_SHOWN = 10
"""Of encrypted connections, those with the most."""

LEAST_EXCHANGES = 50
"""In a capture, before it is said that it was filtered: nearly every connection has acknowledgements."""

PROTOCOL_NAMES = {
    "tls": "TLS",
    "http": "HTTP",
    "https": "HTTPS",
    "length_prefixed": "an unknown protocol whose messages begin with their length",
    "unknown": "an unknown protocol",
    "empty": "no data at all",
}
"""What a person calls protocols whose name in the tables does not tell."""

PACKET_NAMES = {
    "udp": "UDP",
    "icmp": "ICMP",
    "arp": "ARP",
    "other_ip": "another protocol over IP",
    "not_ip": "a protocol other than IP",
}
"""What a person calls packets without TCP."""


def fault_remark(count: int) -> str:
    """What to say of faults of ours that were met in so many messages, groups or answers."""
    return (
        f"a fault of kafkascope was met {counted(count, 'time')}: something of these messages, groups or answers is "
        "missing. Please report it with what the issues of kind internal_error say"
    )


def damage_remark(counts: Mapping[str, int]) -> str:
    """What to say where exchanges are shown, and some may be missing: issues, counted by kind."""
    kinds = sorted(counts, key=lambda kind: (-counts[kind], kind))
    what = ", ".join(f"{kind.replace('_', ' ')} {counts[kind]:,}" for kind in kinds)
    return f"not seen or not understood: {what}; exchanges there are missing or cut"


def window_text(asked_for: object, left_out: int) -> str:
    """What to say of a window of packets that was asked for, and of those outside."""
    return f"{counted(left_out, 'packet')} outside of the window ({asked_for}) left out"


def filter_text(expression: str | None, passed: int, of: int) -> str:
    """What to say where tables have only exchanges that pass a filter; without its text, where that is not told."""
    what = "the filter" if expression is None else f"the filter {shown_text(expression)}"
    some = f"{passed:,} of {counted(of, 'exchange')} passed {what}"
    return f"{some}: tables of single exchanges have these alone, answers are of all"


def was_filtered(summary: Mapping[str, Any]) -> bool:
    """Whether a capture has packets with payload alone, by its summary; not said of a few exchanges."""
    exchanges = sum(summary.get("exchanges", {}).values())
    return exchanges >= LEAST_EXCHANGES and summary.get("acknowledgements") == 0


FILTERED = (
    "no packet only acknowledges: the capture was filtered, as tshark -Y kafka -w does, which leaves out parts of "
    "messages, too. What was lost, who closed a connection and who did not answer can hardly be told; filter by port "
    "instead (tcpdump tcp port 9092)"
)
"""What to say of such a capture."""


def tls_remark(connections: Mapping[str, int], *, has_key_log: bool = False) -> str:
    """What to say of encrypted connections, counted by the brokers' ports (at least one).

    has_key_log: secrets were given, and none of these connections could be read with them.
    """
    ports = sorted(connections, key=lambda port: (-connections[port], not port.isdecimal(), len(port), port))
    more = f" and {len(ports) - PORTS_SHOWN:,} more" if len(ports) > PORTS_SHOWN else ""
    count = sum(connections.values())
    are, them = ("is", "it") if count == 1 else ("are", "them")
    advice = (
        f"the key log that was given does not open {them}; `kafkascope analyze` tells why (issues tls_not_opened)"
        if has_key_log
        else "capture where it is in the clear, such as a plaintext listener, or give the secrets that clients or "
        "brokers log (--tls-keylog)"
    )
    return (
        f"{counted(count, 'connection')} {are} encrypted with TLS, to {'port' if len(ports) == 1 else 'ports'} "
        f"{', '.join(ports[:PORTS_SHOWN])}{more}: what is in {them} cannot be read; {advice}"
    )


@dataclass(slots=True)
class TlsTalk:
    """What shows of connections with TLS to one port that were not opened, by when records were sent: inferred."""

    connections: int = 0
    requests: int = 0
    span_ns: int = 0  # of all connections together, from the first request to the last answer
    answers: Counter[str] = field(default_factory=Counter)  # connections by their usual time, ms in three digits

    def add(self, requests: int, first: int | None, last: int | None, answer_ms: float | None) -> None:
        """Add a connection (at least one request), as the table of connections has it; times are nanoseconds."""
        self.connections += 1
        self.requests += requests
        if first is not None and last is not None:
            self.span_ns += last - first
        if answer_ms is not None:
            self.answers[f"{answer_ms:.3g}"] += 1

    def merge(self, other: TlsTalk) -> None:
        """Add the other's connections."""
        self.connections += other.connections
        self.requests += other.requests
        self.span_ns += other.span_ns
        self.answers.update(other.answers)

    def result(self) -> dict[str, Any]:
        """As plain values: requests a second on each connection, null below a second; the usual time of an answer."""
        usual = sorted(map(float, self.answers.elements()))
        return {
            "connections": self.connections,
            "requests": self.requests,
            "requests_a_second": self.requests / (self.span_ns / 1e9) if self.span_ns > 10**9 else None,
            "answer_ms": usual[len(usual) // 2] if usual else None,
        }


def tls_talks(talks: Mapping[int, TlsTalk]) -> list[dict[str, Any]]:
    """Those of all ports as plain values, the most requests first."""
    found = [{"port": port} | talk.result() for port, talk in talks.items()]
    return sorted(found, key=lambda one: (-one["requests"], one["port"]))


def tls_talk_remarks(talks: Sequence[Mapping[str, Any]]) -> list[str]:
    """What to say of the rows of `tls_talks`, those of the first ports."""
    return [_tls_talk_remark(**talk) for talk in talks[:PORTS_SHOWN]]


def _tls_talk_remark(
    port: int, connections: int, requests: int, requests_a_second: float | None, answer_ms: float | None
) -> str:
    rate = "" if requests_a_second is None else f", {requests_a_second:,.3g} a second on each"
    answers = "" if answer_ms is None else f", answers in {answer_ms:,.3g} ms"
    return (
        f"port {port}: {counted(connections, 'connection')} with TLS, {counted(requests, 'request')}{rate}{answers} "
        "(inferred from when records were sent)"
    )


def not_taken(connections: Mapping[tuple[int, str], int], asked_for: Container[int]) -> list[dict[str, Any]]:
    """Connections on ports of Kafka that were taken for something else, by port and protocol, the most first.

    connections: how many there are, by the broker's port and protocol. A port is of Kafka if another connection to it
    is Kafka, or if it was asked for. Without data there is nothing to take, and TLS has a remark of its own.
    """
    of_kafka = {port for port, protocol in connections if protocol == "kafka"}
    rows = [
        {"port": port, "protocol": protocol, "connections": count}
        for (port, protocol), count in connections.items()
        if (port in of_kafka or port in asked_for) and protocol not in ("kafka", "tls", "empty")
    ]
    return sorted(rows, key=lambda row: (-row["connections"], row["port"], row["protocol"]))


def not_taken_remark(rows: Sequence[Mapping[str, Any]]) -> str:
    """What to say of the rows of `not_taken` (at least one)."""
    ports: Counter[int] = Counter()
    for row in rows:
        ports[row["port"]] += row["connections"]
    told = [
        f"{count:,} to port {port} ("
        + ", ".join(
            f"{row['connections']:,} of {PROTOCOL_NAMES.get(row['protocol'], row['protocol'])}"
            for row in rows
            if row["port"] == port
        )
        + ")"
        for port, count in ports.most_common(PORTS_SHOWN)
    ]
    numbers = ",".join(str(port) for port, _ in ports.most_common(PORTS_SHOWN))
    count = sum(ports.values())
    more = f" and {len(ports) - PORTS_SHOWN:,} more ports" if len(ports) > PORTS_SHOWN else ""
    return (
        f"{counted(count, 'connection')} to {'a port' if len(ports) == 1 else 'ports'} of Kafka "
        f"{'was' if count == 1 else 'were'} not taken for Kafka: {', '.join(told)}{more}; "
        f"if {'it is' if count == 1 else 'they are'}, --decode-as {numbers} decodes {'it' if count == 1 else 'them'}"
    )


def _most_first(counted_name: tuple[str, int]) -> tuple[int, str]:
    """Names that were counted as often are in order, whoever counted them."""
    name, count = counted_name
    return -count, name


def no_kafka(packets: int, protocols: Mapping[str, int], other: Mapping[str, int], ports: Iterable[int]) -> str:
    """What to say of a capture without Kafka: connections by protocol and other packets by kind, the most first.

    The ports are those that alone were looked at; none: all.
    """
    seen = [
        f"{counted(count, 'connection')} of {PROTOCOL_NAMES.get(protocol, protocol)}"
        for protocol, count in sorted(protocols.items(), key=_most_first)
    ]
    seen += [
        f"{counted(count, 'packet')} of {PACKET_NAMES[kind]}" for kind, count in sorted(other.items(), key=_most_first)
    ]
    instead = f"seen were {', '.join(seen)}" if seen else "nothing else was seen either"
    where = f" to the ports asked for ({', '.join(map(str, sorted(ports)))})" if ports else ""
    return f"no Kafka{where} was found in {counted(packets, 'packet')}; {instead}"


def unreadable_remark(detail: str) -> str:
    """What to say of a file that could not be read beside others."""
    return f"{detail.removesuffix('.')}; effect: {ISSUE_KINDS['unreadable_file'].weakens}"
