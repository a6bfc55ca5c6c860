"""Several processes at one store, and processes that are killed (law W2): on each database the same."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from runrig.domain.errors import RunrigError
from runrig.store import SqlStore
from tests.patience import PATIENCE_S
from tests.stores import KINDS, store_url

from ..values import DONE, HISTORY
from .processes import start

pytestmark = pytest.mark.slow


@pytest.fixture(params=KINDS)
def empty_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database without any table."""
    with store_url(request.param, tmp_path, tables=False) as url:
        yield url


def dies(url: str, when: str, statement: str = "") -> str:
    with start("dies", url, when, statement) as process:
        said, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL, f"there was no statement {statement!r}"
    return said


@pytest.mark.parametrize("statement", ["UPDATE meta", "INSERT INTO groups", "INSERT INTO events"])
def test_server_killed_while_writing_leaves_the_previous_state(any_store: str, statement: str) -> None:
    """Law W2.  The revision has moved on; some rows are there; all is there but the end of the transaction."""
    dies(any_store, "writing", statement)
    store = SqlStore.open(any_store, exclusive=True)
    loaded = store.load()
    assert (loaded.revision, loaded.workflows, store.log.events(after=2)) == (2, (), ())
    HISTORY[2].to(store)
    assert store.workflow("train-1").workflow == DONE
    store.close()


def test_committed_changes_survive_a_kill(any_store: str) -> None:
    """Law W2."""
    dies(any_store, "written")
    store = SqlStore.open(any_store, exclusive=True)
    assert (store.load().revision, store.log.events(after=2)) == (3, HISTORY[2].events)
    store.close()


@pytest.mark.parametrize("statement", ["CREATE TABLE pools", "INSERT INTO meta"])
def test_server_killed_while_creating_tables_can_start_again(empty_store: str, statement: str) -> None:
    dies(empty_store, "opening", statement)
    store = SqlStore.open(empty_store, exclusive=True)
    assert store.load().revision == 0
    store.close()


def test_store_is_free_after_its_server_was_killed_even_if_children_live(any_store: str) -> None:
    """A child that was forked shares what its parent had open."""
    children = [int(pid) for pid in dies(any_store, "parent").split()]
    try:
        assert len(children) == 2
        SqlStore.open(any_store, exclusive=True).close()
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)


def test_second_server_is_refused_with_the_holder_of_the_store(any_store: str) -> None:
    first = SqlStore.open(any_store, exclusive=True)
    with pytest.raises(RunrigError) as refused:
        SqlStore.open(any_store, exclusive=True)
    assert f"is in use by the server with process id {os.getpid()} on " in refused.value.message
    assert refused.value.message.partition(". Stop that server, or ")[2]
    HISTORY[0].to(first)
    first.close()
    second = SqlStore.open(any_store, exclusive=True)
    HISTORY[1].to(second)
    second.close()


def test_concurrent_processes_either_store_or_learn_that_they_were_overtaken(empty_store: str) -> None:
    """They make the tables at once, too.  No commit is lost, none is stored twice, and nobody waits for ever."""
    with ExitStack() as running:
        writers = [running.enter_context(start("writes", empty_store, f"writer-{number}", "15")) for number in range(4)]
        ended = [writer.communicate(timeout=PATIENCE_S)[0] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0, 0]
    assert [json.loads(said)["stored"] for said in ended] == [15, 15, 15, 15]
    store = SqlStore.open(empty_store)
    loaded = store.load()
    assert loaded.revision == 60
    assert {node.name for node in loaded.nodes} == {f"writer-{each}-{at}" for each in range(4) for at in range(15)}
    assert [event.revision for event in store.log.events()] == list(range(1, 61))
    store.close()
