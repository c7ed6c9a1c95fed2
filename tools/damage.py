"""Recordings as real captures are: begun late, paused, filtered, with packets cut or lost, one host alone or missing.

Each damage is a choice among the TCP segments of a recording, the same in every run. What is left goes through the
engine and the view of groups as it would from a file, or is written to one.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import kafkascope
from kafkascope.engine import Engine, EngineOptions
from kafkascope.reports.columns.views import Known
from kafkascope.reports.groups.history import GroupHistory, GroupLog
from kafkascope.reports.views.groups import GroupsView, histories
from kafkascope.reports.vocabulary.group_apis import MEMBER_APIS
from kafkascope.sniffer.columns import Packets, Segments
from kafkascope.sniffer.link import dissect
from kafkascope.sniffer.sources.capture_writer import CaptureWriter
from kafkascope.sniffer.sources.files import open_capture
from kafkascope.sniffer.sources.live_options import Rotation

Mask = npt.NDArray[np.bool_]

BEGUN = "begun in the middle"
PAUSED = "paused for a tenth"
CUT_96, CUT_256 = "packets cut to 96 bytes", "packets cut to 256 bytes"
FILTERED = "packets without payload missing"
LOST_1, LOST_5 = "1 % of packets lost", "5 % of packets lost"
CLIENT_ALONE, CLIENT_MISSING = "one client's view", "one client missing"
BROKER_ALONE, BROKER_MISSING = "one broker's view", "one broker missing"
_OF_HOSTS = (CLIENT_ALONE, CLIENT_MISSING, BROKER_ALONE, BROKER_MISSING)
KINDS = (BEGUN, PAUSED, CUT_96, CUT_256, FILTERED, LOST_1, LOST_5, *_OF_HOSTS)

_CUTS = {CUT_96: 96, CUT_256: 256}
_PARTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)  # of the time before the capture begins, or pauses
_HEADERS = 66  # bytes of a packet before its payload, as Linux sends it over Ethernet
_SEEDS = (1, 2, 3, 4)  # of packets that are lost


def segments_of(paths: Sequence[Path]) -> list[Segments]:
    """The TCP segments of a recording, in batches."""
    with open_capture([str(path) for path in paths]) as capture:
        return [dissect(packets).segments for packets in capture]


def histories_in(batches: Sequence[Segments]) -> list[tuple[GroupLog, GroupHistory]]:
    """What the segments tell of each group."""
    engine = Engine(EngineOptions(tables=frozenset(), views=frozenset({GroupsView.name})))
    pieces = [tables for batch in batches for tables in engine.feed(batch)]
    pieces += engine.finish()
    rows = [tables[GroupsView.name] for tables in pieces if GroupsView.name in tables]
    return list(histories(pa.concat_tables(rows), Known.of(engine.topic_names.learned()))) if rows else []


def damaged(
    batches: Sequence[Segments], seed: str, kinds: Container[str] = KINDS
) -> Iterator[tuple[str, list[Segments]]]:
    """Each damage of these kinds: its kind, and what it leaves; the seed decides which packets are lost."""
    for kind, size in _CUTS.items():
        if kind in kinds:
            yield kind, [replace(batch, captured=np.minimum(batch.captured, size - _HEADERS)) for batch in batches]
    for kind, masks in _masks(batches, seed):
        if kind in kinds:
            yield kind, [_kept(batch, keep) for batch, keep in zip(batches, masks, strict=True)]


def damaged_packets(
    batches: Sequence[Packets], seed: str, kinds: Container[str] = KINDS
) -> Iterator[tuple[str, list[Packets]]]:
    """The same of packets; those that are not TCP are lost in all but cuts."""
    for kind, left in damaged([dissect(packets).segments for packets in batches], seed, kinds):
        if kind in _CUTS:
            size = np.int32(_CUTS[kind])
            yield kind, [replace(packets, captured=np.minimum(packets.captured, size)) for packets in batches]
        else:
            pairs = zip(batches, left, strict=True)
            yield kind, [packets.rows(np.isin(packets.number, segments.number)) for packets, segments in pairs]


def read_back(batches: Iterable[Packets]) -> kafkascope.Capture:
    """What `kafkascope.read` makes of packets, as of a file."""
    with TemporaryDirectory() as directory:
        path = f"{directory}/damaged.pcapng"
        writer = CaptureWriter(path, Rotation())
        for packets in batches:
            writer.write(packets)
        writer.close()
        return kafkascope.read(path)


def _masks(batches: Sequence[Segments], seed: str) -> Iterator[tuple[str, Iterable[Mask]]]:
    """Which rows of each batch are left."""
    times = [int(at[0]) for batch in batches for at in (batch.at[:1], batch.at[-1:]) if len(at)]
    for part in _PARTS:
        begin = times[0] + int((times[-1] - times[0]) * part)
        yield BEGUN, (batch.at >= begin for batch in batches)
    for part in _PARTS[:-1]:
        pause, end = (times[0] + int((times[-1] - times[0]) * share) for share in (part, part + 0.1))
        yield PAUSED, ((batch.at < pause) | (batch.at >= end) for batch in batches)
    yield FILTERED, (batch.length > 0 for batch in batches)
    for kind, share in ((LOST_1, 0.01), (LOST_5, 0.05)):
        for number in _SEEDS:
            chance = np.random.default_rng(crc32(f"{seed} {kind} {number}".encode()))
            yield kind, (chance.random(len(batch.at)) >= share for batch in batches)
    clients, brokers = _hosts(batches)
    for hosts, alone, missing in (clients, CLIENT_ALONE, CLIENT_MISSING), (brokers, BROKER_ALONE, BROKER_MISSING):
        for host in hosts if len(hosts) > 1 else ():
            yield alone, (_of(batch, host) for batch in batches)
            yield missing, (~_of(batch, host) for batch in batches)


def _kept(batch: Segments, keep: Mask) -> Segments:
    """Those of the rows; their payloads stay where they are."""
    rows = {each.name: getattr(batch, each.name)[keep] for each in fields(Segments) if each.name != "data"}
    return replace(batch, **rows)


def _of(batch: Segments, host: IPv6Address) -> Mask:
    """Which segments the host sent or was sent."""
    high, low = (np.uint64(half) for half in divmod(int(host), 2**64))
    sent: Mask = (batch.source_high == high) & (batch.source_low == low)
    received: Mask = (batch.target_high == high) & (batch.target_low == low)
    return sent | received


def _hosts(batches: Sequence[Segments]) -> tuple[list[IPv6Address], list[IPv6Address]]:
    """Where members of groups are, and their coordinators."""
    messages = [message for log, _ in histories_in(batches) for message in log.messages if message.api in MEMBER_APIS]
    clients = {_address(message.client) for message in messages}
    brokers = {_address(message.broker.rpartition(":")[0].strip("[]")) for message in messages}
    return sorted(clients), sorted(brokers)


def _address(text: str) -> IPv6Address:
    """As Segments have it: IPv4 is mapped."""
    address = ip_address(text)
    return address if isinstance(address, IPv6Address) else IPv6Address(f"::ffff:{address}")
