"""Answers as notebooks have them: DataFrames that can draw themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pandas as pd
from pandas.plotting import PlotAccessor


class Answer(pd.DataFrame):
    """A DataFrame, and so is each part of it; ``plot()`` is a figure (plotly) made for what it answers.

    ``plot(...)`` with arguments, ``plot.bar()`` and the like are those of pandas.
    """

    _metadata = ["_answers"]  # noqa: RUF012 (pandas wants a list)
    _answers: str | None = None  # the table that it was made of

    @classmethod
    def of(cls, table: str, frame: pd.DataFrame) -> Answer:
        """A frame that was made of a table of this name."""
        answer = cls(frame)
        answer._answers = table
        return answer

    @property
    def _constructor(self) -> type[Answer]:
        return Answer

    @property
    def plot(self) -> AnswerPlot:
        """``plot()``: the figure of this answer, as far as its rows go. Raises ModuleNotFoundError without plotly."""
        return AnswerPlot(self)


class AnswerPlot(PlotAccessor):
    """What ``plot`` of an answer is."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Without arguments the figure of the answer; ValueError if it lacks columns of which that is made."""
        answer: Answer = self._parent  # type: ignore[attr-defined]  # pandas-stubs do not have it
        if args or kwargs:
            return super().__call__(*args, **kwargs)
        with plotly_needed():
            from kafkascope.reports.show.figures.frames import FIGURES
        if answer._answers not in FIGURES:
            return super().__call__()
        try:
            return FIGURES[answer._answers](pd.DataFrame(answer))
        except KeyError as error:
            raise ValueError(f"plot() needs all columns of the answer; this part of it lacks {error}") from error


@contextmanager
def plotly_needed() -> Iterator[None]:
    """Say what brings plotly where it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "plotly":
            raise
        advice = "plotly is not installed: pip install 'kafkascope[notebook]' brings it"
        raise ModuleNotFoundError(advice, name=error.name) from None
