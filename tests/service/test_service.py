"""The whole service on each database: what was submitted is there after a restart, in the same state."""

from pathlib import Path

from tests.worlds.service import desk


def test_restarted_service_continues_where_it_stopped(any_store: str, tmp_path: Path) -> None:
    """Law W2."""
    with desk(tmp_path, database=any_store) as first:
        done = first.submit("a", gpus=2, duration=5)
        first.later(0)
        first.later(10)
        running, queued = first.submit("b", gpus=2, duration=900), first.submit("c", gpus=2, duration=9)
        first.later(0)
        before, revision = first.store.load(), first.revision
        statuses = [first.status(id) for id in (done, running, queued)]
        now = first.time[0]
    with desk(tmp_path, database=any_store, time=now, cluster=None) as second:
        assert (second.store.load(), second.revision) == (before, revision)
        assert [second.status(id) for id in (done, running, queued)] == statuses == ["COMPLETED", "RUNNING", "PENDING"]
        second.later(1000)
        second.later(1000)
        assert [second.status(id) for id in (done, running, queued)] == ["COMPLETED"] * 3
