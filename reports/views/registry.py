"""The views that an engine has unless it is told otherwise, and the tables that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from kafkascope.reports.columns.views import View
from kafkascope.reports.views.clients import ClientsView
from kafkascope.reports.views.clusters import ClustersView
from kafkascope.reports.views.errors import ErrorsView
from kafkascope.reports.views.groups import GroupsView
from kafkascope.reports.views.hosts import HostsView
from kafkascope.reports.views.latency import LatencyView
from kafkascope.reports.views.progress import ProgressView
from kafkascope.reports.views.throughput import ThroughputView
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS, BESIDE

_ALL: tuple[Callable[[], View], ...] = (
    GroupsView,
    ClientsView,
    ProgressView,
    LatencyView,
    ThroughputView,
    ErrorsView,
    HostsView,
    ClustersView,
)

VIEWS: dict[str, Callable[[], View]] = {make().name: make for make in _ALL}
SCHEMAS_WITH_VIEWS: dict[str, pa.Schema] = ALL_SCHEMAS | {name: make().schema for name, make in VIEWS.items()} | BESIDE


def results_of(views: Iterable[str]) -> tuple[str, ...]:
    """The tables that some views, by name, make; several may make findings."""
    return tuple(dict.fromkeys(result for name in sorted(views) for result in VIEWS[name]().results))
