"""The latest events: the same as from a look through the whole log, whoever asks and however often."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runrig.domain.access import Identity, role_named
from runrig.domain.plan import MoveGroup, MoveTask, Submit
from runrig.domain.shown.events import ClusterEvent
from runrig.service.queries import feed
from runrig.service.queries.visibility import Visibility
from tests.worlds.service import Desk, desk

ROLES = ("admin", "viewer", "user", "pool1-user", "pool2-viewer")


def read_through(
    it: Desk, within: int, visibility: Visibility, without: tuple[type[object], ...]
) -> list[ClusterEvent]:
    """Asks a feed of its own, which begins with the first event."""
    fresh = feed.Feed(it.service._transactor, it.store, numbered=True)
    newest = fresh.newest()
    page = fresh.page(max(0, newest - within), visibility, most=100_000)
    return [each for each in page.events if each.kind not in {kind.__name__ for kind in without}]


@settings(max_examples=15, suppress_health_check=list(HealthCheck), deadline=None)
@given(
    work=st.lists(st.sampled_from(["pool1", "pool2"]), min_size=1, max_size=6),
    role=st.sampled_from(ROLES),
    most=st.integers(1, 12),
    within=st.integers(1, 40),
    small=st.sampled_from([(), (MoveTask, MoveGroup), (Submit,)]),
)
def test_the_latest_events_are_the_end_of_the_log(
    work: list[str], role: str, most: int, within: int, small: tuple[type[object], ...]
) -> None:
    visibility = Visibility(Identity("eve", (role_named(role),)))
    with TemporaryDirectory() as folder, desk(Path(folder)) as it:
        for pool in work:
            it.submit("a", pool)
            it.service.settle()
            found = it.service.feed.latest(most, within, visibility, without=small)
            assert list(found) == read_through(it, within, visibility, small)[-most:]


def test_events_before_the_first_query_are_included(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        id = it.submit("a")
        it.service.settle()
        (only,) = it.service.feed.latest(1, 100, Visibility(), without=(MoveTask,))
        assert only.workflow == id
