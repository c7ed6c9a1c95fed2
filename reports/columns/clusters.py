"""Several clusters in one capture: which broker is of which, and what their groups are called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Clusters:
    """Clusters by a broker's address:port, as far as they were told.

    Two clusters may have a group of one name. Groups of the cluster with most brokers (of several the first by its id)
    have their name, those of the others are called NAME@CLUSTER: so it does not hang on which groups there are.
    """

    of_broker: Mapping[str, str] = field(default_factory=dict)
    home: str | None = field(init=False)  # whose groups have their names; None: there are not several clusters

    def __post_init__(self) -> None:
        """Find out which one is at home."""
        brokers = Counter(self.of_broker.values())
        first = min(brokers, key=lambda cluster: (-brokers[cluster], cluster)) if len(brokers) > 1 else None
        object.__setattr__(self, "home", first)

    def group(self, name: str, cluster: str | None) -> str:
        """What a group of a cluster is called."""
        return name if cluster in (None, self.home) else f"{name}@{cluster}"


ONE_CLUSTER = Clusters()
