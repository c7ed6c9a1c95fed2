from __future__ import annotations

from kafkascope.reports.answers.coverage import name, title

TIMES = {"first": "2026-11-21T07:02:00.123456789Z", "last": "2026-11-21T07:12:03.000000000Z"}


def test_a_capture_is_called_after_its_file_and_its_time() -> None:
    assert title({"captures": ["shop/a.pcap"], **TIMES}) == "shop/a.pcap, 2026-11-21 07:02:00 to 07:12:03 UTC"
    later = TIMES | {"last": "2026-11-22T01:00:00.000000000Z"}
    assert title({"captures": ["a.pcap"], **later}) == "a.pcap, 2026-11-21 07:02:00 to 2026-11-22 01:00:00 UTC"


def test_of_many_files_the_first_are_named() -> None:
    assert name({"captures": ["a", "b"]}) == "a, b"
    assert name({"captures": ["a", "b", "c", "d"]}) == "a, b and 2 more"


def test_a_capture_whose_files_are_not_known_is_called_after_the_analysis() -> None:
    assert title({}, "out") == "out"
    assert title(TIMES, "out") == "out, 2026-11-21 07:02:00 to 07:12:03 UTC"
    assert title({"captures": ["a.pcap"], "first": None, "last": None}) == "a.pcap"
