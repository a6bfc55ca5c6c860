"""One `runrig up` for all attacks: what they do must not matter to each other."""

from collections.abc import Iterator

import pytest

from tests.attack.target import Target, up


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with up(tmp_path_factory.mktemp("attacked")) as target:
        yield target


@pytest.fixture
def target(shared: Target) -> Iterator[Target]:
    with shared.unharmed():
        yield shared
