"""One server for a module's requests that change nothing."""

from collections.abc import Iterator

import pytest

from tests.api.client import Api, api


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with api(tmp_path_factory.mktemp("undisturbed")) as it:
        yield it


@pytest.fixture
def quiet(undisturbed: Api) -> Iterator[Api]:
    """Nothing is stored by what a test asks of it."""
    before = undisturbed.desk.store.load()
    yield undisturbed
    assert undisturbed.desk.store.load() == before
