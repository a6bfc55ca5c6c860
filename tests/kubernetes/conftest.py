"""One control plane for all tests of this folder; each test finds it without nodes, queues and pods, and in a namespace of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e import programs
from e2e.harness import ControlPlane, control_plane
from tests.kubernetes.world import World

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.kubernetes)


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    try:
        programs.need_all()
    except programs.Missing as missing:
        pytest.skip(str(missing))
    with control_plane() as started:
        yield started


@pytest.fixture
def world(plane: ControlPlane) -> Iterator[World]:
    here = World(plane)
    yield here
    here.clear()


@pytest.fixture
def kai_world(world: World) -> World:
    """With KAI Scheduler itself."""
    if not world.plane.kai:
        pytest.skip(f"KAI Scheduler is not here ({programs.GIVEN}, docs/kubernetes-tests.md)")
    return world
