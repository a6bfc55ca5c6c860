"""The cost of viewing the past: the page at an earlier time, with 10,000 nodes in full use.

Gangs of 25 nodes arrive, wait and end one after the other; each view is of a time far from the one before.
"""

import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import process_time

from bench.section import Cell, Rows, against, ms
from runrig.backends.simulated import SimulatedBackend, SimulatedClock
from runrig.domain.gangs import Assignment, Gang, GangState, NodeShare, PodSet, Priority
from runrig.domain.nodes import DEFAULT_FLAVOR, Flavor, Node
from runrig.domain.plan import Action, Admit, PutCohort, PutNode, PutPool, Queue, Release, SetFlavors
from runrig.domain.pools import Cohort, Pool, Quota, TopologyKey
from runrig.domain.quantities import CPU, GPU, FlavorResource
from runrig.domain.records import Event
from runrig.domain.subjects import workflow_of
from runrig.engine.state.state import State
from runrig.ports.past import Declared, Present
from runrig.service.past.keeper import DECISIONS, checkpoint_of
from runrig.service.queries.visibility import ALL
from runrig.service.service import Service
from runrig.store import SqlStore
from runrig.web.board import layout, records
from runrig.wiring.process import keep_what_is_loaded

NODES, GPUS, NODES_EACH, POOLS = 10_000, 8, 25, 8
FEW, MANY = 150, 100_000
"""Waiting gangs."""
TURNS = 600
"""Gangs that are replaced by another one: three decisions each."""
JUMP_GOAL = 100.0
ABOUT = (
    f"a look into the past at {NODES:,} nodes, {NODES // NODES_EACH} gangs that hold all of them and {FEW} or {MANY:,} that wait: "
    "ms of processor, bytes of checkpoints"
)
_KEYS = tuple(TopologyKey(level, level) for level in ("zone", "spine", "rack"))
_POD = ((CPU, 8_000), (GPU, GPUS))


def table(runs: int) -> Rows:
    return [row for waiting in (FEW, MANY) for row in _rows(waiting, max(3, runs))]


def _rows(waiting: int, runs: int) -> Rows:
    with tempfile.TemporaryDirectory(prefix="runrig-bench-") as folder:
        store = SqlStore.open(Path(folder) / "runrig.db")
        sizes = _history(store, waiting)
        keep_what_is_loaded()  # as a server does
        clock = SimulatedClock(1.0, Path(folder))
        service = Service(store, SimulatedBackend((), clock, Path(folder)), clock)
        try:
            found = [
                *_looks(service, runs),
                *({"what": what, "here": size} | against(0, None) for what, size in sizes),
            ]
        finally:
            service.close()
    return [{**row, "what": f"{waiting:,} wait: {row['what']}"} for row in found]


# ---------------------------------------------------------------- a history


def _history(store: SqlStore, waiting: int) -> list[tuple[str, Cell]]:
    """Commits it; returns the bytes counted for the first checkpoint, and the maximum for a later one."""
    state, sizes = State(), list[int]()
    since: list[Action] = []
    for revision, actions in enumerate(_commits(waiting), 1):
        at = 1_800_000_000.0 + revision
        store.commit(revision, [Event(revision, seq, at, "engine", each) for seq, each in enumerate(actions)], [])
        state.apply_all(actions, at)
        state.revision = revision
        since += actions
        if revision > 1 and len(since) >= DECISIONS:  # revision 1 declares everything
            present = _present(state, at, since, whole=not sizes)
            sizes.append(store.past.write(checkpoint_of(present, 0), present, None))
            since = []
    return [("bytes of the first checkpoint", sizes[0]), ("most of a later one", max(sizes[1:]))]


def _present(state: State, at: float, since: list[Action], *, whole: bool) -> Present:
    """As a store with the tables of *state* returns it."""
    rows = state.rows()
    declared = Declared(rows.flavors, rows.nodes, rows.cohorts, rows.pools)
    waiting = {row.gang.workflow: (row.gang,) for row in rows.gangs if row.state is GangState.PENDING}
    decided = sorted({id for each in since if (id := workflow_of(each)) is not None})
    queued = waiting if whole else {id: waiting.get(id, ()) for id in decided}
    asked = Counter(gang.pod_sets for (gang,) in waiting.values())
    held = tuple(row for row in rows.gangs if row.state is not GangState.PENDING)
    return Present(state.revision, at, declared, held, queued, whole, tuple(asked.items()))


def _commits(waiting: int) -> Iterator[list[Action]]:
    pools = [_pool(at) for at in range(POOLS)]
    yield [
        SetFlavors((Flavor(DEFAULT_FLAVOR),)),
        *(PutCohort(Cohort(f"c{at}")) for at in range(2)),
        *map(PutPool, pools),
        *(PutNode(_node(at)) for at in range(NODES)),
    ]
    places = NODES // NODES_EACH
    yield [Queue(_gang(at)) for at in range(places + waiting)] + [_starts(at, at) for at in range(places)]
    there = list(range(places))
    for turn in range(TURNS):
        place = turn * 7 % places
        gone, there[place] = there[place], places + turn
        yield [Queue(_gang(places + waiting + turn)), Release(_gang(gone).id), _starts(there[place], place)]


def _pool(at: int) -> Pool:
    quota = {FlavorResource(DEFAULT_FLAVOR, GPU): Quota(NODES * GPUS // POOLS)}
    return Pool(f"pool{at}", quota, cohort=f"c{at % 2}", topology_keys=_KEYS)


def _node(at: int) -> Node:
    labels = {"zone": f"z{at // 2500}", "spine": f"s{at // 500:02}", "rack": f"r{at // 20:03}"}
    return Node(f"n{at:05}", {GPU: GPUS, CPU: 96_000}, labels=labels)


def _gang(number: int) -> Gang:
    sets = (PodSet("main", NODES_EACH, _POD),)
    return Gang(f"work-{number}/train", f"pool{number % POOLS}", list(Priority)[number % 3], 1.0 + number, sets)


def _starts(number: int, place: int) -> Action:
    nodes = range(place * NODES_EACH, (place + 1) * NODES_EACH)
    shares = tuple(NodeShare(f"n{node:05}", 1, tuple(range(GPUS))) for node in nodes)
    return Admit(_gang(number).id, (Assignment("main", DEFAULT_FLAVOR, NODES_EACH, shares),))


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
    yield _row("sent to a browser: layout and state", min(shown), None)


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


def _row(what: str, seconds: float, most: float | None) -> dict[str, Cell]:
    row: dict[str, Cell] = {"what": what, "here": ms(seconds)}
    return row | against(ms(seconds), most)
