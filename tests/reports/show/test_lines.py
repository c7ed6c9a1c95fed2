from __future__ import annotations

import json
import re

import pyarrow as pa
import pytest

from kafkascope.reports.columns.shown import LONGEST_NAME, LONGEST_TEXT, shown_names, shown_text
from kafkascope.reports.show.json_lines import json_lines
from kafkascope.reports.show.lines import fields, lines
from kafkascope.reports.vocabulary.tables import EXCHANGES, RECORDS

SECOND = 1_000_000_000


def exchanges(*rows: dict[str, object]) -> pa.Table:
    complete = [
        {f.name: None for f in EXCHANGES}
        | {"connection": 1, "number": i + 1, "outcome": "answered", "decoded": "full"}
        | row
        for i, row in enumerate(rows)
    ]
    made = pa.Table.from_pylist(complete, schema=EXCHANGES)
    for name in ("client", "broker"):
        made = made.append_column(name, pa.array([f"{name}:1"] * len(rows)))
    topics = pa.array([row.get("topics", []) for row in rows], pa.list_(pa.string()))
    return made.append_column("topics", topics)


FETCH = {
    "api": "Fetch",
    "api_version": 13,
    "client_id": "app-1",
    "response_done": 1795244520 * SECOND + 123456789,
    "latency_ms": 4.25,
    "request_bytes": 99,
    "response_bytes": 1_234_567,
    "topics": ["orders", "payments", "refunds"],
}


def test_a_line_says_who_asked_what_of_whom_and_how_long_it_took() -> None:
    (line,) = lines(exchanges(FETCH)).to_pylist()
    assert re.sub(" +", " ", line) == (
        "07:02:00.123456 client:1 > broker:1 Fetch v13 4.25 ms 99 B 1234.6 kB app-1 orders +2"
    )


@pytest.mark.parametrize(
    ("ms", "shown"),
    [(-0.5, "-0.50"), (-1.5, "-1.50"), (-0.001, "0.00"), (0.0, "0.00"), (0.006, "0.01"), (12.3, "12.30")],
)
def test_times_have_two_decimals_and_their_sign(ms: float, shown: str) -> None:
    (line,) = lines(exchanges(FETCH | {"latency_ms": ms})).to_pylist()
    assert f" {shown} ms " in line


def test_an_error_and_an_issue_stand_in_brackets() -> None:
    (line,) = lines(
        exchanges(FETCH | {"error_code": 6, "error": "NOT_LEADER_OR_FOLLOWER", "issue": "3 bytes left"})
    ).to_pylist()
    assert line.endswith("[NOT_LEADER_OR_FOLLOWER][3 bytes left]")


def test_what_a_client_calls_itself_cannot_steer_the_terminal() -> None:
    (line,) = lines(exchanges(FETCH | {"client_id": "a\x1b[2J\r\nb\u202e"})).to_pylist()
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202e]", line)
    assert shown_text("a\x1bb") == "a\ufffdb"


def test_names_longer_than_any_topic_are_shortened_in_the_middle() -> None:
    names = ["a" * LONGEST_NAME, "b" * 300 + "c" * 100, "d " * 200, None, "e\x1b"]
    short = "b" * 160 + "…" + "c" * 40 + " (400 characters)"
    assert shown_names(pa.array(names)).to_pylist() == [
        names[0],
        short,
        "d " * 80 + "…" + "d " * 20 + " (400 characters)",
        None,
        "e\ufffd",
    ]
    assert shown_text(f"{names[0]} and {names[1]}: late") == f"{names[0]} and {short}: late"
    assert shown_names(pa.array([], pa.string())).to_pylist() == []


def test_a_long_sentence_is_shortened_once() -> None:
    sentence = "who " * 10_000 + "was late"
    short = shown_text(sentence)
    assert len(short) < LONGEST_TEXT
    assert short.endswith("was late (40008 characters)")
    for text in (sentence, "x" * 5000, "who " * 400):
        assert shown_text(shown_text(text)) == shown_text(text)


def test_colour_is_there_only_when_asked_for() -> None:
    plain, coloured = (lines(exchanges(FETCH), colour=c).to_pylist()[0] for c in (False, True))
    assert "\x1b" not in plain
    assert re.sub("\x1b\\[[0-9;]*m", "", coloured).split() == plain.split()


def test_an_orphan_and_an_unknown_api_have_lines_too() -> None:
    rows = lines(
        exchanges({"outcome": "orphan", "answered": SECOND, "response_bytes": 5}, {"outcome": "one_way"})
    ).to_pylist()
    assert "orphan" in rows[0]
    assert " ? " in rows[0]
    assert "one way" in rows[1]


def test_verbose_adds_what_is_there() -> None:
    (line,) = lines(
        exchanges(FETCH | {"group_id": "g", "request_packet": 4, "response_packet": 9}), verbose=True
    ).to_pylist()
    assert line.endswith("conn=1 number=1 packets=4/9 group=g")


def test_fields_are_columns_with_tabs_between() -> None:
    chosen = exchanges(FETCH | {"client_id": "a\tb"}).select(["response_done", "client_id", "latency_ms", "error"])
    assert fields(chosen).to_pylist() == ["1795244520.123456789\ta\ufffdb\t4.25\t"]


def test_a_list_is_a_column_too() -> None:
    chosen = exchanges(FETCH, FETCH | {"topics": []}).select(["topics"])
    assert fields(chosen).to_pylist() == ["orders,payments,refunds", ""]


def test_no_text_of_a_column_is_a_formula_of_a_spreadsheet() -> None:
    names = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "a=b"]
    chosen = exchanges(*({"client_id": name, "error_code": -1, "topics": [name, name]} for name in names))
    assert fields(chosen.select(["client_id", "error_code", "topics"])).to_pylist() == [
        f"{name}\t-1\t{name},{name.lstrip(chr(39))}" for name in ["'=1+1", "'+1", "'-1", "'@SUM(A1)", "\ufffd=1", "a=b"]
    ]


def test_json_has_every_column_the_bodies_and_the_records() -> None:
    rows = exchanges(FETCH | {"request": '{"a":1}', "client_id": 'q"\n'}, FETCH)
    record = {f.name: None for f in RECORDS} | {
        "connection": 1,
        "number": 2,
        "direction": "fetch",
        "topic": "orders",
        "partition": 0,
        "offset": 2**60,
        "timestamp": SECOND,
        "value": b"\xff",
        "headers": [{"key": "h", "value": b"v"}, {"key": "n", "value": None}],
    }
    records = pa.Table.from_pylist([record, record | {"offset": 2**60 + 1, "headers": []}], schema=RECORDS)
    first, second = (json.loads(text) for text in json_lines(rows, records).to_pylist())
    assert set(first) == {*rows.column_names, "records"}
    assert first["request"] == {"a": 1}
    assert first["client_id"] == 'q"\n'
    assert first["response_done"] == "2026-11-21T07:02:00.123456789Z"
    assert first["topics"] == ["orders", "payments", "refunds"]
    assert first["records"] == []
    assert [r["offset"] for r in second["records"]] == [2**60, 2**60 + 1]
    assert second["records"][0]["value_hex"] == "ff"
    assert second["records"][0]["headers"] == [{"key": "h", "value": "v"}, {"key": "n", "value": None}]
    sizes = json.loads(json_lines(rows, records, payload=False).to_pylist()[1])["records"][0]
    assert (sizes["key_bytes"], sizes["value_bytes"]) == (None, 1)
    assert "headers" not in sizes


@pytest.mark.parametrize("ends", ["", "x", "x.)"])
def test_very_long_words_of_what_ends_sentences_are_shown_at_once(ends: str) -> None:
    """A pattern that tries each place of the word anew would take minutes."""
    dots = "." * 100_000
    text = shown_text(f"{dots}{ends} left")
    assert len(text) <= LONGEST_TEXT
    assert text.startswith("....")
    assert text.endswith(
        f"….{'.' * 38}x (100001 characters){ends[1:]} left" if ends else f" left ({len(dots) + 5} characters)"
    )


@pytest.mark.parametrize(("asked", "answered", "told"), [(7, None, "7/-"), (None, 8, "-/8"), (7, 8, "7/8")])
def test_the_packet_of_what_was_not_answered_is_shown(asked: int | None, answered: int | None, told: str) -> None:
    (line,) = lines(exchanges({"request_packet": asked, "response_packet": answered}), verbose=True).to_pylist()
    assert f"packets={told}" in line.split()
