"""Usage, while a real server that folds its log dies by ``kill -9`` again and again, in the middle of everything."""

import signal
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from sqlalchemy import delete, select

from runrig.domain.gangs import Priority
from runrig.domain.plan import Submit
from runrig.domain.usage import HOUR_S, WORK, Hour, Key, totals
from runrig.service.usage.follower import Follower
from runrig.store import SqlStore, schema
from tests.patience import PATIENCE_S
from tests.properties.usage import Table, integrated
from tests.worlds.command_line import RUN
from tests.worlds.lawful import judge
from tests.worlds.service import Desk, desk
from tests.worlds.warm import Warm

DAY = 24 * HOUR_S
POINTS = (("SqlUsage.save", 1), ("Follower._apply", 2), ("_write", 1), ("SqlUsage.save", 1))
"""After which call a server dies, and after how many of them."""
DIES = f"""
import os, signal
from runrig.service.usage import follower
from runrig.service.usage.follower import Follower
from runrig.store import usage
from runrig.store.usage import SqlUsage
follower.EVENTS_AT_ONCE, follower.PAUSE_S, follower.REST = 9, 0.0, 0.0
calls = 0
def dies(*args, **named):
    global calls
    done = real(*args, **named)
    calls += 1
    if calls == TIMES:
        os.kill(os.getpid(), signal.SIGKILL)
    return done
real, OF.NAME = OF.NAME, dies
{RUN}
"""


def _history(there: Desk) -> None:
    """Two and a half days with borrowing, a preemption, and work that runs through the night; then everything has ended."""
    for name, pool, priority, gpus, hours in [
        ("low", "pool2", Priority.LOW, 4, 60),
        ("mine", "pool1", Priority.NORMAL, 2, 20),
        ("night", "pool2", Priority.NORMAL, 1, 9),
        ("last", "pool2", Priority.NORMAL, 1, 1),
    ]:
        there.submit(name, pool, priority, gpus=gpus, duration=hours * HOUR_S)
        there.later(5_000.25)
    there.later(4 * DAY)
    there.later(1)


def _dies(data: Path, call: str, times: int) -> None:
    """A server is started there, and kills itself when it has done that *call* so many *times*."""
    of, _, name = call.rpartition(".")
    program = DIES.replace("OF", of or "usage").replace("NAME", name).replace("TIMES", str(times))
    up = ["up", "--backend", "local", "--gpus", "4", "--data", str(data), "--port", "0"]
    with (data / "stderr").open("a") as errors, Warm(program, up, errors=errors) as server:
        assert server.wait(PATIENCE_S) == -signal.SIGKILL, (data / "stderr").read_text()


def _sums(store: SqlStore, open_hours: list[Hour]) -> Table:
    """By hour, without users."""
    found: Counter[tuple[int, Key]] = Counter()
    with store.transactions.reading() as connection:
        begins = {*connection.execute(select(schema.usage_sums.c.begin)).scalars()}
    for begin in begins:
        for key, amount in store.usage.stored(1, begin).items():
            found[begin, _without_user(key)] += amount
    for hour in open_hours:
        for key, amount in {**hour.sums, **totals(hour.sums)}.items():
            found[hour.begin, _without_user(key)] += amount
    return {key: amount for key, amount in found.items() if amount}


def _without_user(key: Key) -> Key:
    return (*key[:4], key[-1]) if key[0] == WORK else key


def _folded(store: SqlStore, now: float) -> Table:
    follower = Follower(store, cast(Any, SimpleNamespace(now=lambda: now)))
    while follower.step():
        pass
    known = follower.open_hours()
    assert known is not None
    return _sums(store, [*known[0]])


def _by_brute_force(store: SqlStore, now: float) -> Table:
    events = [*store.log.events()]
    specs = store.specs({each.action.workflow.spec_hash for each in events if isinstance(each.action, Submit)})
    found: Counter[tuple[int, Key]] = Counter()
    for (hour, key), amount in integrated([(each.action, each.time) for each in events], dict(specs), now).items():
        for each, part in {key: amount, **totals({key: amount})}.items():
            found[hour, _without_user(each)] += part
    return dict(found)


def test_usage_of_a_server_killed_while_it_folds_its_log_is_exact(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with desk(data, time=time.time() // 60 * 60 - 6 * DAY) as there:
        _history(there)
    for call, times in POINTS:
        _dies(data, call, times)
    store = SqlStore.open(data / "runrig.db")
    now = time.time()
    stored, truth = _folded(store, now), _by_brute_force(store, now)
    assert stored == truth
    assert sum(amount for (_, key), amount in truth.items() if key[-1] == "lost_preempted")
    with store.transactions.writing() as connection:
        for table in (schema.usage_sums, schema.usage_cursor):
            connection.execute(delete(table))
    assert _folded(store, now) == stored
    judge(data / "runrig.db")
    store.close()
