"""Commit before answer, one commit per cycle, and a loop that outlives faults (law W2)."""

import time
from contextlib import closing
from pathlib import Path

import pytest

from runrig.domain.errors import Unavailable
from runrig.domain.plan import Admit, MoveTask
from runrig.domain.shown.why import Standstill
from runrig.domain.value import at
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Status
from runrig.service.runtime import reconciler
from runrig.store import SqlStore
from tests.patience import until
from tests.worlds.service import TWO_POOLS, desk


def test_a_submission_is_stored_before_it_is_answered(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        id = it.submit("a")
        with closing(SqlStore.open(tmp_path / "runrig.db")) as other:
            assert other.workflow(id).workflow.submitted_by == "ann"


def test_an_idle_server_commits_nothing(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        it.submit("a")
        it.later(0)
        before = it.revision
        for _ in range(5):
            it.later(1)
        assert it.revision == before


def test_cycle_is_one_commit_however_many_gangs_it_admits(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        for name in ("a", "b"):
            it.submit(name)
            it.submit(name, pool="pool2")
        before = it.revision
        it.service._reconciler.round()
        assert it.revision == before + 1
        assert [type(action) for action in it.actions(after=before)] == [Admit] * 4


def test_command_fails_and_the_state_is_reloaded_if_another_server_wrote(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        it.submit("a")
        other = SqlStore.open(tmp_path / "runrig.db")
        other.commit(it.revision + 1, (), ())
        other.close()
        with pytest.raises(Unavailable, match=r"another server wrote to it\. Nothing was stored"):
            it.submit("b")
        assert it.submit("b") == "b-1"  # the state was loaded again, at the stored revision
        it.later(0)
        assert (it.status("a-1"), it.status("b-1")) == ("RUNNING", "RUNNING")


def test_failed_round_makes_the_server_not_ready_until_one_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciler, "FIRST_BACK_OFF_S", 0.01)
    with desk(tmp_path) as it:
        it.backend.failure = OSError("no more processes")
        it.service.start()
        it.submit("a")
        until(lambda: it.service.not_ready is not None)
        assert it.service.not_ready == "OSError: no more processes"
        it.backend.failure = None
        until(lambda: it.service.not_ready is None and it.status("a-1") == "RUNNING")


def test_why_shows_since_when_no_decisions_are_made_while_rounds_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In the words of what cannot be had, which are logged without a trace; of a mistake of the server only that it is one."""
    monkeypatch.setattr(reconciler, "FIRST_BACK_OFF_S", 0.01)
    with desk(tmp_path) as it:
        done = it.submit("done", duration=1)
        it.later(0)
        it.later(2)
        running = it.submit("a")
        it.later(0)
        it.backend.failure = Unavailable("the API server https://k:6443 does not answer: connection refused")
        waiting = it.submit("b")
        began = it.time[0]
        it.service.start()
        until(lambda: it.service.standstill is not None)
        it.time[0] += 60
        assert it.service.standstill == Standstill(at(began), it.backend.failure.message, unreachable=True)
        for id in (running, waiting):
            assert it.service.workflow_queries.why(id).sentence.endswith(
                " No decisions since 2027-01-15 08:00:05 UTC: "
                "the API server https://k:6443 does not answer: connection refused."
            )
        assert (it.service.workflow_queries.why(done).sentence, it.service.workflow_queries.why(done).standstill) == (
            "done-1 is COMPLETED.",
            None,
        )
        assert {record.exc_info for record in caplog.records if "round_failed" in record.getMessage()} == {None}

        it.backend.failure = OSError("/secret/path")
        until(lambda: it.service.workflow_queries.why(waiting).sentence.endswith(f" 08:00:05 UTC: {reconciler.FAULT}."))
        it.backend.failure = None
        until(lambda: it.service.standstill is None and it.status(waiting) == "RUNNING")
        assert it.service.workflow_queries.why(waiting).standstill is None


def test_submission_starts_immediately_and_an_idle_server_writes_nothing(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        it.service.start()
        it.submit("a")
        until(lambda: it.status("a-1") == "RUNNING")
        before = it.revision
        time.sleep(0.1)
        assert it.revision == before


def test_one_round_handles_everything_that_arrived_during_the_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the round before took: an idle server takes in the first at once."""
    monkeypatch.setattr(reconciler, "RESTS", 1e9)
    monkeypatch.setattr(reconciler, "MOST_REST_S", 1.0)
    with desk(tmp_path) as it:
        it.service.start()
        ids = []
        for pool in ("pool1", "pool1", "pool2", "pool2"):
            ids.append(it.submit("a", pool))
            time.sleep(0.05)  # a loop that does not settle adopts it alone
        until(lambda: all(it.status(id) == "RUNNING" for id in ids))
        admitting = {event.revision for event in it.store.log.events() if isinstance(event.action, Admit)}
        assert len(admitting) < len(ids)


def test_listeners_of_a_workflow_get_the_stored_status(tmp_path: Path) -> None:
    """Law W2: nothing is seen before it is stored.  By id and by uuid, and nothing of others."""
    with desk(tmp_path) as it:
        it.submit("a")
        it.submit("b")
        told: list[tuple[str | None, str]] = []
        by_uuid: list[WorkflowStatus | None] = []

        def hear(status: WorkflowStatus | None) -> None:
            told.append((status and status.value, it.status("a-1")))

        uuid = it.store.head("a-1").uuid
        with it.service.listening(hear, "a-1"), it.service.listening(by_uuid.append, uuid):
            it.later(0)
            it.later(200)
        assert list(dict.fromkeys(status for status, _ in told if status)) == ["PENDING", "RUNNING", "COMPLETED"]
        assert all(status in (None, stored) for status, stored in told)
        assert [status.value for status in by_uuid if status] == [status for status, _ in told if status]


def test_restarted_server_continues_and_runs_nothing_twice(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        for name in ("a", "b", "c"):
            it.submit(name)
        it.later(0)
        now = it.time[0]
    with desk(tmp_path, cluster=None, time=now) as it:
        assert [it.status(id) for id in ("a-1", "b-1", "c-1")] == ["RUNNING", "RUNNING", "PENDING"]
        it.later(100)
        assert [it.status(id) for id in ("a-1", "b-1", "c-1")] == ["COMPLETED", "COMPLETED", "RUNNING"]
        started = [
            action.key for action in it.actions() if isinstance(action, MoveTask) and action.status is Status.RUNNING
        ]
        assert sorted(started) == [("a-1", "main", 0), ("b-1", "main", 0), ("c-1", "main", 0)]


def test_a_restart_with_the_same_cluster_file_changes_nothing(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        before = it.revision
    with desk(tmp_path, cluster=TWO_POOLS) as it:
        assert it.revision == before


def test_nodes_follow_the_file_at_each_start(tmp_path: Path) -> None:
    file = "nodes: [{{name: n0, resources: {{gpu: {gpus}}}}}]\npools: [{{name: pool1, quota: 4}}]"
    with desk(tmp_path, cluster=file.format(gpus=4)) as it:
        it.submit("a", gpus=4)
        it.later(0)
        now = it.time[0]
    with desk(tmp_path, cluster=file.format(gpus=8), gpus=8, time=now) as it:
        ((node,), _) = it.service.queries.nodes()
        assert (node.resources, node.free, it.status("a-1")) == ({"gpu": 8}, {"gpu": 4}, "RUNNING")


def test_without_a_cluster_file_one_pool_has_all_gpus(tmp_path: Path) -> None:
    with desk(tmp_path, cluster=None, gpus=3) as it:
        assert [(view.pool.name, view.now.gpus.quota) for view in it.service.queries.pools()] == [("default", 3)]


def test_deleted_default_pool_is_not_created_again(tmp_path: Path) -> None:
    with desk(tmp_path, cluster=None) as it:
        it.service.declarations.delete_pool("default", user="ann")
    with desk(tmp_path, cluster=None) as it:
        assert it.service.queries.pools() == ()
