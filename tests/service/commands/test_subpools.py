"""Subpools under the lock, over a restart and beside a second server (laws P3, S1-S3, W2)."""

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from runrig.backends.simulated import SimulatedClock
from runrig.domain.amounts import Share
from runrig.domain.errors import Conflict, Refused, RunrigError, Unavailable
from runrig.domain.plan import Plan, PutPool, Submit
from runrig.domain.pools import PoolState, gpus_of
from runrig.domain.records import Event
from runrig.service.runtime.drain_sweep import EVERY_S, DrainSweep
from runrig.service.runtime.transactor import Transactor
from runrig.service.service import Service
from runrig.store import SqlStore
from tests.patience import PATIENCE_S
from tests.worlds.service import T0, Backend, Desk, desk, one_task, second_server, submit

TEAM = "pools: [{name: team, quota: 10}]"


def _state(it: Desk, name: str) -> PoolState:
    return it.service.queries.pool(name).pool.state


def _create(it: Desk, short: str, share: Share) -> None:
    it.service.subpools.create("team", short, share, user="ann")


# ---------------------------------------------------------------- races


def test_submission_is_not_stored_if_its_pool_changed_after_the_decision(tmp_path: Path) -> None:
    """P3: another server edits the pool between the decision and the commit; the revision says so."""
    with desk(tmp_path, cluster=TEAM, gpus=10) as it:
        assert it.service.queries.pool("team").now.gpus.unallocated == 10
        other = second_server(tmp_path, T0 + 50)
        other.subpools.create("team", "a", 7, user="eve")
        with pytest.raises(Unavailable):
            it.submit("w", "team", gpus=4)
        other.close()
        with pytest.raises(Refused, match="pool team has 3 unallocated"):
            it.submit("w", "team", gpus=4)
        assert [action for action in it.actions() if isinstance(action, Submit)] == []
        assert it.submit("w", "team", gpus=3) == "w-1"


def test_edit_is_not_stored_if_its_pool_changed_after_the_decision(tmp_path: Path) -> None:
    """S1, S3: a subpool that somebody submits to is not archived as idle."""
    with desk(tmp_path, cluster=TEAM, gpus=10) as it:
        _create(it, "a", 4)
        other = second_server(tmp_path, T0 + 50)
        submit(other, one_task("w"), "team--a", "eve")
        with pytest.raises(Unavailable):
            it.service.subpools.delete("team", "a", user="ann")
        other.close()
        it.later(0)
        it.service.subpools.delete("team", "a", user="ann")
        assert _state(it, "team--a") is PoolState.DELETING


def test_no_interleaving_of_commands_admits_work_past_an_edit(tmp_path: Path) -> None:
    """P3, S1: in the order of the log, every firm submission was within what was unallocated before it."""
    with desk(tmp_path, cluster=TEAM, gpus=10) as it:
        _create(it, "a", 1)
        begin = threading.Barrier(6)
        answers: list[RunrigError] = []

        def several(command: Callable[[int], object]) -> None:
            begin.wait()
            for at in range(12):
                try:
                    command(at)
                except (Refused, Conflict) as error:
                    answers.append(error)

        def work(gpus: int) -> Callable[[int], object]:
            return lambda at: submit(it.service, one_task(f"w{gpus}", gpus=gpus), "team", "ann")

        def resize(at: int) -> None:
            it.service.subpools.resize("team", "a", 9 if at % 2 else 1, user="eve")

        def flicker(at: int) -> None:
            if at % 2:
                it.service.subpools.delete("team", "b", user="eve")
            else:
                it.service.subpools.create("team", "b", 4, user="eve")

        commands = [work(2), work(5), work(6), work(9), resize, flicker]
        threads = [threading.Thread(target=several, args=(command,)) for command in commands]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        _check_log(it.store.log.events())
        assert {type(error) for error in answers} <= {Refused, Conflict}
        assert len(answers) + len([each for each in it.actions() if isinstance(each, Submit)]) >= 4 * 12


def _check_log(events: tuple[Event, ...]) -> None:
    held = {"team": 10}
    for event in events:
        match event.action:
            case PutPool(pool):
                held[pool.name] = 0 if pool.state is PoolState.ARCHIVED else sum(gpus_of(pool.quotas).values())
                assert 2 * held["team"] - sum(held.values()) >= 0
            case Submit(workflow):
                assert int(workflow.name[1:]) <= 2 * held["team"] - sum(held.values()), event


# ---------------------------------------------------------------- drain


def test_drain_continues_after_a_restart(tmp_path: Path) -> None:
    """S3, W2."""
    with desk(tmp_path, cluster=TEAM, gpus=10) as it:
        _create(it, "a", 4)
        it.submit("w", "team--a", gpus=2, duration=100)
        it.later(0)
        it.service.subpools.delete("team", "a", user="ann")
        assert _state(it, "team--a") is PoolState.DELETING
    with desk(tmp_path, cluster=None, gpus=10, time=T0 + 60) as it:
        assert _state(it, "team--a") is PoolState.DELETING
        assert it.service.queries.pool("team").now.gpus.unallocated == 6
    with desk(tmp_path, cluster=None, gpus=10, time=T0 + 600) as it:
        assert it.status("w-1") == "COMPLETED"
        assert _state(it, "team--a") is PoolState.ARCHIVED
        assert it.service.queries.pool("team").now.gpus.unallocated == 10


def test_pool_is_archived_in_the_cycle_in_which_its_last_workflow_ends(tmp_path: Path) -> None:
    """S3."""
    with desk(tmp_path, cluster=TEAM, gpus=10) as it:
        _create(it, "a", 4)
        it.submit("w", "team--a", duration=100)
        it.later(0)
        it.service.subpools.delete("team", "a", user="ann")
        it.later(200)
        last = it.store.log.events(pool="team--a")[-1]
        end = it.store.log.events(workflow="w-1")[-1]
        assert isinstance(last.action, PutPool)
        assert (last.action.pool.state, last.revision, last.time) == (PoolState.ARCHIVED, end.revision + 1, end.time)


def test_sweep_runs_at_the_start_and_at_every_interval(tmp_path: Path) -> None:
    """S3."""
    with closing(SqlStore.open(tmp_path / "runrig.db")) as store:
        moments = [T0]
        clock = SimulatedClock(1.0, tmp_path, real_time=lambda: moments[0])
        drains = DrainSweep(Transactor(store, clock, fixed_nodes=True, topology=False), store, clock, EVERY_S)
        assert drains.due_in_s() == 0
        drains.sweep()
        assert drains.due_in_s() == 900
        moments[0] += 899
        drains.sweep()
        assert drains.due_in_s() == 1
        moments[0] += 2
        drains.sweep()
        assert drains.due_in_s() == 900


def test_sweep_uses_stored_and_not_remembered_state(tmp_path: Path) -> None:
    """S3: a workflow that only the memory holds keeps no pool DELETING for longer than an interval."""
    with desk(tmp_path, cluster=TEAM, gpus=10) as it:
        _create(it, "a", 4)
        it.submit("w", "team--a", duration=100)
        it.later(0)
        it.service.subpools.delete("team", "a", user="ann")
        with closing(SqlStore.open(tmp_path / "runrig.db")) as store:
            clock = SimulatedClock(1.0, tmp_path, real_time=lambda: it.time[0])
            door = Transactor(store, clock, fixed_nodes=True, topology=False)
            with door.reading() as remembered:
                assert "w-1" in remembered.workflows
            it.later(200)
            DrainSweep(door, store, clock, EVERY_S).sweep()
            with door.reading() as state:
                assert state is not remembered
                assert (state.workflows, state.pools["team--a"].state) == ({}, PoolState.ARCHIVED)


def test_the_loop_wakes_for_the_next_sweep(tmp_path: Path) -> None:
    """S3: also when nothing else has a deadline."""
    moments = [T0]
    clock = SimulatedClock(1.0, tmp_path, real_time=lambda: moments[0])
    store = SqlStore.open(tmp_path / "runrig.db")
    waits: list[float] = []

    class Patient(Backend):
        def wait(self, timeout_s: float) -> None:
            waits.append(timeout_s)
            moments[0] += timeout_s
            if len(waits) == 3:
                ended.set()
                stop.wait(PATIENCE_S)

    ended, stop = threading.Event(), threading.Event()
    service = Service(store, Patient((), clock, tmp_path), clock, drain_sweep_s=60)
    service.prepare(None, user="ann")
    service.start()
    assert ended.wait(PATIENCE_S)
    stop.set()
    service.close()
    assert waits[:3] == [60, 60, 60]


# ---------------------------------------------------------------- an upgrade


def test_subpool_that_did_not_follow_its_parent_does_so_at_the_next_start(tmp_path: Path) -> None:
    """S5: before there were commands for subpools, a change of the parent left them as they were."""
    with desk(tmp_path, cluster=TEAM, gpus=10) as it:
        _create(it, "a", 4)
        door = Transactor(
            it.store, SimulatedClock(1.0, tmp_path, real_time=lambda: it.time[0]), fixed_nodes=True, topology=False
        )
        with door.writing("ann") as writing:
            before = writing.state.pools["team"]
            writing.commit(Plan((PutPool(replace(before, grace_s=1.0), before),)))
    with desk(tmp_path, cluster=None, gpus=10) as it:
        assert it.service.queries.pool("team--a").pool.grace_s == 1.0
        revision = it.revision
    with desk(tmp_path, cluster=None, gpus=10) as it:
        assert it.revision == revision
