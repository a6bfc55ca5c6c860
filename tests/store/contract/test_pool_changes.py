"""The changes of pools in the log: newest first, by family, actor, time and place; and the last of each up to a time (law S6)."""

from typing import Any

from runrig.domain.budgets import Owner, Spent
from runrig.domain.plan import Action, PutPool, SetFlavors, SetSpent
from runrig.domain.pools import Pool
from runrig.domain.records import Event, RowChange
from runrig.ports.store import ChangesQuery, Store

from ..values import Commit

TEAM, A, B = (
    Pool("team"),
    Pool("team--a", parent="team", subpool_name="a"),
    Pool("team--b", parent="team", subpool_name="b"),
)
TEAM2 = Pool("team2")
NAMES = (TEAM, A, B, TEAM2)


def fill(store: Store) -> None:
    """Revision, time and actor of five commits; the third changes one pool twice, the clock of the fourth was put back, and the fifth
    counts budgets, which changes no pool.
    """
    spent = (SetSpent(Spent(Owner.POOL, pool.name, 0.0, 1, 1.0), 9) for pool in NAMES)
    log: tuple[tuple[float, str, tuple[Action, ...]], ...] = (
        (10.0, "ann", tuple(PutPool(pool) for pool in NAMES)),
        (20.0, "Ann", (SetFlavors(()), PutPool(TEAM2), PutPool(A))),
        (30.0, "apply by ann", (PutPool(B, A), PutPool(B, B))),
        (25.0, "bob", (PutPool(TEAM),)),
        (26.0, "Ann", tuple(spent)),
    )
    for number, (time, actor, actions) in enumerate(log, 1):
        events = tuple(Event(number, seq, time, actor, action) for seq, action in enumerate(actions))
        rows = tuple(RowChange("Pool", (pool.name,), pool) for pool in NAMES) if number == 1 else ()
        Commit(number, events, rows).to(store)


def listed(store: Store, pool: str = "team", **query: Any) -> list[tuple[int, int]]:
    events, _ = store.log.pool_changes(ChangesQuery(pool, **query))
    return [(event.revision, event.seq) for event in events]


def stood(store: Store, at: float, pool: str = "team") -> dict[str, tuple[int, int]]:
    found = store.log.pools_at(pool, at)
    return {event.action.pool.name: (event.revision, event.seq) for event in found if isinstance(event.action, PutPool)}


WHOLE = [(4, 0), (3, 1), (3, 0), (2, 2), (1, 2), (1, 1), (1, 0)]


def test_changes_of_a_pool_and_its_subpools_come_newest_first(store: Store) -> None:
    fill(store)
    assert listed(store) == WHOLE
    assert listed(store, alone=True) == [(4, 0), (1, 0)]
    assert listed(store, "team--b") == [(3, 1), (3, 0), (1, 2)]
    assert listed(store, "team2") == [(2, 1), (1, 3)]
    assert listed(store, "tea_") == listed(store, "team-") == listed(store, "") == []


def test_changes_are_found_by_actor_and_time(store: Store) -> None:
    fill(store)
    assert listed(store, actors=("ann", "apply by ann")) == [(3, 1), (3, 0), (1, 2), (1, 1), (1, 0)]
    assert listed(store, actors=("Ann",)) == [(2, 2)]
    assert listed(store, actors=("%", "' OR ''='")) == []
    assert listed(store, since=25.0) == WHOLE[:3]
    assert listed(store, until=20.0) == WHOLE[3:]
    assert listed(store, since=20.000001, until=25.0, alone=True) == [(4, 0)]
    assert listed(store, since=0.0, until=253_402_300_799.0) == WHOLE


def test_pages_may_begin_anywhere_even_within_a_revision(store: Store) -> None:
    fill(store)
    for at, place in enumerate(WHOLE):
        assert listed(store, before=place) == WHOLE[at + 1 :]
    events, more = store.log.pool_changes(ChangesQuery("team", limit=7))
    assert (len(events), more) == (7, False)
    events, more = store.log.pool_changes(ChangesQuery("team", limit=6))
    assert (len(events), more) == (6, True)
    assert events == tuple(reversed([event for event in store.log.events() if event in events]))


def test_the_last_change_up_to_a_time_is_that_of_the_latest_revision(store: Store) -> None:
    fill(store)
    assert stood(store, 9.999999) == {}
    assert stood(store, 10.0) == {"team": (1, 0), "team--a": (1, 1), "team--b": (1, 2)}
    assert stood(store, 24.0) == {"team": (1, 0), "team--a": (2, 2), "team--b": (1, 2)}
    assert stood(store, 25.0) == {"team": (4, 0), "team--a": (2, 2), "team--b": (1, 2)}
    assert stood(store, 1e9) == {"team": (4, 0), "team--a": (2, 2), "team--b": (3, 1)}
    assert stood(store, 1e9, "team--b") == {"team--b": (3, 1)}
