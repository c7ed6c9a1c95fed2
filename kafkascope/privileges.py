"""Rights that are given up once they are not needed any more."""

from __future__ import annotations

import os
import pwd


def become(user: str) -> None:
    """Be an ordinary user from now on, in all threads; capabilities go with it. Raises KeyError, OSError.

    Kernels, caches and files that were opened before stay as they are.
    """
    entry = pwd.getpwnam(user)
    os.initgroups(entry.pw_name, entry.pw_gid)
    os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
    os.setresuid(entry.pw_uid, entry.pw_uid, entry.pw_uid)
