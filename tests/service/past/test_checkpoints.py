"""Checkpoints: when they are written, how large they are, and what retention leaves of them."""

from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from runrig.domain.gangs import Assignment, Gang, GangState, Law, NodeShare, PodSet, Priority
from runrig.domain.nodes import Flavor, Node, Taint
from runrig.domain.pools import Cohort, Pool, Quota
from runrig.domain.quantities import GPU, FlavorResource
from runrig.domain.records import GangRow
from runrig.ports.past import Declared
from runrig.service.past import keeper
from runrig.service.queries.visibility import ALL
from runrig.service.runtime.retention import Retention
from runrig.store import SqlStore, schema
from runrig.store.checkpoints import cluster_of, gangs_of, packed_cluster, packed_gangs
from runrig.store.past import SqlPast
from tests.service.past.told import told
from tests.stores import KINDS, store_url
from tests.worlds.service import desk

DAY = 86_400.0


def test_unpacking_reverses_packing() -> None:
    nodes = tuple(
        Node(f"n{i}", {GPU: 8}, labels={"rack": f"r{i // 4}"}, ready=i % 7 > 0, taints=(Taint("t"),) if i == 5 else ())
        for i in range(40)
    )
    quota = {FlavorResource("default", "nvidia.com/gpu"): Quota(8, 2, None)}
    declared = Declared(
        (Flavor("default"),),
        nodes,
        (Cohort("c"),),
        (Pool("p", quota), Pool("p--s", quota, parent="p", subpool_name="s")),
    )
    assert cluster_of(packed_cluster(declared)) == declared
    sets = (PodSet("a", 4, ((GPU, 2),), 2), PodSet("b", 1, ()))
    shares = (NodeShare("n1", 1, (0, 1)), NodeShare("n2", 1, (0, 1)), NodeShare("gone", 2), NodeShare("n0", 1, (0, 1)))
    held = (Assignment("a", "default", 4, shares), Assignment("b", "default", 1))
    alone = (Assignment("b", "default", 1, shares[1:2]),)
    gangs = (
        GangRow(Gang("w-1/g", "p", Priority.LOW, 1.5, sets), GangState.PENDING),
        GangRow(Gang("w-2/g", "p", Priority.HIGH, 2.0, sets, 3, "no room"), GangState.PENDING),
        GangRow(Gang("w-3/g", "p", Priority.NORMAL, 2.0, sets), GangState.NOMINATED, held, ("w-4/g",)),
        GangRow(
            Gang("w-4/g", "p--s", Priority.LOW, 2.0, sets[1:]),
            GangState.STOPPING,
            alone,
            (),
            4.25,
            "w-3/g",
            Law.RECLAIM,
        ),
    )
    names = [node.name for node in nodes]
    assert gangs_of(packed_gangs(gangs, names), names) == gangs
    assert gangs_of(packed_gangs((), ()), ()) == ()


def log_bytes(store: SqlStore) -> int:
    with store.transactions.reading() as connection:
        size: int = connection.execute(select(func.sum(func.length(schema.events.c.action)))).scalar_one()
    return size


def packed_bytes(store: SqlStore) -> list[int]:
    kept = schema.checkpoints.c
    size = func.length(kept.gangs) + func.coalesce(func.length(kept.cluster), 0)
    with store.transactions.reading() as connection:
        return list(connection.execute(select(size).order_by(kept.revision)).scalars())


def test_checkpoints_come_every_400_decisions_and_take_two_percent_of_the_log(tmp_path: Path) -> None:
    nodes = tuple(Node(f"n{i:03}", {GPU: 8}) for i in range(12))
    with desk(tmp_path, nodes=nodes, cluster='{"pools": [{"name": "pool1", "quota": 90}]}') as it:
        assert it.service.keeper.step()
        assert not it.service.keeper.step()
        found = []
        for at in range(450):
            it.submit(f"w{at}", gpus=8, duration=3)
            it.later(1)
            before = it.store.past.checkpoints()[-1]
            if it.service.keeper.step():
                found.append(it.store.past.growth(before.revision, it.store.past.checkpoints()[-1].revision))
        assert found
        assert all(each is not None and each.decisions >= keeper.DECISIONS for each in found)
        assert sum(packed_bytes(it.store)[1:]) * 50 <= log_bytes(it.store)


def test_checkpoint_is_written_after_an_hour_with_decisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "PART", 1)
    with desk(tmp_path) as it:
        assert it.service.keeper.step()
        it.submit("a")
        it.service.settle()
        assert not it.service.keeper.step()
        it.later(keeper.AGE_S)
        assert it.service.keeper.step()
        assert not it.service.keeper.step()


def test_size_limit_of_checkpoints_overrides_the_number_of_decisions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "DECISIONS", 1)
    with desk(tmp_path) as it:
        assert it.service.keeper.step()
        for at in range(5):
            it.submit(f"w{at}")
            it.service.settle()
            assert not it.service.keeper.step()


@pytest.mark.parametrize("kind", KINDS)
def test_retention_deletes_checkpoints_that_can_no_longer_be_replayed_from(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left begins with a checkpoint of its own, and is told as before; of what is gone nothing is told."""
    monkeypatch.setattr(keeper, "DECISIONS", 1)
    monkeypatch.setattr(keeper, "PART", 1)
    monkeypatch.setattr(keeper, "AGE_S", 0.0)
    with store_url(kind, tmp_path) as url, desk(tmp_path, database=url) as it:
        seen = {}
        for at in range(6):
            it.submit(f"w{at}", gpus=1 + at % 2, duration=DAY / 3)
            it.later(0)
            it.service.keeper.step()
            seen[it.revision] = told(it.service, ALL)
            it.later(DAY)
            it.later(0)
        days = 3.5
        retention = Retention(it.store, it.backend, it.service.clock, days, it.service.metrics)
        known = it.store.past.checkpoints()
        while retention.step():
            pass
        left = it.store.past.checkpoints()
        assert 0 < len(left) < len(known)
        assert left == known[-len(left) :]
        gone = {each for each in seen if each < left[0].revision}
        assert gone
        for revision, expected in seen.items():
            if revision in gone:
                with pytest.raises(Exception, match="no history for"):
                    it.service.past.moment(revision)
                continue
            with it.service.past.at(it.service.past.moment(revision)) as then:
                again = told(then, ALL)
            for name in ("board", "tree", "pool pool1", "waiting pool1", "workflows ('PENDING', 'RUNNING') 100"):
                assert again[name] == expected[name]
        before, last = (SqlPast(it.store.transactions).base(each.revision) for each in left[-2:])
        newest = update(schema.checkpoints).where(schema.checkpoints.c.revision == left[-1].revision)
        for damaged in ({"gangs": b"damaged"}, {"cluster": b"damaged", "cluster_at": left[-1].revision}):
            with it.store.transactions.writing() as connection:
                connection.execute(newest.values(damaged))
            assert SqlPast(it.store.transactions).base(left[-1].revision) == before != last
        it.submit("later")
        it.later(0)
        assert it.service.keeper.step(), "the next checkpoint is written with a cluster of its own"
