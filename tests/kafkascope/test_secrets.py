"""No secret of a capture is in what comes out, in whatever form: raw, base64, hex, escaped for JSON or a URL."""

from __future__ import annotations

import base64
import html
import json
import struct
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow.parquet as pq
import pytest

import kafkascope
from kafkascope.decoders import apis
from tests.decoders.written_batches import GZIP, batch, record
from tests.decoders.written_messages import exchange, log_record
from tests.kafkascope.conftest import Command
from tests.kafkascope.hex_dumps import bytes_beside
from tests.paths import PCAPS
from tests.sniffer.sources.written_captures import capture_of
from tests.sniffer.tcp_conversation import talk

# Each is in one place of the capture; they have what JSON, URLs, HTML and Markdown escape.
PLACES = (
    "config",
    "synonym",
    "in a url",
    "more names",
    "scram salt",
    "token",
    "extension",
    "error text",
    "stored user",
    "stored config",
    "stored config compressed",
    "snapshot",
    "connector",
    "altered",
    "user data",
    "metadata of a member",
    "worker",
)
SECRETS = {place: f'<geheim> "{number:02}" & ü=|*#\\{number:02}' for number, place in enumerate(PLACES, 10)}


def forms(secret: bytes) -> Iterator[bytes]:
    """What a secret looks like in texts; in base64 it may begin at any byte of three, and the edges are not its own."""
    yield secret
    yield secret.hex().encode()
    yield secret.hex().upper().encode()
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + secret)
        inner = encoded[(0, 2, 3)[before] : len(encoded) - 4]
        yield inner
        yield inner.replace(b"+", b"-").replace(b"/", b"_")
    try:
        text = secret.decode()
    except UnicodeDecodeError:
        return
    for ascii_only in (True, False):
        escaped = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield escaped.encode()
        yield escaped.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026").encode()
        yield json.dumps(escaped, ensure_ascii=ascii_only)[1:-1].encode()  # JSON in JSON
    yield quote(text, safe="").encode()
    yield html.escape(text).encode()
    yield html.escape(text, quote=False).encode()


def leaked(secrets: dict[str, bytes], shown: bytes) -> list[str]:
    return [place for place, secret in secrets.items() if any(form in shown for form in forms(secret))]


def stored_config(name: str, value: str) -> bytes:
    return log_record("ConfigRecord", {"resourceType": 4, "resourceName": "1", "name": name, "value": value})


def made() -> bytes:
    """A capture file: a connection that authenticates, alters, fetches the metadata log, stores a connector."""
    s = SECRETS
    hashed = dict.fromkeys(("salt", "storedKey", "serverKey"), s["stored user"].encode())
    user = log_record("UserScramCredentialRecord", {"name": "bo", "mechanism": 1} | hashed)
    log = batch(record(value=user) + record(1, value=stored_config("ssl.key.password", s["stored config"])), 2)
    log += batch(record(value=stored_config("db.pin", s["stored config compressed"])), 1, codec=GZIP)
    snapshot = batch(record(value=stored_config("x", f"https://u:{s['snapshot']}@h")), 1)
    connector = json.dumps({"properties": {"topics": "a", "connection.pwd": s["connector"]}}, ensure_ascii=False)
    properties = batch(record(key=b"connector-sink", value=connector.encode()), 1)
    synonyms = [{"name": "plain.name", "value": s["synonym"]}]
    described = [
        {"name": "ssl.keystore.password", "value": s["config"], "isSensitive": False},
        {"name": "x", "value": s["synonym"], "isSensitive": True, "synonyms": synonyms},
        {"name": "connection.url", "value": f"jdbc:postgresql://h/?user=u&password={s['in a url']}"},
    ]
    altered = [{"name": "my.code", "value": s["more names"]}]
    scram = {"name": "bo", "salt": s["scram salt"].encode(), "saltedPassword": s["scram salt"].encode()}
    bearer = f"n,,\x01auth=Bearer {s['token']}\x01traceId={s['extension']}\x01\x01".encode()
    told = {"memberId": "m", "metadata": s["metadata of a member"].encode()}
    subscription = struct.pack(">hii", 0, 0, len(s["user data"].encode())) + s["user data"].encode()
    address = f"http://u:{s['worker']}@h:8083/".encode()
    worker = struct.pack(">hh", 0, len(address)) + address + bytes(8)
    exchanges: list[tuple[int, int, dict[str, Any], dict[str, Any]]] = [
        (apis.METADATA, 1, {"topics": []}, {"brokers": [], "topics": []}),
        (apis.SASL_HANDSHAKE, 1, {"mechanism": "OAUTHBEARER"}, {"mechanisms": ["OAUTHBEARER"]}),
        (apis.SASL_AUTHENTICATE, 1, {"authBytes": bearer}, {"errorCode": 58, "errorMessage": s["error text"]}),
        (32, 4, {"resources": []}, {"results": [{"resourceName": "1", "configs": described}]}),
        (44, 1, {"resources": [{"resourceName": "1", "configs": altered}]}, {}),
        (33, 1, {"resources": [{"resourceName": "1", "configs": [{"name": "x.pwd", "value": s["altered"]}]}]}, {}),
        (apis.JOIN_GROUP, 5, {"groupId": "g", "protocolType": "own"}, {"members": [told]}),
        (
            apis.SYNC_GROUP,
            3,
            {"groupId": "g", "assignments": [{"memberId": "m", "assignment": subscription}]},
            {"assignment": subscription},
        ),
        (
            apis.JOIN_GROUP,
            5,
            {"groupId": "w", "protocolType": "connect", "protocols": [{"name": "default", "metadata": worker}]},
            {},
        ),
        (51, 0, {"upsertions": [scram]}, {}),
        (39, 1, {"hmac": s["token"].encode()}, {}),
        (
            apis.FETCH,
            13,
            {"topics": [{"topicId": "A" * 21 + "Q", "partitions": [{"partition": 0}]}]},
            {"responses": [{"topicId": "A" * 21 + "Q", "partitions": [{"partitionIndex": 0, "records": log}]}]},
        ),
        (
            apis.FETCH_SNAPSHOT,
            0,
            {"topics": [{"name": "__cluster_metadata", "partitions": [{"partition": 0}]}]},
            {"topics": [{"name": "__cluster_metadata", "partitions": [{"index": 0, "unalignedRecords": snapshot}]}]},
        ),
        (
            apis.PRODUCE,
            7,
            {"acks": 1, "topicData": [{"name": "configs", "partitionData": [{"index": 0, "records": properties}]}]},
            {"responses": [{"name": "configs", "partitionResponses": [{"index": 0}]}]},
        ),
    ]
    frames = [frame for number, said in enumerate(exchanges, 1) for frame in exchange(number, *said)]
    return capture_of(talk(*frames))


@lru_cache
def recorded(name: str) -> dict[str, bytes]:
    truth = json.loads((PCAPS / name / "truth.json").read_text())
    texts = {secret: secret.encode() for secret in truth["secrets"]}
    return texts | {secret: bytes.fromhex(secret) for secret in truth.get("secrets_raw_hex", [])}


def of_sessions() -> dict[str, bytes]:
    """Secrets of the TLS sessions that are opened."""
    lines = (PCAPS / "clients_tls" / "tls.keylog").read_text().splitlines()
    return {f"{line[:60]}...": bytes.fromhex(line.split()[2]) for line in lines}


@pytest.fixture(params=["made", "clients_sasl", "clients_sasl_v0", "clients_tls"])
def capture(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, bytes]]:
    """A capture file, and its secrets."""
    if request.param == "clients_tls":
        return PCAPS / "clients_tls" / "with-secrets.pcapng", recorded("clients_tls") | of_sessions()
    if request.param != "made":
        return PCAPS / request.param / "capture.pcap", recorded(request.param)
    (tmp_path / "made.pcap").write_bytes(made())
    return tmp_path / "made.pcap", {place: secret.encode() for place, secret in SECRETS.items()}


MORE = ("--secret-name", "^my[.]code$")
STYLES = [
    [],
    ["-v"],
    ["--json"],
    ["-x", "--records"],
    ["--json", "--records"],
    ["--fields", "api,client_id,request,response,issue"],
    ["--groups"],
    ["--groups", "--json"],
    ["--incidents", "--json"],
    ["--debug", "-V"],
]


@pytest.mark.parametrize("style", STYLES, ids=" ".join)
def test_no_secret_is_printed(command: Command, capture: tuple[Path, dict[str, bytes]], style: list[str]) -> None:
    path, secrets = capture
    done = command("sniff", "-r", str(path), *style, *MORE)
    assert done.returncode == 0
    assert done.stdout or "--groups" in style or "--incidents" in style
    assert leaked(secrets, (done.stdout + done.stderr).encode(errors="surrogateescape")) == []
    assert leaked(secrets, bytes_beside(done.stdout)) == []


def test_what_would_leak_is_found(command: Command, tmp_path: Path) -> None:
    """Each secret of the made capture is where it should be: this is what the other tests would see."""
    (tmp_path / "made.pcap").write_bytes(made())
    secrets = {place: secret.encode() for place, secret in SECRETS.items()}
    shown = command("sniff", "-r", str(tmp_path / "made.pcap"), "--json", "--records", "--show-secrets", *MORE).stdout
    assert sorted(leaked(secrets, shown.encode())) == sorted(secrets)
    without_bytes = {"stored config compressed"}  # records in gzip
    in_hex = command("sniff", "-r", str(tmp_path / "made.pcap"), "-x", "--show-secrets", *MORE).stdout
    assert set(leaked(secrets, bytes_beside(in_hex))) == {*secrets} - without_bytes
    without = command("sniff", "-r", str(tmp_path / "made.pcap"), "--json").stdout
    assert leaked(secrets, without.encode()) == ["more names"]


def test_no_secret_is_in_the_report_of_a_capture(
    command: Command, capture: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    path, secrets = capture
    for form in ("html", "md", "json"):
        out = tmp_path / form
        done = command("kafkascope", "report", str(path), "--format", form, "-o", str(out))
        assert done.returncode == 0, done.stderr
        assert leaked(secrets, out.read_bytes() + done.stderr.encode()) == []


def test_a_secret_of_a_key_log_is_in_no_error(command: Command, tmp_path: Path) -> None:
    """Lines that are not understood are not quoted; what is wrong with a file does not show what it has."""
    secrets = of_sessions()
    text = (PCAPS / "clients_tls" / "tls.keylog").read_text()
    (tmp_path / "keys").write_text(text.replace(" ", "  more ") + text.replace("\n", "00\n"))
    path = PCAPS / "clients_tls" / "capture.pcap"
    done = command("sniff", "-r", str(path), "--tls-keylog", str(tmp_path / "keys"), "--debug", "--json")
    assert "a line of a key log" in done.stderr
    assert leaked(secrets, (done.stdout + done.stderr).encode()) == []
    as_capture = command("sniff", "-r", str(tmp_path / "keys"))
    assert as_capture.returncode == 1
    assert leaked(secrets, as_capture.stderr.encode()) == []


def test_no_secret_is_in_a_notebook(capture: tuple[Path, dict[str, bytes]]) -> None:
    path, secrets = capture
    cap = kafkascope.read(path, records=True, secret_names=[MORE[1]])
    assert len(cap.records)
    shown = [repr(cap), cap._repr_html_()]
    for name in cap.tables:
        frame = cap.frame(name)
        shown += [frame.to_string(), frame.to_html(), repr(frame.to_dict()), str(cap.arrow(name).to_pylist())]
    for number in range(len(cap.exchanges)):
        view = cap.exchange(number)
        shown += [repr(view), view._repr_html_()]
    assert leaked(secrets, "\n".join(shown).encode(errors="surrogateescape")) == []
    # Shown as text, bytes have escapes of Python's.
    values = [value for column in ("key", "value") for value in cap.arrow("records")[column].to_pylist() if value]
    assert leaked(secrets, b"\n".join(values)) == []


def test_no_secret_is_in_what_an_analysis_leaves(
    command: Command, capture: tuple[Path, dict[str, bytes]], spark: Any, tmp_path: Path
) -> None:
    path, secrets = capture
    out = tmp_path / "out"
    done = command("kafkascope", "analyze", str(path), "-o", str(out), "--records", *MORE)
    assert done.returncode == 0, done.stderr
    shown = [(done.stdout + done.stderr).encode(errors="surrogateescape")]
    for form in ("html", "md", "json"):
        shown.append(command("kafkascope", "report", str(out), "--format", form, "-o", "-").stdout.encode())
    for file in filter(Path.is_file, out.rglob("*")):
        of_records = file.parent.name == "records"
        assert (file.stat().st_mode & 0o777 == 0o600) == of_records
        if file.suffix != ".parquet":
            shown.append(file.read_bytes())
            continue
        table = pq.read_table(file)
        shown.append(str(table.to_pylist()).encode(errors="surrogateescape"))
        if of_records:  # shown as text, bytes have escapes of Python's
            shown += [value for column in ("key", "value") for value in table[column].to_pylist() if value]
    assert leaked(secrets, b"\n".join(shown)) == []
