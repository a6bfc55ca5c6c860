"""`runrig verify --live`: follows the log of a running server."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from runrig.domain.gangs import Priority
from runrig.verify.live import PAUSE_S, follow
from runrig.verify.reading import log, snapshots
from runrig.verify.verify import Checker
from runrig.wiring.event_export import url_log, url_snapshots
from tests.stores import KINDS, store_url
from tests.worlds.command_line import runrig
from tests.worlds.service import Desk, desk


def steps(*several: Callable[[], object]) -> Callable[[float], None]:
    """What happens at each pause; then it is interrupted."""
    left: Iterator[Callable[[], object]] = iter(several)

    def wait(seconds: float) -> None:
        assert seconds == PAUSE_S <= 0.5
        step = next(left, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    return wait


def followed(server: Desk, path: Path, *several: Callable[[], object], begin: int = 0) -> tuple[int, list[str], str]:
    """The exit code, what was said, and the metrics."""
    said: list[str] = []
    metrics = path.parent / "runrig.prom"
    read, checker = partial(log, str(path)), Checker()
    code = follow(
        read, begin, checker, name="it", as_json=False, say=said.append, textfile=metrics, wait=steps(*several)
    )
    assert [each.name for each in path.parent.glob("*.new")] == []
    return code, said, metrics.read_text()


def work(server: Desk) -> None:
    server.submit("firm", "pool2", Priority.NORMAL, gpus=2)
    server.later(60)


def forge(path: Path) -> None:
    """The rule of the newest preemption is another one."""
    with closing(sqlite3.connect(path)) as connection:
        changed = "UPDATE events SET action = replace(action, 'RECLAIM', 'PRIORITY') WHERE kind = 'Preempt'"
        assert connection.execute(changed).rowcount == 1
        connection.commit()


def test_a_lawful_server_is_followed_until_ctrl_c(tmp_path: Path) -> None:
    with desk(tmp_path) as server:
        server.submit("low", "pool1", Priority.LOW, gpus=4)
        server.later(5)
        grows, path = partial(work, server), tmp_path / "runrig.db"
        code, said, metrics = followed(server, path, grows, lambda: server.store.snapshots.take(), grows)
        numbers = dict(line.split() for line in metrics.splitlines() if line[0] != "#")
        assert numbers.pop("runrig_verify_checked_timestamp_seconds")
        assert numbers == {
            "runrig_verify_unlawful": "0",
            "runrig_verify_decisions_total": said[-1].split()[0],
            "runrig_verify_revision": str(server.revision),
        }
        assert (code, len(said)) == (0, 1)
        begin = max(snapshots(str(path)))
        assert followed(server, path, begin=begin)[:2] != (code, said)
        assert followed(server, path, begin=begin)[0] == 0


def test_an_unlawful_decision_ends_it_immediately(tmp_path: Path) -> None:
    with desk(tmp_path, judged=False) as server:
        server.submit("low", "pool1", Priority.LOW, gpus=4)
        server.later(5)

        def wrong() -> None:
            work(server)
            forge(tmp_path / "runrig.db")

        code, said, metrics = followed(server, tmp_path / "runrig.db", wrong)
    assert code == 1
    assert said[0].endswith(
        "R1: low-1/main-group: firm-1/main-group of pool pool2 preempts it in pool pool1 by PRIORITY"
    )
    assert said[1].endswith("chain: this commit or an earlier one was changed")
    assert "\nrunrig_verify_unlawful 2\n" in metrics


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_database_is_followed_by_its_url(kind: str, tmp_path: Path) -> None:
    with store_url(kind, tmp_path) as url, desk(tmp_path / "server", database=url) as server:
        server.submit("low", "pool1", Priority.LOW, gpus=4)
        server.later(5)
        begin = server.store.snapshots.take()
        assert url_snapshots(url) == []
        work(server)
        assert url_snapshots(url) == [begin]
        said: list[str] = []
        checker = Checker()
        wait = steps(partial(work, server), partial(work, server))
        assert begin is not None
        assert follow(partial(url_log, url), begin, checker, name=url, as_json=True, say=said.append, wait=wait) == 0
        assert (said, checker.numbers.revision, checker.numbers.decisions > 0) == ([], server.revision, True)


def test_a_source_that_cannot_be_followed_is_refused(tmp_path: Path) -> None:
    done = runrig("verify", "--live", str(tmp_path / "none.db"))
    assert (done.code, "none.db does not exist" in done.err) == (2, True)
    assert "--textfile needs --live" in runrig("verify", "--textfile", str(tmp_path / "a.prom")).err
    os.mkfifo(tmp_path / "pipe")
    assert "pipe is not a regular file" in runrig("verify", str(tmp_path / "pipe")).err
    (tmp_path / "link").symlink_to("none")
    for name in ("pipe", "link"):
        assert f"{name} would be replaced" in runrig("verify", "--live", "--textfile", str(tmp_path / name)).err
    assert "--head cannot be combined with --live" in runrig("verify", "--live", "--head", "0" * 64).err


def test_the_alert_rules_use_existing_metrics(tmp_path: Path) -> None:
    rules = (Path(__file__).parents[2] / "deploy" / "alerts-verify.yaml").read_text()
    with desk(tmp_path) as server:
        _, _, metrics = followed(server, tmp_path / "runrig.db")
    written = {line.split()[2] for line in metrics.splitlines() if line.startswith("# TYPE")}
    named = {word for word in rules.replace("(", " ").replace(")", " ").split() if word.startswith("runrig_verify_")}
    assert named == {"runrig_verify_unlawful", "runrig_verify_checked_timestamp_seconds"}
    assert named <= written
