"""Namespaces by name and process; listening in one is in tests/kafkascope/test_live.py."""

from __future__ import annotations

import os

import pytest

from kafkascope.sniffer.sources.errors import SourceError
from kafkascope.sniffer.sources.namespaces import inside, namespace_path
from tests.needs import needs_root


def test_a_namespace_has_a_name_a_path_or_a_process() -> None:
    assert namespace_path() is None
    assert namespace_path("blue") == "/run/netns/blue"
    assert namespace_path("./blue") == "./blue"
    assert namespace_path(process=7) == "/proc/7/ns/net"


def test_one_that_is_not_there_is_told_and_this_thread_stays_where_it_is() -> None:
    before = os.readlink("/proc/thread-self/ns/net")
    for path, advice in (("/run/netns/not-there", "There are: "), ("/proc/0/ns/net", "id of a process")):
        with pytest.raises(SourceError, match=f"{path}: .*No such file.*{advice}"), inside(path):
            pass
    assert os.readlink("/proc/thread-self/ns/net") == before


def test_what_cannot_be_entered_is_told() -> None:
    needs_root()
    with pytest.raises(SourceError, match="cannot be entered"), inside("/dev/null"):
        pass
