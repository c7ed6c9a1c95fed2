"""Times in which all stood still at once, or the clock of the capture was set forward: nobody spoke, though several ask
again and again at short intervals, waited for nothing, and went on behind it as if it had not been.

A machine that is suspended with all that is on it looks like that, and so does one whose clock is set. A broker that
stands still does not: who asks it at intervals asks once more, and waits then.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import moment
from kafkascope.reports.incidents.signs import Signs
from kafkascope.sniffer.columns import I64, Bool
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_NEAR_NS = 30 * SECOND_NS  # before and behind it: who asks at intervals does it several times in that
_ASKED = 3  # times, from which on there is an interval
_HOSTS = 2  # of one alone it may be a pause of its own
_SOON_NS = 100 * MILLISECOND_NS
_MOST = 20  # times that are looked at, the longest
_NEVER = np.iinfo(np.int64).max


def stood_still(signs: Signs, since: I64, until: I64) -> Bool:
    """Which of some times in which nobody spoke are such."""
    found = np.zeros(len(since), np.bool_)
    if not len(since):
        return found
    longest = np.argsort(since - until, kind="stable")[:_MOST]
    requests = _near(signs, since[longest], until[longest])
    for place in longest.tolist():
        went_on = _who_went_on(requests, since[place], until[place])
        found[place] = len(went_on) >= _HOSTS and len(_hosts(signs, went_on)) >= _HOSTS
    return found


def _near(signs: Signs, since: I64, until: I64) -> I64:
    """Requests before and behind some times: connection, when it was made, and when it was answered, a row each."""
    columns = ("connection", "requested", "answered")
    found = [np.empty((len(columns), 0), np.int64)]
    begins, ends = since - _NEAR_NS, until + _NEAR_NS
    where = (pc.field("requested") >= moment(int(begins.min()))) & (pc.field("requested") < moment(int(ends.max())))
    for batch in signs.batches("exchanges", columns, where):
        rows = np.stack([pc.fill_null(batch[name], _NEVER).to_numpy() for name in columns])
        near = np.zeros(rows.shape[1], np.bool_)
        for begin, end in zip(begins, ends, strict=True):
            near |= (begin <= rows[1]) & (rows[1] < end)
        found.append(rows[:, near])
    return np.concatenate(found, axis=1)


def _who_went_on(requests: I64, since: int, until: int) -> I64:
    """Connections with requests at intervals no longer than half of a time, which waited for nothing as it began.

    The next request comes no later behind its end than the longest of these intervals.
    """
    connection, requested, answered = requests
    before = (requested >= since - _NEAR_NS) & (requested < since)
    order = np.lexsort((requested[before], connection[before]))
    who, asked = connection[before][order], requested[before][order]
    following = np.where(np.append(who[1:] == who[:-1], False), np.append(asked[1:], since), since)
    names, of, count = np.unique(who, return_inverse=True, return_counts=True)
    longest = np.zeros(len(names), np.int64)
    np.maximum.at(longest, of, following - asked)
    waits = np.isin(names, connection[(requested < since + _SOON_NS) & (answered >= until)])
    behind = (requested >= until) & np.isin(connection, names)
    again = np.full(len(names), until + 2 * _NEAR_NS)
    np.minimum.at(again, np.searchsorted(names, connection[behind]), requested[behind])
    regular = (count >= _ASKED) & (2 * longest <= until - since)
    went_on: I64 = names[regular & ~waits & (again - until <= longest + _SOON_NS)]
    return went_on


def _hosts(signs: Signs, connections: I64) -> set[str]:
    """Where the clients of connections are."""
    of_them = pc.field("connection").isin(pa.array(connections))
    return {row["client"] for row in signs.rows("connections", ("client",), of_them)}
