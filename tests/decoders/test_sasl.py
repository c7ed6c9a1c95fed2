import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.sasl import REDACTED, SCRAM, decode_token

# RFC 7677, section 3: the example of SCRAM-SHA-256.
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_plain() -> None:
    assert decode_token("PLAIN", b"\0alice\0alice-secret", from_client=True) == {
        "mechanism": "PLAIN",
        "message": "client-first",
        "username": "alice",
        "password": REDACTED,
    }
    revealed = decode_token("PLAIN", b"admin\0alice\0alice-secret", from_client=True, reveal_secrets=True)
    assert (revealed["authorizationId"], revealed["password"]) == ("admin", "alice-secret")
    assert decode_token("PLAIN", b"", from_client=False)["message"] == "server-final"


@pytest.mark.parametrize("mechanism", SCRAM)
def test_the_four_messages_of_scram(mechanism: str) -> None:
    nonce = "rOprNGfwEbeRWgbNEkqO"
    assert decode_token(mechanism, CLIENT_FIRST, from_client=True) == {
        "mechanism": mechanism,
        "message": "client-first",
        "username": "user",
        "nonce": nonce,
    }
    server_first = decode_token(mechanism, SERVER_FIRST, from_client=False)
    assert server_first.pop("nonce").startswith(nonce)
    assert server_first == {
        "mechanism": mechanism,
        "message": "server-first",
        "salt": REDACTED,
        "iterations": 4096,
    }
    client_final = decode_token(mechanism, CLIENT_FINAL, from_client=True)
    assert (client_final["message"], client_final["channelBinding"]) == ("client-final", "biws")
    assert client_final["proof"] == REDACTED
    server_final = decode_token(mechanism, SERVER_FINAL, from_client=False)
    assert server_final == {"mechanism": mechanism, "message": "server-final", "serverSignature": REDACTED}


def test_scram_with_secrets_names_extensions_and_errors() -> None:
    final = decode_token(SCRAM[0], CLIENT_FINAL, from_client=True, reveal_secrets=True)
    assert final["proof"].endswith("AndVQ=")
    first = decode_token(SCRAM[0], b"n,a=x=2Cy,n=a=3Db,r=1,tokenauth=true", from_client=True)
    assert (first["authorizationId"], first["username"], first["tokenauth"]) == ("x,y", "a=b", "true")
    error = decode_token(SCRAM[1], b"e=invalid-proof", from_client=False)
    assert error == {"mechanism": SCRAM[1], "message": "server-final", "error": "invalid-proof"}


def test_oauthbearer() -> None:
    claims = {"sub": "alice", "exp": 99, "private": "x"}
    middle = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    token = f"n,a=me,\x01auth=Bearer head.{middle}.signature\x01traceId=7\x01\x01".encode()
    decoded = decode_token("OAUTHBEARER", token, from_client=True)
    assert decoded == {
        "mechanism": "OAUTHBEARER",
        "message": "client-first",
        "authorizationId": "me",
        "token": REDACTED,
        "claims": {"sub": "alice", "exp": 99},
        "extensions": {"traceId": "7"},
    }
    assert decode_token("OAUTHBEARER", token, from_client=True, reveal_secrets=True)["token"].startswith("head.")
    refused = decode_token("OAUTHBEARER", b'{"status":"invalid_token"}', from_client=False)
    assert (refused["message"], refused["error"]) == ("server-error", {"status": "invalid_token"})
    assert decode_token("OAUTHBEARER", b"\x01", from_client=True)["message"] == "client-abort"


def test_gssapi_and_broken_tokens_are_opaque() -> None:
    for mechanism, token in (("GSSAPI", b"\x60\x82ticket"), ("PLAIN", b"no nul: hunter2"), (SCRAM[0], b"hunter2")):
        shown = decode_token(mechanism, token, from_client=True)
        assert shown == {"mechanism": mechanism, "opaque": f"{len(token)} bytes"}
        assert decode_token(mechanism, token, from_client=True, reveal_secrets=True)["opaque"] == token


def test_numbers_and_nesting_beyond_reason_do_no_harm() -> None:
    assert decode_token(SCRAM[0], b"r=1,s=2,i=" + b"9" * 5000, from_client=False)["iterations"] == "9" * 5000
    assert "opaque" in decode_token("OAUTHBEARER", b"[" * 100_000, from_client=False)
    nested = base64.urlsafe_b64encode(b"[" * 100_000)
    token = b"n,,\x01auth=Bearer a." + nested + b".c\x01\x01"
    assert "claims" not in decode_token("OAUTHBEARER", token, from_client=True)


@pytest.mark.parametrize(
    ("token", "from_client", "mechanism"),
    [
        (CLIENT_FIRST, True, "SCRAM"),
        (SERVER_FIRST, False, "SCRAM"),
        (CLIENT_FINAL, True, "SCRAM"),
        (SERVER_FINAL, False, "SCRAM"),
        (b"\0bob\0secret", True, "PLAIN"),
        (b"n,,\x01auth=Bearer tok\x01\x01", True, "OAUTHBEARER"),
        (b"\x60\x82\1\xd4\x06\x09\x2a\x86\x48\x86\xf7\x12\1\2\2ticket", True, "GSSAPI"),
        (b"\x60\x82ticket", True, None),
    ],
)
def test_without_a_handshake_the_tokens_look_decides(token: bytes, from_client: bool, mechanism: str | None) -> None:
    assert decode_token(None, token, from_client=from_client)["mechanism"] == mechanism


@given(
    st.sampled_from(["PLAIN", *SCRAM, "OAUTHBEARER", "GSSAPI", "OTHER", None]),
    st.binary(max_size=60)
    | st.text("n,=\x01\0rspvec.abearBer ", max_size=60).map(str.encode)
    | st.text('ab.{}[]"1', max_size=40).map(lambda text: f"n,,\x01auth=Bearer {text}\x01\x01".encode()),
    st.booleans(),
)
def test_nothing_raises(mechanism: str | None, token: bytes, from_client: bool) -> None:
    assert "mechanism" in decode_token(mechanism, token, from_client=from_client)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0\x01,="), min_size=15, max_size=30))
def test_a_password_is_in_no_part_of_what_is_shown(password: str) -> None:
    tokens = (b"\0user\0" + password.encode(), f"n,,\x01auth=Bearer {password}\x01\x01".encode(), password.encode())
    for token in tokens:
        for mechanism in ("PLAIN", "OAUTHBEARER", *SCRAM, "GSSAPI", None):
            shown = decode_token(mechanism, token, from_client=True)
            assert password not in shown.values()
            assert set(shown) <= {"mechanism", "message", "username", "password", "token", "opaque"}
