"""Rights that are given up once they are not needed any more."""

from __future__ import annotations

import ctypes
import os
import pwd
import struct
import tempfile

ROOT = "root"
NOBODY = "nobody"
NO_NEW_PRIVILEGES = 38  # linux/prctl.h
CAPABILITY_VERSION_3 = 0x20080522  # linux/capability.h; two words each of effective, permitted, inheritable follow


class KeptError(Exception):
    """Rights could not be given up; says why, and what to do."""


def give_up(user: str | None) -> str | None:
    """Be an ordinary user from now on, without any capability; no program that is called has more.

    user: its name, or root, which keeps all. By default root becomes who called sudo, else nobody; anybody else stays
    who they are, without capabilities. Returns whom root became, if it did. Raises KeptError.

    The user and its groups are those of all threads. Linux takes capabilities of root's threads away with that; of
    another user's they go from this thread and those that it starts. Files that are open stay open.
    """
    is_root = os.geteuid() == 0
    if user == ROOT and is_root:
        return None
    became = None
    try:
        if user is not None or is_root:
            became = _become(pwd.getpwnam(user) if user is not None else _default())
        _drop_capabilities()
    except (KeyError, OSError) as error:
        who = f"--user {user}" if user is not None else "no root from here on"
        why = "there is no such user" if isinstance(error, KeyError) else error.strerror
        advice = f"--user NAME says who is to listen, --user {ROOT} goes on with all rights"
        raise KeptError(f"{who}: rights cannot be given up ({why}); {advice}") from None
    tempfile.tempdir = None  # root's may be closed to others: it is looked for anew
    return became


def _default() -> pwd.struct_passwd:
    """Who called sudo, unless that is root; else nobody."""
    caller = os.environ.get("SUDO_UID", "")
    if caller.isdecimal() and int(caller):
        return pwd.getpwuid(int(caller))
    return pwd.getpwnam(NOBODY)


def _become(entry: pwd.struct_passwd) -> str:
    os.initgroups(entry.pw_name, entry.pw_gid)
    os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
    os.setresuid(entry.pw_uid, entry.pw_uid, entry.pw_uid)
    os.environ |= {"HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name}
    return entry.pw_name


def _drop_capabilities() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    header, none = struct.pack("Ii", CAPABILITY_VERSION_3, 0), bytes(24)
    if libc.capset(header, none) or libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
