"""The latest events: the same as from a look through the whole log, whoever asks and however often."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runrig.domain.access import Identity, role_named
from runrig.domain.plan import Action, MoveGroup, MoveTask, Submit
from runrig.domain.shown.events import ClusterEvent
from runrig.service.queries import feed
from runrig.service.queries.event_filter import EventFilter
from runrig.service.queries.event_kinds import Kind, is_of
from runrig.service.queries.visibility import Visibility
from tests.worlds.service import T0, Desk, desk

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
def test_latest_events_are_the_end_of_the_log(
    work: list[str], role: str, most: int, within: int, small: tuple[type[object], ...]
) -> None:
    visibility = Visibility(Identity("eve", (role_named(role),)))
    with TemporaryDirectory() as folder, desk(Path(folder)) as it:
        for pool in work:
            it.submit("a", pool)
            it.service.settle()
            found = it.service.feed.latest(it.service.stored, most, within, visibility, without=small)
            assert list(found) == read_through(it, within, visibility, small)[-most:]


FILTERS = st.builds(
    EventFilter,
    since=st.none() | st.integers(-2, 60).map(lambda s: T0 + s),
    until=st.none() | st.integers(-2, 60).map(lambda s: T0 + s),
    pool=st.sampled_from([None, "pool1", "pool2"]),
    kinds=st.frozensets(st.sampled_from(Kind), max_size=2),
    user=st.sampled_from([None, "ann", "bob"]),
    workflow=st.sampled_from([None, "a-1", "a-9"]),
)


def matches(event: ClusterEvent, action: Action, query: EventFilter) -> bool:
    """The filter once more, in the words of its docstring, for users whose work is all that there is."""
    time, ours = event.time.timestamp(), event.workflow is not None or event.actor.endswith("ann")
    return (
        (query.since is None or time >= query.since)
        and (query.until is None or time <= query.until)
        and query.pool in (None, event.pool)
        and is_of(action, query.kinds)
        and (query.user is None or (query.user == "ann" and ours))
        and query.workflow in (None, event.workflow)
    )


@settings(max_examples=40, suppress_health_check=list(HealthCheck), deadline=None)
@given(query=FILTERS, most=st.sampled_from([1, 3, 1_000]), fresh=st.booleans())
def test_pages_of_a_filter_contain_all_matches_in_the_log(query: EventFilter, most: int, fresh: bool) -> None:
    """From memory, and from the store (*fresh*), where the database skips most of the rest."""
    with TemporaryDirectory() as folder, desk(Path(folder)) as it:
        for pool in ("pool1", "pool2", "pool1"):
            it.submit("a", pool, duration=7)
            it.later(9)
        source = it.service.feed
        if fresh:
            it.service._transactor._latest.clear()
        found: list[ClusterEvent] = []
        at = 0
        while at < source.newest():
            page = source.page(at, Visibility(), most=most, query=query)
            assert page.revision > at
            found, at = [*found, *page.events], page.revision
        whole = zip(read_through(it, 10_000, Visibility(), ()), it.store.log.events(), strict=True)
        assert found == [shown for shown, event in whole if matches(shown, event.action, query)]


def test_events_before_a_restart_are_in_memory(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        it.submit("a")
        it.service.settle()
        before = it.service._transactor.events_after(0)
        it.service._transactor.reload()
        assert before
        assert it.service.feed.newest() == before[-1].revision
        assert it.service._transactor.events_after(0) == before
