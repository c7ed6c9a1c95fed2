"""Secrets of TLS sessions, as clients and servers log them for debugging: lines of label, client random and secret.

The format is that of NSS (SSLKEYLOGFILE, https://www.ietf.org/archive/id/draft-ietf-tls-keylogfile-02.html), in a file
of its own or in blocks of a pcapng file.
"""

from __future__ import annotations

from typing import Any

from kafkascope.sniffer.issues import Issue

MASTER = "CLIENT_RANDOM"  # TLS 1.2: the master secret
EARLY = "CLIENT_EARLY_TRAFFIC_SECRET"
HANDSHAKE = ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET")  # of the client, of the server
TRAFFIC = ("CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0")
_KEPT = frozenset((MASTER, EARLY, *HANDSHAKE, *TRAFFIC))
_UPDATED = ("CLIENT_TRAFFIC_SECRET_N", "SERVER_TRAFFIC_SECRET_N")  # OpenSSL's, which follow from those before
_OTHER = frozenset(("EXPORTER_SECRET", "EARLY_EXPORTER_SECRET", "RSA", "ECH_SECRET", "ECH_CONFIG", *_UPDATED))

RANDOM_BYTES = 32
SECRET_SIZES = frozenset((32, 48, 64))  # bytes: of the hashes of cipher suites; a master secret has 48
MOST_SECRETS = 2_000_000
LONGEST_LINE = 4096
KEY_LOG = 0x544C534B  # kind of a pcapng block with such lines


class Keys:
    """Secrets by client random; each holds from a packet on, which is what a pcapng file says by where it stands.

    To one that is asked for, and not there, more may come as long as ``may_grow``. Others may add while one looks up.
    """

    def __init__(self, may_grow: bool = False) -> None:
        self.may_grow = may_grow
        self.since: int | None = None  # the packet from which on somebody has logged secrets, of whatever session
        self.refused = 0  # lines that are none of the format
        self.left_out = 0  # beyond MOST_SECRETS
        self._secrets: dict[tuple[bytes, str], tuple[int, bytes]] = {}

    def __len__(self) -> int:
        return len(self._secrets)

    def __repr__(self) -> str:
        return f"<{len(self._secrets)} TLS secrets>"

    def __deepcopy__(self, _: Any) -> Keys:
        return self  # whoever looks ahead with a copy of an engine has the same secrets

    def add(self, text: bytes, packet: int = 0) -> None:
        """Take in lines of a key log, which hold for packets from this number on."""
        self.since = packet if self.since is None else min(self.since, packet)
        for line in text.splitlines():
            self._add(line, packet)

    def find(self, random: bytes, label: str, packet: int) -> bytes | None:
        """The secret of a session as it is known when a packet has come; None: there is none."""
        since, secret = self._secrets.get((random, label), (0, None))
        return secret if secret is not None and since <= packet else None

    def issues(self) -> list[Issue]:
        """What of key logs could not be taken in."""
        found = []
        if self.refused:
            detail = "a line of a key log is not LABEL, client random and secret, in hex digits"
            found.append(Issue("key_log_damaged", detail, count=self.refused))
        if self.left_out:
            detail = f"key logs have more than {MOST_SECRETS:,} secrets: the others are left out"
            found.append(Issue("secrets_left_out", detail, count=self.left_out))
        return found

    def _add(self, line: bytes, packet: int) -> None:
        words = line.split()
        if not words or words[0].startswith(b"#"):
            return
        label = words[0].decode("ascii", "replace")
        if label in _OTHER:
            return
        if label not in _KEPT or len(words) != 3 or len(line) > LONGEST_LINE:
            self.refused += 1
            return
        try:
            random, secret = (bytes.fromhex(word.decode("ascii")) for word in words[1:])
        except ValueError:
            self.refused += 1
            return
        if len(random) != RANDOM_BYTES or len(secret) not in SECRET_SIZES:
            self.refused += 1
        elif len(self._secrets) >= MOST_SECRETS:
            self.left_out += 1
        else:
            self._secrets.setdefault((random, label), (packet, secret))
