"""Network namespaces (Linux: network_namespaces(7)): sockets belong to the one in which they were opened, for good."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from kafkascope.sniffer.sources.errors import SourceError

NAMED = "/run/netns"  # where `ip netns` keeps them
CLONE_NEWNET = 0x40000000  # linux/sched.h


def namespace_path(name: str | None = None, process: int | None = None) -> str | None:
    """The file of a namespace: by the name that `ip netns` knows, by its path, or that of a process; None: of none."""
    if process is not None:
        return f"/proc/{process}/ns/net"
    return None if name is None else name if "/" in name else os.path.join(NAMED, name)


@contextmanager
def inside(path: str | None) -> Iterator[None]:
    """This thread in the namespace of a file (None: where it is). Raises SourceError."""
    if path is None:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)

    def enter(descriptor: int) -> None:
        if libc.setns(descriptor, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)

    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            within = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                enter(within)
            finally:
                os.close(within)
        except OSError as error:
            message = f"this network namespace cannot be entered ({error.strerror})"
            raise SourceError(path, None, message, _advice(path, error)) from None
        try:
            yield
        finally:
            enter(before)
    finally:
        os.close(before)


def _advice(path: str, error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "It takes the right CAP_SYS_ADMIN, and for that of a process CAP_SYS_PTRACE: run it with sudo"
    if re.match("/proc/", path):
        return "Give the id of a process that runs, such as `docker inspect -f '{{.State.Pid}}' NAME` tells"
    named = sorted(os.listdir(NAMED)) if os.path.isdir(NAMED) else []
    return f"There are: {', '.join(named) or 'none'}; of containers give --pid"
