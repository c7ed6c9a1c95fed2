"""How strongly an observation speaks for a trigger, and how sure a verdict may be that rests on it: one table."""

from __future__ import annotations

from enum import ReprEnum

from kafkascope.reports.vocabulary.triggers import Certainty


class Strength(float, ReprEnum):
    """A weight from 0 to 1, and the strongest certainty that it allows."""

    allows: Certainty

    def __new__(cls, weight: float, allows: Certainty) -> Strength:
        """A class of this weight."""
        strength = float.__new__(cls, weight)
        strength._value_ = weight
        strength.allows = allows
        return strength

    # The request that did it
    SAID = 1.0, Certainty.CERTAIN  # and it says why
    DONE = 0.97, Certainty.CERTAIN  # without a reason
    CHANGED = 0.95, Certainty.CERTAIN  # it asks for something else than before, or for what was announced
    # What fits well, and might be a coincidence
    FITS = 0.9, Certainty.LIKELY  # with what its member was told last, or with a timer
    DUE = 0.8, Certainty.LIKELY  # at about that time, or another was at the same time
    DIFFERS = 0.7, Certainty.LIKELY  # what came of it is not what was before
    LEFT_OVER = 0.6, Certainty.LIKELY  # nothing else is seen that could have been
    LEADS = 0.55, Certainty.LIKELY  # who leads a new group was the first to join it
    WITHOUT_CHANGE = 0.5, Certainty.LIKELY  # a leader came again with nothing changed
    # What the capture lacks must have been
    UNSEEN_REJOIN = 0.48, Certainty.GUESSED
    UNSEEN_REQUEST = 0.45, Certainty.GUESSED  # what a member did, shown by what came of it
    VAGUE = 0.4, Certainty.GUESSED  # when, or whether, it was cannot be told
    UNSEEN_LEAVE = 0.35, Certainty.GUESSED
    UNCHANGED = 0.3, Certainty.GUESSED  # nothing shows why it should have been this
    AFTERWARDS = 0.2, Certainty.GUESSED  # it came when a rebalance was open already
    FOLLOWS = 0.15, Certainty.GUESSED  # it says itself that another began
    NOTHING = 0.0, Certainty.GUESSED
