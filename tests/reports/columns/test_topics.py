from __future__ import annotations

import pyarrow as pa

from kafkascope.reports.columns.topics import TopicNames, topics, written_by_id

ID = "id:" + "B" * 22


def test_a_topic_is_its_name_or_written_by_id() -> None:
    names = pa.array(["orders", None, "", None])
    ids = pa.array(["A" * 22, "B" * 22, "B" * 22, "A" * 22])
    assert topics(names, written_by_id(ids)).to_pylist() == ["orders", ID, ID, None]


def test_ids_in_a_table_become_names_once_they_are_known() -> None:
    table = pa.table({"topic": pa.array([ID, None, "orders", ID, "id:other"]), "partition": pa.array(range(5))})
    names = TopicNames()
    assert names.resolve(table).equals(table)
    names.learn([(ID, "payments")])
    resolved = names.resolve(table)
    assert resolved.schema == table.schema
    assert resolved.column("topic").to_pylist() == ["payments", None, "orders", "payments", "id:other"]


def test_names_learned_in_any_order_are_the_same() -> None:
    one, other = TopicNames(), TopicNames()
    one.learn([(ID, "a")])
    other.learn([(ID, "b")])
    both, reverse = TopicNames(one.learned()), TopicNames(other.learned())
    both.merge(other)
    reverse.merge(one)
    assert both.learned() == reverse.learned()


def test_the_metadata_topic_has_the_same_id_in_every_cluster() -> None:
    table = pa.table({"topic": pa.array(["id:AAAAAAAAAAAAAAAAAAAAAQ"])})
    assert TopicNames().resolve(table).column("topic").to_pylist() == ["__cluster_metadata"]


def test_a_table_without_topics_stays_as_it_is() -> None:
    table = pa.table({"partition": pa.array([1])})
    assert TopicNames({ID: "x"}).resolve(table) is table


def test_ids_in_a_text_become_names_once_they_are_known() -> None:
    known, other = "id:" + "a-_9" * 5 + "bc", "id:" + "z" * 22
    names = TopicNames({known: "orders"})
    assert (
        names.in_text(f"Fetch: {known}-3 and {other}-0, {known[:-1]}") == f"Fetch: orders-3 and {other}-0, {known[:-1]}"
    )
    assert names.in_text("nothing to see") == "nothing to see"
