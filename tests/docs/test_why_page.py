"""docs/why.md shows answers as they are printed: each of its worlds is built here and asked."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runrig.cli.commands.queries import table_of
from runrig.cli.commands.why import lines, pool_lines, printed
from runrig.cli.printed import workflows
from runrig.cli.rendering import would_start
from runrig.cli.rendering.tables import plain
from runrig.domain.access import Grant, Identity, RoleKind
from runrig.domain.gangs import Priority
from runrig.domain.nodes import Node
from runrig.ports.store import WorkflowQuery
from runrig.wire.json import to_plain
from tests.worlds.service import Desk, desk

PAGE = Path(__file__).parents[2] / "docs/why.md"
LOW = Priority.LOW
ADMIN = Identity("ann", (Grant(RoleKind.ADMIN),))
STRICT = """
pools:
- {name: pool1, quota: 2, queueing: STRICT_FIFO}
- {name: pool2, quota: 2}
"""
RACKS = """
pools:
- {name: pool1, quota: 16, topology_keys: [{key: rack, label: rack}]}
"""
MOE = """
workflow:
  name: moe
  tasks:
  - {name: main, image: any, command: [train], count: 2, resource: four}
  resources:
    four: {gpu: 4, topology: [{key: rack, requirementType: required}]}
"""


def asked(it: Desk, *ids: str) -> str:
    views = [it.service.workflow_queries.why(id) for id in ids]
    answers = [printed(to_plain(view)) for view in views]
    return f"$ runrig why {' '.join(ids)}\n" + "\n\n".join("\n".join(lines(answer)) for answer in answers)


def would_start_too(it: Desk, id: str) -> str:
    """As `-v` prints it."""
    view = it.service.change_queries.would_start(id, ADMIN, others=True, depth=1)
    found = to_plain(view)
    return f"{asked(it, id)}\n\n" + "\n".join(would_start.section(found, verbose=True))


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
        shown = [workflows.listed(to_plain(each), "") for each in queries.with_headlines(page)]
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
        answer = to_plain(it.service.workflow_queries.pool_why("pool1"))
        return "$ runrig why --pool pool1\n" + "\n".join(pool_lines(answer))


def rack(folder: Path) -> str:
    """`n0` is busy, and `n3` is down."""

    def nodes(down: int | None = None) -> tuple[Node, ...]:
        return tuple(Node(f"n{n}", {"gpu": 4}, labels={"rack": f"r{n // 2}"}, ready=n != down) for n in range(4))

    with desk(folder, nodes=nodes(), cluster=RACKS) as it:
        it.submit("train", gpus=4, duration=900)
        it.later(0)
        it.backend.show(*nodes(down=3))
        it.submit("moe", text=MOE)
        it.later(0)
        return would_start_too(it, "moe-1").replace("why moe-1", "why moe-1 -v", 1)


def after_a_preemption(folder: Path) -> str:
    with desk(folder) as it:
        it.submit("sweep", "pool2", LOW, gpus=4)
        it.later(0)
        it.submit("train", gpus=2)
        it.later(0)
        it.later(60)
        return asked(it, "sweep-1")


@pytest.mark.parametrize("world", [quota, preempting, strict, listed, pool, rack, after_a_preemption])
def test_answer_on_the_page_is_the_printed_one(
    world: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert f"```console\n{world(tmp_path)}\n```" in PAGE.read_text(encoding="utf-8")
