"""What the tests of backups share: a busy server, and two stores compared whole."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from threading import Event, Semaphore, Thread

from sqlalchemy import select

from runrig.domain.code import sha256
from runrig.domain.credentials import CredentialKind
from runrig.domain.gangs import Priority
from runrig.store import SqlStore
from runrig.store.backup import TABLES
from tests.worlds.code import manifest, packed
from tests.worlds.service import Desk, do


def everything(store: SqlStore) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table that a backup has, as values."""
    with store.transactions.reading() as connection:
        return {
            table.name: [
                tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key)).fetchall()
            ]
            for table in TABLES
            if table.name != "meta"
        }


@contextmanager
def busy(it: Desk) -> Iterator[list[str]]:
    """Workflows come, start, preempt each other, end and are cancelled, in threads of their own; the ids of those accepted.

    At most eight come between two turns of the loop: a store in memory takes them faster than they could ever end.
    """
    stop, places = Event(), Semaphore(8)
    accepted: list[str] = []
    failures: list[Exception] = []

    def submit(pool: str, priority: Priority) -> None:
        number = 0
        while not stop.is_set():
            if not places.acquire(timeout=0.1):
                continue
            number += 1
            id = it.submit(f"{pool}-{priority.value.lower()}", pool, priority, duration=3)
            accepted.append(id)
            if number % 5 == 0:
                do(it.service, it.service.submissions.cancelling(id, user="ann"))

    def loop() -> None:
        while not stop.is_set():
            it.time[0] += 1
            it.service.settle()
            places.release(8)

    def watched(work: Callable[..., object], *args: object) -> None:
        try:
            work(*args)
        except Exception as error:  # noqa: BLE001 - told at the end
            failures.append(error)

    threads = [
        Thread(target=watched, args=(submit, "pool1", Priority.LOW)),
        Thread(target=watched, args=(submit, "pool2", Priority.HIGH)),
        Thread(target=watched, args=(loop,)),
    ]
    for each in threads:
        each.start()
    try:
        yield accepted
    finally:
        stop.set()
        for each in threads:
            each.join()
    assert failures == [], failures


def some_users(it: Desk) -> None:
    """So that these tables have rows."""
    access = it.service.access
    access.users.create("bob", [], actor="ann")
    access.tokens.create("bob", "laptop", actor="ann")
    access.credentials.set("bob", "wandb", CredentialKind.GENERIC, {"key": "value"}, actor="bob")
    files = {"train.py": b"print('train')\n", "noise": sha256(b"").encode() * 20_000}
    it.service.codes.receive("bob", BytesIO(packed(manifest(files), files.values())))
