from __future__ import annotations

import pytest

from tests.needs import needs


def test_what_is_there_is_no_reason_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    needs()
    needs("sh")


@pytest.mark.parametrize("on_a_laptop", [None, "", "false"])
def test_what_is_missing_skips_on_a_laptop(monkeypatch: pytest.MonkeyPatch, on_a_laptop: str | None) -> None:
    if on_a_laptop is None:
        monkeypatch.delenv("CI", raising=False)
    else:
        monkeypatch.setenv("CI", on_a_laptop)
    with pytest.raises(pytest.skip.Exception, match="no-such-command not installed"):
        needs("sh", "no-such-command")


def test_what_is_missing_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="CI must have what tests need: no-such-command not installed"):
        needs("sh", "no-such-command")
