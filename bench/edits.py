"""The cost of declarations on a busy ledger: a changed pool or cohort, and changed nodes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from time import thread_time
from typing import NamedTuple

from bench.racks import Cluster, gang, hold, made, node_name, queued
from bench.section import Cell, Rows, against, ms
from bench.timing import Times, timed
from bench.world import FLAVORS, queue, quotas, thousand_pools
from bench.world import gang as one_pod
from runrig.domain.gangs import Assignment, Priority
from runrig.domain.plan import Admit
from runrig.domain.pools import Cohort, Pool, PoolState, Quota
from runrig.domain.quantities import GPU, FlavorResource
from runrig.engine.ledger.fit import find_place
from runrig.engine.ledger.ledger import Ledger

ABOUT = "declarations in a busy ledger, processor time in ms; 1,000 pools hold 11,000 gangs, each node holds 6"
GANGS = 11_000
GANGS_PER_NODE = 6
SIZES = (1_000, 10_000)
MANY = 50
PUT_POOL, PUT_NODE, PUT_FIFTY, LOOK = 205.0, 360.0, 3400.0, 80.0
"""Milliseconds before declarations were applied in place: the minimum; for nodes, with 10,000 of them."""


class Edited(NamedTuple):
    """*before*: the earlier figure; *goal*: milliseconds.  None: not specified."""

    what: str
    at: str
    times: Times
    before: float | None
    goal: float | None


def measured(runs: int, gangs: int = GANGS, sizes: Sequence[int] = SIZES) -> Iterator[Edited]:
    yield from _quotas(gangs, runs)
    for nodes in sizes:
        yield from _nodes(nodes, runs)


def rows(runs: int) -> Rows:
    found: Rows = []
    for each in measured(runs):
        best = ms(each.times.least)
        row: dict[str, Cell] = {"change": each.what, "at": each.at, "before": each.before or "-", "min": best}
        row |= {"median": ms(each.times.median), "normalised": ms(each.times.normalised)}
        found.append(row | against(best, each.goal))
    return found


# ---------------------------------------------------------------- pools and cohorts


def _quotas(gangs: int, runs: int) -> Iterator[Edited]:
    ledger, names = thousand_pools()
    for at in range(gangs):
        priority = Priority.LOW if at % 2 else Priority.NORMAL
        queue(ledger, [one_pod(f"g{at}", names[at % len(names)], priority, at)])
        ledger.apply(Admit(f"g{at}", (Assignment("main", FLAVORS[at // len(names) % 2], 1),)), at)
    pool, cohort = ledger.pools[names[500]], ledger.cohorts["root-2"]
    gpus = FlavorResource(FLAVORS[0], GPU)
    edits: dict[str, tuple[Pool | Cohort, float | None]] = {
        "a pool's quota": (replace(pool, quotas=quotas(5)), 1.0),
        "a pool's cohort": (replace(pool, cohort="root-1-1"), 1.0),
        "a new pool": (replace(pool, name="new"), 1.0),
        "a cohort's numbers": (replace(cohort, quotas={gpus: Quota(0, 90, 300)}), 1.0),
        "a cohort's first limits": (replace(ledger.cohorts["root-3"], quotas={gpus: Quota(0, 90, 300)}), None),
        "a cohort's first quota": (replace(ledger.cohorts["root-3"], quotas={gpus: Quota(9)}), None),
    }
    ledger.put_cohort(replace(cohort, quotas={gpus: Quota(0, 100, 200)}))
    for what, (changed, goal) in edits.items():
        yield Edited(what, "1,000 pools", timed(partial(_edit, ledger, changed), runs), PUT_POOL, goal)


def _edit(ledger: Ledger, changed: Pool | Cohort) -> float:
    """Makes a change and undoes it; only the change is timed."""
    tree, brought = ledger.tree, list(ledger.tree.root.subtree)
    known: Pool | Cohort | None
    if isinstance(changed, Pool):
        known = ledger.pools.get(changed.name)
        seconds = _timed(ledger, lambda: ledger.put_pool(changed))
        assert ledger.tree.pools[changed.name].pool is changed
        ledger.put_pool(known or replace(changed, state=PoolState.ARCHIVED))
    else:
        known = ledger.cohorts[changed.name]
        seconds = _timed(ledger, lambda: ledger.put_cohort(changed))
        nominal = {key: quota.nominal for key, quota in changed.quotas.items()}
        assert ledger.tree.cohorts[changed.name].nominal == [nominal.get(key, 0) for key in tree.keys]
        ledger.put_cohort(known)
    assert ledger.tree is tree
    assert brought == tree.root.subtree, "an edit back is its inverse"
    return seconds


def _timed(ledger: Ledger, change: Callable[[], None]) -> float:
    start = thread_time()
    change()
    assert ledger.tree.root.active
    return thread_time() - start


# ---------------------------------------------------------------- nodes


def _nodes(nodes: int, runs: int) -> Iterator[Edited]:
    state = made(Cluster(nodes=nodes, busy=False))
    ledger = state.ledger
    for at in range(nodes * GANGS_PER_NODE):
        hold(ledger, gang(f"g{at}/g", 1, priority=Priority.LOW, at=at), {at // GANGS_PER_NODE: 1}, at)
    waiting = queued(ledger, gang("waiting/g", 16))
    assert find_place(ledger, waiting, (16,)) is not None

    def turned(hosts: range) -> float:
        """Marks *hosts* as not ready, or as ready again."""
        start = thread_time()
        for host in hosts:
            node = ledger.nodes.by_name[node_name(host)].node
            ledger.put_node(replace(node, ready=not node.ready))
            assert ledger.tree.root.active
        return thread_time() - start

    def looked(hosts: range) -> float:
        turned(hosts)
        start = thread_time()
        found = find_place(ledger, waiting, (16,))
        seconds = thread_time() - start
        assert found is not None
        assert all(ledger.nodes.takes(share.node, each.flavor) for each in found for share in each.shares)
        return seconds

    known = nodes == SIZES[-1]
    some = range(0, nodes, nodes // MANY)
    for what, measure, before, goal in (
        ("one node", partial(turned, range(7, 8)), PUT_NODE, 1.0),
        (f"{MANY} nodes", partial(turned, some), PUT_FIFTY, 30.0),
        ("the next place, after one", partial(looked, range(7, 8)), LOOK, 2.0),
        (f"the next place, after {MANY}", partial(looked, some), LOOK, 2.0),
    ):
        yield Edited(what, f"{nodes:,} nodes", timed(measure, runs), before if known else None, goal)
