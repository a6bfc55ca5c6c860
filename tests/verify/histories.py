"""Random histories of a server, made over HTTP while its clock is moved by hand: `python -m tests.verify.histories [COUNT] [FIRST]`.

What users write in any combination: graphs of groups, work of a pool beside that of its subpools, weights, flavors, partial counts,
racks, arrays, holds, drains, edits, pauses, dependents, limits, budgets and retries. `runrig verify` judges each log. Equal seeds
give equal histories.
"""

import json
import random
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from runrig.domain.nodes import Node
from runrig.domain.observed import Phase, TaskFact
from runrig.verify.verify import check
from tests.worlds.http import Client
from tests.worlds.served import Served, served

DECISIONS = 1_000
"""Minimum decisions of a history."""
RACKS = [{"key": "zone", "label": "zone"}, {"key": "rack", "label": "rack"}]
PATIENCE = 4_000
"""Most steps of a history."""
REFUSED = (400, 403, 404, 409, 422)


class History:
    """*workflows*: those that were submitted, newest last. *arrays*: those of them that are arrays.

    *said*: how often the server answered with which status."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._client: Client
        self._clients: dict[str, Client] = {}
        self._server: Served
        self.pools: list[str] = []
        self.cohorts: list[str] = []
        self.workflows: list[str] = []
        self.arrays: list[str] = []
        self.nodes: dict[str, Node] = {}
        self.said: Counter[int] = Counter()

    def run(self, folder: Path, decisions: int = DECISIONS) -> None:
        """The server decides about *decisions* times, and its database is in *folder* afterwards."""
        with ExitStack() as stack:
            self._server = stack.enter_context(
                served(folder, nodes=self._nodes(), cluster=json.dumps(self._cluster()), judged=False)
            )
            for user, by in (("ann", self._server), ("cy", self._server.by("cy", "admin"))):
                client = Client(by.url.removeprefix("http://"), {"Authorization": f"Bearer {by.token}"})
                self._clients[user] = stack.enter_context(closing(client))
            self._client = self._clients["ann"]
            moves = [move for weight, move in self._moves() for _ in range(weight)]
            for step in range(PATIENCE):
                self._one(moves)()
                if step % 40 == 0:
                    self._server.desk.store.snapshots.take()
                if step % 25 == 0 and self._server.desk.revision * 2 > decisions:
                    break
            self._lull()

    # ------------------------------------------------------------ chance

    def _one(self, several: Any) -> Any:
        return self._chance.choice(several)

    def _often(self, percent: int) -> bool:
        return self._chance.randrange(100) < percent

    # ------------------------------------------------------------ the cluster

    def _nodes(self) -> tuple[Node, ...]:
        self._flavors = self._one((("default",), ("default",), ("a", "b")))
        count, sizes = self._chance.randint(3, 12), self._one(((2, 4), (4, 8), (8,)))
        for at in range(count):
            labels = {"zone": f"z{at % 2}", "rack": f"z{at % 2}-r{at // 2 % 3}"}
            if self._flavors[0] != "default":
                labels["kind"] = self._one(self._flavors)
            resources = {"gpu": self._one(sizes)} | (
                {"cpu": 1000 * self._chance.randint(2, 8)} if self._often(20) else {}
            )
            self.nodes[f"n{at:02}"] = Node(f"n{at:02}", resources, labels=labels)
        return tuple(self.nodes.values())

    def _quota(self, most: int) -> Any:
        limits = (None, None, None, 0, most // 4, most // 2)
        quota: dict[str, Any] = {"nominal": self._chance.randint(0, most)}
        for name in ("borrowing_limit", "lending_limit"):
            limit = self._one(limits)
            quota |= {} if limit is None else {name: limit}
        return quota

    def _quotas(self, most: int) -> Any:
        return {flavor: {"gpu": self._quota(most)} for flavor in self._flavors}

    def _cluster(self) -> dict[str, Any]:
        total = sum(node.resources["gpu"] for node in self.nodes.values())
        weighted = self._often(25)
        self.cohorts = [f"c{at}" for at in range(self._chance.randint(0, 3))]
        self._racks = self._often(40)
        cohorts = [
            {"name": name, "weight": self._chance.randint(1, 3) if weighted else 1}
            | ({"parent": self._one(self.cohorts[:at])} if at and self._often(60) else {})
            | ({"quota": self._quotas(total // 4)} if self._often(40) else {})
            for at, name in enumerate(self.cohorts)
        ]
        pools = []
        for at in range(self._chance.randint(2, 5)):
            pool: dict[str, Any] = {"name": f"p{at}", "quota": self._quotas(total // 2)}
            pool |= {"cohort": self._one(self.cohorts)} if self.cohorts and self._often(70) else {}
            pool |= {"weight": self._chance.randint(1, 3)} if weighted else {}
            pool |= {"queueing": "STRICT_FIFO"} if self._often(25) else {}
            pool |= {"topology_keys": RACKS} if self._racks else {}
            pool |= {"flavors": list(self._flavors[::-1])} if self._often(30) else {}
            pool |= {"default_platform": self._one(self._flavors)} if self._often(30) else {}
            pool |= {"user_waiting": self._chance.randint(3, 12)} if self._often(20) else {}
            pool |= {"gpus_per_workflow": self._chance.randint(4, 12)} if self._often(20) else {}
            pool |= {"user_gpus": self._chance.randint(1, 8)} if self._often(20) else {}
            pool |= self._budget() if self._often(15) else {}
            pool |= {"max_run_time": f"{self._chance.randint(60, 600)}s"} if self._often(15) else {}
            pool |= {"default_exit_actions": {"RESCHEDULE": "3001"}} if self._often(25) else {}
            pools.append(pool)
        self.pools = [each["name"] for each in pools]
        flavors = [{"name": each, "node_labels": {"kind": each}} for each in self._flavors]
        return {"cohorts": cohorts, "pools": pools} | ({"flavors": flavors} if self._flavors[0] != "default" else {})

    def _budget(self) -> dict[str, Any]:
        return {"budget": self._chance.randint(1, 6)} | ({"budget_reached": "BORROW"} if self._often(50) else {})

    # ------------------------------------------------------------ work

    def _task(self, name: str) -> dict[str, Any]:
        task: dict[str, Any] = {"name": name, "image": "any", "command": ["true"], "resource": name}
        task["duration"] = self._one((5, 20, 60, 300, 1000))
        if self._often(35):
            task["count"] = self._one((1, 2, 3, 4, 6))
            task |= {"minCount": self._chance.randint(1, task["count"])} if self._often(50) else {}
        if self._often(25):
            task["exitActions"] = self._one(
                ({"RESCHEDULE": "1"}, {"RESCHEDULE": "3001"}, {"COMPLETE": "1-2"}, {"FAIL": "3006"})
            )
        return task

    def _resource(self, count: int) -> dict[str, Any]:
        found: dict[str, Any] = {"gpu": self._one((0, 1, 1, 1, 2, 2, 4, 8))}
        found |= {"cpu": self._one((1, 2))} if self._often(15) else {}
        found |= {"platform": self._one(self._flavors)} if self._often(15) else {}
        if self._racks and self._often(50):
            kind = self._one(("required", "required", "preferred"))
            topology = [{"key": self._one(("rack", "zone")), "requirementType": kind}]
            if count > 1 and self._often(30):
                topology = [{"key": "zone"}, {"key": "rack", "sliceSize": 2}]
            found["topology"] = topology
        return found

    def _workflow(self, name: str) -> dict[str, Any]:
        groups, resources, heads = [], {}, list[str]()
        for at in range(self._one((1, 1, 1, 2, 3, 6))):
            tasks = [self._task(f"t{at}{each}") for each in range(self._one((1, 1, 1, 2)))]
            for task in tasks:
                resources[task["name"]] = self._resource(task.get("count", 1))
            if len(tasks) > 1:
                tasks[0]["lead"] = True
                resources = {
                    each: {**row, "topology": []} if each.startswith(f"t{at}") else row
                    for each, row in resources.items()
                }
            inputs = [{"task": head} for head in heads if self._often(50)]
            tasks[0] |= {"inputs": inputs} if inputs else {}
            heads.append(tasks[0]["name"])
            groups.append({"name": f"g{at}", "tasks": tasks, "ignoreNonleadStatus": self._often(60)})
        timeouts: dict[str, Any] = {}
        timeouts |= {"queue_timeout": f"{self._chance.randint(10, 2000)}s"} if self._often(8) else {}
        timeouts |= {"exec_timeout": f"{self._chance.randint(10, 600)}s"} if self._often(8) else {}
        return {"name": name, "groups": groups, "resources": resources, "timeout": timeouts}

    def _array(self, name: str) -> dict[str, Any]:
        """The same group for a few indices, some of them at a time."""
        task = self._task("t")
        array: dict[str, Any] = {"indices": f"0-{self._chance.randint(1, 8)}", "failFast": self._often(20)}
        array |= {"most": self._chance.randint(1, 4)} if self._often(70) else {}
        group = {"name": "g", "array": array, "tasks": [task]}
        return {"name": name, "groups": [group], "resources": {"t": self._resource(task.get("count", 1))}}

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        """None if it was refused."""
        status, answer = self._client.call(method, path, body)
        self.said[status] += 1
        assert status < 300 or status in REFUSED, f"{method} {path} {body}: {status} {answer}"
        return answer if status < 300 else None

    def _submit(self) -> None:
        self._server.desk.time[0] += self._one((0.0, 0.1, 1.0))
        self._client = self._one((*self._clients.values(),))
        kind = self._array if self._often(15) else self._workflow
        body = self._submission(kind)
        if self.workflows and self._often(12):
            names = self._chance.sample(self.workflows[-10:], min(2, len(self.workflows[-10:])))
            names = [f"{each}/{self._chance.randrange(4)}" if each in self.arrays else each for each in names]
            body["after"] = [f"{name}:{self._one(('ok', 'any', 'fail'))}" for name in names]
        body |= {"retry": f"{self._chance.randint(1, 3)}:1,2"} if self._often(10) else {}
        answer = self._ask("POST", "/api/v1/workflows", body)
        if answer is not None:
            self.workflows.append(answer["id"])
            self.arrays += [answer["id"]] if kind == self._array else []

    def _submission(self, kind: Callable[[str], Any]) -> dict[str, Any]:
        pool, priority = self._one(self.pools), self._one(("HIGH", "NORMAL", "LOW", "LOW"))
        file = json.dumps({"workflow": kind(f"w{self._chance.randrange(50)}")})
        return {"pool": pool, "priority": priority, "file": file}

    def _batch(self) -> None:
        """Each by itself, or all or nothing."""
        body = self._submission(self._workflow) | {"all_or_nothing": self._often(60)}
        files = [body.pop("file"), *(self._submission(self._workflow)["file"] for _ in range(self._one((1, 3, 5))))]
        answer = self._ask("POST", "/api/v1/workflows:batch", body | {"workflows": [{"file": each} for each in files]})
        self.workflows += [each["id"] for each in answer["outcomes"] if each["id"]] if answer is not None else []

    def _burst(self) -> None:
        for _ in range(self._chance.randint(3, 10)):
            self._submit()

    def _workflow_or_none(self) -> str:
        return str(self._one(self.workflows[-30:] or ["none-1"]))

    def _on_workflow(self, what: str, **body: Any) -> None:
        self._ask("POST", f"/api/v1/workflows/{self._workflow_or_none()}/{what}", body or None)

    def _cancel(self) -> None:
        self._on_workflow("cancel", message="no longer needed")

    def _hold(self) -> None:
        self._on_workflow("hold")

    def _release(self) -> None:
        self._on_workflow("release")

    def _reassign(self) -> None:
        """A dry run decides on the live state, and may leave no trace in what the log says about decisions."""
        priority = self._one((None, "HIGH", "NORMAL", "LOW"))
        self._on_workflow("reassign", pool=self._one((None, *self.pools)), priority=priority, dry_run=self._often(50))

    def _on_array(self) -> None:
        """Its elements at a time change, or one of them ends."""
        name = self._one(self.arrays[-6:] or ["none-1"])
        if self._often(60):
            self._ask("POST", f"/api/v1/workflows/{name}/array", {"most": self._chance.randint(1, 6)})
        else:
            self._ask("POST", f"/api/v1/workflows/{name}/elements/{self._chance.randrange(8)}/cancel", {})

    def _repeat(self) -> None:
        body = {"pool": self._one(self.pools), self._one(("failed_only", "keep_completed")): True}
        answer = self._ask("POST", f"/api/v1/workflows/{self._workflow_or_none()}/repeat", body)
        if answer is not None:
            self.workflows.append(answer["id"])

    # ------------------------------------------------------------ time and nodes

    def _lull(self) -> None:
        self._server.desk.later(self._one((0.5, 1, 5, 30, 100, 400)))

    def _fail(self) -> None:
        """A task that runs ends with another code than 0."""
        backend = self._server.desk.backend
        running = sorted(backend.desired.run, key=str)
        if running:
            key = self._one(running)
            backend.facts = {**backend.facts, getattr(key, "key", key): TaskFact(Phase.ENDED, self._one((1, 2, 7)))}
            self._lull()

    def _change_node(self) -> None:
        name = self._one(sorted(self.nodes))
        node = self.nodes[name]
        self.nodes[name] = replace(node, ready=not node.ready) if self._often(70) else node
        self._server.desk.backend.show(*self.nodes.values())
        self._lull()

    def _nodes_ready(self) -> None:
        self.nodes = {name: replace(node, ready=True) for name, node in self.nodes.items()}
        self._server.desk.backend.show(*self.nodes.values())
        self._ask("POST", "/api/v1/nodes:uncordon", {"nodes": sorted(self.nodes)})

    def _drain(self) -> None:
        self._ask("POST", "/api/v1/nodes:drain", {"nodes": [self._one(sorted(self.nodes))], "force": self._often(30)})

    def _cordon(self) -> None:
        self._ask(
            "POST", f"/api/v1/nodes:{self._one(('cordon', 'uncordon'))}", {"nodes": [self._one(sorted(self.nodes))]}
        )

    # ------------------------------------------------------------ pools

    def _edit_pool(self) -> None:
        flavor = self._one(self._flavors)
        edit: dict[str, Any] = self._one(
            (
                {"quota": {flavor: self._chance.randint(0, 24)}},
                {"borrowing_limit": {flavor: self._one((None, 0, 4))}},
                {"lending_limit": {flavor: self._one((None, 0, 4))}},
                {"queueing": self._one(("STRICT_FIFO", "BEST_EFFORT_FIFO"))},
                {"cohort": self._one((None, *self.cohorts))},
                {"flavors": self._one((self._flavors, self._flavors[:1], self._flavors[-1:]))},
                {"default_platform": self._one((None, flavor))},
                {"user_waiting": self._one((None, 2, 8))},
                {"user_gpus": self._one((None, None, 2, 8))},
                {"budget": self._one((None, None, 3, 30))},
            )
        )
        self._ask("PATCH", f"/api/v1/pools/{self._one(self.pools)}", edit)

    def _subpool(self) -> None:
        body = {
            "name": self._one(("x", "y")),
            "parent": self._one(self.pools[:2]),
            "quota": self._one(("25%", "50%", "0%")),
        }
        answer = self._ask("POST", "/api/v1/pools", body)
        if answer is not None:
            self.pools.append(f"{body['parent']}--{body['name']}")

    def _resize_subpool(self) -> None:
        subpools = [each for each in self.pools if "--" in each]
        if subpools:
            self._ask("PATCH", f"/api/v1/pools/{self._one(subpools)}", {"quota": self._one(("10%", "30%", "60%"))})

    def _delete_pool(self) -> None:
        name = self._one(self.pools)
        if "--" in name and self._ask("DELETE", f"/api/v1/pools/{name}") is not None:
            self.pools.remove(name)

    def _edit_cohort(self) -> None:
        if self.cohorts:
            edit = self._one(({"weight": self._chance.randint(1, 3)}, {"parent": self._one((None, *self.cohorts))}))
            self._ask("PATCH", f"/api/v1/cohorts/{self._one(self.cohorts)}", edit)

    def _edit_limits(self) -> None:
        none = {"gpus": None, "waiting": None, "budget": None}
        limits = self._one(
            ({"gpus": 1}, {"gpus": 6}, {"waiting": 5}, {"budget": self._chance.randint(1, 20)}, none, none)
        )
        self._ask("PATCH", f"/api/v1/limits/users/{self._one(sorted(self._clients))}", limits)

    def _doors(self) -> None:
        self._ask("POST", f"/api/v1/pools/{self._one(self.pools)}/{self._one(('close', 'pause'))}", {"reason": "test"})

    def _doors_open(self) -> None:
        for name in self.pools:
            for what in ("open", "resume"):
                self._ask("POST", f"/api/v1/pools/{name}/{what}")

    def _moves(self) -> list[tuple[int, Callable[[], None]]]:
        return [
            (14, self._submit),
            (8, self._burst),
            (3, self._batch),
            (40, self._lull),
            (6, self._fail),
            (3, self._cancel),
            (2, self._hold),
            (3, self._release),
            (8, self._reassign),
            (3, self._on_array),
            (4, self._repeat),
            (3, self._change_node),
            (3, self._nodes_ready),
            (2, self._drain),
            (2, self._cordon),
            (3, self._edit_pool),
            (2, self._subpool),
            (1, self._resize_subpool),
            (1, self._delete_pool),
            (1, self._edit_cohort),
            (2, self._edit_limits),
            (1, self._doors),
            (2, self._doors_open),
        ]


def judged(seed: int, decisions: int = DECISIONS) -> tuple[dict[str, Any], list[str]]:
    """Returns the totals of one history and the reports about it. No decision may fail, so nothing may be set aside."""
    with TemporaryDirectory() as folder:
        History(seed).run(Path(folder), decisions)
        lines: list[str] = []
        database = Path(folder) / "runrig.db"
        check(str(database), since=0, laws=(), head="", as_json=True, say=lines.append)
        with closing(sqlite3.connect(database)) as connection:
            aside = connection.execute("SELECT revision, action FROM events WHERE kind = 'SetAside'").fetchall()
    return json.loads(lines[-1]), [*lines[:-1], *(f"revision {at}: set aside: {what}" for at, what in aside)]


def main(count: int, first: int) -> int:
    decisions = reports = rests = 0
    began = time.monotonic()
    for seed in range(first, first + count):
        numbers, lines = judged(seed)
        decisions, rests, reports = decisions + numbers["decisions"], rests + numbers["rests"], reports + len(lines)
        for line in lines:
            print(f"history {seed}: {line}", flush=True)
        print(f"history {seed}: {numbers['decisions']} decisions", flush=True)
    print(
        f"{count} histories, {decisions:,} decisions, {rests:,} rests, {reports} reports, {time.monotonic() - began:.0f} s"
    )
    return 1 if reports else 0


if __name__ == "__main__":
    sys.exit(main(*(int(each) for each in (sys.argv[1:3] + ["200", "0"][len(sys.argv) - 1 :]))))
