"""A replica is what a server would load, after whatever was committed, however rarely it looks."""

import random
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from runrig.domain.errors import RunrigError
from runrig.domain.gangs import Priority
from runrig.domain.nodes import Node
from runrig.engine.cycle import run
from runrig.engine.explain.why import why
from runrig.engine.scheduling.verdicts import at_rest
from runrig.engine.state.state import State
from runrig.service.mirror import replica as replicas
from runrig.service.mirror.answering import READY, Answering
from runrig.service.mirror.replica import Replica
from runrig.store import SqlStore
from tests.worlds.service import Desk, desk, do

pytestmark = pytest.mark.slow

SUBPOOLS = ("", "a: 1", "a: 1, b: 1", "a: 2, b: 0")


def cluster(chance: random.Random) -> str:
    org = chance.choice(["", ", cohort: org", ", cohort: org, borrowing_limit: 1"])
    parts = ", ".join(f"{{name: {part[0]}, quota: {part[3]}}}" for part in chance.choice(SUBPOOLS).split(", ") if part)
    return f"""
cohorts: [{{name: org}}]
pools:
- {{name: pool1, quota: {chance.choice([2, 3])}{org}, subpools: [{parts}]}}
- {{name: pool2, quota: {chance.choice([1, 2])}{org}}}
"""


def step(it: Desk, chance: random.Random) -> None:
    """Something that people or time do; refused or not."""
    what = chance.random()
    with suppress(RunrigError):
        if what < 0.5:
            it.submit(
                f"w{chance.randrange(3)}",
                chance.choice(["pool1", "pool1--a", "pool2"]),
                chance.choice([*Priority]),
                gpus=chance.choice([1, 2]),
                duration=chance.choice([5.0, 50.0]),
            )
        elif what < 0.6:
            live = sorted(it.store.load().workflows, key=lambda each: each.id)
            if live:
                do(it.service, it.service.submissions.cancelling(chance.choice(live).id, user="ann"))
        elif what < 0.75:
            it.service.declarations.apply(cluster(chance), user="ann", prune=True)
        else:
            it.later(chance.choice([0, 10]))


def of(it: Desk, open_store: Callable[[], SqlStore] | None = None) -> Replica:
    return Replica(open_store or (lambda: it.store), fixed_nodes=it.backend.fixed_nodes, topology=it.backend.topology)


@pytest.mark.parametrize("seed", range(12))
def test_replica_equals_the_stored_rows_after_any_history(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "PAGE", 7)
    chance = random.Random(seed)
    with desk(tmp_path, nodes=(Node("n0", {"gpu": 4}), Node("n1", {"gpu": 2}))) as it:
        replica = of(it)
        replica.catch_up()
        first = replica.state
        for _ in range(60):
            step(it, chance)
            if chance.random() < 0.3:
                replica.catch_up()
                assert replica.state.rows() == it.store.load()
        it.later(0)
        replica.catch_up()
        assert replica.state.rows() == it.store.load()
        assert replica.state is first  # it followed
        loaded = State.load(it.store.load(), fixed_nodes=it.backend.fixed_nodes, topology=it.backend.topology)
        seen = it.backend.observe()
        assert run(replica.state, seen, it.time[0] + 60) == run(loaded, seen, it.time[0] + 60)


def test_a_replica_does_not_collect_nominations(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        replica = of(it)
        for name in "wxyz":
            it.submit(name, "pool1", Priority.LOW)
        it.later(1)
        it.submit("v", "pool2")
        replica.catch_up()
        replica.settle(100)
        assert replica.settled
        assert replica.state.ledger.searches.nominations == {}


def test_gap_in_the_log_makes_the_replica_reload(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        replica = of(it)
        replica.catch_up()
        first, id = replica.state, it.submit("short", duration=1)
        it.later(0)
        it.later(5)
        it.submit("other")
        it.store.retention.prune([id], 100)
        assert it.store.retention.prune_events(100).rows
        replica.catch_up()
        assert replica.state is not first
        assert replica.state.rows() == it.store.load()


def test_long_pause_makes_the_replica_reload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "LONGEST_GAP_S", 0.0)
    with desk(tmp_path) as it:
        replica = of(it)
        replica.catch_up()
        first = replica.state
        it.submit("a")
        replica.catch_up()
        assert replica.state is not first
        assert replica.state.rows() == it.store.load()


def test_file_is_loaded_again_after_its_last_workflow_ended(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        replica = of(it)
        it.submit("a", duration=1)
        replica.catch_up()
        first = replica.state
        it.later(5)
        it.submit("a", duration=1)
        replica.catch_up()
        assert replica.state is first
        assert replica.state.rows() == it.store.load()


def test_replica_follows_a_server_on_either_store(tmp_path: Path, any_store: str) -> None:
    with desk(tmp_path, database=any_store) as it:
        replica = of(it, lambda: SqlStore.look(any_store))
        for name in ("a", "b", "c"):
            it.submit(name)
            it.later(0)
            replica.catch_up()
            assert replica.state.rows() == it.store.load()
            replica.make_ready()


@pytest.mark.parametrize("seed", range(8))
def test_same_gangs_are_asleep_in_server_and_replica(tmp_path: Path, seed: int) -> None:
    """So that both say the same of what the next cycle does."""
    chance = random.Random(seed)
    with desk(tmp_path, nodes=(Node("n0", {"gpu": 4}), Node("n1", {"gpu": 2}))) as it:
        replica = of(it)
        for _ in range(40):
            step(it, chance)
        it.later(0)
        replica.catch_up()
        looks = 0
        while not replica.settled:
            replica.settle(3)
            looks += 3
        assert looks < 1000
        assert at_rest(replica.state.ledger)
        with it.service._transactor.reading() as state:
            assert at_rest(state.ledger)
            for id in sorted(state.workflows):
                assert why(state, id) == why(replica.state, id)


def test_a_mirror_ends_quietly_if_the_server_stops_before_it_is_ready(tmp_path: Path) -> None:
    ours, door = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    interrupts = signal.getsignal(signal.SIGINT)
    with desk(tmp_path) as it, door:
        door.send(READY)  # data that a stopping server has not read
        closing = threading.Timer(0.1, ours.close)
        closing.start()
        try:
            Answering(door, of(it)).run()
        finally:
            signal.signal(signal.SIGINT, interrupts)
            closing.join()
