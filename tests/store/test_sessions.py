"""A database that a released server left behind when it was killed: the server of today goes on with it, and backs it up whole."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runrig.domain.gangs import GangState
from runrig.store import SqlStore
from runrig.wiring.backup import restore_backup, write_backup
from tests.replaying import replayed
from tests.store.backups import everything
from tests.store.make_dump import restore, restore_in_postgresql
from tests.stores import KINDS, store_url
from tests.worlds.service import desk

SESSIONS = sorted((Path(__file__).parent / "data" / "sessions").glob("*.sql.gz"))

each_session = pytest.mark.parametrize("session", SESSIONS, ids=lambda path: path.name)
on_each_kind = pytest.mark.parametrize("kind", KINDS)


@contextmanager
def left_behind(session: Path, kind: str, folder: Path) -> Iterator[str]:
    """The URL of a copy of it, with the tables of its release."""
    text = gzip.decompress(session.read_bytes()).decode()
    (folder / "data").mkdir(parents=True)
    with store_url(kind, folder, tables=False) as url:
        if kind == "sqlite":
            restore(text, folder / "data" / "runrig.db")
        else:
            restore_in_postgresql(text, url, folder / "restored.db")
        yield url


def states(store: SqlStore) -> set[GangState]:
    return {row.state for row in store.load().gangs}


@each_session
@on_each_kind
def test_log_of_a_killed_server_gives_the_state_of_its_tables(session: Path, kind: str, tmp_path: Path) -> None:
    with left_behind(session, kind, tmp_path) as url:
        store = SqlStore.open(url)
        assert states(store) == set(GangState)
        assert replayed(store).rows() == store.load()
        store.close()


@each_session
@on_each_kind
def test_current_release_continues_where_a_killed_server_stopped(session: Path, kind: str, tmp_path: Path) -> None:
    """Gangs that waited for others to stop start, and in the end everything alive ends."""
    with left_behind(session, kind, tmp_path) as url:
        store = SqlStore.open(url)
        left = store.load()
        last = max(event.time for event in store.log.events())
        store.close()
        with desk(tmp_path, nodes=left.nodes, cluster=None, time=last + 10, database=url) as it:
            assert it.store.load().nodes == left.nodes
            it.later(2)
            assert replayed(it.store).rows() == it.store.load()
            (nominated,) = (row.gang.workflow for row in left.gangs if row.state is GangState.NOMINATED)
            assert it.status(nominated) == "RUNNING"
            for _ in range(10):
                it.later(10_000)
            assert {it.status(each.id) for each in left.workflows} <= {"COMPLETED", "FAILED"}
            assert it.store.load().gangs == ()
            assert replayed(it.store).rows() == it.store.load()


@each_session
@on_each_kind
def test_backup_of_a_killed_server_restores_the_same_state(session: Path, kind: str, tmp_path: Path) -> None:
    with left_behind(session, kind, tmp_path / "old") as url, store_url(kind, tmp_path / "new") as target:
        store = SqlStore.open(url)
        written = write_backup(url, tmp_path / "none", tmp_path / "out", log_files=True)
        assert restore_backup(tmp_path / "out", target, tmp_path / "restored") == written
        restored = SqlStore.look(target)
        assert everything(restored) == everything(store)
        assert restored.load() == store.load() == replayed(restored).rows()
        restored.close()
        store.close()
