"""Workflows of `run --attached`: a command that is gone for a minute takes its workflow along, and nothing else does."""

from pathlib import Path

import pytest

from runrig.domain.errors import Conflict, NotFound, ServerFault
from runrig.domain.plan import MoveWorkflow
from runrig.service.commands.leases import TICKS
from tests.worlds.service import Desk, desk, do


def tick(it: Desk, times: int) -> None:
    for _ in range(times):
        it.service.leases.tick()
    it.later(0)


def cancelled(it: Desk, *ids: str) -> list[bool]:
    """What runs may still take its grace."""
    return [it.store.head(id).cancelled_by == "ann" for id in ids]


def test_workflow_whose_command_is_gone_is_cancelled_with_a_message(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        runs, waits, free = it.submit("runs", gpus=2), it.submit("waits"), it.submit("free", "pool2")
        it.later(0)
        for id in (runs, waits):
            it.service.leases.renew(id)
        tick(it, TICKS - 1)
        it.service.leases.renew(runs)
        tick(it, 1)
        assert cancelled(it, runs, waits, free) == [False, True, False]
        words = "cancelled by ann: the command that it was attached to has not responded for 60 s"
        moved = [each for each in it.actions() if isinstance(each, MoveWorkflow) and each.workflow == waits]
        assert [each.message for each in moved] == [words]
        tick(it, TICKS - 1)
        assert cancelled(it, runs, free) == [True, False]


def test_restarted_server_gives_every_command_its_full_time_to_return(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        kept, gone, free = it.submit("kept"), it.submit("gone"), it.submit("free", "pool2")
        it.later(0)
        for id in (kept, gone):
            it.service.leases.renew(id)
        tick(it, TICKS - 1)
    with desk(tmp_path) as it:
        it.later(0)
        tick(it, TICKS - 1)
        assert cancelled(it, kept, gone, free) == [False, False, False]
        it.service.leases.renew(kept)
        tick(it, 1)
        assert cancelled(it, kept, gone, free) == [False, True, False]


def test_neither_a_finished_workflow_nor_its_restart_has_a_lease(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        id = it.submit("short", duration=1)
        it.service.leases.renew(id)
        it.later(0)
        it.later(2)
        assert it.status(id) == "COMPLETED"
        with pytest.raises(Conflict, match="is already COMPLETED"):
            it.service.leases.renew(id)
        with pytest.raises(NotFound):
            it.service.leases.renew("nothing-1")
        again = do(it.service, it.service.submissions.submitting_again(id, pool="pool1", user="ann")).id
        tick(it, TICKS)
        assert it.status(again) == "RUNNING"


def test_lease_that_cannot_be_ended_now_is_ended_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path) as it:
        id = it.submit("w")
        it.service.leases.renew(id)
        with monkeypatch.context() as broken:
            broken.setattr(it.store, "commit", lambda *_args, **_more: (_ for _ in ()).throw(OSError("disk full")))
            with pytest.raises(Exception, match="disk full"):
                tick(it, TICKS)
        assert it.status(id) == "PENDING"
        tick(it, 1)
        assert it.status(id) == "FAILED_CANCELED"


def test_workflow_that_cannot_be_cancelled_does_not_keep_others_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path) as it:
        bad, good = it.submit("bad"), it.submit("good")
        it.later(0)
        for id in (bad, good):
            it.service.leases.renew(id)
        head = it.store.head

        def damaged(id: str) -> object:
            if id == bad:
                raise ServerFault("its row is damaged")
            return head(id)

        monkeypatch.setattr(it.store, "head", damaged)
        tick(it, TICKS)
        monkeypatch.undo()
        assert cancelled(it, bad, good) == [False, True]
        tick(it, 1)
        assert cancelled(it, bad, good) == [True, True]
