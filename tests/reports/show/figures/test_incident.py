from __future__ import annotations

import json

from kafkascope.reports.answers.answers import answers
from kafkascope.reports.show.figures.incident import timeline
from tests.reports.show.page.made_tables import SUMMARY, broker_down, with_incidents


def test_an_incident_has_its_lanes_marks_and_curves() -> None:
    found = answers(with_incidents(), SUMMARY)
    drawn = found.timelines[0]
    figure = timeline(broker_down(), drawn)
    shown = {trace.name: trace for trace in figure.data}
    assert "broker 2 (10.77.0.2)" in figure.layout.yaxis.categoryarray
    [silence] = shown["silent"].x
    items = [item for lane in drawn.lanes for item in lane.items]
    assert silence == next((i.until - i.since) / 1e6 for i in items if i.kind == "silence" and i.until)
    assert "packet 4000" in " ".join(shown["what shows it"].hovertext)
    assert len(shown["what shows it"].x) == 2  # what was rejected is no evidence
    assert {"y", "y2", "y3"} == {trace.yaxis for trace in figure.data}
    assert "<img" not in json.dumps(figure.to_plotly_json(), default=str)
