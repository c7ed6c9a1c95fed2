"""`--anonymize KEY`: no name, address or content of a capture in any output; but for them all is as without it."""

from __future__ import annotations

import json
import random
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kafkascope
from kafkascope import live_exchanges
from kafkascope.decoders.pseudonyms import Pseudonyms
from kafkascope.engine import EngineOptions
from kafkascope.reading import Listening
from kafkascope.rehearsal import Rehearsal
from kafkascope.reports.rows.frames import FRAMES
from kafkascope.reports.rows.topic_mentions import TOPICS
from kafkascope.reports.vocabulary.broker_client_ids import is_of_broker
from kafkascope.reports.vocabulary.tables import EXCHANGES, FILE
from tests.kafkascope.conftest import Command
from tests.kafkascope.hex_dumps import bytes_beside
from tests.kafkascope.test_parity import same_tables
from tests.kafkascope.test_secrets import leaked
from tests.paths import PCAPS

KEY = "a key of our own"
OTHER_KEY = "k7"  # by which each digit becomes another one
STORIES = [
    "killed-silent",
    "clients_sasl",
    "connect",
    "streams-classic",
    "kip848",
    "share-group",
    "clients_admin",
    "rebalance-storm",
    "broker-killed",
]
# Words that are names in a capture, and stand in texts of ours or of Kafka's as well.
WORDS = frozenset(("connect", "consumer", "default", "producer", "streams", "client", "counts", "before"))


@lru_cache(maxsize=2)
def read(name: str, key: str | None = None) -> kafkascope.Capture:
    capture: kafkascope.Capture = kafkascope.read(files(name), records=True, anonymize=key)
    return capture


@pytest.fixture(scope="module", params=STORIES)
def story(request: pytest.FixtureRequest) -> str:
    """The name of a recording; tests of one come one after the other, so that it is read once."""
    return str(request.param)


def files(name: str) -> list[str]:
    return [str(path) for path in sorted((PCAPS / name).glob("capture.pcap*"))[:1]]


def names_of(name: str) -> dict[str, bytes]:
    """Names, addresses and contents that the tables of a capture have, of some length."""
    capture = read(name)
    found: set[str] = set()
    for table, columns in {
        "exchanges": ("client_id", "group_id", "member_id"),
        "connections": ("client", "broker", "client_id"),
        "partitions": ("topic",),
        "records": ("topic",),
        "group_events": ("group_id", "member_id", "client_id"),
    }.items():
        rows = capture.arrow(table)
        for column in columns:
            if column in rows.column_names:
                found.update(value for value in rows[column].unique().to_pylist() if value)
    values = capture.arrow("records")["value"].unique().to_pylist()[:200]
    found.update(value.decode() for value in values if value and value.isascii())
    found = {
        one
        for one in found
        if len(one) > 5
        and one.lower() not in WORDS
        and not one.startswith(("__", "id:", "[", "127."))
        and not is_of_broker(one)
    }
    return {one: one.encode() for one in sorted(found)}


def test_no_name_is_left_in_any_table(story: str) -> None:
    names = names_of(story)
    assert len(names) > 5
    capture = read(story, KEY)
    for table in capture.tables:
        shown = str(capture.arrow(table).to_pylist()).encode()
        found = [one for one in names if one.encode() in shown]
        assert not found, (table, found[:5])


def test_but_for_names_it_is_the_same(story: str) -> None:
    """Numbers, times, and what was found out are those of the capture as it is."""
    plain, hidden = read(story), read(story, KEY)
    known = {"rebalances": ["trigger", "certainty", "protocol"], "incidents": ["kind", "severity"]}
    for table in ("connections", "exchanges", "errors", "partitions", "batches", "records", "rebalances", "incidents"):
        ours, theirs = plain.arrow(table), hidden.arrow(table)
        columns = [field.name for field in ours.schema if not _has_text(field.type)] + known.get(table, [])
        order = [(column, "ascending") for column in columns if ours.schema.field(column).type != FILE]
        assert ours.select(columns).sort_by(order).equals(theirs.select(columns).sort_by(order)), table


@pytest.mark.parametrize(
    "name",
    [
        "dup-node",  # brokers are told apart by their client ids
        "localhost-listener",
        "streams-no-source",  # which topics is said in a text
        "streams-not-alike",
    ],
)
def test_incidents_are_those_without_pseudonyms(name: str) -> None:
    told = [
        kafkascope.read(files(name), anonymize=key).arrow("incidents").select(["kind", "severity", "certainty"])
        for key in (None, OTHER_KEY)
    ]
    assert told[0].num_rows
    assert told[0].equals(told[1])


def test_a_broker_is_the_same_one(command: Command) -> None:
    """Its number stands in messages, which keep it, and in its client id."""
    done = command("sniff", "-r", *files("dup-node"), "--incidents", "--anonymize", OTHER_KEY)
    assert "broker 2 at" in done.stdout
    chosen = command("sniff", "-r", *files("dup-node"), "--client-id", "2", "--anonymize", OTHER_KEY)
    asked = command("sniff", "-r", *files("dup-node"), "--filter", "client_id == 2", "--anonymize", OTHER_KEY)
    assert len(chosen.stdout.splitlines()) == len(asked.stdout.splitlines()) > 0


def _has_text(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return True
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind))


STYLES = [["-v"], ["-x"], ["--json", "--records"], ["--records"], ["--groups"], ["--incidents", "--json"]]


@pytest.mark.parametrize("style", STYLES, ids=" ".join)
@pytest.mark.parametrize(
    "name", ["clients_sasl", *(pytest.param(name, marks=pytest.mark.deep) for name in ("killed-silent", "connect"))]
)
def test_no_name_is_printed(command: Command, name: str, style: list[str]) -> None:
    done = command("sniff", "-r", *files(name), *style, "--anonymize", KEY)
    assert done.returncode == 0
    assert leaked(names_of(name), done.stdout.encode(errors="surrogateescape")) == []
    assert leaked(names_of(name), bytes_beside(done.stdout)) == []
    assert style != ["-x"] or len(bytes_beside(done.stdout)) > 10_000
    secrets = json.loads((PCAPS / name / "truth.json").read_text()).get("secrets", [])
    assert [secret for secret in secrets if secret in done.stdout] == []


def test_what_is_asked_for_by_name_is_found(command: Command) -> None:
    (path,) = files("killed-silent")
    asked = ("sniff", "-r", path, "--api", "JoinGroup", "--group", "pay", "--host", "10.77.3.13")
    plain = command(*asked)
    hidden = command(*asked, "--anonymize", KEY)
    assert len(plain.stdout.splitlines()) == len(hidden.stdout.splitlines()) > 0


@pytest.mark.parametrize("seed", range(8))
def test_damaged_messages_do_no_harm(tmp_path: Path, seed: int) -> None:
    """A fault would end the run: pseudonyms come before the last guard."""
    data = bytearray((PCAPS / "clients_sasl" / "capture.pcap").read_bytes()[:120_000])
    luck = random.Random(seed)
    for _ in range(300):
        data[luck.randrange(24, len(data))] = luck.randrange(256)
    (tmp_path / "damaged.pcap").write_bytes(data)
    found = kafkascope.read(tmp_path / "damaged.pcap", records=True, anonymize=KEY)
    assert "internal_error" not in set(found.issues.kind)
    shown = str(found.arrow("exchanges").to_pylist())
    assert "alice" not in shown


@pytest.mark.deep
def test_on_spark_they_are_the_same(spark: Any, tmp_path: Path) -> None:
    from kafkascope.spark import analyze

    options = EngineOptions(pseudonyms=Pseudonyms(KEY))
    out = tmp_path / "out"
    analyze(files("killed-silent"), str(out), spark=spark, options=options, records=True, partitions=3)
    same_tables(read("killed-silent", KEY), out)
    names = names_of("killed-silent")
    shown = b"".join(str(pq.read_table(file).to_pylist()).encode() for file in out.rglob("*.parquet"))
    shown += (out / "report.html").read_bytes() + (out / "summary.json").read_bytes()
    assert leaked(names, shown) == []


def test_another_key_gives_other_names() -> None:
    one, other = Pseudonyms("one"), Pseudonyms("other")
    assert one.name("orders") == Pseudonyms("one").name("orders") != other.name("orders")


def test_an_empty_key_is_refused(command: Command) -> None:
    assert command("sniff", "-r", *files("killed-silent"), "--anonymize", "").returncode == 2


@pytest.mark.parametrize("pseudonyms", [None, Pseudonyms("k")])
def test_bytes_of_live_exchanges_are_given_only_where_nothing_is_hidden(pseudonyms: Pseudonyms | None) -> None:
    columns = frozenset(EXCHANGES.names) | {TOPICS.name} | {column.name for column in FRAMES}
    options = EngineOptions(frozenset({"exchanges"}), columns, views=frozenset(), pseudonyms=pseudonyms)
    found = [one for one in live_exchanges._exchanges(Listening(Rehearsal(), options)) if one is not None]
    messages = [message for one in found for message in (one.request, one.response) if message is not None]
    assert len(messages) > 10
    for message in messages:
        if pseudonyms is None:
            assert message.hex() == message.raw.hex()
            assert message.text()
        else:
            assert message.raw == b""
            for show in (message.hex, message.text):
                with pytest.raises(LookupError, match="what anonymize hides"):
                    show()


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        (
            "scram-wrong",
            [
                "as {app} by SCRAM-SHA-512; the user is there, and its password is another one; {adminclient-1} (",
                "as {ghost} by SCRAM-SHA-512; the broker has no such user for SCRAM-SHA-512)",
            ],
        ),
        ("oauth-scope", ["OAUTHBEARER; its token lacks a scope that the broker wants: insufficient_scope)"]),
    ],
)
def test_why_clients_authenticate_in_vain_is_told_without_names(name: str, reasons: list[str]) -> None:
    known = Pseudonyms(KEY)
    names = {one: known.name(one) for one in ("app", "ghost", "adminclient-1")}
    capture = kafkascope.read(files(name), anonymize=KEY)
    incidents = capture.arrow("incidents").to_pylist()
    told = [one["headline"] for one in incidents if one["kind"] == "authentication_failed"]
    assert len(told) == len(reasons)
    for headline, reason in zip(told, reasons, strict=True):
        assert f"authentication failures ({reason.format_map(names)}" in headline
    if name == "scram-wrong":
        texts = json.dumps(capture.arrow("exchanges")["response"].to_pylist())
        assert "Authentication failed during authentication due to invalid credentials with SASL mechanism" in texts
