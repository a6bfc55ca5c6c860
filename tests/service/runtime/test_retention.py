"""What has had its time leaves in small steps; the live state, the audit of pools and the numbers of names stay."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from runrig.backends.local import LocalBackend
from runrig.domain.errors import NotFound
from runrig.domain.gangs import Priority
from runrig.domain.plan import Nominate
from runrig.domain.workflows import TaskKey
from runrig.ports.backend import Desired
from runrig.ports.store import WorkflowQuery
from runrig.service.runtime import retention
from runrig.store import SqlStore, schema
from tests.backends.local.launches import end_all, launch
from tests.patience import PATIENCE_S
from tests.replaying import replayed
from tests.store.backups import busy
from tests.worlds.service import Desk, desk, do, one_task

DAY = 86_400.0
PERIOD = retention.DAYS * DAY


@contextmanager
def house(folder: Path, url: str) -> Iterator[Desk]:
    with desk(folder, database=url) as it:
        yield it


def run(it: Desk, name: str, **more: Any) -> str:
    """The id of a workflow that has ended by now."""
    id = it.submit(name, duration=1, **more)
    it.later(0)  # it starts
    it.later(2)
    assert it.status(id) == "COMPLETED"
    return id


def prune_all(it: Desk) -> int:
    """How many steps it took."""
    steps = 0
    while it.service.retention.step():
        steps += 1
    return steps


def ids(it: Desk) -> list[str]:
    return sorted(each.id for each in it.store.workflows(WorkflowQuery(limit=1000))[0])


def rows(store: SqlStore) -> dict[str, int]:
    with store.transactions.reading() as connection:
        return {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in (
                schema.workflows,
                schema.groups,
                schema.tasks,
                schema.specifications,
                schema.events,
                schema.pruned,
            )
        }


def test_finished_workflow_is_deleted_when_its_retention_ends_and_not_before(tmp_path: Path, any_store: str) -> None:
    with house(tmp_path, any_store) as it:
        before = rows(it.store)
        run(it, "old")
        it.later(PERIOD - 10)
        run(it, "young")
        assert prune_all(it) == 0
        it.later(10)
        assert prune_all(it) > 0
        assert ids(it) == ["young-1"]
        it.later(PERIOD + 1)
        prune_all(it)
        assert ids(it) == []
        assert rows(it.store) == before
        assert replayed(it.store).rows() == it.store.load()


def test_live_workflow_is_kept_however_old_it_is(tmp_path: Path, any_store: str) -> None:
    with house(tmp_path, any_store) as it:
        it.submit("long", duration=10 * PERIOD)
        it.later(5 * PERIOD)
        assert prune_all(it) == 0
        assert ids(it) == ["long-1"]


def test_workflow_number_is_never_reused(tmp_path: Path, any_store: str) -> None:
    with house(tmp_path, any_store) as it:
        assert [run(it, "same") for _ in range(3)] == ["same-1", "same-2", "same-3"]
        it.later(PERIOD + 1)
        prune_all(it)
        assert it.store.retention.past_numbers() == {"same": 3}
        now = it.time[0]
    with desk(tmp_path, database=any_store, time=now) as it:  # the state in memory is new
        assert run(it, "same") == "same-4"
        assert it.submit("same", duration=5 * PERIOD) == "same-5"
        it.later(PERIOD + 1)
        prune_all(it)
        assert it.store.retention.past_numbers() == {"same": 4}
        assert it.store.load().numbers == {"same": 5}


def test_specification_used_by_another_workflow_is_kept(tmp_path: Path, any_store: str) -> None:
    with house(tmp_path, any_store) as it:
        first = run(it, "shared")
        it.later(PERIOD + 1)
        again = it.submit("shared", duration=1)
        hash = it.store.workflow(first).workflow.spec_hash
        prune_all(it)
        assert ids(it) == [again]
        assert it.store.spec(hash).hash == hash
        it.later(0)
        it.later(100)
        it.later(2 * PERIOD)
        prune_all(it)
        with pytest.raises(NotFound, match="retention"):
            it.store.spec(hash)
        later = run(it, "shared")
        assert it.store.workflow(later).workflow.spec_hash == hash
        assert it.store.spec(hash).hash == hash


def test_the_log_gives_the_live_state_after_every_step(
    tmp_path: Path, any_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a gang that once waited for others to stop, which are gone from the log; and of what is pruned by half."""
    monkeypatch.setattr(retention, "ROWS_AT_ONCE", 3)
    with house(tmp_path, any_store) as it:
        for number in range(4):
            it.submit(f"low{number}", priority=Priority.LOW, duration=50)
        it.later(1)
        it.submit("firm", pool="pool2", gpus=2, priority=Priority.HIGH, duration=5 * PERIOD)
        it.later(1)
        for _ in range(20):
            it.later(30)
        assert any(isinstance(action, Nominate) and action.targets for action in it.actions())
        it.later(PERIOD + 1)
        it.submit("waits", pool="pool2", gpus=2, priority=Priority.HIGH)
        steps = 0
        while it.service.retention.step():
            steps += 1
            assert replayed(it.store).rows() == it.store.load()
        assert steps > 12
        assert ids(it) == ["firm-1", "waits-1"]
        assert {event.revision for event in it.store.log.events()} < set(range(it.revision + 1))


def test_retention_deletes_in_small_steps(tmp_path: Path, any_store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "ROWS_AT_ONCE", 10)
    with house(tmp_path, any_store) as it:
        for number in range(6):
            run(it, f"w{number}")
        it.later(PERIOD + 1)
        counts = [sum(rows(it.store).values())]
        while it.service.retention.step():
            counts.append(sum(rows(it.store).values()))
        assert max(abs(after - before) for before, after in pairwise(counts)) <= 12
        assert len(counts) > 6


def test_server_that_dies_in_between_continues_where_it_was(
    tmp_path: Path, any_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "ROWS_AT_ONCE", 4)
    with house(tmp_path, any_store) as it:
        empty = rows(it.store)
        for number in range(3):
            run(it, f"w{number}")
        it.later(PERIOD + 1)
        now = it.time[0]
    more, steps = True, 0
    while more:
        with desk(tmp_path, database=any_store, time=now) as it:
            more = it.service.retention.step()
            steps += more
            assert replayed(it.store).rows() == it.store.load()
            left = rows(it.store)
    assert steps > 5
    assert left == empty


def test_retention_under_load_loses_no_live_workflow_and_reuses_no_number(tmp_path: Path, any_store: str) -> None:
    """What has ended leaves after 5 s, while workflows come, preempt each other, end and are cancelled."""
    with house(tmp_path, any_store) as it:
        short = retention.Retention(it.store, it.backend, it.service.clock, 5 / DAY, it.service.metrics)
        gone = 0
        with busy(it) as accepted:
            start = it.store.load().revision
            while gone < 50 or it.store.load().revision < start + 200:
                before = len(ids(it))
                short.step()
                gone += max(0, before - len(ids(it)))
        assert replayed(it.store).rows() == it.store.load()
        assert len(set(accepted)) == len(accepted)
        alive = {each.id for each in it.store.load().workflows}
        assert alive <= set(ids(it)) <= set(accepted)
        loaded = it.store.load()
        with it.service._transactor.reading() as state:
            assert state.rows() == loaded


def test_the_server_prunes_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "EVERY_S", 0.01)
    with desk(tmp_path) as it:
        run(it, "old")
        gone = threading.Event()
        monkeypatch.setattr(it.service.metrics.pruned, "inc", lambda _: gone.set())
        it.service.retention.thread.start()
        it.time[0] += PERIOD + 1
        assert gone.wait(PATIENCE_S)
    with closing(SqlStore.open(tmp_path / "runrig.db")) as store:
        assert store.load().numbers == {"old": 1}


def test_retention_survives_a_store_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "EVERY_S", 0.01)
    with desk(tmp_path) as it:
        run(it, "old")
        it.time[0] += PERIOD + 1
        with it.store.transactions.writing() as connection:
            connection.exec_driver_sql("ALTER TABLE pruned RENAME TO gone")
        gone = threading.Event()
        monkeypatch.setattr(it.service.metrics.pruned, "inc", lambda _: gone.set())
        it.service.retention.thread.start()
        assert not gone.wait(0.1)
        with it.store.transactions.writing() as connection:
            connection.exec_driver_sql("ALTER TABLE gone RENAME TO pruned")
        assert gone.wait(PATIENCE_S)


def test_files_of_a_deleted_workflow_are_deleted_and_those_of_a_running_one_are_kept(tmp_path: Path) -> None:
    backend = LocalBackend(tmp_path, 1)
    try:
        running = launch("sleep", "60", key=TaskKey("alive-1", "train", 0))
        backend.sync(Desired(run={running.key: running}))
        finished = tmp_path / "tasks" / "done-1" / "main" / "0"
        finished.mkdir(parents=True)
        (finished / "stdout.log").write_text("hello\n")
        for id in ("done-1", "alive-1", "never-1", "..", "."):
            backend.discard(id)
        assert sorted(path.name for path in (tmp_path / "tasks").iterdir()) == ["alive-1"]
        assert (tmp_path / "tasks" / "alive-1" / "train" / "0" / "launch").exists()
    finally:
        end_all(backend)
        backend.close()


def test_a_workflow_is_kept_while_one_that_restarts_it_is_not_finished(tmp_path: Path, any_store: str) -> None:
    with house(tmp_path, any_store) as it:
        chain = [it.submit("a")]
        for _ in range(2):
            do(it.service, it.service.submissions.cancelling(chain[-1], user="ann"))
            it.later(0)
            again = it.service.submissions.restarting(chain[-1], pool="pool1", user="ann")
            chain.append(do(it.service, again).id)
        do(it.service, it.service.submissions.holding(chain[-1], user="ann"))
        it.later(PERIOD + DAY)
        prune_all(it)
        assert ids(it) == chain
        do(it.service, it.service.submissions.cancelling(chain[-1], user="ann"))
        it.later(0)
        prune_all(it)
        assert ids(it) == chain[-1:]


def test_a_workflow_is_kept_until_those_that_waited_for_it_have_finished(tmp_path: Path, any_store: str) -> None:
    """W5: the log shows how it ended, also through a restart; what is not waited for leaves."""
    with house(tmp_path, any_store) as it:
        first = it.submit("a")
        waits = it.submit("b", text=one_task("b", duration=1).replace("  tasks:", f"  after: [{first}:any]\n  tasks:"))
        do(it.service, it.service.submissions.holding(waits, user="ann"))
        do(it.service, it.service.submissions.cancelling(first, user="ann"))
        it.later(0)
        again = do(it.service, it.service.submissions.restarting(first, pool="pool1", user="ann")).id
        it.later(0)
        do(it.service, it.service.submissions.cancelling(again, user="ann"))
        run(it, "other")
        it.later(PERIOD + DAY)
        prune_all(it)
        assert ids(it) == sorted((first, again, waits))
        assert replayed(it.store).rows() == it.store.load()
        assert not it.store.load().workflows[0].waits_for_others
        do(it.service, it.service.submissions.releasing(waits, user="ann"))
        it.later(0)
        it.later(2)
        assert it.status(waits) == "COMPLETED"
        prune_all(it)
        assert ids(it) == [waits]
