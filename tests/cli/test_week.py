"""A week of three teams on eight nodes, told through the command line alone; after each step the whole state is compared.

Work lasts longer than the week, so each change of the state has a command, or the end of a pause, as its cause.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runrig.domain.nodes import Node
from tests.worlds.served import Served, served
from tests.worlds.workflow_files import one_task

CLUSTER = "pools: [{name: vision, quota: 24}, {name: nlp, quota: 24}, {name: infra, quota: 16}]"
ARRAY = """
workflow:
  name: probe
  groups:
  - name: runs
    array: {indices: "0-3", most: 2}
    tasks: [{name: main, image: any, command: [x], duration: 300d, resource: node}]
  resources: {node: {gpu: 8}}
"""
DAY_S = 86_400.0


class Week:
    """*stands*: workflow → pool, priority and status; pool → GPUs in use; node → its conditions, where it is not simply ready."""

    def __init__(self, server: Served) -> None:
        self._server = server
        self._users = {"ann": server, "cy": server.by("cy", "infra-user"), "dee": server.by("dee", "infra-user")}
        self.stands: dict[str, Any] = {"infra": 0, "nlp": 0, "vision": 0}

    def does(self, *command: str, stdin: str = "", by: str = "ann", then: dict[str, Any]) -> str:
        """Runs *command*; then the state becomes what it was with *then* in it (None: without), and nothing else. Returns its output."""
        done = self._users[by].runrig(*command, stdin=stdin)
        assert done.code == 0, (command, done)
        self._becomes(then, command)
        return done.out

    def submits(
        self, name: str, pool: str, *options: str, gpus: int, pods: int = 1, by: str = "ann", then: dict[str, Any]
    ) -> None:
        text = one_task(name, gpus, count=pods, duration="300d")
        self.does("submit", "-", "--pool", pool, *options, stdin=text, by=by, then=then)

    def passes(self, days: float, then: dict[str, Any]) -> None:
        self._server.desk.later(days * DAY_S)
        self._becomes(then, days)

    def refused(self, *command: str) -> str:
        """Runs *command*, which must be refused and change nothing. Returns what it says."""
        done = self._server.runrig(*command)
        assert (done.code, self.seen()) == (1, self.stands), (command, done)
        return done.err

    def _becomes(self, then: dict[str, Any], cause: object) -> None:
        self._server.desk.later(0)
        self._server.desk.later(60)  # What is preempted has stopped by then.
        self.stands = {name: each for name, each in {**self.stands, **then}.items() if each is not None}
        assert self.seen() == self.stands, cause

    def seen(self) -> dict[str, Any]:
        found = {}
        for each in self._server.json("list", "--all", "-c", "1000")["workflows"]:
            held = f", held by {each['held_by']}" if each["held_by"] else ""
            array = each["array"]
            elements = f", {array['running']} run, {array['waiting']} wait" if array and array["running"] else ""
            found[each["name"]] = f"{each['pool']} {each['priority']} {each['status']}{held}{elements}"
        for each in self._server.json("pool", "list")["node_sets"][0]["pools"]:
            found[each["name"]] = f"{each['total']}, paused" if each["paused_by"] else each["total"]
        nodes = self._server.json("resource", "list")["resources"]
        return found | {each["hostname"]: each["conditions"] for each in nodes if each["conditions"] != ["Ready"]}


@pytest.fixture
def week(tmp_path: Path) -> Iterator[Week]:
    nodes = tuple(Node(f"n{number}", {"gpu": 8}) for number in range(8))
    with served(tmp_path, cluster=CLUSTER, nodes=nodes) as server:
        yield Week(server)


def test_a_week_of_three_teams(week: Week) -> None:
    # Monday: vision divides its quota and trains; nlp fills what is idle with preemptible work.
    week.does("pool", "subpool", "create", "vision", "train", "--quota", "16", then={"vision--train": 0})
    week.does("pool", "subpool", "create", "vision", "eval", "--quota", "8", then={"vision--eval": 0})
    running = "vision--train NORMAL RUNNING"
    week.submits("big", "vision--train", gpus=8, pods=2, then={"big-1": running, "vision--train": 16, "vision": 16})
    for number in range(1, 7):
        used = {f"sweep-{number}": "nlp LOW RUNNING", "nlp": 8 * number}
        week.submits("sweep", "nlp", "--priority", "LOW", gpus=8, then=used)

    # Tuesday: infra reclaims its quota from the youngest of the sweep. A user at the limit waits and delays nobody.
    week.does("pool", "update", "infra", "--user-gpus", "8", then={})
    taken = {"deploy-1": "infra NORMAL RUNNING", "infra": 8, "sweep-6": "nlp LOW PENDING", "nlp": 40}
    week.submits("deploy", "infra", gpus=8, by="cy", then=taken)
    week.submits("deploy", "infra", gpus=8, by="cy", then={"deploy-2": "infra NORMAL PENDING"})
    assert "cy uses 8 GPUs; the limit of infra for one user is 8." in week.does("why", "deploy-2", then={})
    taken = {"serve-1": "infra NORMAL RUNNING", "infra": 16, "sweep-5": "nlp LOW PENDING", "nlp": 32}
    week.submits("serve", "infra", gpus=8, by="dee", then=taken)
    assert "rule R2" in week.does("why", "sweep-6", then={})
    then: dict[str, Any] = {"deploy-1": "infra NORMAL FAILED_CANCELED", "deploy-2": "infra NORMAL RUNNING"}
    week.does("cancel", "deploy-1", by="cy", then=then)

    # Wednesday: a node is drained. What is preemptible there is requeued; the rest of the week has seven nodes.
    then = {"sweep-4": "nlp LOW PENDING", "nlp": 24, "n5": ["NotReady", "Cordoned"]}
    assert "sweep-4 (nlp, LOW, 8 GPUs): returns to the queue" in week.does("node", "drain", "n5", "--dry-run", then={})
    week.does("node", "drain", "n5", then=then)

    # Thursday: what waits is held, moved into a subpool, or made NORMAL, which preempts the youngest of those that run.
    week.does("workflow", "hold", "sweep-4", then={"sweep-4": "nlp LOW PENDING, held by ann"})
    week.does("workflow", "move", "sweep-6", "--pool", "vision--eval", then={"sweep-6": "vision--eval LOW PENDING"})
    then = {"sweep-5": "nlp NORMAL RUNNING", "sweep-3": "nlp LOW PENDING"}
    week.does("workflow", "reprioritise", "sweep-5", "--priority", "NORMAL", then=then)
    assert "all groups of sweep-5 have started" in week.refused("workflow", "hold", "sweep-5")

    # Friday: nlp is paused for two days, and nothing of it starts; its idle quota is lent. The node is back.
    said = week.does("pool", "pause", "nlp", "--until", "2d", then={"nlp": "24, paused"})
    assert "2 workflows wait, 3 workflows continue" in said
    then = {"n5": None, "sweep-6": "vision--eval LOW RUNNING", "vision--eval": 8, "vision": 24}
    week.does("node", "uncordon", "n5", then=then)
    week.does("workflow", "release", "sweep-4", then={"sweep-4": "nlp LOW PENDING"})
    then = {"sweep-2": "nlp LOW FAILED_CANCELED", "nlp": "16, paused"}
    week.does("cancel", "sweep-2", then=then)
    guest = {"guest-1": "vision--eval LOW RUNNING", "vision--eval": 16, "vision": 32}
    week.submits("guest", "vision--eval", "--priority", "LOW", gpus=8, then=guest)

    # Saturday: an array replaces the training, two elements at a time; one of them is cancelled, then all of it.
    then = {"big-1": "vision--train NORMAL FAILED_CANCELED", "vision--train": 0, "vision": 16}
    week.does("cancel", "big-1", then=then)
    then = {"probe-1": f"{running}, 2 run, 2 wait", "vision--train": 16, "vision": 32}
    week.does("submit", "-", "--pool", "vision--train", stdin=ARRAY, then=then)
    week.does("cancel", "probe-1/0", then={"probe-1": f"{running}, 2 run, 1 wait"})
    assert "pool nlp was paused at" in week.does("why", "sweep-3", then={})
    then = {"probe-1": "vision--train NORMAL FAILED_CANCELED", "vision--train": 0, "vision": 16}
    week.does("cancel", "probe-1", then=then)

    # Sunday: the pause ends by itself, and what waited starts. Then nlp gives its sweep up, and the subpools are deleted.
    then = {"sweep-3": "nlp LOW RUNNING", "sweep-4": "nlp LOW RUNNING", "nlp": 32}
    week.passes(2, then)
    then = {f"sweep-{number}": "nlp LOW FAILED_CANCELED" for number in (1, 3, 4)}
    then |= {"sweep-5": "nlp NORMAL FAILED_CANCELED", "nlp": 0}
    week.does("cancel", "--pool", "nlp", "--yes", then=then)
    week.does("pool", "subpool", "delete", "vision", "train", then={"vision--train": None})
    assert "DELETING" in week.does("pool", "subpool", "delete", "vision", "eval", then={})
    then = {"sweep-6": "vision--eval LOW FAILED_CANCELED", "vision--eval": 8, "vision": 8}
    week.does("cancel", "sweep-6", then=then)
    then = {"guest-1": "vision--eval LOW FAILED_CANCELED", "vision--eval": None, "vision": 0}
    week.does("cancel", "guest-1", then=then)
