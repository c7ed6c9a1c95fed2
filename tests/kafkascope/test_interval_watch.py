"""What goes on in spans of time: every exchange once, whoever cut the batches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest

import kafkascope
from kafkascope.interval_watch import BY, MOST_EMPTY, Interval, intervals
from kafkascope.reading import Batch, Reading
from kafkascope.reports.vocabulary.tables import EXCHANGES
from kafkascope.sniff_options import Display, Filters, SniffOptions, engine_options
from kafkascope.sniffer.units import SECOND_NS
from tests.kafkascope.conftest import Command
from tests.paths import PCAPS

STORM = PCAPS / "rebalance-storm" / "capture.pcap"
BEGIN = 1_700_000_000 * SECOND_NS


class Written(Reading):
    """Gives the batches that it is given, at their times."""

    def __init__(
        self,
        batches: Sequence[Sequence[dict[str, object]]],
        clock: Sequence[int] = (),
        packets: tuple[int, int] = (0, 2 * BEGIN),
    ) -> None:
        self._given = batches
        self._times = iter(clock)
        self._packets = None if clock else packets

    def batches(self) -> Iterator[Batch]:
        for rows in self._given:
            yield Batch({"exchanges": pa.Table.from_pylist(list(rows), schema=EXCHANGES)}, {})

    def now(self) -> int:
        return next(self._times, 0)

    @property
    def span(self) -> tuple[int, int] | None:
        return self._packets


def exchange(second: float, api: str = "Fetch", latency_ms: float | None = 1.0, **more: object) -> dict[str, object]:
    at = BEGIN + int(second * SECOND_NS)
    return {"api": api, "requested": at, "response_done": at, "latency_ms": latency_ms} | more


def told(source: Reading, seconds: float = 10) -> list[list[Interval]]:
    return list(intervals(source, seconds, lambda batch: batch.tables.get("exchanges")))


def counted(spans: list[Interval]) -> list[tuple[float, float, dict[str, int]]]:
    return [
        ((span.begin - BEGIN) / SECOND_NS, span.seconds, {api: of.exchanges for api, of in span.parts.items()})
        for span in spans
    ]


def test_a_span_is_told_when_its_exchanges_have_come_through() -> None:
    batches = [[exchange(1), exchange(9)], [exchange(11)], [exchange(9.5), exchange(12.5)], [exchange(3)]]
    found = told(Written(batches))
    assert [counted(spans) for spans in found] == [
        [],
        [],
        [(0, 10, {"Fetch": 3})],
        [],
        [(10, 10, {"Fetch": 3})],  # with the one that came too late for its own
    ]


def test_of_an_interface_quiet_spans_are_told_too_and_rates_are_of_the_time_that_was_listened() -> None:
    clock = [BEGIN + second * SECOND_NS for second in (4, 5, 33, 37)]
    found = told(Written([[exchange(4.5)], []], clock))
    assert [counted(spans) for spans in found] == [
        [],
        [(4, 6, {"Fetch": 1}), (10, 10, {}), (20, 10, {})],
        [(30, 7, {})],
    ]


def test_a_clock_that_is_set_tells_few_quiet_spans() -> None:
    clock = [0 * SECOND_NS + 1, 1, BEGIN, BEGIN]
    assert sum(map(len, told(Written([[], []], clock)))) <= MOST_EMPTY + 2


def test_of_files_rates_are_of_the_time_of_their_packets() -> None:
    source = Written(
        [[exchange(3), exchange(14), exchange(25)]], packets=(BEGIN + 2 * SECOND_NS, BEGIN + 26 * SECOND_NS)
    )
    assert counted([span for found in told(source) for span in found]) == [
        (2, 8, {"Fetch": 1}),
        (10, 10, {"Fetch": 1}),
        (20, 6, {"Fetch": 1}),
    ]


def test_a_span_as_text_and_as_an_object() -> None:
    rows = [
        exchange(1, latency_ms=float(number), request_bytes=600_000, response_bytes=400_000) for number in range(1, 101)
    ]
    rows.append(exchange(2, "Heartbeat", None, error_code=27, error="REBALANCE_IN_PROGRESS"))
    rows.append(exchange(2, None, None))  # type: ignore[arg-type]
    [[], [span]] = told(Written([rows]))
    assert span.lines(as_json=False).decode().splitlines() == [
        "22:13:20 10 s: 10.2 exchanges/s, 10.000 MB/s, 1 with an error",
        "         Fetch                            100      100.000 MB   median     49.53 ms   99 %     99.74 ms",
        "         Heartbeat                          1        0.000 MB   median         - ms   99 %         - ms"
        "   REBALANCE_IN_PROGRESS 1",
        "         unknown                            1        0.000 MB   median         - ms   99 %         - ms",
    ]
    shown = json.loads(span.lines(as_json=True))
    assert (shown["begin"], shown["seconds"]) == ("2023-11-14T22:13:20.000000Z", 10)
    assert shown["apis"]["Fetch"]["latency_ms_median"] == pytest.approx(50, rel=0.01)
    assert shown["apis"]["Heartbeat"]["errors"] == {"REBALANCE_IN_PROGRESS": 1}
    assert shown["apis"]["Heartbeat"]["latency_ms_p99"] is None


def test_what_a_terminal_has_no_room_for_stands_below() -> None:
    rows = [exchange(1, latency_ms=1.0, error_code=27, error="REBALANCE_IN_PROGRESS")]
    [[], [span]] = told(Written([rows]))
    (wide,) = span.lines(as_json=False, width=200).decode().splitlines()[1:]
    assert wide == span.lines(as_json=False).decode().splitlines()[1]
    figures = wide[35:].removesuffix("REBALANCE_IN_PROGRESS 1").rstrip()
    for width, shown in ((110, [f"         {'Fetch':26}{figures}"]), (80, ["  Fetch", f"         {figures[1:]}"])):
        lines = span.lines(as_json=False, width=width).decode().splitlines()
        assert lines[1:] == [*shown, "           REBALANCE_IN_PROGRESS 1"]
        assert max(map(len, lines)) <= width


def test_columns_of_a_span_are_alike_however_long_names_are() -> None:
    names = ["wc-1-StateUpdater-1-restore-consumer", "p1", "", None]
    rows = [exchange(1, client_id=name, request_bytes=1, response_bytes=1) for name in names]
    (span,) = (
        one
        for spans in intervals(Written([rows]), 10, lambda batch: batch.tables.get("exchanges"), BY["client"])
        for one in spans
    )
    _, *lines = span.lines(as_json=False).decode().splitlines()
    assert {line[:47].strip() for line in lines} == {names[0], "p1", '""', "(none)"}
    assert len({line.index(" MB") for line in lines}) == 1


def test_every_exchange_of_a_capture_is_counted_once(command: Command) -> None:
    lines = command("sniff", "-r", str(STORM), "--stats", "7s", "--json").stdout.splitlines()
    exchanges = kafkascope.read(str(STORM)).exchanges
    sums = dict.fromkeys(exchanges["api"].unique(), 0)
    for line in map(json.loads, lines):
        for api, of in line["apis"].items():
            sums[api] += of["exchanges"]
    assert sums == exchanges["api"].value_counts().to_dict()
    begins = [json.loads(line)["begin"] for line in lines]
    assert begins == sorted(set(begins))


def test_only_what_passes_the_filters_is_counted(command: Command) -> None:
    output = command("sniff", "-r", str(STORM), "--stats", "1h", "--json", "--api", "JoinGroup", "--errors").stdout
    [apis] = [json.loads(line)["apis"] for line in output.splitlines()]
    assert list(apis) == ["JoinGroup"]
    assert apis["JoinGroup"]["errors"] == {"MEMBER_ID_REQUIRED": apis["JoinGroup"]["exchanges"]}


@pytest.mark.parametrize(
    ("by", "title", "column"), [("client", "clients", "client_id"), ("group", "groups", "group_id")]
)
def test_exchanges_are_told_apart_by_what_is_asked_for(command: Command, by: str, title: str, column: str) -> None:
    (line,) = command("sniff", "-r", str(STORM), "--stats", f"{by},1h", "--json").stdout.splitlines()
    found = {name: of["exchanges"] for name, of in json.loads(line)[title].items()}
    names = kafkascope.read(str(STORM), answers=False).exchanges[column].fillna("(none)")
    assert found == names.value_counts().to_dict()


def test_an_exchange_of_two_topics_counts_for_both_and_once_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkascope.interval_watch.MOST_PARTS", 3)
    rows = pa.Table.from_pylist([exchange(1, error_code=3, error="BAD"), exchange(2), exchange(3)], schema=EXCHANGES)
    topics = pa.array([["a", "b"], [], ["c", "d"]], pa.list_(pa.string()))
    span = Interval(BEGIN, BEGIN + 10 * SECOND_NS, BY["topic"])
    span.add(rows.append_column("topics", topics))
    assert {name: of.exchanges for name, of in span.parts.items()} == {"a": 1, "b": 1, "c": 1, "(others)": 2}
    assert (span.all.exchanges, span.all.errors.total()) == (3, 1)
    assert (
        span.lines(as_json=False).decode().startswith("22:13:20 10 s: 0.3 exchanges/s, 0.000 MB/s, 1 with an error\n")
    )


def test_what_exchanges_are_not_told_apart_by_is_refused(command: Command) -> None:
    ended = command("sniff", "-r", str(STORM), "--stats", "colour,10s")
    assert ended.returncode == 2
    assert "one of api, client, topic, group, broker, connection" in ended.stderr


def test_bodies_are_written_for_nobody() -> None:
    options = engine_options(SniffOptions(display=Display(stats_s=1), filters=Filters(topics=frozenset({"t"}))))
    assert options.exchange_columns is not None
    assert not options.exchange_columns & {"request", "response"}
    assert "topics" in options.exchange_columns


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.001, "0.001 s"), (2.5, "2.5 s"), (3600, "3,600 s"), (86_400, "86,400 s")]
)
def test_however_long_a_span_is_its_seconds_are_told(seconds: float, said: str) -> None:
    span = Interval(BEGIN, BEGIN + int(seconds * SECOND_NS), BY["api"])
    assert span.lines(as_json=False).decode().startswith(f"22:13:20 {said}: 0.0 exchanges/s")
