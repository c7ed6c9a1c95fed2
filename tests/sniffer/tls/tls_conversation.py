"""TLS as OpenSSL speaks it: two sides in memory, their bytes on the wire, and the key log that they leave."""

from __future__ import annotations

import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

FROM, UNTIL = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)


@lru_cache
def certificate() -> bytes:
    """Certificate of a broker and its key (PEM); it is made once."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "broker one")])
    names = x509.SubjectAlternativeName([x509.DNSName("broker-1.example"), x509.DNSName("kafka.example")])
    made = x509.CertificateBuilder(name, name, key.public_key(), 77, FROM, UNTIL).add_extension(names, False)
    signed = made.sign(key, hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    return private + signed.public_bytes(serialization.Encoding.PEM)


@dataclass
class Talk:
    """What was sent, in turns of (side, bytes on the wire); and what the application said, by side."""

    wire: list[tuple[int, bytes]] = field(default_factory=list)
    said: tuple[bytearray, bytearray] = field(default_factory=lambda: (bytearray(), bytearray()))
    key_log: bytes = b""

    @property
    def told(self) -> tuple[bytes, bytes]:
        return bytes(self.said[0]), bytes(self.said[1])


class TlsConversation:
    """A client and a broker that speak TLS, connection after connection."""

    def __init__(
        self,
        version: ssl.TLSVersion,
        ciphers: str | None = None,
        encrypt_then_mac: bool = True,
        host: str | None = "broker-1.example",
    ) -> None:
        self._directory = TemporaryDirectory()
        folder = Path(self._directory.name)
        self._log = folder / "keys.log"
        (folder / "broker.pem").write_bytes(certificate())
        self._client, self._broker = (ssl.SSLContext(of) for of in (ssl.PROTOCOL_TLS_CLIENT, ssl.PROTOCOL_TLS_SERVER))
        self._client.check_hostname, self._client.verify_mode = False, ssl.CERT_NONE
        self._client.keylog_filename = str(self._log)
        self._broker.load_cert_chain(folder / "broker.pem")
        for context in (self._client, self._broker):
            context.minimum_version = context.maximum_version = version
            context.set_alpn_protocols(["kafka"])
            if ciphers:
                context.set_ciphers(ciphers + ":@SECLEVEL=0")
            if not encrypt_then_mac:
                context.options |= 1 << 19  # SSL_OP_NO_ENCRYPT_THEN_MAC
        self._host = host
        self._session: ssl.SSLSession | None = None
        self.cipher = ""
        self.resumed = False

    def talk(self, *parts: bytes, resume: bool = False, close: bool = True) -> Talk:
        """A connection on which client and broker say the parts in turn."""
        talk = Talk()
        self._log.write_bytes(b"")
        buffers = [(ssl.MemoryBIO(), ssl.MemoryBIO()) for _ in range(2)]
        session = self._session if resume else None
        sides = [
            self._client.wrap_bio(*buffers[0], server_hostname=self._host, session=session),
            self._broker.wrap_bio(*buffers[1], server_side=True),
        ]

        def deliver(side: int) -> None:
            if data := buffers[side][1].read():
                talk.wire.append((side, data))
                buffers[1 - side][0].write(data)

        waiting = [0, 1]
        while waiting:
            for side in tuple(waiting):
                try:
                    sides[side].do_handshake()
                    waiting.remove(side)
                except ssl.SSLWantReadError:
                    pass
                deliver(side)
        for number, part in enumerate(parts):
            side = number % 2
            talk.said[side].extend(part)
            sides[side].write(part)
            deliver(side)
            received = b""
            while len(received) < len(part):
                received += sides[1 - side].read(1 << 16)
            assert received == part
        self._session, self.resumed = sides[0].session, bool(sides[0].session_reused)
        self.cipher = (sides[0].cipher() or ("",))[0]
        if close:
            for side in (0, 1):
                with suppress(ssl.SSLError):
                    sides[side].unwrap()
                deliver(side)
        talk.key_log = self._log.read_bytes()
        return talk
