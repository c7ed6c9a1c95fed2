"""The views that an engine has unless it is told otherwise, and the tables that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from reports.error_histogram import ErrorsView
from reports.findings.facts import FactsView
from reports.groups.view import GroupsView
from reports.latency.view import LatencyView
from reports.progress.view import ProgressView
from reports.tables import ALL_SCHEMAS
from reports.throughput import ThroughputView
from reports.views import View

_ALL: tuple[Callable[[], View], ...] = (GroupsView, FactsView, ProgressView, LatencyView, ThroughputView, ErrorsView)

VIEWS: dict[str, Callable[[], View]] = {make().name: make for make in _ALL}
SCHEMAS_WITH_VIEWS: dict[str, pa.Schema] = ALL_SCHEMAS | {name: make().schema for name, make in VIEWS.items()}


def results_of(views: Iterable[str]) -> tuple[str, ...]:
    """The tables that some views, by name, make; several may make findings."""
    return tuple(dict.fromkeys(result for name in sorted(views) for result in VIEWS[name]().results))
