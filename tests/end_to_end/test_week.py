"""A week of three teams on eight nodes, told through the command line alone; after each step the whole state is compared.

The simulated week passes ten hours a second.  Work lasts longer than the week, so each change of the state has a command as its cause.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.patience import until
from tests.worlds.command_line import Up, up
from tests.worlds.workflow_files import one_task

CLUSTER = """
backend: {name: lab, type: simulated, speed: 36000}
nodes: [{name: "n{0..7}", resources: {gpu: 8}}]
pools: [{name: vision, quota: 24}, {name: nlp, quota: 24}, {name: infra, quota: 16}]
"""


class Week:
    """*stands*: workflow → pool, priority and status; pool → GPUs in use; node → its conditions, where it is not simply ready."""

    def __init__(self, server: Up) -> None:
        self._server = server
        self.stands: dict[str, Any] = {"infra": 0, "nlp": 0, "vision": 0}

    def does(self, *command: str, stdin: str = "", then: dict[str, Any]) -> str:
        """Runs *command*; then the state becomes what it was with *then* in it (None: without), and nothing else.  Returns its output."""
        done = self._server.runrig(*command, stdin=stdin)
        assert (done.code, done.err) == (0, ""), (command, done)
        self.stands = {name: each for name, each in {**self.stands, **then}.items() if each is not None}
        until(lambda: self.seen() == self.stands, said=lambda: f"{command}: {self.seen()} is not {self.stands}")
        return done.out

    def submits(self, name: str, pool: str, *options: str, gpus: int, pods: int = 1, then: dict[str, Any]) -> str:
        text = one_task(name, gpus, count=pods, duration="300d")
        return self.does("workflow", "submit", "-", "--pool", pool, *options, stdin=text, then=then)

    def refused(self, *command: str, stdin: str = "") -> str:
        """Runs *command*, which must be refused and change nothing.  Returns what it says."""
        done = self._server.runrig(*command, stdin=stdin)
        assert (done.code, self.seen()) == (1, self.stands), (command, done)
        return done.err

    def seen(self) -> dict[str, Any]:
        found = {}
        for each in self._server.json("workflow", "list", "--all", "-c", "1000")["workflows"]:
            held = f", held by {each['held_by']}" if each["held_by"] else ""
            found[each["name"]] = f"{each['pool']} {each['priority']} {each['status']}{held}"
        found |= {each["name"]: each["total"] for each in self._server.json("pool", "list")["node_sets"][0]["pools"]}
        nodes = self._server.json("resource", "list")["resources"]
        return found | {each["hostname"]: each["conditions"] for each in nodes if each["conditions"] != ["Ready"]}


@pytest.fixture
def week(tmp_path: Path) -> Iterator[Week]:
    (tmp_path / "cluster.yaml").write_text(CLUSTER, encoding="utf-8")
    with up(tmp_path / "data", "--cluster", str(tmp_path / "cluster.yaml"), "--drain-sweep", "1") as server:
        yield Week(server)


def test_a_week_of_three_teams(week: Week) -> None:
    # Monday: vision divides its quota and trains; nlp fills what is idle with a sweep that may be stopped.
    week.does("pool", "subpool", "create", "vision", "train", "--quota", "16", then={"vision--train": 0})
    week.does("pool", "subpool", "create", "vision", "eval", "--quota", "8", then={"vision--eval": 0})
    running = "vision--train NORMAL RUNNING"
    week.submits("big", "vision--train", gpus=8, pods=2, then={"big-1": running, "vision--train": 16, "vision": 16})
    for number in range(1, 7):
        used = {f"sweep-{number}": "nlp LOW RUNNING", "nlp": 8 * number}
        week.submits("sweep", "nlp", "--priority", "LOW", gpus=8, then=used)

    # Tuesday: infra takes its quota back, from the youngest of the sweep.
    stopped = {"sweep-5": "nlp LOW PENDING", "sweep-6": "nlp LOW PENDING", "nlp": 32}
    week.submits("deploy", "infra", gpus=8, pods=2, then={"deploy-1": "infra NORMAL RUNNING", "infra": 16, **stopped})
    assert "rule R2" in week.does("workflow", "why", "sweep-6", then={})

    # Wednesday: a node is cared for.  What may be stopped there waits again; the rest of the week knows seven nodes.
    then = {"sweep-4": "nlp LOW PENDING", "nlp": 24, "n5": ["NotReady", "Cordoned"]}
    assert "sweep-4 (nlp, LOW, 8 GPUs): returns to the queue" in week.does("node", "drain", "n5", "--dry-run", then={})
    week.does("node", "drain", "n5", then=then)

    # Thursday: what waits is held, moved into a subpool, or made firm, which stops the youngest of those that run.
    week.does("workflow", "hold", "sweep-4", then={"sweep-4": "nlp LOW PENDING, held by root"})
    week.does("workflow", "move", "sweep-6", "--pool", "vision--eval", then={"sweep-6": "vision--eval LOW PENDING"})
    then = {"sweep-5": "nlp NORMAL RUNNING", "sweep-3": "nlp LOW PENDING"}
    week.does("workflow", "reprioritise", "sweep-5", "--priority", "NORMAL", then=then)
    assert "all groups of sweep-5 have started" in week.refused("workflow", "hold", "sweep-5")

    # Friday: the node is back.  Its room goes to the subpool, which has quota left, and not to older work that would borrow.
    then = {"n5": None, "sweep-6": "vision--eval LOW RUNNING", "vision--eval": 8, "vision": 24}
    week.does("node", "uncordon", "n5", then=then)
    week.does("workflow", "release", "sweep-4", then={"sweep-4": "nlp LOW PENDING"})

    # Saturday: the training is stopped, and all that waits starts.
    then = {"big-1": "vision--train NORMAL FAILED_CANCELED", "vision--train": 0, "vision": 8}
    then |= {"sweep-3": "nlp LOW RUNNING", "sweep-4": "nlp LOW RUNNING", "nlp": 40}
    week.does("workflow", "cancel", "big-1", then=then)

    # Sunday: nlp gives its sweep up.  An empty subpool goes at once, the other one when its last work has ended.
    then = {f"sweep-{number}": "nlp LOW FAILED_CANCELED" for number in range(1, 5)}
    week.does(
        "workflow", "cancel", "--pool", "nlp", "--yes", then={**then, "sweep-5": "nlp NORMAL FAILED_CANCELED", "nlp": 0}
    )
    week.does("pool", "subpool", "delete", "vision", "train", then={"vision--train": None})
    assert "DELETING" in week.does("pool", "subpool", "delete", "vision", "eval", then={})
    then = {"sweep-6": "vision--eval LOW FAILED_CANCELED", "vision--eval": None, "vision": 0}
    week.does("workflow", "cancel", "sweep-6", then=then)
