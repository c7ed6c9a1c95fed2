"""The page in a real browser: it runs without an error, says what the tables say, and answers clicks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from playwright.sync_api import Locator, Page, expect, sync_playwright
from pyarrow import dataset as ds

from kafkascope.reports.answers.answers import answers
from kafkascope.reports.show.page.page import embedded, page
from kafkascope.reports.vocabulary.tables import FINDINGS, INCIDENTS, REBALANCES
from tests import needs
from tests.patience import BROWSER_PATIENCE_S
from tests.reports.show.made_incidents import incidents_table
from tests.reports.show.page.made_tables import (
    BEGIN,
    HOSTILE,
    SECOND,
    SUMMARY,
    everything,
    group_tables,
    tables_of,
    with_incidents,
)

PHONE, DESK = 390, 1280
PHONE_HEIGHT = 844
MOST_BYTES = 20_000_000

Opened = Callable[..., Page]

expect.set_options(timeout=BROWSER_PATIENCE_S * 1000)


@dataclass
class Window:
    """A window of a browser, and what went wrong in it. There is one for all tests, since opening one takes longest."""

    view: Page
    trouble: list[str]


@pytest.fixture(scope="session")
def window() -> Iterator[Window]:
    program, options = needs.browser()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=options)
        context = browser.new_context(offline=True)
        context.set_default_timeout(BROWSER_PATIENCE_S * 1000)
        window = Window(context.new_page(), [])
        trouble = window.trouble

        def asked(address: str) -> None:
            if not address.startswith(("file:", "data:")):
                trouble.append(f"asked for {address}")

        window.view.on("console", lambda message: trouble.append(f"{message.type}: {message.text}"))
        window.view.on("pageerror", lambda error: trouble.append(str(error)))
        window.view.on("request", lambda request: asked(request.url))
        window.view.on("dialog", lambda dialog: trouble.append("a dialog: markup of the capture ran"))
        yield window
        browser.close()


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("page"), page(answers(everything(), SUMMARY)))


@pytest.fixture(scope="session")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("page"), page(answers(with_incidents(), SUMMARY)))


@pytest.fixture
def opened(window: Window) -> Iterator[Opened]:
    """Opens a file, and holds that the script met no error by the end of the test."""

    def open_page(file: Path, width: int = DESK, scheme: Any = "light", place: str = "") -> Page:
        view = window.view
        view.goto("about:blank")  # from one place of a page to another it would not be loaded anew
        view.set_viewport_size({"width": width, "height": PHONE_HEIGHT if width == PHONE else 900})
        view.emulate_media(media="screen", color_scheme=scheme)
        view.mouse.move(0, 0)
        view.goto(file.as_uri() + place)
        view.wait_for_selector("html[data-ready=yes]", state="attached")
        return view

    window.trouble.clear()
    yield open_page
    window.view.goto("about:blank")  # by then all that went wrong has been told
    assert window.trouble == []


def drawn(view: Page) -> Page:
    """The page, with its timeline near enough to be drawn."""
    view.locator(".timeline").scroll_into_view_if_needed()
    expect(view.locator(".timeline svg")).to_be_attached()
    return view


def written(directory: Path, text: str) -> Path:
    file = directory / "report.html"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_incident_comes_first_in_three_lines_and_then_its_timeline(opened: Opened, troubled: Path) -> None:
    view = opened(troubled)
    assert view.locator("main > section").first.get_attribute("id") == "incidents"
    card = view.locator("#incident-1")
    lines = card.locator(":scope > h3, :scope > p").all_text_contents()
    assert lines[0].startswith("✖ broker 2 (10.77.0.2) went away")
    assert lines[1] == "Cost: 2 leaders moved"
    assert lines[2] == "What to do: Look at the broker's log for that moment."
    expect(card.locator(".of-incident svg")).to_be_attached()
    expect(card.locator("ol.evidence .packet")).to_have_text(["packet 4000", "packet 4001"])
    expect(card).to_contain_text("What else it could be, and why it is not")
    assert view.locator("img").count() == 0
    expect(view.locator("#incident-2")).to_contain_text("to the end of the capture: not over")
    expect(view.locator("#incidents")).not_to_contain_text("Nothing is wrong in this capture")


def test_the_timeline_of_an_incident_has_all_that_it_touched(opened: Opened, troubled: Path) -> None:
    card = opened(troubled).locator("#incident-1")
    picture = card.locator(".of-incident svg")
    lanes = [text.removesuffix("…") for text in picture.locator("text.lane").all_text_contents()]
    for name in ("what shows it", "broker 2 (10.77.0.2)", "cluster", "connections of orders-0 → 10.77.0.2:9092"):
        assert any(lane.startswith(name) for lane in lanes), name
    for name in ("group orders-app", "slowest answer", "lag of orders-app", "lag of group-1"):
        assert any(lane.startswith(name) for lane in lanes), name
    assert picture.locator(".moment").count() == 1
    assert picture.locator("rect.of-failed").count() == 12
    assert picture.locator(".end").text_content() == "×"
    # who cannot see it has it in words
    words = picture.get_attribute("aria-label") or ""
    assert "broker 2 (10.77.0.2): 1, the first at 07:03:00.000: says nothing for 40.0 s" in words
    card.get_by_text("All of it in words").click()
    expect(card.locator(".incident-timeline table")).to_contain_text("connect refused")
    expect(card.locator(".incident-timeline table .packet").first).to_be_visible()
    # and each is told with its packet
    picture.locator(".lane-of.broker .item").dispatch_event("click")
    expect(card.locator(".reading .packet")).to_have_text("packet 4001")
    # every colour has a word
    legend = card.locator(".legend").first
    for word in ("it began", "broker silent", "connection that was reset", "connect that failed", "rebalance open"):
        expect(legend).to_contain_text(word)


def test_words_in_the_timeline_of_an_incident_end_where_the_next_bar_begins(opened: Opened, tmp_path: Path) -> None:
    """Rebalances may overlap: one may have begun before partitions are read again after another one."""
    tables = with_incidents()
    rows = tables["rebalances"].to_table().to_pylist()
    mine = [row for row in rows if row["group_id"] == "orders-app"]
    for k, row in enumerate(mine[:3]):
        row["started"] = BEGIN + (62 + 15 * k) * SECOND
        row["stable"] = row["started"] + 25 * SECOND
    overlapping = ds.dataset(pa.Table.from_pylist(rows, schema=REBALANCES))
    view = opened(written(tmp_path, page(answers(tables | {"rebalances": overlapping}, SUMMARY))))
    lane = view.locator("#incident-1 .lane-of.group").first
    expect(lane.locator("text.within").first).to_be_attached()
    texts = [(one["x"], one["x"] + one["width"]) for one in _boxes(lane.locator("text.within"))]
    bars = [one["x"] for one in _boxes(lane.locator("rect.of-rebalance"))]
    assert len(texts) > 1
    assert not [(text, bar) for text in texts for bar in bars if text[0] < bar < text[1]]
    assert lane.locator("text.within ~ g rect.of-rebalance").count() == 0  # no bar is drawn over words


def _boxes(found: Locator) -> list[Any]:
    return [one.bounding_box() for one in found.all()]


def test_an_incident_and_what_it_explains_link_to_each_other(opened: Opened, troubled: Path) -> None:
    view = opened(troubled)
    card = view.locator("#incident-1")
    card.get_by_role("link", name="rebalance of orders-app, 7 → 8").click()
    expect(view.locator("#detail h4")).to_contain_text("Generation 7 → 8")
    expect(view.locator("#detail")).to_be_in_viewport()
    view.locator("#detail").get_by_role("link", name="incident 1").click()
    expect(card).to_be_in_viewport()
    card.get_by_role("link", name="orders-app rebalances again and again").click()
    finding = view.locator(".finding", has_text="Part of incident 1")
    expect(finding).to_have_count(1)
    expect(finding).to_be_in_viewport()
    assert view.locator(".finding").last.text_content() == finding.text_content()  # behind the others
    expect(view.locator("#findings")).to_contain_text("Explained by incidents")
    finding.get_by_role("link", name="incident 1").click()
    expect(card).to_be_in_viewport()


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_links_lead_deep_into_the_page(opened: Opened, troubled: Path, width: int) -> None:
    expect(opened(troubled, width, place="#incident-2").locator("#incident-2 h3")).to_be_in_viewport()
    view = opened(troubled, width, place="#group/group-2/5")
    expect(view.locator("h3.group-name").first).to_contain_text("group-2")
    expect(view.locator("#detail h4")).to_contain_text("Generation 4 → 5")
    expect(view.locator("#detail h4")).to_be_in_viewport()
    view = opened(troubled, width, place="#group/group-2")
    expect(view.locator("h3.group-name").first).to_contain_text("group-2")
    for nowhere in ("#group/nobody/1", "#group/%E0%A4%A/1", "#group/group-2/99", "#nothing"):
        opened(troubled, width, place=nowhere)


def test_without_an_incident_the_page_says_that_nothing_is_wrong(opened: Opened, tmp_path: Path) -> None:
    none = {"incidents": ds.dataset(INCIDENTS.empty_table())}
    view = opened(written(tmp_path, page(answers(everything() | none, SUMMARY))))
    expect(view.locator("#incidents")).to_contain_text("No trouble is seen in this capture")
    expect(view.locator("#incidents")).to_contain_text(
        "and 3 findings more; it cannot show what 3 connections with TLS"
    )
    none |= {"findings": ds.dataset(FINDINGS.empty_table())}
    view = opened(written(tmp_path, page(answers(everything() | none, SUMMARY))))
    expect(view.locator("#incidents")).to_contain_text("Nothing is wrong in this capture")
    view = opened(written(tmp_path, page(answers(none, SUMMARY | {"exchanges": {}}))))
    expect(view.locator("#incidents")).to_contain_text("No Kafka exchange was seen")
    expect(view.locator("#incidents")).not_to_contain_text("Nothing is wrong in this capture")


def test_on_a_phone_the_first_incident_is_on_the_first_screen(opened: Opened, troubled: Path) -> None:
    card = opened(troubled, PHONE).locator("#incident-1")
    for part in ("h3", ".cost", ".advice", ".of-incident"):
        expect(card.locator(f":scope {part}").first).to_be_in_viewport()
    box = card.locator(".advice").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < PHONE_HEIGHT


def test_the_page_is_called_after_the_capture_and_its_time(opened: Opened, small: Path) -> None:
    view = opened(small)
    assert view.title() == "shop/capture.pcap, 2026-11-21 07:02:00 to 07:12:00 UTC – kafkascope"
    expect(view.locator("h1")).to_have_text("shop/capture.pcap")


def test_findings_come_with_evidence_and_advice(opened: Opened, small: Path) -> None:
    view = opened(small)
    first = view.locator(".finding").first
    expect(first).to_contain_text("orders-app rebalances again and again")
    expect(first).to_contain_text("What to do: Raise max.poll.interval.ms")
    expect(first.locator(".packet")).to_have_text(["packet 4711"])
    expect(first.locator(".filter code")).to_have_text("frame.number == 4711")


def test_every_section_says_what_its_table_says(opened: Opened, small: Path) -> None:
    view = opened(small)
    expect(view.locator("#what")).to_contain_text("123,456 packets")
    expect(view.locator("#groups")).to_contain_text("36 rebalances of 3 groups")
    expect(view.locator("#latency table.latency")).to_contain_text("Produce")
    expect(view.locator("#latency table.split")).to_contain_text("waiting, as the client asked")
    expect(view.locator("#errors tr.trouble").first).to_contain_text("NOT_LEADER_OR_FOLLOWER")
    expect(view.locator("#errors tr.ordinary")).to_contain_text("REBALANCE_IN_PROGRESS")
    expect(view.locator("#lag .lag-group").first).to_contain_text("orders-app")
    expect(view.locator("#throughput")).to_contain_text("lz4")
    expect(view.locator("#coverage")).to_contain_text("kernel drops")
    expect(view.locator("#coverage")).to_contain_text("3 connections are encrypted with TLS, to port 9094")
    expect(view.locator("#coverage")).to_contain_text("70 requests, 40 a second on each, answers in 3 ms (inferred")


def test_a_click_on_a_trigger_leads_to_packets_and_evidence(opened: Opened, small: Path) -> None:
    view = drawn(opened(small))
    detail = view.locator("#detail")
    marks = view.locator(".timeline .rebalance")
    assert marks.count() == 12
    for number in (3, 7):
        view.locator(f'.timeline .rebalance[data-rebalance="{number}"] circle').click()
        expect(detail.locator("h4")).to_contain_text(f"Generation {number} → {number + 1}")
        expect(detail.locator(".packet").first).to_have_text(f"packet {100 * number + 11}")
        expect(detail).to_contain_text("Other readings, rejected")
        numbers = f"{100 * number + 11}, {100 * number + 12}, {100 * number + 40}"
        expect(detail.locator(".filter code")).to_have_text(f"frame.number in {{{numbers}}}")
        expect(detail.locator("table.members tbody tr")).to_have_count(4)
        expect(view.locator("table.rebalances tr.chosen")).to_have_attribute("data-rebalance", str(number))


def test_a_click_on_what_a_member_owned_marks_the_member(opened: Opened, small: Path) -> None:
    view = drawn(opened(small))
    view.locator('.timeline .bar[data-lane="2"]').last.click()
    expect(view.locator("#detail tr.chosen")).to_contain_text("orders-2")


def test_a_click_on_an_event_tells_what_it_is(opened: Opened, small: Path) -> None:
    view = drawn(opened(small))
    view.locator(".timeline .event").first.click()
    expect(view.locator("#detail h4")).to_contain_text("silence begun")
    expect(view.locator("#detail")).to_contain_text("silent for 10,012 ms")
    expect(view.locator("#detail .filter code")).to_contain_text("frame.number == ")


def test_a_row_of_the_list_opens_its_rebalance_by_keyboard_too(opened: Opened, small: Path) -> None:
    view = drawn(opened(small))
    view.locator("table.rebalances tbody tr").nth(2).click()
    expect(view.locator("#detail h4")).to_contain_text("Generation 2 → 3")
    view.locator('.timeline .rebalance[data-rebalance="5"]').focus()
    view.keyboard.press("Enter")
    expect(view.locator("#detail h4")).to_contain_text("Generation 5 → 6")
    expect(view.locator("#detail")).to_contain_text("it is inferred")


def test_the_timeline_zooms_and_moves(opened: Opened, small: Path) -> None:
    view = drawn(opened(small))
    shown = view.locator(".timeline .rebalance").count()
    view.get_by_title("zoom in").click()
    view.get_by_title("zoom in").click()
    assert 0 < view.locator(".timeline .rebalance").count() < shown
    before = view.locator(".timeline svg").inner_html()
    view.get_by_title("later").click()
    assert view.locator(".timeline svg").inner_html() != before
    box = view.locator(".timeline").bounding_box()
    assert box is not None
    dragged = view.locator(".timeline svg").inner_html()
    view.mouse.move(box["x"] + box["width"] / 2, box["y"] + 100)
    view.mouse.down()
    view.mouse.move(box["x"] + box["width"] / 2 + 150, box["y"] + 100, steps=4)
    view.mouse.up()
    assert view.locator(".timeline svg").inner_html() != dragged
    view.get_by_title("show all").click()
    assert view.locator(".timeline .rebalance").count() == shown


def test_a_rebalance_that_goes_on_reaches_to_the_end_of_the_capture(opened: Opened, tmp_path: Path) -> None:
    """The last minutes of a group that waits for somebody are what one looks for."""
    rebalances, events = group_tables(groups=1, rebalances=1, members=2, seed=7)
    waits = rebalances.to_pylist()[0] | dict.fromkeys(("joined", "stable", "recovered")) | {"members": []}
    tables = tables_of(rebalances=pa.Table.from_pylist([waits], rebalances.schema), group_events=events[:0])
    view = drawn(opened(written(tmp_path, page(answers(tables, SUMMARY)))))
    path, picture = view.locator(".timeline path.open").bounding_box(), view.locator(".timeline svg").bounding_box()
    assert path is not None
    assert picture is not None
    assert path["x"] + path["width"] > picture["x"] + 0.8 * picture["width"]


def test_by_partition_shows_who_owned_each_and_when_nobody_did(opened: Opened, small: Path) -> None:
    view = drawn(opened(small))
    view.get_by_text("by partition").click()
    lanes = view.locator(".timeline text.lane").all_text_contents()
    names = [f"orders-{p}" for p in range(12)]
    assert lanes == [name + name for name in names] + ["nobody owns" * 2]  # each with its whole name as a title
    assert view.locator(".timeline .gap").count() > 0


def test_groups_are_found_by_name(opened: Opened, small: Path) -> None:
    view = opened(small)
    view.get_by_placeholder("find a group").fill("GROUP-2")
    expect(view.locator("table.groups tbody tr")).to_have_count(1)
    view.locator("table.groups button").click()
    expect(view.locator("h3.group-name").first).to_contain_text("group-2")
    view.get_by_placeholder("find a group").fill("nothing like this")
    expect(view.locator("#groups")).to_contain_text("No group has this in its name")


def test_a_finding_leads_to_its_group(opened: Opened, small: Path) -> None:
    view = opened(small)
    view.locator(".finding button.link", has_text="group group-1").click()
    expect(view.locator("#group h3")).to_contain_text("group-1")


def test_text_of_the_capture_is_text(opened: Opened, small: Path) -> None:
    view = opened(small)
    expect(view.locator(".finding", has_text="batches of one record")).to_contain_text(
        "</script><img src=x onerror=alert(1)>"
    )
    assert view.locator("img").count() == 0
    assert "\u202e" not in view.content()
    view.locator("table.groups button", has_text="group-1").click()
    expect(view.locator("#detail")).to_contain_text("<img src=x")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_no_width_or_colour_scheme_overflows(opened: Opened, troubled: Path, width: int, scheme: str) -> None:
    view = opened(troubled, width, scheme)
    view.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert view.evaluate("document.documentElement.scrollWidth") <= width
    cut = "[...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth).length"
    assert view.evaluate(cut) == 0  # no table loses its last column
    light = view.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert light == (scheme == "light")
    view.locator("#theme").click()
    assert (view.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)") != light


def test_paper_is_light_and_has_all_pictures(opened: Opened, small: Path) -> None:
    view = opened(small, DESK, "dark")
    view.evaluate("dispatchEvent(new Event('beforeprint'))")
    view.emulate_media(media="print", color_scheme="dark")
    assert view.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    expect(view.locator("nav")).to_be_hidden()
    assert view.evaluate("[...document.querySelectorAll('.picture')].every((one) => one.querySelector('svg'))")
    assert len(view.pdf()) > 10_000


def test_a_page_without_any_table_says_so(opened: Opened, tmp_path: Path) -> None:
    view = opened(written(tmp_path, page(answers({}, {}))))
    for section in ("incidents", "findings", "groups", "latency", "errors", "lag", "throughput", "coverage"):
        expect(view.locator(f"#{section}")).to_contain_text("There is no table")


def test_a_page_of_empty_tables_says_so(opened: Opened, tmp_path: Path) -> None:
    empty = {name: table.schema.empty_table() for name, table in everything().items()}
    view = opened(written(tmp_path, page(answers(tables_of(**empty), SUMMARY))))
    expect(view.locator("#findings")).to_contain_text("No problem was found")
    some = tables_of(**empty) | {"incidents": ds.dataset(incidents_table(3))}
    view = opened(written(tmp_path, page(answers(some, SUMMARY))))
    expect(view.locator("#findings")).to_contain_text("Nothing besides the incidents")
    expect(view.locator("#groups")).to_contain_text("No rebalance of any group was seen")
    expect(view.locator("#coverage")).to_contain_text("Nothing was lost")
    view = opened(written(tmp_path, page(answers(tables_of(**empty), SUMMARY | {"exchanges": {}}))))
    expect(view.locator("#findings")).to_contain_text("No Kafka was seen")
    expect(view.locator("#findings")).not_to_contain_text("No problem")


@pytest.mark.deep
@pytest.mark.parametrize(("groups", "rebalances", "members"), [(1_000, 10, 6), (1, 10_000, 8)])
def test_a_large_capture_gives_a_page_that_opens(
    opened: Opened,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
    groups: int,
    rebalances: int,
    members: int,
) -> None:
    made, events = group_tables(groups, rebalances, members)
    text = page(answers(everything() | tables_of(rebalances=made, group_events=events), SUMMARY))
    size = len(text.encode())
    assert size < MOST_BYTES
    view = opened(written(tmp_path, text))
    opened_ms = view.evaluate("performance.now()")
    record_property("bytes", size)
    record_property("opened_ms", opened_ms)
    print(f"{groups} groups, {groups * rebalances} rebalances: {size:,} bytes, opened after {opened_ms:,.0f} ms")
    expect(view.locator("#groups")).to_contain_text(f"{groups * rebalances:,} rebalances")
    assert view.locator("*").count() < 20_000
    view.locator("table.rebalances tbody tr").nth(4).click()
    expect(view.locator("#detail .packet").first).to_be_visible()
    drawn(view).get_by_title("zoom in").click()
    expect(view.locator(".timeline .rebalance").first).to_be_attached()


def test_charts_have_a_text_for_who_cannot_see_them(opened: Opened, small: Path) -> None:
    view = drawn(opened(small))
    for picture in (".heat", ".chart"):
        view.locator(picture).first.scroll_into_view_if_needed()
        label = view.locator(f"{picture} svg").first
        expect(label).to_have_attribute("role", "img")
        assert " at " in (label.get_attribute("aria-label") or "")
    assert "12 rebalances" in (view.locator(".timeline").get_attribute("aria-label") or "")


def test_the_legend_has_every_letter_of_the_picture(opened: Opened, small: Path) -> None:
    view = drawn(opened(small))
    letters = {*view.locator(".timeline .rebalance .mark").all_text_contents()}
    letters |= {*view.locator(".timeline .event text").all_text_contents()}
    assert letters
    assert letters <= {*view.locator(".timeline-box .legend b").all_text_contents()}


def test_what_brokers_took_is_red_by_its_time_not_its_share(opened: Opened, small: Path) -> None:
    view = opened(small)
    parts = view.locator("table.split tr", has_text="broker and disk")
    assert parts.count() > 1
    for row in parts.all():
        tall = row.locator("rect.part").get_attribute("class") or ""
        p99 = row.locator("td").nth(5).text_content() or ""
        assert ("bad" in tall) == (p99.endswith(" s")), (tall, p99)
    assert view.locator("table.split").get_by_text("slow", exact=True).count() == 0


def test_json_in_the_page_cannot_end_its_element() -> None:
    text = embedded({"a": HOSTILE, "b": "<!--"})
    assert not re.search("[<>&\u2028\u2029\u202e]", text)
    assert json.loads(text) == {"a": HOSTILE, "b": "<!--"}


def test_only_the_pages_own_script_and_style_may_run() -> None:
    text = page(answers({}, {}))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert "default-src 'none'" in policy[1].replace("&#39;", "'")
    assert "unsafe" not in policy[1]
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", text)
