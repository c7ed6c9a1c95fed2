from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import dataset as ds

from kafkascope.reports.answers.groups import GroupLimits, events_of, groups, rebalances_of, shortened, weight_ms
from kafkascope.reports.groups.history import Member, Rebalance
from tests.reports.show.page.made_tables import BEGIN, group_tables, tables_of

SMALL = GroupLimits(groups=2, rebalances=8, events=30, events_a_group=10, named=3)


def made(count: int = 4, rebalances: int = 5) -> tuple[pa.Table, ds.Dataset, ds.Dataset]:
    rows, events = group_tables(count, rebalances, members=2)
    tables = tables_of(rebalances=rows, group_events=events)
    return rows, tables["rebalances"], tables["group_events"]


def test_all_groups_are_counted_and_the_costliest_shown_in_order_of_time() -> None:
    rows, rebalances, events = made()
    found = groups(rebalances, events, GroupLimits())
    assert found is not None
    assert (found.total, found.rebalances, found.left_out) == (4, 20, 0)
    assert sum(found.triggers.values()) == 20
    costs = [group.counts.cost_ms for group in found.shown]
    assert costs == sorted(costs, reverse=True)
    for group in found.shown:
        assert [row.to_generation for row in group.rebalances] == [1, 2, 3, 4, 5]
        assert group.rebalances[0].started is not None
        assert group.rebalances[0].started >= BEGIN
        assert all(isinstance(member, Member) for row in group.rebalances for member in row.members)
        mine = rows.filter(pc.equal(rows["group_id"], group.counts.group_id))["cost_ms"].to_pylist()
        assert group.counts.worst_cost_ms == max(mine)


def test_a_group_that_changed_its_protocol_names_those_that_it_had_in_order() -> None:
    rows, _, _ = made(count=1)
    had = ["classic", "consumer", "consumer", "classic", "classic"]
    rows = rows.set_column(rows.schema.get_field_index("protocol"), "protocol", pa.array(had, pa.string()))
    found = groups(tables_of(rebalances=rows)["rebalances"], None, GroupLimits())
    assert found is not None
    (counts,) = (group.counts for group in found.shown)
    assert (counts.protocols, counts.protocol) == (["classic", "consumer"], "classic")


def test_those_that_findings_speak_of_come_first() -> None:
    _, rebalances, events = made()
    found = groups(rebalances, events, GroupLimits(), first=["group-3", "group-1"])
    assert found is not None
    assert [group.counts.group_id for group in found.shown][:2] == ["group-3", "group-1"]


def test_limits_bound_what_is_kept_and_what_is_not_is_counted() -> None:
    _, rebalances, events = made(count=6)
    found = groups(rebalances, events, SMALL)
    assert found is not None
    assert len(found.shown) == 2
    assert sum(len(group.rebalances) for group in found.shown) == 8
    assert len(found.counted_only) == 1
    assert (found.left_out, found.total, found.rebalances) == (3, 6, 30)
    for group in found.shown:
        assert len(group.events) <= 20
        assert len(group.events) + group.events_left_out == 10


def test_without_tables_there_is_no_answer_and_with_empty_ones_an_empty_one() -> None:
    rows, rebalances, _ = made()
    assert groups(None, None, GroupLimits()) is None
    without_events = groups(rebalances, None, GroupLimits())
    assert without_events is not None
    assert all(not group.events for group in without_events.shown)
    empty = groups(tables_of(t=rows.schema.empty_table())["t"], None, GroupLimits())
    assert empty is not None
    assert (empty.shown, empty.total) == ([], 0)


def test_rows_become_values_in_order_of_time_whatever_their_order() -> None:
    rows, events = group_tables(1, 6, 3)
    backwards = rows.take(list(range(len(rows)))[::-1])
    assert rebalances_of(backwards) == rebalances_of(rows)
    times = [event.at for event in events_of(events)]
    assert times == sorted(times)


def test_a_rebalance_is_as_bad_as_the_longest_wait_it_caused() -> None:
    assert weight_ms(Rebalance("g", "classic", 1, duration_ms=5.0)) == 5.0
    assert weight_ms(Rebalance("g", "classic", 1, duration_ms=5.0, cost_ms=7.0, unowned_ms=900.0)) == 900.0
    assert weight_ms(Rebalance("g", "classic", 1)) == 0.0


def test_of_many_members_those_that_had_most_to_do_with_it_are_kept() -> None:
    members = [Member(f"m{i}", join_ms=float(i)) for i in range(50)]
    row = Rebalance("g", "classic", 1, trigger_member="m7", leader="m3", members=members)
    assert [member.member_id for member in shortened(row, 4).members] == ["m7", "m3", "m49", "m48"]
    assert shortened(row, 50) is row


def test_members_that_are_too_many_to_keep_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    _, rebalances, events = made()
    monkeypatch.setattr("kafkascope.reports.answers.groups._HELD_BYTES", 0)
    found = groups(rebalances, events, GroupLimits())
    assert found is not None
    for group in found.shown:
        assert group.member_counts == [2] * 5
        assert all(not row.members and not row.evidence for row in group.rebalances)
        assert [row.to_generation for row in group.rebalances] == [1, 2, 3, 4, 5]
