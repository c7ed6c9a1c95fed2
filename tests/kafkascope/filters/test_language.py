"""What people write as filters: what it means, and where it is wrong."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkascope.filters.expressions import All, Condition, Either, Expression, Not, conditions
from kafkascope.filters.language import FilterError, parsed
from kafkascope.sniffer.packet_window import absolute


def text_of(expression: Expression) -> str:
    """An expression with all brackets."""
    match expression:
        case Condition():
            values = ",".join(map(str, expression.values))
            return f"{expression.field.name} {expression.comparison}{values and ' '}{values}"
        case Not(of):
            return f"not[{text_of(of)}]"
        case All(of):
            return f"[{' and '.join(map(text_of, of))}]"
        case Either(of):
            return f"[{' or '.join(map(text_of, of))}]"


@pytest.mark.parametrize(
    ("written", "means"),
    [
        ('api == "Fetch"', "api == Fetch"),
        ("api==fetch", "api == fetch"),
        ("latency_ms > 100 and error or not topic", "[[latency_ms > 100 and error exists] or not[topic exists]]"),
        ("latency_ms > 100 && (error || ! topic)", "[latency_ms > 100 and [error exists or not[topic exists]]]"),
        ("NOT NOT error", "not[not[error exists]]"),
        ("client_id != c1", "client_id != c1"),
        ("topic in (orders, 'two words', \"or\")", "topic == orders,two words,or"),
        ("topic in {in, and}", "topic == in,and"),
        ('client_id ~ "^c\\d+\\"$"', 'client_id matches ^c\\d+"$'),
        ("group == null and exists member", "[not[group exists] and member exists]"),
        ("group != null", "group exists"),
        ('group == "null"', "group == null"),
        ("latency_ms >= 1.5s", "latency_ms >= 1500.0"),
        ("request.maxWaitMs < 2m", "request.maxWaitMs < 120000.0"),
        ("request_bytes > 2kB", "request_bytes > 2000.0"),
        ("response.brokers.port == -1", "response.brokers.port == -1"),
        ("request.protocols.metadata.topics == orders", "request.protocols.metadata.topics == orders"),
        (
            "request.topicData.partitionData.recordsSizeInBytes > 1MB",
            "request.topicData.partitionData.recordsSizeInBytes > 1000000.0",
        ),
        ("response.topics.isInternal == TRUE", "response.topics.isInternal == True"),
        ("host == fd77::1 or broker == 10.0.0.1:9092", "[host == fd77::1 or broker == 10.0.0.1:9092]"),
        ("error == ERROR_999", "error == ERROR_999"),
    ],
)
def test_what_it_means(written: str, means: str) -> None:
    assert text_of(parsed(written)) == means


def test_times_are_compared_as_times() -> None:
    (one,) = conditions(parsed('requested > "2026-11-21 05:57:16.5"'), also_not=True)
    assert one.values == (absolute("2026-11-21T05:57:16.5"),)


@pytest.mark.parametrize(
    ("written", "at", "said"),
    [
        ("latncy_ms > 3", "latncy", "there is no column latncy_ms; near is latency_ms"),
        ("error and maxWaitMs > 3", "maxWait", "no column maxWaitMs; near is request.maxWaitMs"),
        ("request.groupid == x", "request", "no API has a field request.groupid; near are request.groupId, "),
        ("request.groupId.x == 3", "request", "no API has a field request.groupId.x"),
        ("not api == Fetc", "Fetc", "there is no api Fetc; near are Fetch, "),
        ("api in (Fetch, Produc)", "Produc", "there is no api Produc; near are Produce"),
        ("error == NOT_LEADER", "NOT", "there is no error NOT_LEADER; near are NOT_LEADER_OR_FOLLOWER"),
        ("latency_ms > fast", "fast", "latency_ms is a number; fast is none"),
        ('latency_ms > "3"', '"3"', "latency_ms is a number"),
        ("correlation_id > 3s", "3s", "correlation_id has no unit s"),
        ("latency_ms > 3kB", "3kB", "latency_ms has no unit kB; it is in milliseconds: us, "),
        ("latency_ms contains 3", "contains", "contains compares text; latency_ms is a number"),
        ("client_id < 3", "<", "< compares a number or a time; client_id is text"),
        (
            "response.brokers == x",
            "==",
            "== compares text or a number or a time or true or false; response.brokers is a ",
        ),
        ("requested > 5", "5", "requested is a time: compare it with one such as 2026-"),
        ("request.isolationLevel == true", "true", "request.isolationLevel is a number; true is none"),
        ('client_id matches "a("', '"a(', "this is no regular expression (RE2): missing )"),
        ("api Fetch", "Fetch", "here should be one of ==, "),
        ("api in", "", "here should be an opening bracket"),
        ("api ==", "", "here should be a value, such as 100, "),
        ("api == Fetch or", "", "here should be the name of a column, "),
        ("(error", "", "here should be a closing bracket, but there is the end"),
        ("error)", ")", "here should be the end, but there is ')'"),
        ("error\n= x)", ")", "there is ')'"),
        ('client_id == "a', '"a', "here should be a value"),
        ("", "", "here should be the name of a column"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(written: str, at: str, said: str) -> None:
    with pytest.raises(FilterError, match=re.escape(said)) as raised:
        parsed(written)
    _, text, caret = str(raised.value).split("\n")
    assert text == "  " + written.replace("\n", " ")
    assert caret == " " * (2 + (written.rindex(at) if at else len(written))) + "^"


WORDS = ("api", "latency_ms", "request.groupId", "Fetch", "1s", '"x y"', "(", ")", ",", "in", "==", "!=", ">", "~")


@given(
    st.lists(
        st.sampled_from([*WORDS, "not", "and", "or", "exists", "null", "'", "!", "contains", "é\x00"]), max_size=12
    )
)
def test_whatever_is_written_is_understood_or_refused(words: list[str]) -> None:
    with suppress(FilterError):
        parsed(" ".join(words))
