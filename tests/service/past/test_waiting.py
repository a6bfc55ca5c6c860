"""Waiting gangs are stored as changes, and read back as they were: many gangs wait, and few change at a time."""

import random
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import select

from runrig.domain.errors import Conflict
from runrig.domain.gangs import Assignment, Gang, GangState, Law, NodeShare, PodSet, Priority
from runrig.domain.nodes import Flavor, Node
from runrig.domain.pools import Pool, Quota
from runrig.domain.quantities import GPU, FlavorResource
from runrig.domain.records import GangRow
from runrig.engine.state.state import State
from runrig.ports.past import NOBODY, ClusterAt, Declared, Waiting
from runrig.service.past import keeper
from runrig.service.past.series import series
from runrig.service.past.standing import Stood, loaded_of
from runrig.service.runtime.retention import Retention
from runrig.store import SqlStore, schema
from runrig.store.waiting import packed_queued, queued_of
from tests.stores import KINDS, store_url
from tests.worlds.service import Desk, desk, do

DAY = 86_400.0
SETS = (PodSet("main", 2, ((GPU, 1),)),)


def sums(rows: tuple[GangRow, ...]) -> tuple[int, int, int]:
    """GPUs held by work that may not borrow, by work that may, and asked by what waits, counted from each row."""
    firm = low = waiting = 0
    for row in rows:
        per_pod = {each.name: dict(each.requests).get(GPU, 0) for each in row.gang.pod_sets}
        if row.state in (GangState.PENDING, GangState.NOMINATED):
            waiting += sum(each.count * per_pod[each.name] for each in row.gang.pod_sets)
            continue
        held = sum(share.count * per_pod[each.pod_set] for each in row.placement for share in each.shares)
        firm, low = (firm, low + held) if row.gang.priority is Priority.LOW else (firm + held, low)
    return firm, low, waiting


def wholes(store: SqlStore) -> list[bool]:
    """For each row, whether it lists everything that waited."""
    with store.transactions.reading() as connection:
        return list(connection.execute(select(schema.waiting.c.whole).order_by(schema.waiting.c.revision)).scalars())


def go_on(it: Desk, chance: random.Random, number: int) -> None:
    """Something is submitted, something ends or is cancelled, something starts."""
    it.submit(
        f"w{number}", chance.choice(["pool1", "pool2"]), chance.choice(list(Priority)), gpus=1 + number % 2, duration=9
    )
    if number % 3 == 0:
        with suppress(Conflict):  # it has ended
            do(it.service, it.service.submissions.cancelling(f"w{chance.randrange(number + 1)}-1", user="ann"))
    it.later(3)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "DECISIONS", 1)
    monkeypatch.setattr(keeper, "PART", 1)


@pytest.mark.parametrize("kind", KINDS)
def test_each_checkpoint_has_the_gangs_of_its_time(kind: str, tmp_path: Path) -> None:
    """Those that retention leaves say the same."""
    chance = random.Random(5)
    with store_url(kind, tmp_path) as url, desk(tmp_path, database=url) as it:
        for number in range(30):
            it.submit(f"early{number}", gpus=1 + number % 2, duration=9)
        it.later(1)
        seen = {}
        for number in range(40):
            if it.service.keeper.step():
                seen[it.revision] = it.store.load().gangs
            go_on(it, chance, number)
        kept = it.store.past.checkpoints()
        assert [each.revision for each in kept] == [*seen]
        assert [(each.firm, each.low, each.waiting) for each in kept] == [sums(rows) for rows in seen.values()]
        assert 2 <= sum(wholes(it.store)) < len(seen) / 2
        assert_told(it, seen)
        it.later(DAY)
        assert it.service.keeper.step()
        days = (it.time[0] - kept[20].time) / DAY
        retention = Retention(it.store, it.backend, it.service.clock, days, it.service.metrics)
        while retention.step():
            pass
        left = [each.revision for each in it.store.past.checkpoints()]
        assert kept[10].revision < left[0] <= kept[25].revision
        assert_told(it, {revision: rows for revision, rows in seen.items() if revision in left})
        assert len(left) <= len(wholes(it.store)) < len(kept)


def assert_told(it: Desk, seen: dict[int, tuple[GangRow, ...]]) -> None:
    for revision, rows in seen.items():
        base = it.store.past.base(revision)
        assert base is not None
        assert base.revision == revision
        assert tuple(sorted(loaded_of(base).gangs, key=lambda row: row.gang.id)) == rows


def test_curve_counts_waiting_work_and_past_points_never_change(tmp_path: Path) -> None:
    chance = random.Random(6)
    with desk(tmp_path) as it:
        for number in range(20):
            it.submit(f"early{number}", gpus=2, duration=9)
        it.later(1)
        assert it.service.keeper.step()
        seen = {}
        for number in range(12):
            go_on(it, chance, number)
            seen[it.time[0]] = sums(it.store.load().gangs)
        assert len(set(seen.values())) > 3
        for time, expected in seen.items():
            assert series(it.store.past, 0.0, time, 500).points[-1][1:] == expected
            assert series(it.store.past, 0.0, time, 2).points[-1][1:] == expected


def test_unpacking_reverses_packing() -> None:
    kinds = [
        ("a", Priority.HIGH, SETS, 0),
        ("a", Priority.LOW, SETS, 2),
        ("b--c", Priority.LOW, (*SETS, PodSet("x", 1, ())), 0),
    ]
    queued = {
        f"w-{at}": tuple(
            Gang(f"w-{at}/g{group}", pool, priority, 1.5 + at, sets, attempt)
            for group, (pool, priority, sets, attempt) in enumerate(kinds[: at % 4])
        )
        for at in range(2_500)
    }
    assert queued_of(packed_queued(queued)) == queued
    assert queued_of(packed_queued({})) == {}


# ---------------------------------------------------------------- what stays when the time changes

POOL = Pool("p", {FlavorResource("default", GPU): Quota(16)})


def standing(*gangs: GangRow, nodes: int = 2, waiting: Waiting = NOBODY, time: float = 9.0) -> ClusterAt:
    there = tuple(Node(f"n{at}", {GPU: 4}) for at in range(nodes))
    return ClusterAt(7, time, Declared((Flavor("default"),), there, (), (POOL,)), gangs, waiting)


def gang(name: str, priority: Priority = Priority.LOW, refused: str = "") -> Gang:
    return Gang(f"{name}-1/main", "p", priority, 1.0, SETS, refused=refused)


def on(node: str, *gpus: int) -> tuple[Assignment, ...]:
    return (Assignment("main", "default", 2, (NodeShare(node, 2, gpus),)),)


def stops(since: float) -> GangRow:
    held = on("n0", 0, 1)
    return GangRow(gang("target"), GangState.STOPPING, held, (), since, "first-1/main", Law.PRIORITY)


FIRST = GangRow(gang("first", Priority.HIGH), GangState.NOMINATED, on("n0", 0, 1), ("target-1/main",))
RUNS = GangRow(gang("runs"), GangState.ADMITTED, on("n1", 0, 1), (), 2.0)
STARTED = GangRow(gang("waits"), GangState.ADMITTED, on("n0", 0, 1), (), 4.0)
REFUSED = GangRow(gang("refused", refused="no room"), GangState.PENDING)
QUEUED = Waiting({"waits-1": (gang("waits"),), "other-1": (gang("other"),)}, {})

PAIRS = {
    "the target of a nomination was admitted at another time": (
        standing(FIRST, stops(2.0), RUNS, waiting=QUEUED),
        standing(FIRST, stops(3.0), RUNS, waiting=QUEUED),
    ),
    "it stops for another cause": (
        standing(FIRST, stops(2.0), RUNS),
        standing(stops(2.0), RUNS, waiting=Waiting({}, {"first-1": (FIRST.gang,)})),
    ),
    "a node came while somebody was refused": (
        standing(REFUSED, RUNS, nodes=2, waiting=QUEUED),
        standing(REFUSED, RUNS, nodes=3, waiting=QUEUED),
    ),
    "a node came, and who was refused is tried again": (
        standing(REFUSED, nodes=2),
        standing(nodes=3, waiting=Waiting({"refused-1": (gang("refused"),)}, {})),
    ),
    "who waited runs, and the other one has gone": (
        standing(RUNS, waiting=QUEUED),
        standing(STARTED, RUNS, waiting=Waiting(QUEUED.whole, {"waits-1": (), "other-1": ()})),
    ),
    "who ran has ended, and nobody else has moved": (
        standing(STARTED, RUNS, waiting=NOBODY),
        standing(RUNS, waiting=NOBODY),
    ),
    "a whole was written in between": (
        standing(RUNS, waiting=Waiting(QUEUED.whole, {"late-1": (gang("late"),)})),
        standing(
            RUNS, waiting=Waiting({"late-1": (gang("late"),), "other-1": (gang("other"),)}, {"last-1": (gang("last"),)})
        ),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_state_of_one_time_can_be_changed_to_another(name: str) -> None:
    """There and back: the state is one that was loaded, and who runs as before was not touched."""
    one, other = PAIRS[name]
    stood = Stood(one)
    for base in (other, one):
        before = stood.state.ledger.entries.get(RUNS.gang.id)
        assert stood.turn(base)
        fresh = State.load(loaded_of(base))
        assert stood.state.rows() == fresh.rows()
        for of in ("charged", "held"):
            assert {id for id, each in stood.state.ledger.entries.items() if getattr(each, of)} == {
                id for id, each in fresh.ledger.entries.items() if getattr(each, of)
            }
        assert stood.state.ledger.unclaimed.keys() == fresh.ledger.unclaimed.keys()
        assert stood.state.ledger.entries.get(RUNS.gang.id) is before
