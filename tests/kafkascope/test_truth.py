"""The tables against what clients and brokers themselves logged (truth.json beside each capture of pcaps/).

Incidents are held against it in test_findings.py: both are made of a capture at once.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from functools import cache
from typing import Any

import pytest

import kafkascope
from tests.kafkascope.conftest import Command
from tests.paths import PCAPS

NAMES = sorted(p.parent.name for p in PCAPS.glob("*/truth.json"))


@cache
def truth_of(name: str) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads((PCAPS / name / "truth.json").read_text())
    return truth


@cache
def read(name: str) -> kafkascope.Capture:
    truth = truth_of(name)
    files = truth.get("analyse") or [path.name for path in (PCAPS / name).glob("capture.pcap*")]
    capture: kafkascope.Capture = kafkascope.read([PCAPS / name / file for file in files], records=True)
    return capture


def fingerprint(data: bytes | None, digest: str | None = None) -> str | None:
    """Truth has long values as a digest only."""
    if digest is not None:
        return digest
    if data is None:
        return None
    return hashlib.sha256(data).hexdigest() if len(data) > 2048 else data.hex()


@pytest.mark.parametrize("name", [n for n in NAMES if truth_of(n).get("produced")])
def test_every_produced_record_is_there(name: str) -> None:
    truth = truth_of(name)
    rows = read(name).arrow("records").to_pylist()
    produced = [r for r in rows if r["direction"] == "produce"]

    def of_row(r: dict[str, Any]) -> tuple[object, ...]:
        headers = tuple((h["key"], None if h["value"] is None else h["value"].hex()) for h in r["headers"] or [])
        return (r["topic"], r["partition"], fingerprint(r["key"]), fingerprint(r["value"]), headers)

    def of_truth(p: dict[str, Any]) -> tuple[object, ...]:
        key, value = (p.get(f"{side}_sha256") or p[side] for side in ("key", "value"))
        return (p["topic"], p["partition"], key, value, tuple(map(tuple, p.get("headers") or [])))

    with_offset = Counter((of_row(r), r["offset"]) for r in produced)
    without = Counter(of_row(r) for r in produced if r["offset"] is None)
    any_offset = Counter(map(of_row, produced))
    wrong = []
    for p in truth["produced"]:
        key = of_truth(p)
        if p["offset"] is None:
            right = any_offset[key]
        elif truth.get("offsets_may_be_unknown"):
            # Truth knows by their content which records are in the capture, so of those without any it cannot tell.
            right = with_offset[key, p["offset"]] or without[key] or not p["value"]
        else:
            right = with_offset[key, p["offset"]]
        if not right:
            wrong.append(p)
    assert not wrong, f"{len(wrong)} of {len(truth['produced'])} produced records are missing: {wrong[:2]}"


@pytest.mark.parametrize("name", [n for n in NAMES if truth_of(n).get("consumed", {}).get("by_client")])
def test_every_consumed_offset_is_there(name: str) -> None:
    truth = truth_of(name)
    rows = read(name).arrow("records")
    offsets: dict[str, set[int]] = {}
    for direction, topic, partition, offset in zip(
        *(rows[c].to_pylist() for c in ("direction", "topic", "partition", "offset")), strict=True
    ):
        if direction == "fetch":
            offsets.setdefault(f"{topic}-{partition}", set()).add(offset)
    wanted = [(tp, a, b) for tp, ranges in truth.get("fetched_offsets", {}).items() for a, b in ranges]
    for client in truth["consumed"]["by_client"].values():
        wanted += [
            (tp, first, last)
            for tp, (first, last) in client["first_last"].items()
            if client["counts"][tp] == last - first + 1
        ]
    missing = [(tp, a, b) for tp, a, b in wanted if not offsets.get(tp, set()).issuperset(range(a, b + 1))]
    assert not missing


@pytest.mark.parametrize("name", [n for n in NAMES if isinstance(truth_of(n).get("errors_expected"), dict)])
def test_errors_are_exact(name: str) -> None:
    truth = truth_of(name)
    rows = read(name).arrow("errors")
    have = Counter(
        f"{api} {error}" for api, error in zip(rows["api"].to_pylist(), rows["error"].to_pylist(), strict=True)
    )
    expected = dict(truth["errors_expected"])
    assert {key: have[key] for key in expected} == expected
    for key, count in (truth.get("errors_at_least_by_client_logs") or {}).items():
        assert have[key] >= count, key


# Connections between brokers that were open before the recording: their first answers are without requests.
BEGUN_BEFORE = frozenset(
    {
        "address-taken",
        "all-well",
        "bootstrap-only-dead",
        "clients-cut",
        "monitoring",
        "broker-isolated",
        "broker-killed",
        "broker-paused",
        "clients_admin",
        "cut-paths",
        "named-brokers",
        "controller-killed",
        "disk-full",
        "dup-node",
        "inter-broker-acl",
        "inter-broker-sasl",
        "net_capture_drops",
        "no-leader",
        "other-cluster",
        "records-lost",
        "rolling-restart",
        "slow-cpu",
        "slow-disk",
        "too-few-replicas",
        "wrong-advertised",
        "troubles",
        "two-at-once",
        "two-named",
        "zk-2.8.2",
    }
)


@pytest.mark.parametrize("name", NAMES)
def test_every_whole_frame_is_decoded(name: str) -> None:
    rows = read(name).exchanges
    bad = rows[rows.decoded != "full"]
    cut = bad.issue.fillna("").str.contains("only [0-9]+ of its [0-9]+ bytes are there")
    unknown = bad.api_version.fillna(-1) == 99  # sent on purpose
    orphan = (bad.outcome == "orphan") & (name in BEGUN_BEFORE)
    bad = bad[~(cut | unknown | orphan)]
    assert bad.empty, bad[["connection", "number", "api", "api_version", "decoded", "issue"]].head().to_string()
    if name == "net_capture_drops":  # truth counts the frames that the capture does not hold whole
        assert cut.sum() <= truth_of(name)["frames_with_missing_bytes"]


WITH_SECRETS = [n for n in NAMES if truth_of(n).get("secrets")]


def secrets_of(name: str) -> list[str]:
    truth = truth_of(name)
    return [*truth["secrets"], *truth.get("secrets_raw_hex", [])]


@pytest.mark.parametrize("name", WITH_SECRETS)
def test_no_secret_is_in_a_table(name: str) -> None:
    capture = read(name)
    tables = ("exchanges", "errors", "issues", "connections")
    shown = "\n".join(text for table in tables for text in capture.frame(table).astype(str).agg(" ".join, axis=1))
    rows = capture.exchanges.api.fillna("").str.contains("Sasl|DelegationToken|Scram").to_numpy().nonzero()[0]
    shown += "\n".join(f"{view!r} {view.request} {view.response}" for view in map(capture.exchange, rows.tolist()))
    assert "[redacted]" in shown
    assert [secret for secret in secrets_of(name) if secret in shown] == []


@pytest.mark.parametrize("flags", [["-v"], ["-V"], ["--json", "--records"], ["--fields", "api,request,response"]])
@pytest.mark.parametrize("name", WITH_SECRETS)
def test_no_secret_is_printed(command: Command, name: str, flags: list[str]) -> None:
    key_log = ["--tls-keylog", str(PCAPS / name / "tls.keylog")] if "keylog" in truth_of(name) else []
    shown = command("sniff", "-r", str(PCAPS / name / "capture.pcap"), *key_log, *flags).stdout
    assert "[redacted]" in shown or flags == ["-v"]
    assert [secret for secret in secrets_of(name) if secret in shown] == []


def test_bare_tokens_are_paired_with_what_stands_around_them() -> None:
    rows = read("clients_sasl_v0").exchanges
    of_connection = {
        connection: list(zip(part.api, part.outcome, strict=True)) for connection, part in rows.groupby("connection")
    }
    found: Counter[str] = Counter()
    for exchanges in of_connection.values():
        apis = [api for api, _ in exchanges]
        outcomes = [outcome for _, outcome in exchanges]
        if ("SaslToken", "one_way") in exchanges:  # the last token of GSSAPI
            begin = [] if apis[0] == "SaslToken" else ["SaslHandshake"]
            assert apis[: len(begin) + 2] == [*begin, "SaslToken", "SaslToken"]
            assert outcomes == ["answered"] * (len(begin) + 1) + ["one_way"] + ["answered"] * (
                len(apis) - len(begin) - 2
            )
            found["kerberos" if begin else "bare kerberos"] += 1
        elif "SaslToken" in apis and outcomes[-1] == "unanswered":  # the broker closes where the password is wrong
            assert outcomes[:-1] == ["answered"] * (len(apis) - 1)
            found["refused"] += 1
        elif "SaslToken" in apis:
            assert set(outcomes) <= {"answered", "one_way"}
            assert apis[-1] in ("Metadata", "Produce")
            found["passwords"] += 1
    assert found == {"kerberos": 2, "bare kerberos": 2, "refused": 8, "passwords": 6}
    tokens = [json.loads(text) for text in rows[rows.api == "SaslToken"].request]
    assert {token["mechanism"] for token in tokens} == {"PLAIN", "SCRAM-SHA-256", "GSSAPI", None}
    connections = read("clients_sasl_v0").connections
    security = dict(zip(connections.client_id, connections.security, strict=True))
    assert security["java-gssapi-bare"] == "GSSAPI"
    assert {token.get("username") for token in tokens} == {"alice", None}
