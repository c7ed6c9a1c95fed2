import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkascope.decoders import apis, schema

VERSIONS = [
    (api.key, version) for api in schema.apis().values() for version in range(api.versions.first, api.versions.last + 1)
]


@pytest.mark.parametrize(
    ("api", "version", "request_header", "response_header"),
    [
        ("Produce", 8, 1, 0),
        ("Produce", 9, 2, 1),
        ("ControlledShutdown", 0, 0, 0),
        ("ControlledShutdown", 1, 1, 0),
        ("ControlledShutdown", 3, 2, 1),
        ("SaslHandshake", 1, 1, 0),
        ("ApiVersions", 2, 1, 0),
        ("ApiVersions", 3, 2, 0),
        ("OffsetDelete", 0, 1, 0),
        ("Vote", 0, 2, 1),
    ],
)
def test_header_versions(api: str, version: int, request_header: int, response_header: int) -> None:
    key = apis.key_of(api)
    assert apis.request_header_version(key, version) == request_header
    assert apis.response_header_version(key, version) == response_header


def test_an_api_nobody_knows_has_the_headers_of_today() -> None:
    assert apis.request_header_version(999, 0) == 2
    assert apis.response_header_version(999, 0) == 1
    assert apis.name_of(999) == "api-999"
    assert not apis.is_known(999, 0)
    assert not apis.is_known(1, 19)


@given(st.lists(st.tuples(st.integers(-3, 120), st.integers(-3, 40)) | st.sampled_from(VERSIONS)))
def test_arrays_say_the_same(pairs: list[tuple[int, int]]) -> None:
    keys = np.array([key for key, _ in pairs], np.int64)
    versions = np.array([version for _, version in pairs], np.int64)
    assert apis.are_known(keys, versions).tolist() == [apis.is_known(*pair) for pair in pairs]


def test_names_of_former_releases_and_any_case_are_found() -> None:
    assert apis.key_of("fetch") == apis.FETCH
    assert apis.key_of("ListClientMetricsResources") == apis.key_of("ListConfigResources") == 74
    with pytest.raises(KeyError):
        apis.key_of("Fetsch")


def test_constants_are_the_keys_of_their_names() -> None:
    constants = {name: value for name, value in vars(apis).items() if name.isupper() and isinstance(value, int)}
    del constants["NEVER_FLEXIBLE"]
    assert len(constants) > 15
    for name, key in constants.items():
        assert apis.name_of(key).upper() == name.replace("_", "")


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        apis.api_table().first_version[0] = 1


def test_a_broker_that_does_not_know_the_version_of_api_versions_answers_in_version_0() -> None:
    layouts = [(apis.API_VERSIONS, 4, 35), (apis.API_VERSIONS, 4, 0), (apis.METADATA, 4, 35)]
    assert [apis.response_layout_version(*layout) for layout in layouts] == [0, 4, 4]
