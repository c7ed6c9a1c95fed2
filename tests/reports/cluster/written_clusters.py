"""Exchanges that speak of a cluster, written by hand, and the events that are read from them."""

from __future__ import annotations

import struct
from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from kafkascope.decoders import schema
from kafkascope.reports.columns.views import Known
from kafkascope.reports.rows.builder import TableBuilder
from kafkascope.reports.views.clusters import ClustersView
from tests.joined import joined
from tests.reports.ends import Ends
from tests.reports.written_exchanges import START, Written, exchanges

KEYS = {api.name: api.key for api in schema.apis().values()}
CLUSTER = "Ppmsiz-XStulYF-bVG1xGQ"
BROKERS = {1: "10.0.0.1", 2: "10.0.0.2", 3: "10.0.0.3"}


def ends(*brokers: str) -> dict[int, Ends]:
    """Ends of connections 1 and on, each to one of the brokers; to that of its own number if none are given."""
    hosts = dict(enumerate(brokers or [f"10.0.0.{number}" for number in range(1, 10)], start=1))
    found = {}
    for number, host in hosts.items():
        name, _, port = host.partition(":")
        found[number] = Ends(client=f"10.0.1.{number}", broker=name, broker_port=int(port or 9092))
    return found


def partition(
    number: int,
    leader: int,
    epoch: int = 0,
    isr: Sequence[int] = (1, 2, 3),
    error: int = 0,
    offline: Sequence[int] = (),
) -> dict[str, Any]:
    """What Metadata says of a partition."""
    known = {"partitionIndex": number, "leaderId": leader, "leaderEpoch": epoch, "replicaNodes": [1, 2, 3]}
    return known | {"isrNodes": list(isr), "errorCode": error, "offlineReplicas": list(offline)}


def metadata(
    connection: int,
    topics: dict[str, list[dict[str, Any]]] | None = None,
    brokers: dict[int, str] | None = None,
    version: int = 9,
    **more: Any,
) -> Written:
    """An answer to Metadata; brokers are hosts by node id, with a port or at 9092."""
    listed = []
    for node_id, host in (BROKERS if brokers is None else brokers).items():
        name, _, port = host.partition(":")
        listed.append({"nodeId": node_id, "host": name, "port": int(port or 9092)})
    answer: dict[str, Any] = {"brokers": listed, "clusterId": CLUSTER, "controllerId": 1}
    ids = more.pop("ids", {})
    answer["topics"] = [
        {"name": name, "partitions": partitions, "topicId": ids.get(name)}
        for name, partitions in (topics or {}).items()
    ]
    return Written(KEYS["Metadata"], version, {"topics": []}, answer | more, connection=connection)


def heartbeat(
    epoch: int = 5, *, stop: bool = False, fenced: bool = False, node_id: int = 2, failed: Sequence[str] = ()
) -> Written:
    """A broker's heartbeat, on connection 9 to the controller; failed: ids of log directories, a tagged field."""
    ids = b"".join(urlsafe_b64decode(f"{one}==") for one in failed)
    tags = bytes([1, 0, 1 + len(ids), 1 + len(failed)]) + ids if failed else b"\0"
    asked = struct.pack(">iqq??", node_id, epoch, 0, False, stop) + tags
    return Written(KEYS["BrokerHeartbeat"], 1, asked, {"isFenced": fenced}, connection=9, client_id=str(node_id))


def asked_by_name(connection: int, node_id: int = 1, error: int = 0, cluster: str | None = CLUSTER) -> Written:
    """A request of ApiVersions that says which broker it wants, and the answer."""
    asked = {"clientSoftwareName": "s", "clientSoftwareVersion": "1", "clusterId": cluster, "nodeId": node_id}
    return Written(KEYS["ApiVersions"], 5, asked, {"errorCode": error, "apiKeys": []}, connection=connection)


def coordinator(
    connection: int,
    key: str,
    node_id: int,
    version: int = 3,
    key_type: int = 0,
    brokers: Mapping[int, str] = MappingProxyType(BROKERS),
) -> Written:
    """An answer to FindCoordinator."""
    found = {"key": key, "nodeId": node_id, "host": brokers.get(node_id, ""), "port": 9092}
    asked: dict[str, Any] = {"keyType": key_type}
    if version < 4:
        return Written(KEYS["FindCoordinator"], version, asked | {"key": key}, found, connection=connection)
    return Written(
        KEYS["FindCoordinator"],
        version,
        asked | {"coordinatorKeys": [key]},
        {"coordinators": [found]},
        connection=connection,
    )


def heard(connection: int, group: str, error: int = 0) -> Written:
    """A heartbeat of a group's member, and the answer."""
    asked = {"groupId": group, "generationId": 1, "memberId": "m"}
    return Written(KEYS["Heartbeat"], 4, asked, {"errorCode": error}, connection=connection)


def quiet(seconds: int) -> list[Written]:
    """Seconds in which nothing is said."""
    return [Written(KEYS["Heartbeat"], 0, {}, {}, connection=8)] * seconds


def facts(written: Sequence[Written], of: dict[int, Ends] | None = None, view: ClustersView | None = None) -> pa.Table:
    """The rows of the view."""
    tables = joined(TableBuilder(ClustersView.needs).observe(exchanges(*written), of or ends()))
    rows = (view or ClustersView()).observe(tables, of or ends())
    return ClustersView.schema.empty_table() if rows is None else rows


def events(
    *written: Written, of: dict[int, Ends] | None = None, mapped: bool = False, names: dict[str, str] | None = None
) -> list[dict[str, Any]]:
    """The events, without the map unless that is wanted; ``second`` counts from the first exchange.

    names are those of topics by id that the capture tells.
    """
    found = ClustersView().result(facts(written, of), Known(names or {})).get("cluster_events")
    if found is None:
        return []
    place = found.schema.get_field_index("at")
    rows = found.set_column(place, "at", found["at"].cast(pa.int64())).to_pylist()
    for row in rows:
        row["second"] = (row["at"] - START) // 1_000_000_000
    return [row for row in rows if mapped or row["event"] != "broker_listed"]


def told(rows: list[dict[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    """Some columns of each event."""
    return [tuple(row[name] for name in columns) for row in rows]
