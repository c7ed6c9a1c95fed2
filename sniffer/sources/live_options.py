"""What of interfaces is wanted, and what listening may cost."""

from __future__ import annotations

from dataclasses import dataclass

BUFFER_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Rotation:
    """When the next file begins (None: never), and how many are kept."""

    most_bytes: int | None = None
    most_seconds: float | None = None
    files: int | None = None  # None: all

    @property
    def is_wanted(self) -> bool:
        """Whether there is more than one file."""
        return self.most_bytes is not None or self.most_seconds is not None


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """How ``sources.live`` listens."""

    ports: tuple[int, ...] = ()  # only TCP packets from or to one of these; none: all
    buffer_bytes: int = BUFFER_BYTES  # of packets that wait, in the kernel and here
    duration_s: float | None = None  # None: until it is stopped
    namespace: str | None = None  # file of a network namespace, see `namespaces`; None: the process's own
    expression: str = ""  # of pcap-filter(7), that packets must match too
    snap_bytes: int | None = None  # so much of each packet; None: all
    write_to: str | None = None  # a file (pcapng) for all packets, or the pattern of its name, see `capture_writer`
    rotation: Rotation = Rotation()
    is_prompt: bool = True  # packets are wanted as soon as can be; else in fewer, larger batches, which cost less
