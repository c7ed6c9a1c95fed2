"""The notebook runs, says what it is there to say, and is stored with what it shows today (`make golden`)."""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.needs import browser
from tests.paths import ROOT
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from playwright.sync_api import Page

NOTEBOOK = ROOT / "notebooks" / "post_mortem.ipynb"
MOST_BYTES = 300_000
_EXPORTED = "plotly_mimetype+notebook"
_HOMES = ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR")
_FIGURE, _IMAGE = "application/vnd.plotly.v1+json", "image/png"


@pytest.fixture(scope="module")
def stored() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    home = tmp_path_factory.mktemp("jupyter")
    with pytest.MonkeyPatch.context() as patch:
        for name in _HOMES:
            patch.setenv(name, str(home))
        patch.setenv("PLOTLY_RENDERER", "plotly_mimetype")  # the others bring all of plotly.js along
        client = NotebookClient(notebook, timeout=PATIENCE_S, resources={"metadata": {"path": str(NOTEBOOK.parent)}})
        yield client.execute()  # raises for a cell that fails


def test_it_tells_what_happened(run: Any) -> None:
    told = shown(run)
    for text in (
        "Rebalance storm:",
        "kept going by poll timeout of c3",
        "Trigger: poll_timeout, c2 (certain)",
        "packet 835: LeaveGroup of c2",
        "While it was open:",
        "records were fetched again",
        "REBALANCE_IN_PROGRESS",
        "max.poll.interval.ms",
        "Trigger: session_timeout, c2 (likely)",
    ):
        assert text in told, text


def test_it_warns_of_nothing(run: Any) -> None:
    told = [one for cell in code(run) for one in cell.outputs if one.output_type == "stream"]
    assert [one.text for one in told if one.name == "stderr"] == []


def test_the_figure_has_every_member_and_packets(run: Any) -> None:
    figures = [one.data[_FIGURE] for cell in code(run) for one in cell.outputs if _FIGURE in one.get("data", {})]
    figure, latency, lag = figures
    text = json.dumps(figure)
    assert all(f'"{member}"' in text for member in ("c1", "c2", "c3"))
    assert "packet 835" in text
    assert "JoinGroup" in json.dumps(latency)
    assert "Lag of storm" in json.dumps(lag)


def test_what_is_stored_is_small_and_what_it_shows_today(run: Any, stored: Any, pytestconfig: pytest.Config) -> None:
    if pytestconfig.getoption("--golden"):
        NOTEBOOK.write_text(nbformat.writes(as_stored(run)) + "\n", encoding="utf-8")
        return
    assert NOTEBOOK.stat().st_size < MOST_BYTES
    for fresh, old in zip(code(as_stored(run, draw=False)), code(stored), strict=True):
        assert without_images(fresh) == without_images(old), f"`make golden` stores it anew; cell:\n{fresh.source}"


@pytest.mark.deep
def test_nbconvert_keeps_the_figures(tmp_path: Path) -> None:
    assert f"PLOTLY_RENDERER={_EXPORTED}" in (ROOT / "README.md").read_text(encoding="utf-8")
    homes = dict.fromkeys(_HOMES, str(tmp_path / "jupyter"))
    convert = [sys.executable, "-m", "nbconvert", "--execute", "--to", "html", "--output-dir", str(tmp_path)]
    environment = os.environ | homes | {"PLOTLY_RENDERER": _EXPORTED}
    subprocess.run([*convert, str(NOTEBOOK)], env=environment, check=True, capture_output=True, timeout=PATIENCE_S)
    with opened() as page:
        page.goto((tmp_path / "post_mortem.html").as_uri(), wait_until="domcontentloaded")
        page.wait_for_function("document.querySelectorAll('.plotly-graph-div > div').length == 3")
        timeline, latency, lag = (one.inner_text() for one in page.locator(".plotly-graph-div").all())
    assert "storm: 30 rebalances" in timeline
    assert "JoinGroup" in latency
    assert "Lag of storm" in lag


def code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(notebook: Any) -> str:
    texts = []
    for cell in code(notebook):
        for one in cell.outputs:
            texts += [one.text] if one.output_type == "stream" else [str(text) for text in one.data.values()]
    return "\n".join(texts)


def as_stored(run: Any, draw: bool = True) -> Any:
    """The notebook that ran, with pictures for figures, and nothing of when it ran."""
    notebook = nbformat.reads(nbformat.writes(run), as_version=4)
    for cell in code(notebook):
        cell.metadata.pop("execution", None)
        cell.outputs = [one for one in cell.outputs if one.get("data", {}).get("text/html") != ""]  # a bar that is gone
        for one in cell.outputs:
            data = one.get("data", {})
            if _FIGURE in data:
                figure = data.pop(_FIGURE)
                data.pop("text/html", None)
                data["text/plain"] = "<Figure>"
                if draw:
                    data[_IMAGE] = base64.b64encode(picture(figure)).decode()
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def without_images(cell: Any) -> list[Any]:
    outputs: list[Any] = json.loads(json.dumps(cell.outputs))
    for one in outputs:
        one.get("data", {}).pop(_IMAGE, None)
    return outputs


def picture(figure: dict[str, Any], width: int = 1000) -> bytes:
    """A figure as PNG, drawn by Chromium."""
    import plotly.io

    drawn = plotly.io.from_json(json.dumps({"data": figure["data"], "layout": figure["layout"]}))
    drawn.update_layout(width=width)
    text = io.StringIO()
    plotly.io.write_html(drawn, text, include_plotlyjs=True, config={"displayModeBar": False})
    with opened(width) as page:
        page.set_content(text.getvalue())
        image = page.locator(".main-svg").first
        image.wait_for()
        taken: bytes = page.locator(".plotly-graph-div").screenshot()
    return taken


@contextmanager
def opened(width: int = 1000) -> Iterator[Page]:
    """An empty page of Chromium, which reaches nobody."""
    from playwright.sync_api import sync_playwright

    program, options = browser()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=options)
        yield chromium.new_context(offline=True, viewport={"width": width, "height": 500}).new_page()
        chromium.close()
