"""The past is told as it was told when it was the present: for random histories, from checkpoint and log, to each level of sight."""

import random
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runrig.domain.plan import Submit
from runrig.engine.explain.quota_report import tree_rows
from runrig.engine.state.state import State
from runrig.service.past import keeper
from runrig.service.past.standing import Stood, loaded_of
from runrig.service.queries.visibility import ALL
from tests.exploring import tries
from tests.service.past.told import SIGHTS, missing, told
from tests.stores import store_url
from tests.worlds.crowded import NODES, Names, use
from tests.worlds.service import Desk, desk

pytestmark = pytest.mark.explored
FEW = 7
"""Decisions after which a checkpoint is due here."""


class History:
    """What was told at each revision at which somebody looked."""

    def __init__(self, it: Desk, chance: random.Random) -> None:
        self._it = it
        self._chance = chance
        self.told: dict[int, list[dict[str, Any]]] = {}
        self.ids: dict[int, set[str]] = {}

    def look(self) -> None:
        it, chance = self._it, self._chance
        if chance.random() < 0.15:
            nodes = [node for node in NODES if chance.random() < 0.9]
            it.backend.show(*nodes)
            it.service.settle()
        if chance.random() < 0.6:
            it.service.keeper.step()
        if chance.random() < 0.3:
            self.told[it.revision] = [told(it.service, sight) for sight in SIGHTS]
            self.ids[it.revision] = {each.id for each in it.store.load().workflows}


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints of a small cluster, whose log is small too."""
    monkeypatch.setattr(keeper, "DECISIONS", FEW)
    monkeypatch.setattr(keeper, "PART", 1)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@settings(max_examples=tries(2))
@given(chance=st.randoms(use_true_random=False))
def test_past_answers_equal_the_answers_at_that_time(kind: str, chance: random.Random) -> None:
    with (
        TemporaryDirectory() as folder,
        store_url(kind, Path(folder)) as url,
        desk(Path(folder), nodes=NODES, cluster=None, database=url) as it,
    ):
        it.service.keeper.step()
        history = History(it, chance)
        use(it, chance, Names(), steps=25, look=history.look)
        assert len(it.store.past.checkpoints()) > 1
        everybody = {id for ids in history.ids.values() for id in ids}
        revisions = [*history.told] * 2
        chance.shuffle(revisions)
        for revision in revisions:
            with it.service.past.at(it.service.past.moment(revision)) as then:
                for sight, expected in zip(SIGHTS, history.told[revision], strict=True):
                    again = told(then, sight)
                    assert list(again) == list(expected)
                    for name, each in expected.items():
                        assert again[name] == each, name
                assert not missing(then, history.ids[revision])
                later = everybody.difference(*(ids for at, ids in history.ids.items() if at <= revision))
                assert missing(then, later) == {id for id in later if id not in _submitted(it, revision)}


def _submitted(it: Desk, revision: int) -> set[str]:
    events = it.store.log.events()
    return {each.action.workflow.id for each in events if isinstance(each.action, Submit) and each.revision <= revision}


@settings(max_examples=tries(3))
@given(chance=st.randoms(use_true_random=False))
def test_state_moved_to_another_time_equals_a_loaded_one(chance: random.Random) -> None:
    """From any checkpoint to any other, there and back."""
    with TemporaryDirectory() as folder, desk(Path(folder), nodes=NODES, cluster=None) as it:
        history = History(it, chance)
        use(it, chance, Names(), steps=25, look=history.look)
        it.service.keeper.step()
        bases = [it.store.past.base(each.revision) for each in it.store.past.checkpoints()]
        stood: Stood | None = None
        for base in chance.choices(bases, k=8):
            assert base is not None
            fresh = State.load(loaded_of(base))
            if stood is None or not stood.turn(base):
                stood = Stood(base)
            assert stood.state.rows() == fresh.rows()
            assert sums(stood.state) == sums(fresh)


def sums(state: State) -> Any:
    """What a ledger works out: the tree, and what is free on each node."""
    rooms = {name: (room.free, room.gpus) for name, room in state.ledger.nodes.by_name.items()}
    return tree_rows(state), rooms, state.ledger.nodes.capacity


def test_drawings_of_one_time_are_not_reused_for_another_time(tmp_path: Path) -> None:
    """Looks share what they draw: nodes come, go and are closed between these."""
    with desk(tmp_path, nodes=NODES, cluster=None) as it:
        expected = {}
        for nodes in (NODES, NODES[:-1], (*NODES[1:], replace(NODES[0], ready=False)), NODES):
            it.backend.show(*nodes)
            it.service.settle()
            it.service.keeper.step()
            expected[it.revision] = it.service.boards.board(ALL)
        assert len({board.nodes for board in expected.values()}) == 3
        for revision in [*expected, *reversed(expected)]:
            with it.service.past.at(it.service.past.moment(revision)) as then:
                assert then.boards.board(ALL) == expected[revision]
