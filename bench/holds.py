"""How long the server's lock is held for questions that it answers without a mirror, and for an update of the page.

For questions that are answered in steps, the longest step counts: after 1 ms of steps others can take the lock.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from statistics import median
from time import process_time
from typing import Any, NamedTuple

from bench import foresight, questions
from bench.section import Rows, ms, verdict
from bench.timing import as_served
from runrig.domain.changes import Who
from runrig.domain.gangs import GangState
from runrig.domain.plan import Plan, Stop
from runrig.domain.steps import Steps
from runrig.domain.workflows import Status
from runrig.engine.explain.headlines import headlines
from runrig.engine.foresight.would_start import starting_changes
from runrig.service.mirror.asker import HOLD_S
from runrig.service.queries.alive import alive_here
from runrig.service.queries.board import Boards
from runrig.service.queries.pool_why import waiting_in
from runrig.service.queries.visibility import ALL
from runrig.service.queries.workflow_queries import HEADLINES_AT_ONCE
from runrig.web.board import Recorder, as_json, delta, layout

NODES, WAITING = 10_000, 100_000
WATCHED = questions.World(nodes=NODES, pools=1_000, running=1_500, waiting=10_000)
"""The data that an update of the page reads."""
CHANGED = 5
"""Gangs that change between two updates."""
HELD_MS = 5.0
LOOK_MS = 50.0
"""5 % of a processor, once a second."""
ABOUT = (
    f"how long questions hold the lock at {NODES:,} nodes, 1,000 pools and {WAITING:,} waiting, without a mirror, and an update of a page "
    "with 1,500 gangs; ms of processor time; the goal is of the longest hold"
)


class Measured(NamedTuple):
    """Seconds of each question, and the longest time for which the lock was held.  *goal*: ms of the whole; None: no goal."""

    what: str
    whole: list[float]
    held: list[float]
    goal: float | None = None


def rows(runs: int) -> Rows:
    found: Rows = []
    for each in (*questions_in_steps(max(runs, 10)), *looks(max(runs, 10))):
        whole, longest = ms(median(each.whole)), ms(max(each.held))
        met = longest <= HELD_MS and (each.goal is None or whole <= each.goal)
        row: dict[str, str | float | int] = {"what": each.what, "asked": len(each.whole), "whole": whole}
        row |= {"held, median": ms(median(each.held)), "longest": longest, "goal": HELD_MS}
        found.append(row | {"goal of the whole": each.goal or "-", "is": verdict(met)})
    return found


# ---------------------------------------------------------------- questions


def questions_in_steps(runs: int, nodes: int = NODES, many: int = WAITING) -> Iterator[Measured]:
    """Includes what the first question computes and later ones find cached, such as a column of a shape."""
    state = foresight.world(nodes, many)
    asked = Random(3).sample(
        [each.gang for each in state.ledger.entries.values() if each.state is GangState.PENDING], 4 * runs
    )
    with as_served():  # so that collecting the bench's own lists is not measured
        ids = [each.workflow for each in asked]
        few = [tuple(ids[at : at + HEADLINES_AT_ONCE]) for at in range(0, len(ids), HEADLINES_AT_ONCE)]
        pools = sorted({each.pool for each in asked})[:runs]
        dials = [
            partial(starting_changes, state, each.workflow, [each.pool], (Who.OWNER,), 1, foresight.NOW)
            for each in asked
        ]
        yield _asked("why", [partial(alive_here, state, id) for id in ids])
        yield _asked(
            f"the headlines of {HEADLINES_AT_ONCE} in a list", [partial(headlines, state, each) for each in few]
        )
        yield _asked("why a pool waits", [partial(waiting_in, state, pool, ALL) for pool in pools])
        yield _asked("the owner's dials, look by look", dials)


def _asked(what: str, ask: Sequence[Callable[[], Steps[Any]]]) -> Measured:
    whole, held = [], []
    for each in ask:
        holds = list(_holds(each()))
        whole.append(sum(holds))
        held.append(max(holds))
    return Measured(what, whole, held)


def _holds(steps: Steps[Any]) -> Iterator[float]:
    """Seconds for which the lock would be held, one after the other."""
    began = process_time()
    for _ in steps:
        if process_time() - began >= HOLD_S:
            yield process_time() - began
            began = process_time()
    yield process_time() - began


# ---------------------------------------------------------------- the page


def looks(runs: int, world: questions.World = WATCHED) -> Iterator[Measured]:
    """An update without changes would cost less: here some gangs have changed before each."""
    with questions.watched(world) as here:
        boards, recorder = Boards(here), Recorder()
        whole, held = [], []
        told = recorder.records(boards.board(ALL))
        with as_served():
            for at in range(runs):
                _stop(here, range(at * CHANGED, (at + 1) * CHANGED))
                began = process_time()
                board = boards.board(ALL)
                found = recorder.records(board)
                change = delta(told, found, 0, board.revision)
                message = as_json(change)
                whole.append(process_time() - began)
                held.append(here.locked)
                assert change is not None
                assert len(change["+"]) == CHANGED, message
                told = found
            began = process_time()
            shape = layout(board)
            first = process_time() - began
        assert shape["tag"]
        yield Measured(f"a look of the page, {CHANGED} gangs have changed", whole, held, LOOK_MS)
        yield Measured("its layout, after a node has changed (not locked)", [first], [0.0])


def _stop(here: questions.Watched, numbers: range) -> None:
    with here.writing("bench") as writing:
        writing.commit(Plan(tuple(Stop(f"sleeper-{number}/main-group", Status.FAILED_CANCELED) for number in numbers)))
