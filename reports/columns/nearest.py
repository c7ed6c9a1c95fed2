"""Names that may have been meant by one that is not there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from kafkascope.decoders import apis
from kafkascope.reports.columns.shown import shown_text

NEAREST = 3


def nearest(name: str, there: Iterable[str]) -> list[str]:
    """Names that this one may have been meant for, the likeliest first; case does not count.

    Who gives the beginning of a name, as an address without its port, means one that begins so.
    """
    by_lower = {one.lower(): one for one in sorted(there, reverse=True)}
    inside = sorted(one for lower, one in by_lower.items() if name.lower() in lower)
    begun = sorted((one for one in inside if one.lower().startswith(name.lower())), key=len)
    near = [by_lower[lower] for lower in difflib.get_close_matches(name.lower(), by_lower, NEAREST)]
    return list(dict.fromkeys([*begun, *near, *inside]))[:NEAREST]


def near_ones(name: str, there: Iterable[str]) -> str:
    """``; near are A, B``, to end a sentence with; nothing if none is."""
    near = nearest(name, there)
    return f"; near {'is' if len(near) == 1 else 'are'} {', '.join(map(shown_text, near))}" if near else ""


def no_such_api(name: str) -> str:
    """What to say to who asked for an API that is none."""
    return f"no API is called {name!r}{near_ones(name, apis.names())}; `kafkascope apis` lists them"
