"""Positions of readers that are not in the log any more."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkascope.reports.columns.words import clock
from tests.reports.incidents.tables_of import (
    B1,
    B2,
    CLIENT,
    H1,
    H2,
    IN_GROUP,
    Row,
    at,
    connection,
    error,
    exchange,
    finding,
    found,
    member,
    names,
    only,
    partition,
    rebalance,
)

OUT_OF_RANGE = error("OFFSET_OUT_OF_RANGE", "Fetch", 20, 21, 2, topic="orders", partition=0, first_connection=1)


def test_a_group_whose_position_is_gone() -> None:
    rows = [
        partition("Fetch", 20, error="OFFSET_OUT_OF_RANGE", fetch_offset=100, log_start_offset=-1),
        partition("Fetch", 22, fetch_offset=400, log_start_offset=400),
    ]
    finds = [finding("consumer_stuck", "group shop", "t", 20, 21), finding("consumer_stuck", "group b", "t", 20, 21)]
    one = only(
        error_histogram=[OUT_OF_RANGE], rebalances=[IN_GROUP], partitions=rows, connections=[CLIENT], findings=finds
    )
    assert (one.kind, one.severity, one.certainty) == ("offsets_lost", "critical", "certain")
    assert names(one) == ["shop", "orders", "c1", H1]
    assert one.headline.endswith("300 records were deleted before they were read")
    assert "c1 of group shop lost its position in orders 0 at " in one.headline
    assert one.findings == {"consumer_stuck group shop"}
    assert one.cost_ms == 1000


@pytest.mark.parametrize(("counts", "told"), [((2,), None), ((3,), 3), ((2, 1), 3), ((1, 1), None)])
def test_one_that_loses_its_position_again_and_again(counts: tuple[int, ...], told: int | None) -> None:
    """Whoever is slower than retention does."""
    rows = [OUT_OF_RANGE | {"count": count} for count in counts]
    loop = finding("error_loop", f"client c1 ({H1})", "t", 20, 21)
    one = only(error_histogram=rows, rebalances=[IN_GROUP], connections=[CLIENT], findings=[loop])
    again = f"at {clock(at(20))}, and again and again until {clock(at(21))} ({told} times in all): "
    assert (again in one.headline) == (told is not None)
    assert ("again" in one.headline) == (told is not None)
    assert one.findings == {loop["id"]}


@pytest.mark.parametrize(("read_at", "told"), [(19.9, True), (20, False), (None, False)])
def test_a_reader_without_a_group_lost_it_only_if_it_had_read(read_at: float | None, told: bool) -> None:
    rows = [] if read_at is None else [partition("Fetch", read_at, records=7)]
    assert len(found(error_histogram=[OUT_OF_RANGE], partitions=rows)) == told


def test_followers_find_their_place_by_themselves() -> None:
    of_broker = [connection(1, B2, B1, "broker-2-fetcher-0"), connection(2, H1, B2)]
    out = OUT_OF_RANGE | {"client_id": "broker-2-fetcher-0"}
    fetched = [partition("Fetch", 10, records=7)]
    assert found(error_histogram=[out], connections=of_broker, partitions=fetched) == []


def out_of_range(time: float, offset: int, **given: Any) -> Row:
    return partition(
        "Fetch", time, error="OFFSET_OUT_OF_RANGE", fetch_offset=offset, log_start_offset=-1, high_watermark=-1, **given
    )


def begins(time: float, start: int, high: int, **given: Any) -> Row:
    return partition("Fetch", time, fetch_offset=start, log_start_offset=start, high_watermark=high, **given)


LOST_TWICE = error("OFFSET_OUT_OF_RANGE", "Fetch", 20, 80, 2, topic="orders", partition=0, first_connection=1)


def test_each_position_that_is_lost_is_held_against_where_the_log_begins_then() -> None:
    rows = [out_of_range(20, 100), begins(22, 400, 900), out_of_range(80, 900), begins(82, 950, 960)]
    rows.append(out_of_range(19, 0, connection=9))  # of a follower
    follower = connection(9, B2, client_id="broker-2-fetcher-0")
    one = only(error_histogram=[LOST_TWICE], rebalances=[IN_GROUP], partitions=rows, connections=[CLIENT, follower])
    assert one.headline.endswith("the log does not have it any more; 350 records were deleted before they were read")


def test_records_that_two_groups_did_not_read_are_deleted_once() -> None:
    rows = [out_of_range(20, 100), begins(22, 400, 900), out_of_range(23, 250, connection=2)]
    rows += [begins(24, 410, 900, connection=2), out_of_range(20, 7, partition=1), begins(22, 10, 900, partition=1)]
    both = [CLIENT, connection(2, H2, client_id="c2")]
    other = rebalance("member_joined", 5, 6, group="bills", members=[member("c2", H2)])
    refused = [OUT_OF_RANGE, OUT_OF_RANGE | {"client_id": "c2", "client": H2}]
    one = only(error_histogram=refused, rebalances=[IN_GROUP, other], partitions=rows, connections=both)
    assert "c1, c2 of groups bills, shop lost their positions in orders 0 at " in one.headline
    assert one.headline.endswith("; 313 records were deleted before they were read")


def test_a_position_behind_the_end_is_of_another_log() -> None:
    rows = [out_of_range(20, 5_000), begins(22, 0, 12)]
    one = only(error_histogram=[LOST_TWICE], rebalances=[IN_GROUP], partitions=rows, connections=[CLIENT])
    assert one.headline.endswith(": it lies behind the end of the log")
    assert one.advice.startswith("See whether the topic was deleted and made anew")


@pytest.mark.parametrize(("time", "kinds"), [(19, ["admin_action"]), (21, ["offsets_lost", "admin_action"])])
def test_positions_in_a_topic_that_was_deleted_are_told_with_that(time: float, kinds: list[str]) -> None:
    made = exchange(3, "DeleteTopics", time, time + 0.1, client_id="adm", request='{"topicNames": ["orders"]}')
    rows = [out_of_range(20, 5_000), begins(22, 0, 12)]
    both = found(
        error_histogram=[LOST_TWICE],
        rebalances=[IN_GROUP],
        partitions=rows,
        exchanges=[made],
        connections=[CLIENT, connection(3, client_id="adm")],
    )
    assert [one.kind for one in both] == kinds
    assert ("; positions lost in orders 0" in both[-1].headline) == (kinds == ["admin_action"])


def test_who_had_the_records_deleted_is_named() -> None:
    asked = [
        exchange(
            n,
            "DeleteRecords",
            time,
            time + 0.1,
            connection=3,
            client_id="adm",
            request=f'{{"topics": [{{"name": "{topic}"}}]}}',
        )
        for n, (time, topic) in enumerate([(15, "orders"), (18, "orders"), (19, "other"), (21, "orders")])
    ]
    tables = {"error_histogram": [LOST_TWICE], "rebalances": [IN_GROUP], "exchanges": asked}
    tables["connections"] = [CLIENT, connection(3, client_id="adm")]
    one = found(**tables, partitions=[out_of_range(20, 100), begins(22, 400, 900)])[0]
    assert f": adm ({H1}) had records deleted at {clock(at(18))}; 300 records were deleted before" in one.headline
    assert next((seen.text, seen.at) for seen in one.evidence) == ("DeleteRecords of adm", at(18))
    beyond = found(**tables, partitions=[out_of_range(20, 5_000), begins(22, 0, 12)])[0]
    assert beyond.headline.endswith(": it lies behind the end of the log")


def retention(time: float, setting: str = "retention.ms", value: str | None = "1000", topic: str = "orders") -> Row:
    """A request by which somebody changes how long records are kept."""
    config = {"name": setting, "configOperation": 0 if value else 1, "value": value}
    body = json.dumps({"resources": [{"resourceType": 2, "resourceName": topic, "configs": [config]}]})
    return exchange(5, "IncrementalAlterConfigs", time, time + 0.1, connection=3, client_id="adm", request=body)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ([retention(18)], f", after adm ({H1}) had set retention.ms=1000 of orders at {clock(at(18))}"),
        (
            [retention(9), retention(18, "retention.bytes", None)],
            f"changed retention.bytes of orders at {clock(at(18))}",
        ),
        ([retention(20.1)], None),
        ([retention(18, value="-1")], None),  # for ever
        ([retention(18, topic="other")], None),
        ([retention(18, "segment.ms")], None),
    ],
)
def test_who_changed_how_long_records_are_kept_is_named(changes: list[Row], told: str | None) -> None:
    tables = {"error_histogram": [LOST_TWICE], "rebalances": [IN_GROUP], "exchanges": changes}
    tables["connections"] = [CLIENT, connection(3, client_id="adm")]
    one = found(**tables, partitions=[out_of_range(20, 100), begins(22, 400, 900)])[0]
    assert one.headline.endswith(f"{told or 'any more'}; 300 records were deleted before they were read")
    assert (one.evidence[-1].packet == 5) == (told is not None)
    beyond = found(**tables, partitions=[out_of_range(20, 5_000), begins(22, 0, 12)])[0]
    assert beyond.headline.endswith(": it lies behind the end of the log")


def test_of_the_groups_of_a_client_id_those_that_read_the_topic_lost_it() -> None:
    reads = {"assignment": ["orders-0"]}, {"subscription": ["clicks"], "assignment": ["clicks-0"]}
    groups = [
        rebalance("member_joined", 1, 5, group, members=[member("c1") | of_topic])
        for group, of_topic in zip(("shop", "billing"), reads, strict=True)
    ]
    one = only(error_histogram=[LOST_TWICE], rebalances=groups, connections=[CLIENT], partitions=[out_of_range(20, 5)])
    assert "c1 of group shop lost" in one.headline
