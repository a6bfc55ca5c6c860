"""Gangs treated as stopped in a trial: counting gives the same result as editing the nodes, and leaves no trace."""

import random

import pytest

from runrig.engine.ledger.fit import place_on_nodes
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.options import options
from runrig.engine.ledger.queue import Entry
from runrig.engine.preemption.trial import Trial
from runrig.engine.quota.quota_node import fits
from tests.worlds.engine import HIGH
from tests.worlds.placement import PLENTY, LoggedWorld, change, city, enter, entry_of, group, hold_on, pods


def _world(mix: random.Random) -> LoggedWorld:
    """LOW gangs on up to three nodes each; some nodes are not ready, or have no labels."""
    racks = [" ".join(str(mix.choice((2, 4, 8))) for _ in range(mix.randint(1, 4))) for _ in range(4)]
    world = city(" | ".join(f"a/r{at}: {sizes}" for at, sizes in enumerate(racks)), team=PLENTY)
    for at in range(12):
        free = {name: room.free[0]["gpu"] for name, room in world.state.ledger.nodes.by_name.items()}
        nodes = mix.sample(sorted(name for name, left in free.items() if left), k=min(3, sum(map(bool, free.values()))))
        if nodes:
            hold_on(world, f"low{at}", {name: mix.randint(1, free[name]) for name in nodes})
    for name in mix.sample(sorted(world.state.nodes), k=2):
        change(world, name, **mix.choice(({"ready": False}, {"labels": {}})))
    return world


def _with_all_gone(ledger: Ledger, entry: Entry, gone: list[Entry]) -> bool:
    """True if *entry* fits and has a placement, by editing."""
    ((choice, request),) = options(ledger, entry, entry.bucket.counts)
    for each in gone:
        ledger.uncharge(each)
    try:
        return fits(ledger.leaf(entry), request) and place_on_nodes(ledger, entry, choice) is not None
    finally:
        for each in gone:
            ledger.charge(each)


@pytest.mark.parametrize("seed", range(40))
def test_counting_gives_the_result_of_editing_the_nodes(seed: int) -> None:
    mix = random.Random(seed)
    world = _world(mix)
    wish = mix.choice(((), ("rack?",), ("zone?", "rack?"), ("rack",)))
    enter(world, group("hi", pods("t", mix.randint(1, 6), mix.choice((1, 2, 4)), *wish)), "team", HIGH)
    ledger, entry = world.state.ledger, entry_of(world, "hi")
    before = {name: dict(room.free[0]) for name, room in ledger.nodes.by_name.items()}
    ((choice, request),) = options(ledger, entry, entry.bucket.counts)
    trial = Trial(ledger, entry, choice, request)
    held = [each for each in ledger.placed.values() if each is not entry]
    gone: list[Entry] = []
    told = []
    for _ in range(30):
        each = mix.choice(held)
        (trial.put_back if each in gone else trial.take)(each)
        gone = [other for other in gone if other is not each] if each in gone else [*gone, each]
        told.append((list(gone), trial.fits()))
        others = [other for other in mix.sample(held, k=3) if other not in gone]
        told.append(([*gone, *others], trial.would_fit_without(others)))
    told.append((list(gone), trial.fits()))
    placed = trial.place()
    assert (placed is not None) == told[-1][1]
    trial.all_back()
    assert {name: dict(room.free[0]) for name, room in ledger.nodes.by_name.items()} == before
    assert [_with_all_gone(ledger, entry, each) for each, _ in told] == [found for _, found in told]
