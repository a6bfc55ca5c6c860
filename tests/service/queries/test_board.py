"""The board: whatever is stored since the last look, or during one, it is what the state says; and it costs what has changed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from runrig.domain.errors import RunrigError
from runrig.domain.gangs import Priority
from runrig.domain.nodes import NO_FLAVOR, Node
from runrig.domain.quantities import GPU
from runrig.engine.state.state import State
from runrig.service.queries import board
from runrig.service.queries.board import Look
from runrig.service.queries.visibility import ALL
from runrig.web.board import Recorder, records
from tests.worlds.service import Desk, desk, do

NODES = tuple(Node(f"n{at}", {"gpu": 4}, labels={"rack": f"r{at // 2}"}) for at in range(4))


@contextmanager
def busy(folder: Path) -> Iterator[Desk]:
    with desk(folder, nodes=NODES) as it:
        yield it


def happens(it: Desk, mix: Random, number: int) -> None:
    """Something that people, nodes or time do."""
    match mix.randrange(6):
        case 0:
            alive = [f"w{at}-1" for at in range(number)]
            try:
                do(it.service, it.service.submissions.cancelling(mix.choice(alive), user="ann"))
            except (RunrigError, IndexError):
                return
        case 1:
            it.backend.show(*(replace(node, ready=mix.random() < 0.8) for node in NODES if mix.random() < 0.9))
        case 2:
            it.later(mix.choice((0, 60)))
        case _:
            pool, priority = mix.choice(("pool1", "pool2")), mix.choice(list(Priority))
            it.submit(f"w{number}", pool, priority, gpus=mix.randint(1, 2), duration=mix.choice((30.0, 300.0)))


def there(state: State) -> tuple[object, ...]:
    """The same as of a `Look`, by a walk through the whole state."""
    entries = state.ledger.entries.values()
    held = sorted((each.gang.id, each.gang, each.state, each.placement) for each in entries if each.placement)
    waits: dict[str, list[int]] = {}
    for each in entries:
        if each.state.value in ("PENDING", "NOMINATED"):
            total = waits.setdefault(each.gang.pool, [0, 0])
            total[0] += 1
            total[1] += sum(pod_set.count * dict(pod_set.requests)[GPU] for pod_set in each.gang.pod_sets)
    closed = {name for name, node in state.nodes.items() if not node.ready or node.flavor == NO_FLAVOR}
    return state.revision, tuple(state.nodes.values()), closed, held, waits


def seen(look: Look) -> tuple[object, ...]:
    waits: dict[str, list[int]] = {}
    for pool, gangs, gpus in look.queued:
        total = waits.setdefault(pool, [0, 0])
        total[0] += gangs
        total[1] += gpus
    return look.revision, look.nodes, set(look.closed), sorted((each[0].id, *each) for each in look.held), waits


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("noted", [2, 1_000])
def test_observation_equals_the_state_after_any_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, noted: int
) -> None:
    """Also where more has changed than is noted, and where something is stored between the parts of a first look."""
    monkeypatch.setattr(board, "AT_ONCE", 1)
    monkeypatch.setattr(board, "MOST_NOTED", noted)
    mix = Random(seed)
    with busy(tmp_path) as it:
        transactor, number = it.service._transactor, iter(range(1_000))
        reading = transactor.reading
        quiet = [True]

        @contextmanager
        def disturbed() -> Iterator[State]:
            with reading() as state:
                yield state
            if not quiet[0] and mix.random() < 0.3:
                quiet[0] = True
                happens(it, mix, next(number))
                quiet[0] = False

        monkeypatch.setattr(transactor, "reading", disturbed)
        shown = Recorder()
        for _ in range(30):
            for _ in range(mix.randrange(4)):
                happens(it, mix, next(number))
            quiet[0] = False
            found = it.service.boards.board(ALL)
            quiet[0] = True
            look = it.service.boards.look()
            with reading() as state:
                assert seen(look) == there(state)
            assert shown.records(found) == records(found)
            now = it.service.boards.board(ALL)
            assert shown.records(now) == records(board.board(look, ALL))
            assert now == board.board(look, ALL)


def test_cost_of_an_observation_depends_on_the_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with busy(tmp_path) as it:
        for at in range(8):
            it.submit(f"w{at}", "pool1", Priority.LOW)
        it.later(0)
        recorder, boards, transactor = Recorder(), it.service.boards, it.service._transactor
        before = boards.board(ALL)
        recorded = recorder.records(before)
        assert len(recorded) == 8
        reading, holds = transactor.reading, []

        @contextmanager
        def counted() -> Iterator[State]:
            with reading() as state:
                yield state
            holds.append(state.revision)

        monkeypatch.setattr(transactor, "reading", counted)
        assert boards.board(ALL) == before
        assert holds == [], "nothing was stored: nobody is asked"
        it.submit("more", "pool2")
        it.later(0)
        holds.clear()
        after = boards.board(ALL)
        assert len(holds) == 1
        new = [id for id, each in recorder.records(after).items() if each is not recorded.get(id)]
        assert (len(new), len(recorded)) == (1, 8)
        assert after.nodes is before.nodes
        assert [each for each in after.gangs if not any(each is known for known in before.gangs)] == [after.gangs[0]]
        it.backend.show(*(replace(node, ready=node.name != "n3") for node in NODES))
        it.later(0)
        assert [node.open for node in boards.board(ALL).nodes] == [True, True, True, False]
