from __future__ import annotations

import pytest

from kafkascope.decoders.limits import DEFAULT, Limits, table


def test_words_set_limits_by_name_and_the_last_one_counts() -> None:
    limits = Limits.of(["connections=20_000", "held_bytes=2GB", "held_bytes=1MiB", "frame_bytes=64kb"])
    assert limits == Limits(connections=20_000, held_bytes=1 << 20, frame_bytes=64_000)
    assert limits.option("held_bytes") == "--limit held_bytes=1048576"
    assert Limits.of(()) == DEFAULT


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("conections=5", r"conections: there is no such limit \(is connections meant\?\); they are connections, "),
        ("zzz=5", "zzz: there is no such limit; they are connections, stream_bytes"),
        ("connections", "connections: give a number from 1 to [0-9]+, such as connections=500000"),
        ("connections=0", "connections: give a number from 1 to"),
        ("nesting=101", "nesting: give a number from 1 to 100"),
        ("held_bytes=1", "held_bytes: give a number from 65536 to"),
        ("connections=-5", "connections=-5: give a number, or bytes as 64MB or 2GiB"),
        ("held_bytes=5TB", "held_bytes=5TB: give a number"),
        ("held_bytes=99999999999999GB", "held_bytes: give a number"),
        ("held_bytes=" + "9" * 1000, "give a number"),
    ],
)
def test_what_is_no_limit_is_refused_with_what_was_expected(setting: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Limits.of([setting])


def test_the_table_sets_the_defaults() -> None:
    assert Limits.of(f"{name}={default}" for name, default, _ in table()) == DEFAULT
    assert all(meaning and not meaning.endswith(".") for *_, meaning in table())
