"""Members of a group with epochs that said nothing for longer than they may, and connections that ended on them."""

from __future__ import annotations

from kafkascope.reports.groups.epochs.lives import Life
from kafkascope.reports.groups.epochs.walk import Walk
from kafkascope.reports.groups.history import Event, GroupLog
from kafkascope.reports.groups.leaving import heard_later
from kafkascope.reports.vocabulary.events import EventKind


def silences(walk: Walk, log: GroupLog) -> list[Event]:
    """An event where each silence began, and one for each connection of a member that ended before it had left."""
    events = []
    goes_on = heard_later(log)
    last_on: dict[int, Life] = {}
    for life in sorted(walk.lives, key=lambda life: life.heard):
        last_on |= dict.fromkeys(life.connections, life)
    came_anew: dict[str, int] = {}
    for life in reversed(walk.lives):
        again = life.refused if life.refused is not None else came_anew.get(life.key)
        came_anew[life.key] = life.first
        if not life.spoke or life.left is not None or life.away is not None or life.member_id in goes_on:
            continue
        if life.heard < walk.since and life.refused is None:
            continue  # that is told of the classic group
        until = walk.last if again is None else again
        if silence := life.allowed_silence().remark(life.heard, until, is_over=again is not None):
            events.append(_event(walk, life, EventKind.SILENCE_BEGUN, life.heard, None, silence))
        for connection in life.connections:
            end = log.ended.get(connection)
            if last_on[connection] is life and end is not None and end.closed is not None and end.closed >= life.heard:
                events.append(_event(walk, life, EventKind.CONNECTION_ENDED, end.closed, connection, end.how_closed))
    return events


def _event(walk: Walk, life: Life, event: str, at: int, connection: int | None, detail: str) -> Event:
    return Event(
        group_id=walk.group_id,
        at=at,
        event=event,
        member_id=life.member_id,
        client_id=life.client_id,
        client=life.host,
        instance_id=life.instance_id,
        generation=life.epoch,
        connection=connection,
        packet=life.heard_packet if event == EventKind.SILENCE_BEGUN else None,
        detail=detail,
    )
