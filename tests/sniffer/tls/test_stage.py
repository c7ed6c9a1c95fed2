"""Streams of TLS, as OpenSSL writes them, opened: whole, in any pieces, with losses, with keys that come late."""

from __future__ import annotations

import json
import random
import ssl
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkascope.decoders.limits import Limits
from kafkascope.reports.vocabulary.issue_kinds import ISSUE_KINDS
from kafkascope.sniffer.columns import Runs
from kafkascope.sniffer.tls import connection as tls
from kafkascope.sniffer.tls.keys import Keys
from kafkascope.sniffer.tls.stage import TlsStage
from kafkascope.sniffer.tls.turns import MOST_WAITING
from tests.paths import DATA
from tests.sniffer.tls.tls_conversation import UNTIL, Talk, TlsConversation
from tests.sniffer.written_runs import Run, runs

V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
SUITES = [
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "AES128-CCM",
    "AES256-CCM8",
    "ECDHE-RSA-AES128-SHA",
    "ECDHE-RSA-AES128-SHA256",
    "ECDHE-RSA-AES256-SHA384",
]
SAID = (b"one?" * 50, b"yes!" * 20, b"more" * 12_000, b"ok", b"the end" * 10)


def keys_of(*talks: Talk, packet: int = 0, may_grow: bool = False) -> Keys:
    keys = Keys(may_grow)
    for talk in talks:
        keys.add(talk.key_log, packet)
    return keys


def rows_of(talk: Talk, size: int = 1400, connection: int = 1, first: int = 1) -> list[Run]:
    """A packet for each so many bytes."""
    offsets = [0, 0]
    rows: list[Run] = []
    for side, data in talk.wire:
        for begin in range(0, len(data), size):
            part = data[begin : begin + size]
            rows.append(Run(connection, side, offsets[side], part, first + len(rows)))
            offsets[side] += len(part)
    return rows


def said(found: Iterable[Runs], connection: int = 1) -> tuple[bytes, bytes]:
    """What came out of each direction, a question mark for each missing byte."""
    streams = [b"", b""]
    for batch in found:
        for row in range(len(batch.number)):
            start, length = int(batch.start[row]), int(batch.length[row])
            assert length > 0
            if batch.connection[row] == connection:
                data = b"?" * length if start < 0 else batch.data[start : start + length].tobytes()
                streams[int(batch.direction[row])] += data
    return streams[0], streams[1]


def fed(keys: Keys | None, batches: Iterable[Sequence[Run]]) -> tuple[TlsStage, list[Runs]]:
    """All that comes of batches, and of the end of connection 1."""
    begun: set[int] = set()
    stage = TlsStage(keys, begun.__contains__)
    found = []
    for batch in batches:
        found.append(stage.feed(runs(batch)))
        begun |= {row.connection for row in batch} - {row.connection for row in batch if stage.of(row.connection)}
    found.append(stage.feed(runs([]), [1]))
    return stage, found


def kinds(stage: TlsStage) -> list[str]:
    one = stage.of(1)
    assert one is not None
    return sorted(issue.kind for issue in one.issues(1, 0))


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("encrypt_then_mac", [True, False])
def test_tls_1_2_is_opened(suite: str, encrypt_then_mac: bool) -> None:
    conversation = TlsConversation(V12, suite, encrypt_then_mac)
    talk = conversation.talk(*SAID)
    assert conversation.cipher == suite
    stage, found = fed(keys_of(talk), [rows_of(talk)])
    assert said(found) == talk.told
    assert kinds(stage) == []


def test_tls_1_3_is_opened() -> None:
    talk = TlsConversation(V13).talk(*SAID)
    stage, found = fed(keys_of(talk), [rows_of(talk)])
    assert said(found) == talk.told
    assert kinds(stage) == []


RECORDED: dict[str, dict[str, list[Any]]] = json.loads((DATA / "tls.json").read_text())


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("size", [1, 100_000])
def test_what_python_cannot_ask_of_openssl_is_opened(name: str, size: int) -> None:
    """Recorded of its own programs (tests/data/tls.md): key updates, other suites, a second hello, early data."""
    talk, told = recorded(name)
    rows = rows_of(talk, size)
    for batches in ([rows], [[row] for row in rows]):
        stage, found = fed(keys_of(talk), batches)
        assert said(found) == told
        assert kinds(stage) == []


def recorded(name: str) -> tuple[Talk, tuple[bytes, ...]]:
    told = RECORDED[name]
    key_log = "\n".join(told["key_log"]).encode()
    talk = Talk([(side, bytes.fromhex(part)) for side, part in told["wire"]], key_log=key_log)
    return talk, tuple(text.encode() for text in told["said"])


@pytest.mark.parametrize("name", ["early data refused", "early data refused, hello retry"])
@pytest.mark.parametrize("size", [1, 100_000])
@pytest.mark.parametrize("may_grow", [False, True])
def test_behind_early_data_that_was_refused_all_is_opened_with_the_servers_key_log(
    name: str, size: int, may_grow: bool
) -> None:
    """A server that refuses early data has no secret of it to log."""
    talk, told = recorded(name)
    talk.key_log = b"\n".join(line for line in talk.key_log.splitlines() if b"EARLY" not in line)
    stage, found = fed(keys_of(talk, may_grow=may_grow), [[row] for row in rows_of(talk, size)])
    assert said(found) == told
    assert kinds(stage) == []


@pytest.mark.parametrize("version", [V12, V13])
@pytest.mark.parametrize("size", [1, 3, 1400])
def test_however_it_is_cut_it_is_the_same(version: ssl.TLSVersion, size: int) -> None:
    """In packets of one byte too, and a batch each: rows, with numbers, times and offsets, are those of one batch."""
    talk = TlsConversation(version).talk(*SAID[:2], SAID[4])
    rows = rows_of(talk, size)
    keys = keys_of(talk)
    _, found = fed(keys, [[row] for row in rows])
    assert said(found) == talk.told
    _, at_once = fed(keys, [rows])
    assert sorted(map(str, listed(found))) == sorted(map(str, listed(at_once)))


def listed(found: Iterable[Runs]) -> list[tuple[int, ...]]:
    return [
        tuple(
            int(getattr(batch, name)[row]) for name in ("connection", "direction", "offset", "length", "number", "at")
        )
        for batch in found
        for row in range(len(batch.number))
    ]


@pytest.mark.parametrize("version", [V12, V13])
def test_content_has_the_packet_that_completed_its_record(version: ssl.TLSVersion) -> None:
    talk = TlsConversation(version).talk(b"a" * 3000, b"b")
    rows = rows_of(talk, 1000)
    _, found = fed(keys_of(talk), [rows])
    asked, answered = [row for row in listed(found) if row[3] == 3000], [row for row in listed(found) if row[3] == 1]
    last = {side: [row for row in rows if row.direction == side] for side in (0, 1)}
    (number,) = {row[4] for row in asked}
    of_packet = next(row for row in last[0] if row.number == number)
    assert isinstance(of_packet.part, bytes)
    # The record's content ends where the record does.
    assert asked[0][2] + asked[0][3] == of_packet.offset + len(of_packet.part)
    assert answered[0][4] > number


@pytest.mark.parametrize("version", [V12, V13])
def test_a_session_that_is_resumed_is_opened(version: ssl.TLSVersion) -> None:
    conversation = TlsConversation(version)
    conversation.talk(*SAID[:2])
    talk = conversation.talk(*SAID[:2], resume=True)
    assert conversation.resumed
    _, found = fed(keys_of(talk), [rows_of(talk)])
    assert said(found) == talk.told


@pytest.mark.parametrize("version", [V12, V13])
@pytest.mark.parametrize("late", [False, True])
def test_keys_are_waited_for(version: ssl.TLSVersion, late: bool) -> None:
    """A secret holds from a packet on: before it nothing comes out, then all; at the end it is too late."""
    talk = TlsConversation(version).talk(*SAID)
    rows = rows_of(talk)
    since = min(max(row.number for row in rows if row.direction == side) for side in (0, 1)) + 2 * late
    _, found = fed(keys_of(talk, packet=since, may_grow=True), [[row] for row in rows])
    assert said(found)[0] == (b"" if late else talk.told[0])


@pytest.mark.parametrize("version", [V12, V13])
@pytest.mark.parametrize("client", [0, 1])
@pytest.mark.parametrize("batch", [1, 1000])
def test_a_hello_that_is_at_hand_is_not_given_up(
    version: ssl.TLSVersion, client: int, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the connection goes on in one batch, and whichever side is read first."""
    monkeypatch.setattr(tls, "WAIT_NS", 5_000)  # packets are a microsecond apart
    talk = TlsConversation(version).talk(*SAID)
    rows = [row._replace(direction=row.direction ^ client) for row in rows_of(talk)]
    stage, found = fed(keys_of(talk), [rows[at : at + batch] for at in range(0, len(rows), batch)])
    assert said(found) == (talk.told[client], talk.told[1 - client])
    assert kinds(stage) == []


@pytest.mark.parametrize("batch", [1, 1000])
def test_keys_are_waited_for_no_longer_than_a_time(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they came in time hangs on packets, not on batches."""
    monkeypatch.setattr(tls, "WAIT_NS", 5_000)  # packets are a microsecond apart
    talk = TlsConversation(V13).talk(*SAID)
    rows = rows_of(talk)
    keys = keys_of(talk, packet=rows[-1].number, may_grow=True)
    stage, found = fed(keys, [rows[at : at + batch] for at in range(0, len(rows), batch)])
    assert said(found)[0] == b""
    assert kinds(stage) == ["tls_not_opened"]


def test_keys_are_waited_for_with_no_more_than_some_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "WAIT_BYTES", 4_000)
    talk = TlsConversation(V13).talk(*SAID)
    rows = rows_of(talk)
    _, found = fed(keys_of(talk, packet=rows[-1].number, may_grow=True), [[row] for row in rows])
    assert said(found)[0] == b""


@pytest.mark.parametrize("version", [V12, V13])
def test_a_record_that_is_given_up_for_all_hold_too_much_is_lost_alone(version: ssl.TLSVersion) -> None:
    parts = (b"one?", b"yes!", b"more" * 3000, b"ok", b"the end")
    talk = TlsConversation(version).talk(*parts)
    stage = TlsStage(keys_of(talk), {*()}.__contains__, Limits(held_bytes=8000))
    found = []
    for row in rows_of(talk, 10_000):
        found.append(stage.feed(runs([row])))
        found += [more for more in [stage.relieve()] if more is not None]
    found.append(stage.feed(runs([]), [1]))
    asked, answered = said(found)
    assert asked == talk.told[0].replace(parts[2], b"?" * len(parts[2]))
    assert answered == talk.told[1]
    assert [issue.kind for issue in stage.issues] == ["too_many_bytes"]
    assert kinds(stage) == ["tls_lost_records"]


@pytest.mark.parametrize("version", [V12, V13])
def test_without_its_secret_it_is_said_why(version: ssl.TLSVersion) -> None:
    conversation = TlsConversation(version)
    other, talk = conversation.talk(*SAID[:2]), conversation.talk(*SAID[:2])
    stage, found = fed(keys_of(other), [rows_of(talk)])
    assert said(found) == (b"", b"")
    assert kinds(stage) == ["tls_not_opened"]
    one = stage.of(1)
    assert one is not None
    assert one.why_not == tls.NO_SECRET


def test_the_wrong_secret_is_said_not_to_fit() -> None:
    conversation = TlsConversation(V12)
    other, talk = conversation.talk(*SAID), conversation.talk(*SAID * 10)
    random = talk.key_log.split()[1]
    wrong = Talk(key_log=b" ".join([b"CLIENT_RANDOM", random, other.key_log.split()[2]]))
    stage, found = fed(keys_of(wrong), [rows_of(talk)])
    one = stage.of(1)
    assert one is not None
    assert one.why_not == tls.NO_FIT
    assert b"".join(said(found)).strip(b"?") == b""


def test_without_its_beginning_it_is_said_why() -> None:
    talk = TlsConversation(V13).talk(*SAID)
    behind = talk.wire[3:]
    late = Talk(behind, talk.said, talk.key_log)
    stage, found = fed(keys_of(talk), [rows_of(late)])
    one = stage.of(1)
    assert one is not None
    assert one.why_not in (tls.NO_HELLO, tls.NO_ANSWER)
    assert said(found) == (b"", b"")


@pytest.mark.parametrize(("version", "suite"), [(V12, None), (V13, None), (V12, "ECDHE-RSA-AES256-SHA384")])
def test_a_packet_that_is_lost_costs_its_records(version: ssl.TLSVersion, suite: str | None) -> None:
    """Whichever packet of the application's is lost, what comes behind is opened, and what is lost has its length."""
    parts = [bytes([65 + number]) * 900 for number in range(12)]
    talk = TlsConversation(version, suite).talk(*parts, b"z" * 40_000, b"ok")
    rows = rows_of(talk, 500)
    keys = keys_of(talk)
    _, whole = fed(keys, [rows])
    begin = min(row[4] for row in listed(whole))
    end = max(row[4] for row in listed(whole))
    for lost in rows:
        if not begin < lost.number < end:
            continue
        assert isinstance(lost.part, bytes)
        gap = lost._replace(part=len(lost.part))
        _, found = fed(keys, [[gap if row is lost else row for row in rows]])
        side = lost.direction
        heard, wanted = said(found), talk.told
        assert heard[1 - side] == wanted[1 - side]
        assert heard[side].count(b"?") <= 2 * 17_000
        if suite:  # how much padding is lost is not known
            assert all(part in wanted[side] for part in heard[side].split(b"?"))
        else:
            assert len(heard[side]) == len(wanted[side])
            assert all(a in (b, ord("?")) for a, b in zip(heard[side], wanted[side], strict=True))
        assert heard[side][-2:] in (wanted[side][-2:], b"??")


@pytest.mark.parametrize("side", [0, 1])
def test_behind_the_change_of_keys_that_was_lost_the_last_alert_is_opened(side: int) -> None:
    """It was taken for one in the clear, which no key opens, and looked at again for ever."""
    talk = TlsConversation(V12).talk(*SAID)
    records = list(records_of(b"".join(part for of, part in talk.wire if of == side)))
    assert records[-1][0] == tls.ALERT
    assert len(records[-1]) > tls.HEADER + 2
    change = [record[0] for record in records].index(tls.CHANGE_CIPHER_SPEC)
    head, lost = b"".join(records[:change]), sum(map(len, records[change:-1]))
    other = [row._replace(number=row.number + 1) for row in rows_of(talk) if row.direction != side]
    behind = [Run(1, side, len(head), lost, 1000), Run(1, side, len(head) + lost, records[-1], 1001)]
    stage, found = fed(keys_of(talk), [[Run(1, side, 0, head, 1), *other, *behind]])
    heard = said(found)
    assert set(heard[side]) == set(b"?")
    assert heard[1 - side] == talk.told[1 - side]
    one = stage.of(1)
    assert one is not None
    assert "close_notify" in [alert.name for alert in one.alerts if alert.direction == side]


def records_of(stream: bytes) -> Iterator[bytes]:
    """The records of one direction."""
    while stream:
        end = tls.HEADER + int.from_bytes(stream[3:5], "big")
        yield stream[:end]
        stream = stream[end:]


@given(st.sampled_from([V12, V13]), st.sampled_from([97, 300, 700, 1400]), st.randoms(use_true_random=False))
def test_hostile_bytes_do_no_harm(version: ssl.TLSVersion, size: int, dice: random.Random) -> None:
    """Bytes are changed and left out, most of them where records begin: something comes out, or nothing."""
    talk = damaged_talk(version)
    rows = rows_of(talk, size)
    for _ in range(dice.choice([1, 2, 6, len(rows) // 4])):
        place = dice.randrange(dice.choice([min(8, len(rows)), len(rows)]))
        part = rows[place].part
        if isinstance(part, int):
            continue
        changed = bytearray(part)
        changed[dice.randrange(min(len(part), dice.choice([6, 60, size])))] = dice.randrange(256)
        rows[place] = rows[place]._replace(part=len(part) if dice.random() < 0.3 else bytes(changed))
    stage, found = fed(keys_of(talk), [rows])
    cut = dice.randrange(1, len(rows))
    for batches in ([[row] for row in rows], [rows[:cut], rows[cut:]]):
        assert said(fed(keys_of(talk), batches)[1]) == said(found)
    if stage.of(1) is not None:
        assert set(kinds(stage)) <= {name for name in ISSUE_KINDS if name.startswith("tls_")}


@pytest.mark.parametrize("version", [V12, V13])
def test_a_hello_that_is_whole_late_counts_however_it_comes(version: ssl.TLSVersion) -> None:
    """Its record says that it is longer than it is: it ends behind the server's first records."""
    talk = damaged_talk(version)
    rows = rows_of(talk, 700)
    hello = bytearray(talk.wire[0][1])
    hello[4] += 20
    rows[0] = rows[0]._replace(part=bytes(hello))
    _, found = fed(keys_of(talk), [rows])
    _, again = fed(keys_of(talk), [[row] for row in rows])
    assert said(found) == said(again)
    assert said(found)[1].endswith(talk.told[1][-20:])


TALKS: dict[ssl.TLSVersion, Talk] = {}


def damaged_talk(version: ssl.TLSVersion) -> Talk:
    if version not in TALKS:
        TALKS[version] = TlsConversation(version).talk(*SAID)
    return TALKS[version]


@pytest.mark.parametrize("version", [V12, V13])
@pytest.mark.parametrize("batch", [1, 1000])
def test_requests_are_counted_without_keys(version: ssl.TLSVersion, batch: int) -> None:
    """Each was answered in three packets' time; alerts at the end, and tickets, are none."""
    talk = TlsConversation(version).talk(*[b"a question of some bytes", b"tell" * 9] * 9, b"x" * 40_000, b"y" * 20_000)
    rows = rows_of(talk, 100_000)
    stage, _ = fed(None, [rows[at : at + batch] for at in range(0, len(rows), batch)])
    one = stage.of(1)
    assert one is not None
    facts = one.facts()
    assert (facts["tls_requests"], facts["tls_answer_ms"], facts["tls_opened"]) == (10, 0.001, False)
    assert facts["tls_version"] == {V12: "TLS 1.2", V13: "TLS 1.3"}[version]
    assert facts["tls_server_name"] == "broker-1.example"
    said_in_clear = (facts["tls_alpn"], facts["tls_certificate_names"])
    named = ("broker one", "broker-1.example", "kafka.example")
    assert said_in_clear == (("kafka", named) if version == V12 else (None, None))
    if version == V12:
        assert facts["tls_certificate_until"] == int(UNTIL.timestamp()) * 10**9


@pytest.mark.parametrize("batch", [500, 1_000_000])
def test_very_many_requests_are_counted_however_batches_are_cut(batch: int) -> None:
    """More of one side than wait for those of the other."""
    asked, told = (bytes([tls.APPLICATION_DATA, 3, 3, 0, size]) + bytes(size) for size in (80, 60))
    hello = TlsConversation(V13).talk().wire[0][1]
    rows = [Run(1, 0, 0, hello, 1)]
    ends = [len(hello), 0]
    for number in range(2 * MOST_WAITING):
        side = number % 2
        part = (asked, told)[side]
        rows.append(Run(1, side, ends[side], part, 2 + number))
        ends[side] += len(part)
    stage, _ = fed(None, [rows[at : at + batch] for at in range(0, len(rows), batch)])
    one = stage.of(1)
    assert one is not None
    assert (one.facts()["tls_requests"], one.facts()["tls_answer_ms"]) == (MOST_WAITING - 1, 0.001)  # but for Finished


def test_looking_for_a_record_takes_time_by_the_byte() -> None:
    """What looks like headers everywhere took a minute for 30 kB."""
    begins = b"\x16\x03\x01\x00\x01\x00" + b"garbage"
    data = begins + b"\x17\x03\x03\x00\x01x\x17\x03\x03\x00\x01xg" * 40_000
    rows = [Run(1, 0, at, data[at : at + 1400], 1 + at) for at in range(0, len(data), 1400)]
    stage, _ = fed(None, [rows])
    one = stage.of(1)
    assert one is not None
    assert not one.is_opened


def test_the_certificate_of_tls_1_3_is_read_with_keys() -> None:
    talk = TlsConversation(V13).talk(*SAID)
    stage, _ = fed(keys_of(talk), [rows_of(talk)])
    one = stage.of(1)
    assert one is not None
    facts = one.facts()
    assert facts["tls_certificate_names"] == ("broker one", "broker-1.example", "kafka.example")
    assert (facts["tls_alpn"], facts["tls_requests"], facts["tls_alert"]) == ("kafka", None, "close_notify")


def test_an_alert_is_told_with_its_sender() -> None:
    talk = TlsConversation(V12).talk()
    alert = Run(1, 1, 0, b"\x15\x03\x03\0\x02\x02\x2a", 2)
    stage, _ = fed(None, [[Run(1, 0, 0, talk.wire[0][1], 1), alert]])
    one = stage.of(1)
    assert one is not None
    assert (one.facts()["tls_alert"], one.facts()["tls_alert_by"]) == ("bad_certificate", "broker")


def test_what_is_no_tls_passes_as_it_is() -> None:
    plain = [Run(1, 0, 0, b"\x16", 1), Run(1, 0, 1, b"\x01\x02", 2), Run(1, 0, 3, b"tail", 3)]
    for batches in ([plain], [[row] for row in plain]):
        stage, found = fed(keys_of(), batches)
        assert said(found) == (b"\x16\x01\x02tail", b"")
        assert stage.of(1) is None


def test_a_server_that_answers_with_an_alert_makes_no_tls() -> None:
    """The client spoke first, and in the clear."""
    rows = [Run(1, 0, 0, b"\0\0\0\x10plain", 1), Run(1, 1, 0, b"\x15\x03\x03\0\x02\x02\x50", 2)]
    for batches in ([rows], [[row] for row in rows]):
        stage, found = fed(keys_of(), batches)
        assert stage.of(1) is None
        assert said(found)[1] == b"\x15\x03\x03\0\x02\x02\x50"


def test_without_keys_its_bytes_are_taken_out_and_its_hello_is_read() -> None:
    talk = TlsConversation(V12).talk(*SAID)
    stage, found = fed(None, [rows_of(talk)])
    one = stage.of(1)
    assert one is not None
    assert one.hello is not None
    assert one.answer is not None
    assert (one.hello.server_name, one.alpn, one.answer.version) == ("broker-1.example", "kafka", 0x0303)
    assert said(found) == (b"", b"")
    assert kinds(stage) == []
