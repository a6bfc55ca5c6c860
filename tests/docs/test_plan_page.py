"""docs/plan.md shows a plan as it is printed: its cluster is built here, and the plan is made."""

from pathlib import Path

import pytest

from runrig.cli.rendering.plan_text import print_plan
from runrig.domain.gangs import Priority
from runrig.domain.nodes import Node
from runrig.service.foresight.questions import OfFile
from runrig.service.mirror.leaving import Leaving
from runrig.service.queries.visibility import ALL
from runrig.wire.json import to_plain
from tests.docs.test_docs import PAGES
from tests.worlds.service import Desk, desk

BEFORE = "pools: [{name: vision, quota: 32}, {name: nlp, quota: 16}, {name: old, quota: 16}]"
AFTER = "pools: [{name: vision, quota: 24}, {name: nlp, quota: 24}]"
NODES = tuple(Node(f"n{n}", {"gpu": 8}) for n in range(8))


def submit(it: Desk, name: str, pool: str, priority: Priority = Priority.NORMAL, *, pods: int) -> None:
    it.submit(
        name,
        pool,
        priority,
        text=f"""
workflow:
  name: {name}
  tasks: [{{name: main, image: any, command: [train], count: {pods}, duration: 7200}}]
  resources: {{default: {{gpu: 8}}}}
""",
    )
    it.later(0)


def test_plan_on_the_page_is_the_printed_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with desk(tmp_path, nodes=NODES, cluster=BEFORE) as it:
        submit(it, "import", "old", pods=1)
        submit(it, "pretrain", "vision", pods=2)
        submit(it, "tune", "vision", Priority.LOW, pods=2)
        submit(it, "parse", "nlp", pods=2)
        submit(it, "eval", "nlp", pods=1)
        submit(it, "vit-big", "vision", pods=4)
        found = it.service.plans.plan(OfFile(AFTER, True), user="ann", visibility=ALL, leaving=Leaving())
    print_plan(to_plain(found))
    printed = capsys.readouterr().out
    assert (
        f"$ runrig plan -f cluster.yaml --prune\n{printed}Nothing was changed. To apply: " in PAGES["docs/plan.md"]
    ), printed
