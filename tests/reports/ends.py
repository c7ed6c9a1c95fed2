"""Both ends of connections, as tables and views are told of them."""

from __future__ import annotations

from dataclasses import dataclass, fields

import pyarrow as pa


@dataclass(frozen=True)
class Ends:
    client: str = "10.0.0.2"
    client_port: int = 40001
    broker: str = "10.0.0.1"
    broker_port: int = 9092


def ends_of(connections: pa.Table) -> dict[int, Ends]:
    """The ends of each connection of a table of connections."""
    columns = [field.name for field in fields(Ends)]
    numbers = connections["connection"].to_pylist()
    return {number: Ends(**row) for number, row in zip(numbers, connections.select(columns).to_pylist(), strict=True)}
