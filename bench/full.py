"""The first cycle over a cluster full of LOW work: HIGH and NORMAL gangs of every pool wait, and reclaim their quota.

The cluster of `waiting`: a thousand pools, each with a quota.  LOW gangs of random pools use nearly all of it.
"""

from collections.abc import Iterator
from itertools import count
from random import Random
from time import process_time
from typing import NamedTuple

from bench.racks import GPUS, gang
from bench.section import Cell, Rows, ms, verdict
from bench.timing import as_served
from bench.waiting import NEAR, POOLS, SHAPES, world
from bench.world import cycle, queue
from runrig.domain.gangs import Gang, GangState, Priority
from runrig.domain.plan import Nominate, Preempt, Release
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.quota.quota_node import CHARGED
from runrig.engine.scheduling.admission import decide

ABOUT = "the first cycle over a cluster full of LOW work, 1,000 pools; s of processor time; a part: 120 steps, ms, not stored"
SIZES = ((1_000, 10_000), (10_000, 10_000), (10_000, 100_000))
"""Nodes, and waiting HIGH and NORMAL gangs."""
OLD = {(10_000, 10_000): "> 60", (10_000, 100_000): "> 130"}
TARGET_S, LONGEST_MS = 10.0, 50.0
STEPS = 120
FIRM = (Priority.HIGH, Priority.NORMAL, Priority.NORMAL)


class Measured(NamedTuple):
    """Seconds; *longest*: of a part."""

    first: float
    longest: float
    nominated: int
    stopped: int


def measured(nodes: int, waiting: int) -> Measured:
    ledger = full(nodes)
    queue(ledger, _gangs("firm", waiting, FIRM, at=nodes))
    with as_served():
        longest, nominated, stopped = 0.0, 0, 0
        start = began = process_time()
        steps = count(1)
        for decision in decide(ledger):
            if decision is not None:
                ledger.apply(decision, 3)
                nominated += isinstance(decision, Nominate)
                stopped += isinstance(decision, Preempt)
            elif next(steps) % STEPS == 0:
                now = process_time()
                longest, began = max(longest, now - began), now
        first = process_time() - start
    assert nominated
    assert stopped
    assert all(amount >= 0 for room in ledger.nodes.by_name.values() for amount in room.free[CHARGED].values())
    return Measured(first, longest, nominated, stopped)


def full(nodes: int) -> Ledger:
    """LOW gangs start as far as the rules allow; the others are removed."""
    ledger = world(nodes)
    queue(ledger, _gangs("low", nodes, (Priority.LOW,), at=0))
    cycle(ledger, 1)
    for name in [name for name, entry in ledger.entries.items() if entry.state is GangState.PENDING]:
        ledger.apply(Release(name), 2)
    held = sum(amount for entry in ledger.entries.values() for _, amount in entry.request)
    assert held > 0.9 * nodes * GPUS
    return ledger


def _gangs(name: str, many: int, priorities: tuple[Priority, ...], at: int) -> Iterator[Gang]:
    mix = Random(at)
    for number in range(many):
        pods, gpus = mix.choice(SHAPES)
        near = mix.choice(NEAR) if pods > 1 else ()
        pool, priority = f"p{mix.randrange(POOLS):04}", mix.choice(priorities)
        yield gang(f"{name}{number:06}/g", pods, near, gpus=gpus, pool=pool, priority=priority, at=float(at + number))


def rows() -> Rows:
    table: Rows = []
    for nodes, waiting in SIZES:
        found = measured(nodes, waiting)
        row: dict[str, Cell] = {"nodes": nodes, "waiting": waiting, "first, s": found.first}
        row |= {"old, s": OLD.get((nodes, waiting), "-"), "target, s": TARGET_S}
        row |= {"is": verdict(found.first <= TARGET_S), "longest part, ms": ms(found.longest)}
        row |= {f"at most {LONGEST_MS:g}": verdict(ms(found.longest) <= LONGEST_MS)}
        table.append(row | {"nominated": found.nominated, "stop": found.stopped})
    return table
