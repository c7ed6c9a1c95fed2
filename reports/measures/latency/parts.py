"""What the time of an exchange was spent on.

An exchange takes from its request's first byte to its response's last (``total``). That is made up of

- ``transfer``: first to last byte of the request, and of the response;
- ``queued``: the broker was still answering an earlier request of another kind. It works off a connection's requests
  one by one (kafka.network.SocketServer mutes it meanwhile);
- ``throttled``: an earlier answer on the connection said so (throttle_time_ms), and the broker read nothing until that
  time was over (KIP-219). Before KIP-219 an answer came late by the time that it told;
- ``waiting``: what the client asked for. A Fetch waits until min bytes are there or max wait is over, see
  `_fetch_waits`. JoinGroup waits until all members have joined, a follower's SyncGroup until the leader has brought
  the assignment;
- ``replicas``: a Produce with acks=all that the broker gave up with REQUEST_TIMED_OUT: in-sync replicas did not follow.
  Where they did follow, what they took cannot be told from what the leader took;
- ``unsplit``: the capture lacks what would tell waiting from slowness;
- ``slow``: all the rest, the time that broker and network took by themselves. Every exchange has it, be it 0. It is
  made up of what is told apart by when the broker's host acknowledged the request:

  - ``network``: the way to the broker and back, as seen from the capture point: the shortest round trip of the
    connection, or all the time to the acknowledgement where no host that is well holds one back so long (`ACK_HELD`);
  - ``broker``: what came after the acknowledgement, for the request was there; and what came before it beyond the round
    trip, if acknowledgements came at once of late and no host has to send one so soon (`ACK_HELD_LEAST`). An answer
    that was lost on its way to a capture point at the client counts here, for only its second copy was seen;
  - ``unclear``: what may be either: an acknowledgement that was held back, or packets that took long; and all of it
    where the capture lacks acknowledgements.

Between exchanges lie

- ``throttled``: since KIP-219 the delay comes after the answer that tells it, so this is the time up to the client's
  next request on the connection, at most as much as was told;
- ``application``: from an answer to the client's next request of the same kind on the connection, less what of it was
  throttled. Pipelined requests have none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kafkascope.decoders import apis
from kafkascope.decoders.errors import Error
from kafkascope.sniffer.columns import I64, Bool
from kafkascope.sniffer.health import ACK_HELD, ACK_HELD_LEAST
from kafkascope.sniffer.units import MILLISECOND_NS

TOTAL, TRANSFER, QUEUED, THROTTLED = "total", "transfer", "queued", "throttled"
WAITING, REPLICAS, UNSPLIT, SLOW, APPLICATION = "waiting", "replicas", "unsplit", "slow", "application"
NETWORK, BROKER, UNCLEAR = "network", "broker", "unclear"
PARTS = (TOTAL, TRANSFER, QUEUED, THROTTLED, WAITING, REPLICAS, UNSPLIT, SLOW, NETWORK, BROKER, UNCLEAR, APPLICATION)
ALWAYS = (TOTAL, SLOW)
"""Parts that every exchange has."""
OF_SLOW = (NETWORK, BROKER, UNCLEAR)
"""What the part slow is made of."""

ABSENT = -1

# What may put an end to the wait of a member; with any other code the broker refuses at once.
_ENDS_OF_WAITS = [
    error.code
    for error in (
        Error.NONE,
        Error.NOT_COORDINATOR,
        Error.UNKNOWN_MEMBER_ID,
        Error.REBALANCE_IN_PROGRESS,
        Error.FENCED_INSTANCE_ID,
    )
]
_WAITS = (apis.PRODUCE, apis.FETCH, apis.SHARE_FETCH, apis.JOIN_GROUP, apis.SYNC_GROUP)


@dataclass(frozen=True, slots=True)
class Timed:
    """Exchanges of which both sides were seen, one element each; times in nanoseconds, `ABSENT` where not known."""

    api_key: I64
    requested: I64
    request_done: I64
    answered: I64
    response_done: I64
    acked: I64  # when the broker's host had acknowledged the request
    round_trip: I64  # from data of the client to its acknowledgement, the least of late
    least_round_trip: I64  # ... and of all so far
    error: I64  # at the top, else the first that is not 0
    top_error: Bool  # no partition was spoken of
    late: I64  # delay that the answer told, where the broker delays the answer itself (before KIP-219)
    busy_until: I64  # when the last request of another API before it was answered
    muted_until: I64  # when the broker began to read again after the delays that earlier answers told
    known: Bool  # whether the request's terms are
    max_wait: I64
    min_bytes: I64
    acks: I64
    assignments: I64
    brought_bytes: I64
    brought_records: I64
    ready_records: I64
    more_ready: Bool


def split(timed: Timed) -> dict[str, I64]:
    """Nanoseconds by part; 0 in exchanges that have no such part, `ABSENT` in network and broker if nothing tells."""
    end = np.maximum(timed.answered, timed.request_done)
    read = np.clip(timed.busy_until, timed.request_done, end)
    unmuted = np.clip(timed.muted_until, read, end)
    rest = end - unmuted
    late = np.where(timed.late <= rest, timed.late, 0)
    rest = rest - late
    allowed = _allowed(timed)
    waits = np.isin(timed.api_key, _WAITS)
    unsplit = np.where(waits & ~timed.known, rest, 0)
    allowed = np.where(timed.known, np.minimum(allowed, rest), 0)
    replicas = np.where(timed.api_key == apis.PRODUCE, allowed, 0)
    waiting = allowed - replicas
    slow = rest - allowed - unsplit
    network, broker = _told_apart(timed)
    on_the_way = np.clip(timed.request_done + network - unmuted, 0, slow)
    at_broker = slow - np.clip(timed.request_done + broker - unmuted, 0, slow)
    told = network >= 0
    transfer = np.maximum(timed.request_done - timed.requested, 0) + np.maximum(timed.response_done - end, 0)
    return {
        TOTAL: end - timed.request_done + transfer,
        TRANSFER: transfer,
        QUEUED: read - timed.request_done,
        THROTTLED: unmuted - read + late,
        WAITING: waiting,
        REPLICAS: replicas,
        UNSPLIT: unsplit,
        SLOW: slow,
        NETWORK: np.where(told, on_the_way, ABSENT),
        BROKER: np.where(told, at_broker, ABSENT),
        UNCLEAR: slow - np.where(told, on_the_way + at_broker, 0),
    }


def _told_apart(timed: Timed) -> tuple[I64, I64]:
    """For how long each request was on its way, and from when on it was with the broker, both from its last byte on.

    `ABSENT` where nothing tells.
    """
    acked, least = np.maximum(timed.acked - timed.request_done, 0), timed.least_round_trip
    at_once = 2 * least + MILLISECOND_NS
    late = acked > least + ACK_HELD
    clear = (acked <= at_once) | ((timed.round_trip <= at_once) & (acked < least + ACK_HELD_LEAST))
    network = np.where(late, acked, np.minimum(least, acked))
    told = (timed.acked >= 0) & (timed.round_trip >= 0) & (least >= 0)
    return np.where(told, network, ABSENT), np.where(told, np.where(clear, network, acked), ABSENT)


def _allowed(timed: Timed) -> I64:
    """The longest that each request lets the broker wait, as it turned out; may be more than the exchange took."""
    api, ends_wait = timed.api_key, np.isin(timed.error, _ENDS_OF_WAITS)
    forever = np.int64(2**62)
    fetch = np.isin(api, (apis.FETCH, apis.SHARE_FETCH)) & _fetch_waits(timed)
    produce = (api == apis.PRODUCE) & (timed.acks == -1) & (timed.error == Error.REQUEST_TIMED_OUT.code)
    member = ((api == apis.JOIN_GROUP) | ((api == apis.SYNC_GROUP) & (timed.assignments == 0))) & ends_wait
    return np.where(fetch | produce, np.maximum(timed.max_wait, 0), np.where(member, forever, np.int64(0)))


def _fetch_waits(timed: Timed) -> Bool:
    """Which fetches had to wait for data, up to max wait.

    The broker answers at once if enough is there, with an error of the session, or if it was asked not to wait. It is
    taken for there what the broker had said before to lie beyond the offsets asked for (`rows.ready`), or where it
    had said nothing before, if the answer left records behind. All else waited: what came arrived meanwhile, and when
    it did so the connection does not tell.
    """
    size = timed.brought_bytes.astype(np.float64)
    lay_ready = timed.ready_records * (size / np.maximum(timed.brought_records, 1))
    enough = (timed.brought_bytes >= timed.min_bytes) & ((lay_ready >= timed.min_bytes) | timed.more_ready)
    asked: NDArray[np.bool_] = (timed.max_wait > 0) & (timed.min_bytes > 0)
    return asked & ~enough & ~timed.top_error
