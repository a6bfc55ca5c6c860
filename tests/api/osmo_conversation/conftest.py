"""A world of two teams for each test, and one for all of a module that change nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.permissions.two_teams import TwoTeams, two_teams


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TwoTeams]:
    with two_teams(tmp_path) as it:
        yield it


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoTeams]:
    with two_teams(tmp_path_factory.mktemp("untouched")) as it:
        yield it


@pytest.fixture
def still(untouched: TwoTeams) -> Iterator[TwoTeams]:
    """Nothing is stored by what a test asks of it."""
    before = untouched.portrait()
    yield untouched
    assert untouched.portrait() == before
