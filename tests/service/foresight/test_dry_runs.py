"""What a dry run says of a submission is what the next cycle does with it, and nothing is left of it."""

import random
from contextlib import suppress
from pathlib import Path

import pytest

from runrig.domain.blockers import Verdict
from runrig.domain.errors import RunrigError
from runrig.domain.gangs import Gang, Priority
from runrig.domain.nodes import Node
from runrig.domain.plan import Admit, Nominate, Queue
from runrig.domain.reasons import Code
from runrig.domain.steps import drained
from runrig.domain.value import at, utc
from runrig.engine.foresight.dry_run import dry_run
from runrig.engine.scheduling.admission import decide
from runrig.engine.state.state import State
from runrig.service.commands.submission import Submission
from runrig.service.queries.visibility import ALL
from tests.service.mirror.test_replica import step
from tests.worlds.service import Desk, desk, one_task


def next_cycle(state: State, gang: Gang, now: float) -> Verdict:
    """Runs it on *state*, with *gang* in the queue."""
    found = Verdict.WAITS
    state.ledger.apply(Queue(gang), now)
    for action in decide(state.ledger):
        if action is not None:
            state.ledger.apply(action, now)
        if isinstance(action, Admit) and action.gang == gang.id:
            found = Verdict.STARTS
        elif isinstance(action, Nominate) and action.gang == gang.id:
            found = Verdict.STARTS_AFTER_STOPS
    return found


@pytest.mark.parametrize("seed", range(8))
def test_dry_run_predicts_the_next_cycle(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    said = set()
    with desk(tmp_path, nodes=(Node("n0", {"gpu": 4}), Node("n1", {"gpu": 2}))) as it:
        for _ in range(60):
            step(it, chance)
            with suppress(RunrigError):
                text = one_task("x", gpus=chance.choice([1, 2, 3]))
                asked = Submission(text, chance.choice(["pool1", "pool2"]), "ann", priority=chance.choice([*Priority]))
                (gang,) = it.service.submissions.check(asked).gangs
                twin = State.load(it.store.load(), fixed_nodes=True, topology=True)
                with it.service._transactor.reading() as state:
                    before = state.rows()
                    (found,) = drained(dry_run(state, [gang], it.time[0]))
                    assert state.rows() == before
                assert found.verdict is next_cycle(twin, gang, it.time[0])
                assert bool(found.reasons) == (found.verdict is Verdict.WAITS)
                said.add(found.verdict)
    assert Verdict.STARTS in said


def told(it: Desk, text: str, pool: str = "pool1", priority: Priority = Priority.NORMAL) -> tuple[str, str]:
    accepted = it.service.submissions.check(Submission(text, pool, "ann", priority=priority))
    view = it.service.dry_runs.of(accepted.gangs, ALL)
    assert view is not None
    return view.verdict.value, view.sentence


def test_prediction_is_one_sentence(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        assert told(it, one_task("a", gpus=2)) == ("STARTS", "would start now on n0")
        for name in ("a", "b"):
            it.submit(name, "pool1", Priority.LOW, gpus=2)
        it.later(0)
        assert told(it, one_task("c", gpus=2), "pool2") == ("STARTS_AFTER_STOPS", "would start when a-1 has stopped")
        it.submit("d", "pool1", gpus=2)
        it.later(30)
        assert told(it, one_task("c", gpus=1)) == (
            "WAITS",
            "would wait: needs 1 GPU, but pool pool1 has no quota left; in use by d-1",
        )


def test_submission_to_a_paused_pool_would_wait_for_the_resume(tmp_path: Path) -> None:
    """S8: also in a subpool of it, and for work that would move there."""
    with desk(tmp_path) as it:
        it.service.declarations.pause_pool("pool1", user="ann", reason="moves")
        says = f"would wait: pool pool1 was paused at {utc(at(it.time[0]))} (moves); ask an administrator to run `runrig pool resume pool1`"
        assert told(it, one_task("a")) == ("WAITS", says)
        id = it.submit("b", "pool2")
        gangs, _ = it.service.submissions.check_reassignment(id, user="ann", pool="pool1", priority=None)
        found = it.service.dry_runs.of(gangs, ALL)
        assert found is not None
        assert [(each.verdict.value, each.reasons[0].code) for each in found.groups] == [("WAITS", Code.PAUSED)]


def test_name_taken_in_the_meantime_changes_nothing(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        accepted = it.service.submissions.check(Submission(one_task("a"), "pool1", "ann"))
        it.submit("a")
        found = it.service.dry_runs.of(accepted.gangs, ALL)
        assert found is not None
        assert (found.groups[0].group, found.sentence) == ("main-group", "would start now on n0")
