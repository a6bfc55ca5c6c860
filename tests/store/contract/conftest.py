"""The stores that have to keep the contract: each test here runs on each of them."""

from collections.abc import Callable, Iterator

import pytest

from runrig.ports.store import Store
from runrig.store import SqlStore

Open = Callable[[], Store]


@pytest.fixture
def open_store(any_store: str) -> Iterator[Open]:
    """Opens one and the same database, as often as wanted, for as long as the test goes."""
    opened: list[Store] = []

    def another() -> Store:
        opened.append(SqlStore.open(any_store))
        return opened[-1]

    yield another
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Open) -> Store:
    return open_store()
