"""What a look into the past costs: the page as it stood, at 10,000 nodes that are all held.

Gangs of 25 nodes come and go, one after the other; the looks go from one time to another that has nothing in common with it.
"""

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import process_time

from bench.section import Cell, Rows, ms, verdict
from runrig.backends.simulated import SimulatedBackend, SimulatedClock
from runrig.domain.gangs import Assignment, Gang, NodeShare, PodSet, Priority
from runrig.domain.nodes import DEFAULT_FLAVOR, Flavor, Node
from runrig.domain.plan import Action, Admit, PutCohort, PutNode, PutPool, Queue, Release, SetFlavors
from runrig.domain.pools import Cohort, Pool, Quota, TopologyKey
from runrig.domain.quantities import CPU, GPU, FlavorResource
from runrig.domain.records import Event
from runrig.engine.state.state import State
from runrig.ports.past import Declared, Standing
from runrig.service.past.keeper import DECISIONS, checkpoint_of
from runrig.service.queries.visibility import ALL
from runrig.service.service import Service
from runrig.store import SqlStore
from runrig.web.board import layout, records
from runrig.wiring.process import keep_what_is_loaded

NODES, GPUS, NODES_EACH, WAITING, POOLS = 10_000, 8, 25, 150, 8
TURNS = 600
"""Gangs that give way to another one: three decisions each."""
JUMP_GOAL = 100.0
ABOUT = (
    f"a look into the past at {NODES:,} nodes, {NODES // NODES_EACH} gangs that hold all of them and {WAITING} that wait: ms of processor, "
    "bytes of checkpoints"
)
_KEYS = tuple(TopologyKey(level, level) for level in ("zone", "spine", "rack"))
_POD = ((CPU, 8_000), (GPU, GPUS))


def table(runs: int) -> Rows:
    with tempfile.TemporaryDirectory(prefix="runrig-bench-") as folder:
        store = SqlStore.open(Path(folder) / "runrig.db")
        sizes = _history(store)
        keep_what_is_loaded()  # as a server does
        clock = SimulatedClock(1.0, Path(folder))
        service = Service(store, SimulatedBackend((), clock, Path(folder)), clock)
        try:
            return [
                *_looks(service, max(3, runs)),
                *({"what": what, "here": size, "goal": "-", "is": ""} for what, size in sizes),
            ]
        finally:
            service.close()


# ---------------------------------------------------------------- a history


def _history(store: SqlStore) -> list[tuple[str, Cell]]:
    """Commits it; returns the bytes of a checkpoint with the cluster, and of one without."""
    state, sizes = State.empty(), []
    since = 0
    for revision, actions in enumerate(_commits(), 1):
        at = 1_800_000_000.0 + revision
        store.commit(revision, [Event(revision, seq, at, "engine", each) for seq, each in enumerate(actions)], [])
        state.apply_all(actions, at)
        state.revision = revision
        since += len(actions)
        if since >= DECISIONS:
            rows = state.rows()
            declared = Declared(rows.flavors, rows.nodes, rows.cohorts, rows.pools)
            standing = Standing(revision, at, declared, rows.gangs)
            sizes.append(store.past.write(checkpoint_of(standing, 0), standing, None))
            since = 0
    return [("bytes of a checkpoint with the cluster", max(sizes)), ("of one without", min(sizes))]


def _commits() -> Iterator[list[Action]]:
    pools = [_pool(at) for at in range(POOLS)]
    yield [
        SetFlavors((Flavor(DEFAULT_FLAVOR),)),
        *(PutCohort(Cohort(f"c{at}")) for at in range(2)),
        *map(PutPool, pools),
    ]
    yield [PutNode(_node(at)) for at in range(NODES)]
    yield [action for at in range(NODES // NODES_EACH) for action in _starts(at, at)]
    yield [Queue(_gang(NODES + at)) for at in range(WAITING)]
    there = list(range(NODES // NODES_EACH))
    for turn in range(TURNS):
        place = turn * 7 % len(there)
        gone, there[place] = there[place], len(there) + turn
        yield [Release(_gang(gone).id), *_starts(there[place], place)]


def _pool(at: int) -> Pool:
    quota = {FlavorResource(DEFAULT_FLAVOR, GPU): Quota(NODES * GPUS // POOLS)}
    return Pool(f"pool{at}", quota, f"c{at % 2}", topology_keys=_KEYS)


def _node(at: int) -> Node:
    labels = {"zone": f"z{at // 2500}", "spine": f"s{at // 500:02}", "rack": f"r{at // 20:03}"}
    return Node(f"n{at:05}", {GPU: GPUS, CPU: 96_000}, labels=labels)


def _gang(number: int) -> Gang:
    sets = (PodSet("main", NODES_EACH, _POD),)
    return Gang(f"work-{number}/train", f"pool{number % POOLS}", list(Priority)[number % 3], 1.0 + number, sets)


def _starts(number: int, place: int) -> Iterator[Action]:
    gang = _gang(number)
    nodes = range(place * NODES_EACH, (place + 1) * NODES_EACH)
    shares = tuple(NodeShare(f"n{node:05}", 1, tuple(range(GPUS))) for node in nodes)
    yield Queue(gang)
    yield Admit(gang.id, (Assignment("main", DEFAULT_FLAVOR, NODES_EACH, shares),))


# ---------------------------------------------------------------- looks


def _looks(service: Service, runs: int) -> Iterator[dict[str, Cell]]:
    known = [each.revision for each in service._store.past.checkpoints()]
    early, late = known[0] + 60, known[-1] - 5
    first = _look(service, early)
    yield _row("the first look", first, None)
    far, near, shown, any_ = [], [], [], []
    chance = random.Random(1)
    for _ in range(4 * runs):
        any_.append(_look(service, chance.randint(known[0], known[-1])))
    for _ in range(runs):
        far.append(_look(service, late))
        near.append(_look(service, late + 1))
        far.append(_look(service, early))
        shown.append(_shown(service, early))
    yield _row("to any time, median", median(any_), JUMP_GOAL)
    yield _row("to another time, nothing of it the same, 395 decisions behind a checkpoint", min(far), None)
    yield _row("to the next decision", min(near), JUMP_GOAL)
    yield _row("what a browser is told of it: layout and state", min(shown), None)


def _look(service: Service, revision: int) -> float:
    """The ledger, the board and the quota tree as of *revision*."""
    begin = process_time()
    with service.past.at(service.past.moment(revision)) as then:
        then.boards.board(ALL)
        then.queries.quota_tree(ALL)
    return process_time() - begin


def _shown(service: Service, revision: int) -> float:
    with service.past.at(service.past.moment(revision)) as then:
        board = then.boards.board(ALL)
    begin = process_time()
    layout(board)
    records(board)
    return process_time() - begin


def _row(what: str, seconds: float, goal: float | None) -> dict[str, Cell]:
    told = "" if goal is None else verdict(ms(seconds) <= goal)
    return {"what": what, "here": ms(seconds), "goal": "-" if goal is None else goal, "is": told}
