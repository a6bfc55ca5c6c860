"""Snapshots: `runrig verify` can begin at one, and finds the same as from the start."""

import json
import shutil
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from runrig.domain.gangs import Priority
from runrig.store.snapshots import LEAST, SHARE
from runrig.verify.chain import LAST, Chain
from runrig.verify.reading import commits, snapshots
from runrig.verify.verify import PART, check, cuts, judge, together
from runrig.wiring.backup import write_backup
from tests.verify.test_event_export import STEPS, exported
from tests.worlds.service import desk

DAY = 86_400.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A server's database with a snapshot while LOW work runs and a budget was just removed, and one while a gang is nominated."""
    folder = tmp_path_factory.mktemp("server")
    with desk(folder) as server:
        limit = partial(server.service.declarations.update_user_limits, "ann", by="ann", dry_run=False)
        limit({"budget": 5})
        server.submit("low", "pool1", Priority.LOW, gpus=4)
        server.later(5)
        server.submit("steps", "pool1", text=STEPS)
        limit({"budget": None})
        assert server.store.snapshots.take() == server.revision
        server.submit("firm", "pool2", Priority.NORMAL, gpus=2)
        server.service._reconciler.round()
        assert server.store.snapshots.take() == server.revision
        for _ in range(5):
            server.later(60)
    return folder / "runrig.db"


@pytest.fixture
def database(server: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(server, tmp_path / "copy.db"))


def judged(path: Path, since: int = 0) -> tuple[int, list[str], dict[str, Any]]:
    said: list[str] = []
    code = check(str(path), since=since, laws=(), head="", as_json=True, say=said.append)
    return code, [json.loads(each)["what"] for each in said[:-1]], json.loads(said[-1])


def change(path: Path, make: Callable[[Any], Any]) -> int:
    """Changes the first snapshot; returns its revision."""
    with closing(sqlite3.connect(path)) as connection:
        revision, content = connection.execute("SELECT revision, content FROM snapshots").fetchone()
        plain = json.loads(zlib.decompress(content))
        make(plain)
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
        connection.execute(
            "UPDATE snapshots SET content = ? WHERE revision = ?", (zlib.compress(text.encode()), revision)
        )
        connection.commit()
    return int(revision)


def test_each_snapshot_gives_the_same_verdict_on_the_rest_of_the_log(database: Path) -> None:
    code, reports, whole = judged(database)
    assert (code, reports, whole["snapshot"], len(snapshots(str(database)))) == (0, [], None, 2)
    for at in snapshots(str(database)):
        code, reports, part = judged(database, at + 1)
        assert (code, reports, part["snapshot"], part["not_proven"]) == (0, [], at, 0)
        assert part["chain"] == {"from": at + 1, "broken": [], "head": whole["chain"]["head"]}
        assert 0 < part["decisions"] < whole["decisions"]


def test_a_head_from_before_the_snapshot_is_found(database: Path) -> None:
    chain = Chain()
    log = commits(str(database), chain)
    next(log)
    said: list[str] = []
    assert check(str(database), since=10**6, laws=(), head=chain.last.hex(), as_json=False, say=said.append) == 0


def test_a_snapshot_is_the_same_in_a_backup_and_an_export(database: Path, tmp_path: Path) -> None:
    write_backup(database, tmp_path / "none", tmp_path / "a.backup", log_files=False)
    (tmp_path / "events.jsonl").write_text(exported(database))
    assert exported(tmp_path / "a.backup") == exported(tmp_path / "events.jsonl") == exported(database)
    at = next(iter(snapshots(str(database))))
    assert judged(tmp_path / "events.jsonl", at + 1) == judged(database, at + 1)
    assert judged(tmp_path / "a.backup", at + 1)[2]["not_proven"] > 0  # The log is read from its start.


@pytest.mark.parametrize(
    "make",
    [
        lambda plain: plain[4].pop(),
        lambda plain: plain[3].clear(),
        lambda plain: plain.__setitem__(1, plain[1] + 1),
        lambda plain: plain.__setitem__(2, "00" * 32),
    ],
    ids=("action", "needs", "time", "hash"),
)
def test_a_changed_snapshot_is_found_from_the_start_and_from_itself(make: Callable[[Any], Any], database: Path) -> None:
    at = change(database, make)
    what = "the snapshot of this revision was changed"
    assert what in judged(database)[1]
    assert what in judged(database, at + 1)[1]


def test_a_snapshot_that_no_commit_names_is_not_used(database: Path, tmp_path: Path) -> None:
    first, newest = snapshots(str(database))
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("DELETE FROM events WHERE revision > ?", (newest,))
        connection.commit()
    (tmp_path / "events.jsonl").write_text(exported(database))
    for path in (database, tmp_path / "events.jsonl"):
        assert list(snapshots(str(path))) == [first]
        code, reports, found = judged(path, newest + 1)
        assert (code, reports, found["snapshot"]) == (0, [], first)


def test_a_log_that_differs_from_its_snapshot_is_found(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute(
            "DELETE FROM events WHERE kind = 'Admit' AND revision < ?", (next(iter(snapshots(str(database)))),)
        ).rowcount
        connection.commit()
    assert "the snapshot of this revision has another gang low-1/main-group than the log" in judged(database)[1]


def test_an_unlawful_decision_is_found_from_a_snapshot(database: Path) -> None:
    at = next(iter(snapshots(str(database))))
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("UPDATE events SET action = replace(action, 'PRIORITY', 'RECLAIM') WHERE kind = 'Preempt'")
        connection.commit()
    assert any("by RECLAIM" in each for each in judged(database, at + 1)[1])


def test_retention_deletes_snapshots_whose_workflows_it_deletes(tmp_path: Path) -> None:
    with desk(tmp_path) as server:
        server.submit("old", "pool1", duration=10.0)
        server.later(1)
        server.store.snapshots.take()
        server.later(60)
        server.submit("new", "pool1", duration=10 * DAY)
        server.later(60)
        kept = server.store.snapshots.take()
        server.submit("newest", "pool1")
        server.store.retention.prune(server.store.retention.expired(server.time[0] - 30, 2), 1000)
        while server.store.retention.prune_events(3).rows:
            pass
    assert snapshots(str(tmp_path / "runrig.db")).keys() == {kept}
    code, reports, found = judged(tmp_path / "runrig.db", kept + 1)  # type: ignore[operator]
    assert (code, reports, found["snapshot"]) == (0, [], kept)


def test_a_large_snapshot_is_due_after_more_revisions(tmp_path: Path) -> None:
    with desk(tmp_path) as server:
        server.submit("one", "pool1")
        assert [server.store.snapshots.is_due(each) for each in (LEAST - 1, LEAST)] == [False, True]
        at = server.store.snapshots.take()
        assert at is not None
        assert [server.store.snapshots.is_due(at + each) for each in (LEAST - 1, LEAST)] == [False, True]
        server.store.snapshots._last = at, SHARE * 3 * LEAST
        assert [server.store.snapshots.is_due(at + each) for each in (3 * LEAST - 1, 3 * LEAST)] == [False, True]


def test_a_long_log_is_cut_at_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert cuts({}, 0) == [(0, LAST)]
    assert cuts({5: 10, 9: PART}, 0) == [(0, LAST)]
    kept = {at: at * at * PART // 16 for at in range(1, 9)}
    assert cuts(kept, 0) == [(0, 4), (4, 6), (6, 7), (7, LAST)]
    assert cuts(kept, 7) == [(6, LAST)]
    assert cuts(kept, 100) == [(8, LAST)]
    assert cuts({1: 2 * PART, 2: 3 * PART}, 0) == [(0, 1), (1, LAST)]
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    assert cuts(kept, 0) == [(0, LAST)]


@pytest.mark.slow
def test_parts_checked_in_processes_give_the_result_of_the_whole(database: Path) -> None:
    at = next(iter(snapshots(str(database))))
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("UPDATE events SET action = replace(action, 'PRIORITY', 'RECLAIM') WHERE kind = 'Preempt'")
        connection.commit()
    parts = together([(str(database), 0, (), "", 0, at), (str(database), 0, (), "", at, LAST)])
    whole = judge(str(database), 0, (), "", 0, LAST)
    assert [report for part in parts for report in part.reports] == whole.reports
    assert parts[1].numbers.last == whole.numbers.last
    assert sum(part.numbers.decisions for part in parts) == whole.numbers.decisions
