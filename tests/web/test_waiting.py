"""The cards of what waits: found out by a thread, once for all who see as much, and nobody waits for it for long."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runrig.domain.shown.why import PoolWhy
from runrig.service.queries.visibility import ALL, Visibility
from runrig.web import waiting
from runrig.web.waiting import Reasons, why_cards
from tests.patience import PATIENCE_S
from tests.web.visitor import Site, site


class Asked:
    """Answers why a pool waits, and notes that; while *free* is not set it takes its time."""

    def __init__(self, it: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pools: list[str] = []
        self.free = threading.Event()
        self.free.set()
        self._answers = it.desk.service.workflow_queries.pool_why
        monkeypatch.setattr(it.desk.service.workflow_queries, "pool_why", self._answer)

    def _answer(self, pool: str, visibility: Visibility) -> PoolWhy:
        self.pools.append(pool)
        assert self.free.wait(PATIENCE_S)
        return self._answers(pool, visibility)


@contextmanager
def one_waits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Site, Asked]]:
    monkeypatch.setattr(waiting, "FIRST_S", PATIENCE_S)
    monkeypatch.setattr(waiting, "REST", 0.0)
    with site(folder) as it:
        for name in ("a", "b"):
            it.desk.submit(name, gpus=2)
        it.desk.service.settle()
        yield it, Asked(it, monkeypatch)


def test_requests_share_one_answer_until_the_next_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with one_waits(tmp_path, monkeypatch) as (it, asked):
        visitor = it.visitor()
        asked.pools.clear()
        for path in ("/waiting", "/", "/pool/pool1", "/waiting"):
            assert "b-1" in visitor.page(path)
        assert asked.pools == ["pool1"]
        monkeypatch.setattr(waiting, "WAIT_S", PATIENCE_S)
        it.desk.submit("c", gpus=1)
        assert "c-1" in visitor.page("/waiting")
        assert asked.pools == ["pool1", "pool1"]


def test_pages_do_not_wait_for_slow_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with one_waits(tmp_path, monkeypatch) as (it, asked):
        visitor = it.visitor()
        asked.free.clear()
        monkeypatch.setattr(waiting, "FIRST_S", 0.0)
        for path in ("/waiting", "/pool/pool1", "/"):
            assert "Still computing the reasons" in visitor.page(path), path
        asked.free.set()
        monkeypatch.setattr(waiting, "FIRST_S", PATIENCE_S)
        shown = visitor.page("/waiting")
        assert ("b-1" in shown, "As of" in shown, asked.pools) == (True, False, ["pool1"])
        asked.free.clear()
        monkeypatch.setattr(waiting, "WAIT_S", 0.0)
        it.desk.submit("c", gpus=1)
        reasons: Reasons = it.app.state.reasons
        assert [card.held.first for card in why_cards(reasons.whys(["pool1"], ALL))] == [("b-1",)], (
            "what was known before"
        )
        asked.free.set()


def test_failing_pool_does_not_affect_other_pools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with one_waits(tmp_path, monkeypatch) as (it, _):
        it.desk.submit("d", "pool2", gpus=2)
        it.desk.submit("e", "pool2", gpus=2)
        it.desk.service.settle()
        answers = it.desk.service.workflow_queries.pool_why

        def fails(pool: str, visibility: Visibility) -> PoolWhy:
            if pool == "pool1":
                raise ValueError("broken")
            return answers(pool, visibility)

        monkeypatch.setattr(it.desk.service.workflow_queries, "pool_why", fails)
        assert {card.pool for card in why_cards(Reasons(it.desk.service).whys(["pool1", "pool2"], ALL))} == {"pool2"}
