"""The page in a real browser: it runs without an error, says what the tables say, and answers clicks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from kafkascope.reports.answers.answers import answers
from kafkascope.reports.show.page.page import embedded, page
from tests import needs
from tests.patience import BROWSER_PATIENCE_S
from tests.reports.show.page.made_tables import HOSTILE, SUMMARY, everything, group_tables, tables_of

PHONE, DESK = 390, 1280
MOST_BYTES = 20_000_000

Opened = Callable[..., Page]

expect.set_options(timeout=BROWSER_PATIENCE_S * 1000)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program, options = needs.browser()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("page"), page(answers(everything(), SUMMARY)))


@pytest.fixture
def opened(browser: Browser) -> Iterator[Opened]:
    """Opens a file, and holds that the script met no error by the end of the test."""
    contexts: list[Any] = []
    trouble: list[str] = []

    def asked(address: str) -> None:
        if not address.startswith(("file:", "data:")):
            trouble.append(f"asked for {address}")

    def open_page(file: Path, width: int = DESK, scheme: Any = "light") -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
        context.set_default_timeout(BROWSER_PATIENCE_S * 1000)
        contexts.append(context)
        view = context.new_page()
        view.on("console", lambda message: trouble.append(f"{message.type}: {message.text}"))
        view.on("pageerror", lambda error: trouble.append(str(error)))
        view.on(
            "request",
            lambda request: None if request.url.startswith(("file:", "data:")) else trouble.append(request.url),
        )
        view.on("dialog", lambda dialog: trouble.append("a dialog: markup of the capture ran"))
        view.goto(file.as_uri())
        view.wait_for_selector("html[data-ready=yes]", state="attached")
        return view

    yield open_page
    for context in contexts:
        context.close()
    assert trouble == []


def drawn(view: Page) -> Page:
    """The page, with its timeline near enough to be drawn."""
    view.locator(".timeline").scroll_into_view_if_needed()
    expect(view.locator(".timeline svg")).to_be_attached()
    return view


def written(directory: Path, text: str) -> Path:
    file = directory / "report.html"
    file.write_text(text, encoding="utf-8")
    return file


def test_findings_come_first_with_evidence_and_advice(opened: Opened, small: Path) -> None:
    view = opened(small)
    assert view.locator("main > section").first.get_attribute("id") == "findings"
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
    expect(view.locator("#coverage")).to_contain_text("9094")


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
def test_no_width_or_colour_scheme_overflows(opened: Opened, small: Path, width: int, scheme: str) -> None:
    view = opened(small, width, scheme)
    view.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert view.evaluate("document.documentElement.scrollWidth") <= width
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
    for section in ("findings", "groups", "latency", "errors", "lag", "throughput", "coverage"):
        expect(view.locator(f"#{section}")).to_contain_text("There is no table")


def test_a_page_of_empty_tables_says_so(opened: Opened, tmp_path: Path) -> None:
    empty = {name: table.schema.empty_table() for name, table in everything().items()}
    view = opened(written(tmp_path, page(answers(tables_of(**empty), SUMMARY))))
    expect(view.locator("#findings")).to_contain_text("No problem was found")
    expect(view.locator("#groups")).to_contain_text("No rebalance of any group was seen")
    expect(view.locator("#coverage")).to_contain_text("Nothing was lost")
    view = opened(written(tmp_path, page(answers(tables_of(**empty), SUMMARY | {"exchanges": {}}))))
    expect(view.locator("#findings")).to_contain_text("No Kafka was seen")
    expect(view.locator("#findings")).not_to_contain_text("No problem")


@pytest.mark.parametrize(
    ("groups", "rebalances", "members"), [pytest.param(1_000, 10, 6, marks=pytest.mark.deep), (1, 10_000, 8)]
)
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
