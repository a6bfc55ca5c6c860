"""The stores that have to keep the contract: each test here runs on each of them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runrig.ports import Store
from runrig.store import SqlStore

Open = Callable[[], Store]


@pytest.fixture(params=["sqlite"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens one and the same database, as often as wanted, for as long as the test goes."""
    opened: list[Store] = []

    def sqlite() -> Store:
        opened.append(SqlStore.open(tmp_path / "data" / "runrig.db"))
        return opened[-1]

    yield {"sqlite": sqlite}[request.param]
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Open) -> Store:
    return open_store()
