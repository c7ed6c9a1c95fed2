"""Why a request has the version that it has: what its broker offered, and what its client's release knows."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kafkascope.decoders import apis, releases
from kafkascope.decoders.characters import safe_text
from kafkascope.decoders.errors import Error
from kafkascope.decoders.schema import Versions

MOST_CONNECTIONS = 10_000
"""Of so many connections it is known what was said on them; of those before, what brokers offered last."""

MOST_OFFERS = 100
"""Of a broker: it offers something else only after it was updated."""

JAVA_CLIENT = "apache-kafka-java"
"""The name of the software (KIP-511) whose versions are those of Kafka's releases."""


@dataclass(frozen=True, slots=True)
class _Told:
    """What an ApiVersions exchange told."""

    at: Any  # when it was answered
    offers: Mapping[int, Versions]  # by API
    software: str | None = None
    release: str | None = None  # of the software


class ChosenVersions:
    """Looks at exchanges in order of completion, and says why one has its version.

    Rows are those of the exchanges table with ``broker``, as dicts. What is said hangs on earlier exchanges of the same
    connection, or of the same broker, only.
    """

    def __init__(self) -> None:
        self._of_connection: OrderedDict[int, _Told] = OrderedDict()
        self._of_broker: dict[str, list[_Told]] = {}

    def observe(self, row: Mapping[str, Any]) -> None:
        """Take in an exchange of ApiVersions."""
        if row["decoded"] != "full" or row["request"] is None or row["response"] is None:
            return
        request, response = json.loads(row["request"]), json.loads(row["response"])
        offers = {one["apiKey"]: Versions(one["minVersion"], one["maxVersion"]) for one in response["apiKeys"]}
        if response["errorCode"] or not offers:
            return
        told = _Told(row["answered"], offers)
        of_broker = self._of_broker.setdefault(row["broker"], [])
        if not of_broker or of_broker[-1].offers != offers:
            of_broker.append(told)
            del of_broker[:-MOST_OFFERS]
        software, release = request.get("clientSoftwareName"), request.get("clientSoftwareVersion")
        self._of_connection[row["connection"]] = replace(told, software=software, release=release)
        if len(self._of_connection) > MOST_CONNECTIONS:
            self._of_connection.popitem(last=False)

    def reason(self, row: Mapping[str, Any]) -> str | None:
        """What is known about the choice of a request's version; None of ApiVersions, by which it is found out."""
        api_key, version = row["api_key"], row["api_version"]
        if api_key == apis.API_VERSIONS:
            if row["error_code"] == Error.UNSUPPORTED_VERSION.code:
                return f"the broker does not know v{version}: it answers as to v0, with what it offers (KIP-511)"
            return None
        told = self._before(row)
        if told is None:
            return "what the broker offers is not in the capture"
        offered = told.offers.get(api_key)
        if offered is None:
            return "the broker does not offer this API"
        if version not in offered:
            return f"the broker does not offer it, but {_range(offered)}"
        mine = releases.known(told.release, api_key) if told.software == JAVA_CLIENT and told.release else None
        if mine is not None:
            both = min(offered.last, mine.stable.last)
            client = f"{JAVA_CLIENT} {safe_text(told.release or '')}"
            words = f"broker offers {_range(offered)}, {client} knows {_range(mine.stable)}"
            if version == both:
                return f"the highest that both know: {words}"
            return f"{words}: the client could take v{both}" if version < both else words
        words = f"broker offers {_range(offered)}"
        if version == offered.last:
            return f"the broker's highest: {words}"
        return f"{words}; the client's own highest is not in the capture"

    def _before(self, row: Mapping[str, Any]) -> _Told | None:
        """What was told before a request was sent."""
        mine = self._of_connection.get(row["connection"])
        candidates = [*self._of_broker.get(row["broker"], ()), *([mine] if mine else ())]
        requested = row["requested"]
        if requested is None:
            return None
        return next((told for told in reversed(candidates) if told.at is not None and told.at <= requested), None)


def _range(versions: Versions) -> str:
    return f"v{versions}"
