"""What each release knows: against the definitions of those whose definitions are here, and known history."""

from __future__ import annotations

import pytest

from kafkascope.decoders import releases, schema
from kafkascope.decoders.releases import Known
from kafkascope.decoders.schema import NEVER, Versions


def test_the_table_says_what_the_definitions_of_its_releases_say() -> None:
    compared = 0
    for api in schema.apis().values():
        for release in api.request.releases:
            found = releases.known(release.name, api.key)
            stated = (release.versions, release.unstable) if release.versions else None
            assert (found and (found.versions, found.unstable)) == stated, (api.name, release.name)
            compared += 1
        for known in releases.known_by(api.key):
            assert known.versions.first >= api.versions.first
            assert known.versions.last <= api.versions.last
    assert compared > 150


@pytest.mark.parametrize(
    ("release", "api_key", "versions"),
    [
        ("0.8.2.2", 1, Versions(0, 0)),
        ("0.10.0", 18, Versions(0, 0)),  # KIP-35
        ("0.11.0.3", 1, Versions(0, 5)),  # KIP-98
        ("1.1", 1, Versions(0, 7)),  # KIP-227
        ("2.4.0", 18, Versions(0, 3)),  # KIP-511
        ("4.0", 1, Versions(4, 17)),  # KIP-896
    ],
)
def test_versions_came_when_their_proposals_did(release: str, api_key: int, versions: Versions) -> None:
    found = releases.known(release, api_key)
    assert found is not None
    assert found.versions == versions


def test_what_is_not_known_is_not_made_up() -> None:
    assert releases.known("0.8.1", 1) is None
    assert releases.known("4.3.1-ccs", 1) is None
    assert releases.known("0.9.0.1", 18) is None
    assert (releases.releases()[0], releases.releases()[-1]) == ("0.8.2", "4.4")


def test_what_the_newest_release_has_dropped() -> None:
    oldest = releases.oldest_taken()
    assert (oldest[0], oldest[1], oldest[2]) == (3, 4, 1)  # Produce, Fetch, ListOffsets: KIP-896
    assert 18 not in oldest  # ApiVersions: any client may ask
    assert 7 not in oldest  # ControlledShutdown, of brokers that are no more
    assert (releases.refused_since(0, 2), releases.refused_since(0, 3), releases.refused_since(99, 0)) == (
        "4.0",
        None,
        None,
    )


def test_unstable_versions_are_not_stable() -> None:
    assert Known("4.3", Versions(0, 3), Versions(2, 3)).stable == Versions(0, 1)
    assert Known("4.3", Versions(0, 3), NEVER).stable == Versions(0, 3)
