"""Key log files that are read once, and that are followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkascope.sniffer.sources.errors import SourceError
from kafkascope.sniffer.sources.formats import Secret
from kafkascope.sniffer.sources.key_log import KeyLogFile, Secrets
from kafkascope.sniffer.tls.keys import KEY_LOG, MASTER


def line(number: int) -> bytes:
    return b"CLIENT_RANDOM %064d %s\n" % (number, b"07" * 48)


def has(secrets: Secrets, number: int, packet: int = 1) -> bool:
    return secrets.keys.find(bytes.fromhex(f"{number:064d}"), MASTER, packet) is not None


def test_a_file_is_followed_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    secrets = Secrets([str(path)], are_embedded=False, is_growing=True)
    secrets.take(())  # nobody has made it yet
    path.write_bytes(line(1) + line(2)[:50])
    secrets.take(())
    assert [has(secrets, number) for number in (1, 2)] == [True, False]
    with path.open("ab") as file:
        file.write(line(2)[50:])
    secrets.take(())
    assert has(secrets, 2)
    assert not secrets.keys.issues()
    secrets.close()


@pytest.mark.parametrize("is_other", [True, False])
def test_a_file_that_is_emptied_or_replaced_is_read_anew(tmp_path: Path, is_other: bool) -> None:
    path = tmp_path / "keys"
    path.write_bytes(line(1) + line(2))
    secrets = Secrets([str(path)], are_embedded=False, is_growing=True)
    secrets.take(())
    if is_other:
        (tmp_path / "new").write_bytes(line(3) + line(4) + line(5))
        (tmp_path / "new").replace(path)
    else:
        path.write_bytes(line(3))
    secrets.take(())
    assert all(has(secrets, number) for number in (1, 2, 3))
    secrets.close()


def test_files_are_read_once_where_nothing_grows(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(line(1) + line(2)[:-1])  # the last line has no end
    secrets = Secrets([str(path)], are_embedded=False, is_growing=False)
    assert has(secrets, 1)
    assert has(secrets, 2)
    assert not secrets.keys.may_grow


def test_those_in_capture_files_hold_from_their_packet_on() -> None:
    secrets = Secrets([], are_embedded=True, is_growing=False)
    secrets.take([Secret(KEY_LOG, line(1), 5), Secret(0x57474B4C, line(2), 5)])
    assert [has(secrets, 1, packet) for packet in (4, 5)] == [False, True]
    assert not has(secrets, 2, 5)
    assert secrets.keys.may_grow


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file"):
        Secrets([str(tmp_path / "none")], are_embedded=False, is_growing=False)
    with pytest.raises(SourceError, match="no file that can be followed"):
        KeyLogFile(str(tmp_path))
