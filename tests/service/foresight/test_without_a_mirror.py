"""While there is no mirror: a small state is copied, of a large one only looks are to be had, and nothing is made up."""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from runrig.domain.access import Grant, Identity, RoleKind
from runrig.domain.errors import Unavailable
from runrig.domain.gangs import Priority
from runrig.domain.reasons import Reason
from runrig.domain.shown.changes import WorkflowChanges
from runrig.domain.steps import Steps
from runrig.engine.explain import pool_why, why
from runrig.engine.foresight.dry_run import dry_run
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.queue import Entry
from runrig.engine.state.state import State
from runrig.service.commands.edits import PoolEdit
from runrig.service.commands.submission import Submission
from runrig.service.foresight import dry_runs
from runrig.service.foresight.questions import OfEdit
from runrig.service.mirror import asker
from runrig.service.mirror.asker import NoBranches
from runrig.service.mirror.leaving import Leaving
from runrig.service.queries.visibility import ALL
from tests.worlds.edits import amounts
from tests.worlds.service import Desk, desk, one_task

ADMIN = Identity("ann", (Grant(RoleKind.ADMIN),))


@pytest.fixture
def it(tmp_path: Path) -> Iterator[Desk]:
    """n0 is full of a-1, and b-1 waits for more than there is."""
    with desk(tmp_path) as it:
        it.submit("a", "pool1", gpus=2)
        it.later(0)
        it.submit("b", "pool1", gpus=2)
        it.later(0)
        yield it


def would_start(it: Desk, *, others: bool = False, depth: int = 1) -> WorkflowChanges:
    return it.service.change_queries.would_start("b-1", ADMIN, others=others, depth=depth)


def plan(it: Desk) -> object:
    return it.service.plans.plan(
        OfEdit("pool1", PoolEdit(amounts(quota=1))), user="u", visibility=ALL, leaving=Leaving()
    )


def test_search_in_the_server_gives_the_result_of_a_search_in_a_copy(it: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    by_copy, stored = would_start(it), it.store.load()
    assert by_copy.would_start
    assert by_copy.at_rest
    monkeypatch.setattr(asker, "SMALL", 0)
    monkeypatch.setattr(it.service._transactor, "copies", None)
    assert would_start(it) == by_copy
    assert it.store.load() == stored


def test_query_that_needs_its_own_state_is_refused_in_a_large_cluster(
    it: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plan(it)
    monkeypatch.setattr(asker, "SMALL", 2)
    monkeypatch.setattr(it.service._transactor, "copies", None)
    says = "this needs the mirror process: the cluster has [0-9]+ nodes and groups, more than the 2"
    asked: Callable[[], object]
    for asked in (lambda: plan(it), lambda: would_start(it, others=True), lambda: would_start(it, depth=2)):
        with pytest.raises(NoBranches, match=says):
            asked()


def test_evaluation_is_inconclusive_while_gangs_ahead_are_not_evaluated(
    it: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asker, "SMALL", 0)
    it.submit("c", "pool2", Priority.LOW)
    with pytest.raises(NoBranches):
        would_start(it)


def test_stepwise_answer_starts_over_if_something_is_stored_in_between(
    it: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nobody waits meanwhile: what comes between two steps is stored at once."""
    monkeypatch.setattr(asker, "HOLD_S", 0.0)
    seen: list[int] = []
    submits = iter(("x", "y"))

    def waiting(state: State) -> Generator[None, None, int]:
        seen.append(len(state.workflows))
        yield
        yield
        return len(state.workflows)

    transactor = it.service._transactor
    reading = transactor.reading

    @contextmanager
    def disturbed() -> Iterator[State]:
        with reading() as state:
            yield state
        for name in submits if len(seen) in (1, 2) else ():
            it.submit(name)
            break

    transactor.reading = disturbed  # type: ignore[method-assign]
    found, revision = it.service.asker.ask_in_steps(waiting)
    assert (found, revision) == (4, it.revision)
    assert seen == [2, 4]


@pytest.mark.parametrize("disturbances", [0, 1, 100])
def test_why_yields_to_others_between_steps(it: Desk, monkeypatch: pytest.MonkeyPatch, disturbances: int) -> None:
    """Whatever is stored meanwhile, and in the end without a break: it is answered, of one revision."""
    transactor = it.service._transactor
    monkeypatch.setattr(asker, "HOLD_S", 0.0)
    before = it.service.workflow_queries.why("b-1").groups
    assert before[0].blockers
    reading, holds = transactor.reading, []

    @contextmanager
    def disturbed() -> Iterator[State]:
        with reading() as state:
            yield state
        holds.append(state.revision)
        if len(holds) <= disturbances:
            it.submit(f"x{len(holds)}", "pool2")

    monkeypatch.setattr(transactor, "reading", disturbed)
    assert it.service.workflow_queries.why("b-1").groups == before
    steps = 5
    at_once = 2 * asker.MOST_FRESH_STARTS + 1
    assert len(holds) == at_once if disturbances == 100 else len(holds) > steps + disturbances
    assert it.service.workflow_queries.pool_why("pool1").gangs == 1


def test_query_that_never_finishes_in_time_is_stopped(it: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    transactor = it.service._transactor
    reading, number = transactor.reading, iter(range(100))

    @contextmanager
    def disturbed() -> Iterator[State]:
        with reading() as state:
            yield state
        it.submit(f"x{next(number)}")

    def endless(_: State) -> Generator[None, None, None]:
        while True:
            yield

    monkeypatch.setattr(transactor, "reading", disturbed)
    with pytest.raises(Unavailable, match="changed while this was computed"):
        it.service.asker.ask_in_steps(endless)


def test_server_evaluates_few_gangs_before_a_submission(it: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for gpus in (1, 2):
        it.submit(f"before{gpus}", "pool1", gpus=gpus)
    late = it.service.submissions.check(Submission(one_task("late", gpus=2), "pool1", "ann", priority=Priority.LOW))

    def said() -> str:
        view = it.service.dry_runs.of(late.gangs, ALL)
        assert view is not None
        return view.sentence

    assert said().startswith("would start now")
    monkeypatch.setattr(dry_runs, "_DRY_RUN_HERE", partial(dry_run, most_looks=0))
    assert said() == "not known yet: too many groups ahead of it have not been evaluated"


def test_known_reasons_of_a_pool_remain_during_commits(it: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each gang at the front is asked about once, though everything begins again and again."""
    monkeypatch.setattr(asker, "HOLD_S", 0.0)
    for priority in (Priority.NORMAL, Priority.HIGH):
        for gpus in (1, 2):
            it.submit(f"{priority.value.lower()}{gpus}", "pool1", priority, gpus=gpus)
    it.later(0)
    before = it.service.workflow_queries.pool_why("pool1")
    transactor, explained = it.service._transactor, why.explain
    reading, asked, stored = transactor.reading, list[str](), list[str]()

    def noting(ledger: Ledger, entry: Entry) -> Steps[tuple[Reason, ...]]:
        found = yield from explained(ledger, entry)
        asked.append(entry.gang.id)
        return found

    @contextmanager
    def disturbed() -> Iterator[State]:
        with reading() as state:
            yield state
        if len(asked) > len(stored):
            stored.append(it.submit(f"x{len(asked)}", "pool2"))

    monkeypatch.setattr(pool_why, "explain", noting)
    monkeypatch.setattr(transactor, "reading", disturbed)
    assert it.service.workflow_queries.pool_why("pool1") == before
    assert sorted(asked) == sorted(set(asked))
    assert len(asked) == 4
