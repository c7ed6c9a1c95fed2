"""What is left of root's rights, and of those that were given to another user, once they are given up."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from typing import Any

import pytest

from kafkascope import privileges
from kafkascope.privileges import KeptError
from tests.needs import needs, needs_root

# Gives up rights while another thread is there; prints what is left, in all threads.
GIVE_UP = """
import json, os, sys, tempfile, threading
from pathlib import Path
from kafkascope import privileges

threading.Thread(target=threading.Event().wait, daemon=True).start()
tempfile.gettempdir()
became = privileges.give_up(sys.argv[1] or None)
status = [
    dict(line.split(":\\t") for line in (task / "status").read_text().splitlines())
    for task in Path("/proc/self/task").iterdir()
]
try:
    os.setuid(0)
    is_back = True
except PermissionError:
    is_back = False
print(json.dumps({
    "became": became,
    "users": sorted({user for one in status for user in one["Uid"].split()}),
    "groups": os.getgroups(),
    "capabilities": [[one[name] for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")] for one in status],
    "no_new": [one["NoNewPrivs"] for one in status],
    "home": os.environ["HOME"],
    "is_back": is_back,
    "temporary": os.access(tempfile.gettempdir(), os.W_OK),
}))
"""
NONE = ["0" * 16] * 4


def left(user: str = "", *, through: tuple[str, ...] = (), **environment: str) -> dict[str, Any]:
    needs_root()
    with_path = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment
    command = [*through, sys.executable, "-c", GIVE_UP, user]
    done = subprocess.run(command, env=with_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("user", "caller", "became"),
    [("", "", "nobody"), ("", "1", "daemon"), ("", "0", "nobody"), ("daemon", "", "daemon"), ("nobody", "1", "nobody")],
)
def test_root_becomes_another_in_all_threads_and_there_is_no_way_back(user: str, caller: str, became: str) -> None:
    entry = pwd.getpwnam(became)
    found = left(user, SUDO_UID=caller)
    assert found["became"] == became
    assert found["users"] == [str(entry.pw_uid)]
    assert found["groups"] == os.getgrouplist(became, entry.pw_gid)
    assert len(found["capabilities"]) == 2
    assert found["capabilities"] == [NONE, NONE]
    assert "1" in found["no_new"]
    assert found["home"] == entry.pw_dir
    assert not found["is_back"]


def test_temporary_files_go_where_the_other_user_can_write(tmp_path: Any) -> None:
    tmp_path.chmod(0o700)
    assert left(TMPDIR=str(tmp_path))["temporary"]


def test_root_that_is_asked_for_keeps_all() -> None:
    found = left("root", SUDO_UID="1")
    assert (found["became"], found["users"], found["no_new"]) == (None, ["0"], ["0", "0"])


def test_who_was_given_capabilities_keeps_none() -> None:
    needs_root()
    needs("setpriv")
    rights = "+net_raw,+dac_read_search"  # the latter to reach Python, should it be root's
    through = ("setpriv", "--reuid=nobody", "--clear-groups", f"--inh-caps={rights}", f"--ambient-caps={rights}")
    found = left(through=through)
    assert found["became"] is None
    assert NONE in found["capabilities"]
    assert not found["is_back"]


def test_what_cannot_be_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeptError, match=r"--user no-such-user: .*there is no such user.*--user root"):
        privileges.give_up("no-such-user")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_UID", "4123456789")
    with pytest.raises(KeptError, match=r"no root from here on: .*there is no such user"):
        privileges.give_up(None)
