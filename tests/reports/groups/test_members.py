"""Who members are, of what connections and descriptions tell."""

from __future__ import annotations

import pytest

from kafkascope.reports.groups.history import GroupLog
from kafkascope.reports.groups.members import Profile, Profiles
from kafkascope.reports.groups.messages import ConnectionEnd, Message
from tests.reports.groups.group_logs import Conversation, changed

UUID = "11111111-2222-3333-4444-555555555555"


def end_of(
    connection: int,
    closed: int | None = None,
    how: str = "open",
    client: str | None = None,
    software: str | None = None,
) -> ConnectionEnd:
    version = None if software is None else "1.0"
    return ConnectionEnd(connection, "10.0.0.9", 1, "10.0.0.1:9092", client, None, closed, how, software, version)


def profiles(*ends: ConnectionEnd) -> Profiles:
    return Profiles(GroupLog("g", [], {end.connection: end for end in ends}, {}))


def said_by(client_id: str | None, connection: int, host: str = "10.0.0.2") -> Message:
    return changed(Conversation().heartbeat(0, "m", 1), client_id=client_id, connection=connection, client=host)


def test_a_member_is_who_its_first_message_says() -> None:
    known = profiles()
    known.heard("m", said_by("first", 1))
    known.heard("m", said_by("second", 2, "10.0.0.3"))
    assert known.of("m") == Profile("first", "10.0.0.2")


def test_a_member_without_a_client_id_is_who_its_connection_was() -> None:
    known = profiles(end_of(1), end_of(2, client="c"))
    for connection in (1, 2):
        known.heard("m", said_by(None, connection, ""))
    assert known.of("m") == Profile("c", None)


def test_the_software_is_that_of_the_first_connection_that_tells_it() -> None:
    known = profiles(end_of(1), end_of(2, software="java"), end_of(3, software="go"))
    for connection in (1, 2, 3, 4):
        known.heard("m", said_by("c", connection))
    assert (known.of("m").software, known.of("m").software_version) == ("java", "1.0")


def test_a_description_tells_of_whom_nothing_was_heard() -> None:
    known = profiles()
    known.heard("heard", said_by("c", 1))
    known.described("heard", "other", "/10.0.0.3")
    known.described("told", "t", "/10.0.0.4")
    known.described("empty", "", "")
    known.described("null", None, None)
    found = [known.of(member) for member in ("heard", "told", "empty", "null", "nobody")]
    assert found == [Profile("c", "10.0.0.2"), Profile("t", "10.0.0.4"), Profile(), Profile(), Profile()]


@pytest.mark.parametrize(
    ("member", "instance", "client"),
    [
        (f"client-{UUID}", None, "client"),
        (f"two\nlines-{UUID}", None, "two\nlines"),
        (f"instance-{UUID}", "instance", None),  # brokers put the instance id before the UUID of a static member
        (f"client-{UUID}\n", None, None),
        (f"-{UUID}", None, None),
        ("client-1", None, None),
    ],
)
def test_the_client_id_may_be_read_from_the_id_of_a_dynamic_member(
    member: str, instance: str | None, client: str | None
) -> None:
    assert profiles().of(member, instance).client_id == client


def test_connections_that_ended() -> None:
    ends = [end_of(1, 5, "fin"), end_of(2), end_of(3, 7, "rst"), end_of(4, None, "fin"), end_of(5, 9, "open")]
    assert profiles(*ends).connection_ends([5, 4, 3, 2, 1, 0]) == [ends[2], ends[0]]
