"""Revisions of pools: a page of them as a reader of the whole log finds it, for any filter (law S6)."""

import random
from itertools import groupby

import pytest

from runrig.domain.budgets import Owner, Spent
from runrig.domain.errors import Conflict, NotFound
from runrig.domain.plan import Action, PutPool, SetFlavors, SetSpent
from runrig.domain.pools import Pool
from runrig.domain.records import Event, Note, RowChange
from runrig.ports.store import RevisionsQuery, Store

from ..values import Commit

POOLS = {
    pool.name: pool
    for pool in (Pool("team"), Pool("team--a", parent="team", subpool_name="a"), Pool("team2"), Pool("team_2"))
}
TAGS = ("june", "June", "best", "a.b", "aXb")


def fill(store: Store, seed: int) -> dict[int, Note]:
    """60 revisions: some change no pool, some several; the clock goes back now and then; about half have something said of them. In each,
    a budget is counted, which changes no pool.
    """
    chance, notes = random.Random(seed), {}
    for number in range(1, 61):
        changed = [chance.choice([*POOLS.values()]) for _ in range(chance.randrange(4))]
        actions: list[Action] = [SetFlavors(()), *map(PutPool, changed if number > 1 else POOLS.values())]
        actions.append(SetSpent(Spent(Owner.POOL, chance.choice([*POOLS]), 0.0, number, 1.0), 9))
        events = tuple(Event(number, seq, chance.uniform(1, 99), "ann", each) for seq, each in enumerate(actions))
        rows = [RowChange("Pool", (name,), pool) for name, pool in POOLS.items()] if number == 1 else []
        if len(actions) > 2 and chance.random() < 0.5:
            notes[number] = Note(number, "words", tuple(sorted(chance.sample(TAGS, chance.randrange(3)))))
            rows.append(RowChange("Note", (number,), notes[number]))
        Commit(number, events, tuple(rows)).to(store)
    return notes


def pool_of(event: Event) -> Pool:
    assert isinstance(event.action, PutPool)
    return event.action.pool


def expected(
    store: Store, notes: dict[int, Note], query: RevisionsQuery
) -> list[tuple[tuple[Event, ...], Note | None]]:
    """Finds the answer by reading everything."""

    def seen(event: Event) -> bool:
        if not isinstance(event.action, PutPool):
            return False
        name = event.action.pool.name
        return query.below is None or name in query.below or name.startswith(tuple(f"{top}--" for top in query.below))

    found = []
    for revision, all_events in groupby(store.log.events(), lambda event: event.revision):
        events, note = tuple(filter(seen, all_events)), notes.get(revision)
        fits = [
            event
            for event in events
            if query.name in (None, pool_of(event).name)
            and (query.since is None or event.time >= query.since)
            and (query.until is None or event.time < query.until)
            and (query.at is None or event.time <= query.at)
        ]
        tagged = not query.tags or (note is not None and not set(query.tags).isdisjoint(note.tags))
        if fits and tagged and query.revision in (None, revision):
            found.append((events, note))
    found = found[-1:] if query.at is not None else found
    if query.newest_first:
        found.reverse()
    return found[query.offset : query.offset + query.limit]


@pytest.mark.parametrize("seed", range(3))
def test_page_equals_a_search_of_the_whole_log(store: Store, seed: int) -> None:
    notes, chance = fill(store, seed), random.Random(seed)
    for _ in range(100):
        query = RevisionsQuery(
            below=chance.choice([None, None, (), ("team",), ("team2", "team"), ("team_",)]),
            name=chance.choice([None, None, *POOLS, "none"]),
            revision=chance.choice([None, None, None, chance.randrange(70)]),
            tags=chance.choice([(), (), ("june",), ("a.b", "none"), ("June", "best")]),
            since=chance.choice([None, None, chance.uniform(0, 99)]),
            until=chance.choice([None, None, chance.uniform(0, 99)]),
            at=chance.choice([None, None, chance.uniform(0, 99)]),
            newest_first=chance.random() < 0.5,
            limit=chance.choice([1, 3, 100]),
            offset=chance.choice([0, 0, 1, 5]),
        )
        assert list(store.log.pool_revisions(query)) == expected(store, notes, query), query


def test_the_pools_after_a_revision_are_those_of_their_last_change(store: Store) -> None:
    fill(store, 7)
    for revision in (0, 1, 30, 60, 99):
        for below in (None, ("team",), ()):
            last = {}
            for event in store.log.events():
                if isinstance(event.action, PutPool) and event.revision <= revision:
                    last[event.action.pool.name] = event.action.pool
            seen = {name for name in last if below is None or name.partition("--")[0] in below}
            found = store.log.pools_after(revision, below)
            assert {pool_of(event).name: pool_of(event) for event in found} == {name: last[name] for name in seen}


def test_tags_of_a_revision_change_and_its_description_stays(store: Store) -> None:
    notes = fill(store, 7)
    noted, plain = (
        min(notes),
        min({*range(2, 61)} - {*notes} - {number for number in range(61) if of(store, number) is False}),
    )
    assert store.log.tag_revision(noted, {"new"}, set(notes[noted].tags), 9) == ("new",)
    assert store.log.tag_revision(plain, {"b", "a"}, (), 9) == ("a", "b")
    assert of(store, noted) == Note(noted, "words", ("new",))
    assert of(store, plain) == Note(plain, "", ("a", "b"))
    with pytest.raises(Conflict):
        store.log.tag_revision(plain, {"c"}, (), 2)
    with pytest.raises(NotFound):
        store.log.tag_revision(99, {"c"}, (), 2)
    assert of(store, plain) == Note(plain, "", ("a", "b"))


def of(store: Store, revision: int) -> Note | bool | None:
    """What was said of the revision; False if it changed no pool."""
    found = store.log.pool_revisions(RevisionsQuery(revision=revision))
    return found[0][1] if found else False
