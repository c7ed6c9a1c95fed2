"""The APIs by number: names, valid versions, and which header stands before a body.

Header rules (KIP-482, and RequestMessage/ApiKeys of Kafka): flexible requests have header 2, others header 1; flexible
responses have header 1, others header 0. Two exceptions: responses to ApiVersions always have header 0, so that a
client can read them before it knows the broker; ControlledShutdown version 0 has request header 0, without a client id.
An API nobody knows is taken for a new one: those have been flexible from their first version on.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkascope.decoders import schema

PRODUCE = 0
FETCH = 1
LIST_OFFSETS = 2
METADATA = 3
CONTROLLED_SHUTDOWN = 7
OFFSET_COMMIT = 8
OFFSET_FETCH = 9
JOIN_GROUP = 11
HEARTBEAT = 12
LEAVE_GROUP = 13
SYNC_GROUP = 14
DESCRIBE_GROUPS = 15
SASL_HANDSHAKE = 17
API_VERSIONS = 18
TXN_OFFSET_COMMIT = 28
SASL_AUTHENTICATE = 36
ENVELOPE = 58
FETCH_SNAPSHOT = 59
CONSUMER_GROUP_HEARTBEAT = 68
SHARE_FETCH = 78

NEVER_FLEXIBLE = schema.OPEN_END + 1  # above every version

FORMER_NAMES: Mapping[str, int] = MappingProxyType({"ListClientMetricsResources": 74})


class ApiTable(NamedTuple):
    """One entry per API key, from 0 to the highest known one; all arrays int64 of the same length. Kernels can take it.

    A key without an API would have an empty range of versions (first above last).
    """

    first_version: NDArray[np.int64]
    last_version: NDArray[np.int64]
    first_flexible_request: NDArray[np.int64]  # first version with header 2; NEVER_FLEXIBLE if none has it
    first_flexible_response: NDArray[np.int64]  # first version with header 1


@cache
def api_table() -> ApiTable:
    """The facts about headers and versions as arrays indexed by API key; the same object at each call, not writable."""
    found = schema.apis()
    size = max(found) + 1
    table = ApiTable(
        first_version=np.ones(size, np.int64),
        last_version=np.zeros(size, np.int64),
        first_flexible_request=np.full(size, NEVER_FLEXIBLE, np.int64),
        first_flexible_response=np.full(size, NEVER_FLEXIBLE, np.int64),
    )
    for key, api in found.items():
        table.first_version[key] = api.versions.first
        table.last_version[key] = api.versions.last
        if api.request.flexible:
            table.first_flexible_request[key] = api.request.flexible.first
        if api.response.flexible and key != API_VERSIONS:
            table.first_flexible_response[key] = api.response.flexible.first
    for array in table:
        array.setflags(write=False)
    return table


def name_of(api_key: int) -> str:
    """The API's name (Fetch), or api-99 for a key nobody knows."""
    api = schema.apis().get(api_key)
    return f"api-{api_key}" if api is None else api.name


def key_of(name: str) -> int:
    """The key of an API by its name of today or of a former release, whatever its case. Raises KeyError."""
    wanted = name.casefold()
    for known, key in (*((api.name, key) for key, api in schema.apis().items()), *FORMER_NAMES.items()):
        if known.casefold() == wanted:
            return key
    raise KeyError(name)


def names() -> list[str]:
    """The APIs that a release has, as the protocol calls them."""
    return [api.name for api in schema.apis().values()]


def find(name: str) -> schema.Api | None:
    """An API by name, as `key_of` takes it, or by its key in digits; None if there is no such."""
    try:
        return schema.apis().get(int(name) if name.isdecimal() else key_of(name))
    except KeyError:
        return None


def is_known(api_key: int, api_version: int) -> bool:
    """Whether the schemas can decode this version of this API."""
    return api_key in schema.apis() and api_version in schema.apis()[api_key].versions


def request_header_version(api_key: int, api_version: int) -> int:
    """0, 1 or 2: the version of the header before a request's body."""
    if api_key == CONTROLLED_SHUTDOWN and api_version == 0:
        return 0
    api = schema.apis().get(api_key)
    return 2 if api is None or api_version in api.request.flexible else 1


def response_header_version(api_key: int, api_version: int) -> int:
    """0 or 1: the version of the header before a response's body; api_version is the request's."""
    first = api_table().first_flexible_response
    return int(not 0 <= api_key < first.size or api_version >= first[api_key])


def response_layout_version(api_key: int, api_version: int, error_code: int) -> int:
    """The version of a response's layout, given the request's version and the response's first two bytes as a number.

    A broker that does not know the version of an ApiVersions request answers in version 0, which the error code
    tells (35, UNSUPPORTED_VERSION; KIP-35, KIP-511).
    """
    return 0 if api_key == API_VERSIONS and error_code == 35 else api_version


def readings(
    api_key: int, api_version: int, data: bytes, at: int, *, response: bool
) -> list[tuple[schema.Message, int]]:
    """The definitions and versions the body at an offset may be read with; empty if nobody knows the API or version."""
    api = schema.apis().get(api_key)
    if api is None:
        return []
    message = api.response if response else api.request
    found = [(reading, api_version) for reading in message.readings(api_version)]
    error_code = int.from_bytes(data[at : at + 2], "big")
    if response and (version := response_layout_version(api_key, api_version, error_code)) != api_version:
        found.insert(0, (message, version))
    return found


def are_known(api_keys: NDArray[np.int64], api_versions: NDArray[np.int64]) -> NDArray[np.bool_]:
    """is_known for arrays of the same length."""
    table = api_table()
    inside = (api_keys >= 0) & (api_keys < table.first_version.size)
    keys = np.where(inside, api_keys, 0)
    valid = (api_versions >= table.first_version[keys]) & (api_versions <= table.last_version[keys])
    known: NDArray[np.bool_] = inside & valid
    return known
