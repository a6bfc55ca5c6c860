"""docs/why.md shows answers as they are printed: each of its worlds is built here and asked."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runrig.api.v1.answers import workflows as as_answers
from runrig.cli.commands.queries import table_of
from runrig.cli.commands.why import told, told_of_pool
from runrig.cli.printed import workflows
from runrig.cli.rendering.tables import plain
from runrig.domain.gangs import Priority
from runrig.ports.store import WorkflowQuery
from tests.worlds.service import Desk, desk

PAGE = Path(__file__).parents[2] / "docs/why.md"
LOW = Priority.LOW
STRICT = """
pools:
- {name: pool1, quota: 2, queueing: STRICT_FIFO}
- {name: pool2, quota: 2}
"""


def asked(it: Desk, *ids: str) -> str:
    views = [it.service.workflow_queries.why(id) for id in ids]
    answers = [workflows.why(as_answers.why(view).model_dump(mode="json")) for view in views]
    return f"$ runrig why {' '.join(ids)}\n" + "\n\n".join("\n".join(told(answer)) for answer in answers)


def quota(folder: Path) -> str:
    with desk(folder) as it:
        it.submit("train", gpus=2)
        it.later(0)
        it.submit("eval", gpus=1)
        it.later(0)
        return asked(it, "eval-1")


def preempting(folder: Path) -> str:
    with desk(folder) as it:
        it.submit("sweep", "pool2", LOW, gpus=4)
        it.later(0)
        it.submit("train", gpus=2)
        return asked(it, "train-1")


@contextmanager
def behind_a_head(folder: Path) -> Iterator[Desk]:
    with desk(folder, cluster=STRICT) as it:
        it.submit("runs", gpus=1)
        it.later(0)
        it.submit("head", gpus=2)
        it.submit("small", gpus=1)
        it.later(0)
        yield it


def strict(folder: Path) -> str:
    with behind_a_head(folder) as it:
        return asked(it, "small-1")


def listed(folder: Path) -> str:
    with behind_a_head(folder) as it:
        queries = it.service.workflow_queries
        page, _ = queries.workflows(WorkflowQuery(limit=9))
        entries = [as_answers.entry(each, queries.now()) for each in queries.with_headlines(page)]
        shown = [workflows.listed(each.model_dump(mode="json"), "") for each in entries]
        return "$ runrig workflow list\n" + "\n".join(plain(table_of(shown)))


def pool(folder: Path) -> str:
    with desk(folder) as it:
        it.submit("train", gpus=2)
        it.submit("sweep", "pool2", LOW, gpus=2)
        it.later(0)
        for at in range(4):
            it.submit(f"eval{at}", gpus=1)
        it.submit("more", priority=LOW, gpus=2)
        it.later(0)
        answer = as_answers.pool_why(it.service.workflow_queries.pool_why("pool1")).model_dump(mode="json")
        return "$ runrig why --pool pool1\n" + "\n".join(told_of_pool(answer))


@pytest.mark.parametrize("world", [quota, preempting, strict, listed, pool])
def test_an_answer_on_the_page_is_the_one_that_is_printed(
    world: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert f"```console\n{world(tmp_path)}\n```" in PAGE.read_text(encoding="utf-8")
