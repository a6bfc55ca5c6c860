"""The counters of usage in /metrics: against the sums that `usage` shows, over hours and failures; and the board that reads them."""

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from runrig.domain.gangs import Priority
from runrig.service.queries.visibility import ALL
from runrig.service.usage.usage_queries import By, UsageQuery
from tests.service.runtime.scrape import Labels, labelled, scraped
from tests.worlds.service import Desk, desk

BOARD = Path(__file__).parents[3] / "deploy/helm/runrig/boards/runrig-usage.json"


def read(it: Desk) -> dict[str, dict[Labels, float]]:
    while it.service.usage.step():
        pass
    found = scraped(it.service.metrics.text().decode())
    return {name: dict(of) for name, of in found.items()}


def busy(it: Desk) -> None:
    """pool1 and pool2 have 2 GPUs each: pool1 holds 4 LOW, 2 of them borrowed, and another 1 waits."""
    it.submit("low", "pool1", Priority.LOW, gpus=4)
    it.service.settle()
    it.submit("more", "pool1", Priority.LOW, gpus=1)
    it.service.settle()


def test_counters_begin_at_0_and_grow_by_what_usage_shows(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        busy(it)
        first = read(it)
        assert first["runrig_usage_behind_seconds"] == {(): 0}
        assert "runrig_usage_gpu_seconds_total" not in first
        it.time[0] += 2 * 3600
        found = read(it)
        assert found["runrig_usage_gpu_seconds_total"] == {
            labelled(pool="pool1", flavor="default", kind="guaranteed"): pytest.approx(2 * 7200),
            labelled(pool="pool1", flavor="default", kind="borrowed"): pytest.approx(2 * 7200),
            labelled(pool="pool1", flavor="default", kind="waited"): pytest.approx(7200),
            labelled(pool="pool2", flavor="default", kind="lent"): pytest.approx(2 * 7200),
        }
        assert found["runrig_flavor_gpu_seconds_total"] == {
            labelled(flavor="default", state="held"): pytest.approx(4 * 7200)
        }
        usage = it.service.usage_queries.usage(UsageQuery((By.FLAVOR,), it.time[0] - 7200 * 2), ALL)
        assert usage.total.held == pytest.approx(4 * 7200, abs=60)


def test_counters_do_not_fall_while_the_log_is_folded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path) as it:
        busy(it)
        read(it)
        it.time[0] += 600
        before = read(it)["runrig_usage_gpu_seconds_total"]
        with monkeypatch.context() as broken:
            broken.setattr(it.store.usage, "steps", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                it.service.usage.step()
        assert scraped(it.service.metrics.text().decode())["runrig_usage_gpu_seconds_total"] == before
        it.time[0] += 600
        after = read(it)["runrig_usage_gpu_seconds_total"]
        borrowed = labelled(pool="pool1", flavor="default", kind="borrowed")
        assert [before[borrowed], after[borrowed]] == pytest.approx([1200, 2400])


def test_a_scrape_does_not_wait_for_the_state_lock(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        busy(it)
        read(it)
        it.time[0] += 600
        it.service.usage.lock.acquire()  # an RLock, so another thread has to ask
        try:
            counters: list[Any] = []
            thread = threading.Thread(target=lambda: counters.append(it.service.usage.counters()))
            thread.start()
            thread.join(20)
            assert [sum(of.values()) for of, _ in counters] == [0]
        finally:
            it.service.usage.lock.release()


def test_the_board_has_only_metrics_and_labels_that_a_server_has(tmp_path: Path) -> None:
    board = json.loads(BOARD.read_text())
    with desk(tmp_path) as it:
        busy(it)
        read(it)
        it.time[0] += 600
        it.submit("firm", "pool2", gpus=2)
        it.later(0)
        it.later(60)
        for name in ("a", "b"):
            it.submit(name, "pool1", gpus=2)
        it.service.settle()
        it.later(1)
        there = read(it)
    labels = {name: {label for key in of for label, _ in key} for name, of in there.items()}
    targets = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked = targets + [each["query"]["query"] for each in board["templating"]["list"] if each["type"] == "query"]
    assert len(asked) == 12
    for text in asked:
        names = re.findall(r"\brunrig_\w+", text)
        assert names, text
        assert set(names) <= set(there), text
        known = set.union(*(labels[name] for name in names))
        used = re.findall(r"(\w+)=~?\"", text) + re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", text)))
        assert set(used) <= known, text
    chosen = {label: values for text in targets for label, values in re.findall(r'(kind|state)=~?"([\w|]+)"', text)}
    assert set(chosen) == {"kind", "state"}
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"]) == 10
