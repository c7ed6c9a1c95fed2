"""The epochs of a group as numbers: what raised each of them, or by whom it was first seen."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkascope.reports.groups.epochs.heartbeats import Beat
from kafkascope.reports.groups.epochs.lives import Life
from kafkascope.reports.groups.history import Evidence
from kafkascope.reports.groups.strengths import Strength
from kafkascope.reports.vocabulary.triggers import Certainty, Trigger


@dataclass(slots=True)
class Cause:
    """What raises the epoch of a group."""

    trigger: Trigger
    at: int
    packet: int | None
    text: str
    life: Life | None = None
    certainty: Certainty = Certainty.CERTAIN
    weight: float = Strength.SAID
    done: int | None = None  # when it was answered
    doubted: bool = False

    @classmethod
    def weighed(
        cls, trigger: Trigger, at: int, packet: int | None, text: str, strength: Strength, life: Life | None = None
    ) -> Cause:
        """A cause of which one is as sure as its strength allows."""
        return cls(trigger, at, packet, text, life, strength.allows, strength)

    def doubt(self) -> None:
        """It is likely at most: something else may have been first."""
        self.doubted = True
        if self.certainty == Certainty.CERTAIN:
            self.certainty, self.weight = Certainty.LIKELY, Strength.DUE


@dataclass(slots=True)
class Row:
    """One epoch of a group. Without a cause: nothing that the capture has would have raised it."""

    number: int
    cause: Cause | None = None
    seen: Beat | None = None  # the first answer that names it
    found: Beat | None = None  # the answer that proves that it was there: one of a later epoch, it may be
    before: int = 0  # (ns) the last word of any member before that
    early: bool = False  # it was raised before the capture began
    tentative: bool = False  # it may be that the cause raised nothing
    evidence: list[Evidence] = field(default_factory=list)
    passed: int = 0  # epochs right before it that it takes the place of: nobody ever had them
    others: list[Cause] = field(default_factory=list)  # what happened besides, without an epoch of its own

    @property
    def shown(self) -> int:
        """When the first answer was there that the raising of it may have changed."""
        answers = [each.done for each in (self.cause, self.found) if each is not None and each.done is not None]
        return min(answers, default=self.started)

    @property
    def started(self) -> int:
        """When it was raised, as early as the capture shows."""
        if self.cause is not None:
            return self.cause.at
        assert self.found is not None
        return self.found.at
