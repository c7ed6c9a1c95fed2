"""Tables on disk: what is kept where they are more than they may be."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

import kafkascope
from kafkascope.reports.vocabulary.issue_kinds import ISSUE_KINDS
from kafkascope.reports.vocabulary.tables import ISSUES, RECORDS
from kafkascope.spool import Spool
from tests.paths import ROOT

PCAP = ROOT / "pcaps/eager-three-joins/capture.pcap"


def issues(count: int) -> pa.Table:
    return pa.Table.from_pylist([{"kind": "tcp_gap", "detail": "x" * 100, "count": 1}] * count, schema=ISSUES)


def records(count: int) -> pa.Table:
    return pa.Table.from_pylist([{"value": b"x" * 1000}] * count, schema=RECORDS)


def test_rows_come_back_as_they_were_written() -> None:
    spool = Spool()
    spool.write({"issues": issues(2)})
    spool.write({"issues": issues(3), "records": records(1)})
    spool.finish()
    assert spool.table("issues").equals(pa.concat_tables([issues(2), issues(3)]))
    assert (spool.table("records").num_rows, spool.table("errors").num_rows) == (1, 0)
    assert list(spool.issues()) == []


def test_many_small_writes_are_few_batches_and_a_look_between_sees_them_all() -> None:
    spool = Spool()
    for _ in range(100):
        spool.write({"issues": issues(2)})
    assert spool.table("issues").equals(issues(200))
    for _ in range(1500):
        spool.write({"records": records(1), "issues": issues(1)})
    spool.finish()
    found = spool.table("issues")
    assert (found.num_rows, found["kind"].num_chunks) == (1700, 2)
    assert (spool.table("records").num_rows, spool.table("records")["value"].num_chunks) == (1500, 2)


def test_a_table_that_exceeds_the_quota_keeps_its_first_rows() -> None:
    spool = Spool(quota_bytes=35_000)
    for _ in range(5):
        spool.write({"records": records(10), "issues": issues(2)})
    spool.write({"records": records(1)})  # would fit, but lies behind some that are missing
    spool.finish()
    assert (spool.table("records").num_rows, spool.table("issues").num_rows) == (20, 10)
    (issue,) = spool.issues()
    assert issue.kind == "spool_full"
    assert "records: the first 20 rows were kept, 31 were not, as the 35,000 bytes" in issue.detail
    written = sum(file.stat().st_size for file in spool._directory.iterdir())
    assert written < 35_000


def test_a_full_disk_ends_a_table_not_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool()
    monkeypatch.setattr(Spool, "_path", lambda self, name: "/dev/full")
    monkeypatch.setattr("kafkascope.spool.os.truncate", lambda path, size: None)
    spool.write({"issues": issues(2)})
    spool.write({"issues": issues(3)})
    spool.finish()
    assert spool.table("issues").num_rows == 0
    (issue,) = spool.issues()
    assert "issues: the first 0 rows were kept, 5 were not" in issue.detail


def test_what_was_left_out_is_told_everywhere() -> None:
    whole = kafkascope.read(PCAP)
    with pytest.warns(RuntimeWarning) as warned:
        cap = kafkascope.read(PCAP, spool_bytes=10_000)
    weakens = ISSUE_KINDS["spool_full"].weakens
    for name in ("exchanges", "group_rows"):
        assert any(re.search(f"^{name}: the first .* were not.*{weakens}$", str(one.message)) for one in warned)
    left_out = cap.issues[cap.issues.kind == "spool_full"]
    assert cap.summary["issues"]["spool_full"] == len(left_out) == len(warned)
    assert cap.summary["exchanges"] == whole.summary["exchanges"]
    assert 0 <= len(cap.exchanges) < len(whole.exchanges)
    assert len(cap.rebalances) <= len(whole.rebalances)
