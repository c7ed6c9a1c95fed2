import base64
import json

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkascope.decoders import to_json
from kafkascope.decoders.limits import Limits
from kafkascope.decoders.sasl import REDACTED, SCRAM, SHOWN_ERRORS, anonymous_token, decode_token, shown_error

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
    token = f"n,a=me,\x01auth=Bearer head.{middle}.signature\x01traceId=7\x01logicalCluster=lkc-1\x01\x01".encode()
    decoded = decode_token("OAUTHBEARER", token, from_client=True)
    assert decoded == {
        "mechanism": "OAUTHBEARER",
        "message": "client-first",
        "authorizationId": "me",
        "token": REDACTED,
        "claims": {"sub": "alice", "exp": 99},
        "extensions": {"traceId": REDACTED, "logicalCluster": "lkc-1"},
    }
    revealed = decode_token("OAUTHBEARER", token, from_client=True, reveal_secrets=True)
    assert revealed["token"].startswith("head.")
    assert revealed["extensions"]["traceId"] == "7"
    nameless = decode_token("OAUTHBEARER", b"n,,\x01auth=Bearer t\x01hunter2\x01\x01", from_client=True)
    assert nameless["extensions"] == {REDACTED: REDACTED}
    refused = decode_token("OAUTHBEARER", b'{"status":"invalid_token"}', from_client=False)
    assert (refused["message"], refused["error"]) == ("server-error", {"status": "invalid_token"})
    assert decode_token("OAUTHBEARER", b"\x01", from_client=True)["message"] == "client-abort"


def test_of_errors_only_what_is_known_is_shown() -> None:
    error = {"status": "token hunter2 is no good", "scope": "hunter2", "hunter2": ["hunter2"]}
    shown = decode_token("OAUTHBEARER", json.dumps(error).encode(), from_client=False)
    assert shown["error"] == {"status": REDACTED, "scope": REDACTED, REDACTED: REDACTED}
    revealed = decode_token("OAUTHBEARER", json.dumps(error).encode(), from_client=False, reveal_secrets=True)
    assert revealed["error"] == error
    assert decode_token(SCRAM[0], b"e=hunter2 is wrong", from_client=False)["error"] == REDACTED
    assert decode_token(SCRAM[0], b"r=1,s=2,i=hunter2", from_client=False)["iterations"] == REDACTED
    for name in ("hunter2", "claims", "extensions", "message"):  # no attribute has such a name
        assert "opaque" in decode_token(SCRAM[0], b"r=1,s=2,i=4096,%s=hunter2" % name.encode(), from_client=False)
    assert decode_token(SCRAM[0], b"n,,n=a,r=1,tokenauth=hunter2", from_client=True)["tokenauth"] == REDACTED


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", True),
        ("Authentication failed: Invalid username or password", True),
        ("Authentication failed during re-authentication due to invalid credentials with SASL mechanism PLAIN", True),
        ('{"status":"invalid_token"}', True),
        ("Authentication failed: Invalid username or password: hunter2", False),
        ("Authentication failed during authentication due to invalid credentials with SASL mechanism hunter2", False),
        ('{"status":"hunter2"}', False),
        ("hunter2\nRequest is not valid given the current SASL state.", False),
    ],
)
def test_texts_of_errors_are_shown_if_they_are_kafkas_own(text: str, shown: bool) -> None:
    assert shown_error(text) == (text if shown else REDACTED)
    assert pc.match_substring_regex(pa.array([text]), SHOWN_ERRORS).to_pylist() == [shown]


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


def bearer(claims: bytes) -> bytes:
    """A client's first message of OAUTHBEARER with claims as written."""
    return b"n,,\x01auth=Bearer head." + base64.urlsafe_b64encode(claims).rstrip(b"=") + b".signature\x01\x01"


DEEP = "[JSON nested more than 16 levels deep, it is not read (--limit nesting=16)]"
ODD_JSON = {
    r'{"sub":"\ud800"}': {"sub": r"\ud800"},
    r'{"sub":"\ud83d\ude00"}': {"sub": "\U0001f600"},
    r'{"sub":{"\udfff":["\udbff x"]}}': {"sub": {r"\udfff": [r"\udbff x"]}},
    '{"sub":' + "[" * 15 + "]" * 15 + "}": {"sub": json.loads("[" * 15 + "]" * 15)},
    '{"sub":' + "[" * 16 + "]" * 16 + "}": DEEP,
    '{"sub":' * 400 + "1" + "}" * 400: DEEP,
    '{"sub":' + "[" * 100_000: DEEP,
    '{"sub":"' + "[{" * 20 + r"\"" + '"}': {"sub": "[{" * 20 + '"'},
    '{"sub":"' + "x" * 600_000 + '"}': "[JSON of 600010 characters, of more than 524288 none is read]",
    '{"sub":NaN}': None,
    '{"sub":-Infinity}': None,
    '{"sub":1e999,"exp":1e3,"iat":-1.5}': {"sub": "1e999", "exp": 1000.0, "iat": -1.5},
    '{"sub":' + "9" * 5000 + ',"exp":-9223372036854774784}': {"sub": "9" * 5000, "exp": -9223372036854774784},
    '["sub"]': None,
    '{"sub":1': None,
    "": None,
}


def test_how_deep_json_may_be_is_a_limit() -> None:
    token = bearer(b'{"sub":[1]}')
    assert decode_token("OAUTHBEARER", token, from_client=True, limits=Limits(nesting=2))["claims"] == {"sub": [1]}
    refused = decode_token("OAUTHBEARER", token, from_client=True, limits=Limits(nesting=1))["claims"]
    assert refused.endswith("(--limit nesting=1)]")


@pytest.mark.parametrize("text", ODD_JSON, ids=lambda text: text[:20])
def test_what_is_kept_of_json_can_be_written_as_json(text: str) -> None:
    expected = ODD_JSON[text]
    claimed = decode_token("OAUTHBEARER", bearer(text.encode()), from_client=True)
    assert claimed.get("claims") == expected
    answered = decode_token("OAUTHBEARER", text.encode(), from_client=False, reveal_secrets=True)
    assert answered.get("error") == expected
    if expected is None and text:
        assert answered["opaque"] == text.encode()
    hidden = decode_token("OAUTHBEARER", text.encode(), from_client=False)
    for shown in (claimed, hidden):
        assert json.loads(to_json(shown).encode()) == shown
    assert json.loads(to_json(answered).encode()).get("error") == expected


def test_claims_that_are_not_utf_8_are_left_out() -> None:
    for claims in (b'{"sub":"\xed\xa0\x80"}', '{"sub":"a"}'.encode("utf-16")):  # a half of a surrogate pair as it is
        assert "claims" not in decode_token("OAUTHBEARER", bearer(claims), from_client=True)


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
    shown = decode_token(mechanism, token, from_client=from_client)
    assert "mechanism" in json.loads(to_json(shown).encode())


@given(
    st.recursive(
        st.text(st.characters(exclude_categories=())) | st.integers() | st.floats() | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=())), inner),
    )
)
def test_any_json_can_be_written_as_json(value: object) -> None:
    text = json.dumps({"sub": value, "status": value}).encode()
    for token, from_client in ((bearer(text), True), (text, False)):
        json.loads(to_json(decode_token("OAUTHBEARER", token, from_client=from_client)).encode())


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0\x01,="), min_size=15, max_size=30))
def test_a_password_is_in_no_part_of_what_is_shown(password: str) -> None:
    tokens = (b"\0user\0" + password.encode(), f"n,,\x01auth=Bearer {password}\x01\x01".encode(), password.encode())
    for token in tokens:
        for mechanism in ("PLAIN", "OAUTHBEARER", *SCRAM, "GSSAPI", None):
            shown = decode_token(mechanism, token, from_client=True)
            assert password not in shown.values()
            assert set(shown) <= {"mechanism", "message", "username", "password", "token", "opaque"}


@pytest.mark.parametrize(
    ("token", "made"),
    [
        (b"n,,n=app,r=q7\\/x", b"n,,n=APP,r=xxxxx"),
        (b"n,,n=app,r=q7,tokenauth=true", b"n,,n=APP,r=xx,tokenauth=true"),
        (b"c=biws,r=q7abc,p=dGVs", b"c=xxxx,r=xxxxx,p=xxxx"),
        (b"r=q7abc,s=c2FsdA==,i=4096", b"r=xxxxx,s=xxxxxxxx,i=4096"),
        (b"v=c2lnbg==", b"v=xxxxxxxx"),
        (b"e=invalid-proof", b"e=invalid-proof"),
        (b'{"status":"invalid_token"}', b'{"status":"invalid_token"}'),
        (
            b'{"status":"insufficient_scope","scope":"pay","openid-configuration":"https://a"}',
            b'{"status":"insufficient_scope","scope":"xxx","openid-configuration":"xxxxxxxxx"}',
        ),
        (b"n,,n=a=2Cb,r=q7", None),  # escaped: a pseudonym might be no name
        (b"n,a=bob,n=app,r=q7", None),
        (b"n,,n=app,r=q7,x=secret", None),
        (b"e=user app is locked", None),
        (b'{"status":"locked"}', None),
        (b'{"status":"invalid_token","user":"app"}', None),
        (b"\0app\0password", None),
        (b"n,,\x01auth=Bearer a.b.c\x01\x01", None),
        (b"v=c2lnbg==\n", b"v=xxxxxxxxx"),
        (b"", b""),
    ],
)
def test_without_names_tokens_tell_why_they_are_refused(token: bytes, made: bytes | None) -> None:
    """And neither names, nor how long passwords are."""
    assert anonymous_token(token, bytes.upper) == (bytes(len(token)) if made is None else made)
