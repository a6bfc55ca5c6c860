"""Carries out the actions of a log."""

from collections.abc import Callable, Mapping, Set
from heapq import heappush
from operator import itemgetter

from .gang import ADMITTED, NOMINATED, PENDING, STOPPING, Gang, Queue
from .quota import LAYERS, REAL, line
from .world import Action, Row, World

THE_SERVER = "the server"
"""Holds what it has set aside, by W8."""
ALIVE = ("WAITING", "PENDING", "SCHEDULING", "INITIALIZING", "RUNNING")
QUEUED, RUN = "FAILED_QUEUE_TIMEOUT", "FAILED_EXEC_TIMEOUT"
LIMITS = {QUEUED: ("queue_timeout_s", "queued_time"), RUN: ("exec_timeout_s", "start_time")}
"""Cause → names of the limit, and of the time from which it counts, by P6."""
SAME = "as it was"
KEPT = ("id", "pool", "priority", "submit_time", "submitted_by", "parent", "upstream", "most", "held_by")
"""What is needed later of what a submission says about its workflow."""
STEPS: Mapping[str, tuple[tuple[str, ...], str | None]] = {
    "Unqueue": ((PENDING, NOMINATED), None),
    "Nominate": ((PENDING,), NOMINATED),
    "Withdraw": ((NOMINATED,), PENDING),
    "Preempt": ((ADMITTED,), STOPPING),
    "Stop": ((ADMITTED, STOPPING), STOPPING),
    "Refuse": ((ADMITTED,), STOPPING),
    "TryAgain": ((PENDING, STOPPING), SAME),
    "Admit": ((PENDING, NOMINATED), ADMITTED),
    "Replace": ((ADMITTED,), ADMITTED),
    "SetPriority": ((ADMITTED,), SAME),
    "Release": ((PENDING, NOMINATED, ADMITTED, STOPPING), None),
}
"""Decisions about a gang: the states in which it may be, and the one that follows."""

_taint = itemgetter("key", "value", "effect")


class Replay(World):
    def apply(self, kind: str, action: Action) -> None:
        """Carries out an action. Unknown gangs are passed over: retention has deleted their beginning."""
        other = OTHERS.get(kind)
        if other is not None:
            other(self, action)
        elif (gang := self.gangs.get(action["gang"])) is not None:
            self._step(gang, kind, action)

    def _step(self, gang: Gang, kind: str, action: Action) -> None:
        freed, state = set[str](), STEPS[kind][1]
        if kind == "Refuse":
            gang.refused, self.refused[gang.id] = True, gang
        elif kind == "Preempt":
            self.preempted[gang.id] = self.preempted.get(gang.id, 0) + 1
        elif kind == "Release" and self.refused and gang.state in (ADMITTED, STOPPING) and not gang.refused:
            freed = {each["flavor"] for each in gang.placement if each["shares"]}
        if state != SAME:
            self.set(gang, state, action.get("placement"), action.get("targets", ()))
        elif kind == "TryAgain":
            self._try_again(gang)
        else:
            self._unlist(gang)
            with self.without([gang], LAYERS):
                gang.rank_as(action["priority"])
            self._list(gang)
            self._loosen()
        if freed:
            self._lift(flavors=freed)

    def _loosen(self) -> None:
        """Something may be free that no gang held."""
        self.loosened += 1
        self.changes = next(self._moments)

    def _put_node(self, name: str, node: Row | None) -> None:
        before = self.nodes.pop(name, None)
        if before is not None:
            self._count(before, -1)
        if node is not None:
            self.nodes[name] = node
            self._count(node, 1)
        self._loosen()

    def _count(self, node: Row, sign: int) -> None:
        self._open_or_close(node)
        for resource, amount in node["resources"].items():
            if node["flavor"] and resource != "pods":
                key = f"{node['flavor']}/{resource}"
                self.capacity[key] = self.capacity.get(key, 0) + sign * amount
                if key in self.trees:
                    self.trees[key].resize(self.capacity[key])
        self._lift(flavors={node["flavor"]})

    def _open_or_close(self, node: Row) -> None:
        """Law N1 and the rules of *flavors*: a node takes pods if it is ready and open, and its flavor tolerates its taints."""
        tolerated = [_taint(each) for each in self.flavors.get(node["flavor"], {}).get("taints", ())]
        taints = [_taint(each) for each in node["taints"] if each["effect"] != "PreferNoSchedule"]
        self.takes.pop(node["name"], None)
        if node["name"] in self.nodes and node["ready"] and not node.get("cordoned") and {*taints} <= {*tolerated}:
            self.takes[node["name"]] = node["flavor"]
        self._touch(node["name"])

    def _put_flavors(self, action: Action) -> None:
        self.flavors = {each["name"]: each for each in action["flavors"]}
        for node in self.nodes.values():
            self._open_or_close(node)
        self._edited()

    def _edit(self, table: dict[str, Row], name: str, value: Row | None) -> None:
        table.pop(name, None)
        if value is not None:
            table[name] = value
        self._edited()
        self._lift(pool=name if table is self.pools else "")

    def _edited(self) -> None:
        """All is asked again."""
        self.trees, self.governed = {}, {}
        there = [pool for pool in self.pools.values() if pool["state"] != "ARCHIVED"]
        self.weighted = len({each.get("weight", 1) for each in (*self.cohorts.values(), *there)}) > 1
        self.circular = any(line(self.cohorts, each)[1] for each in self.cohorts)
        self._loosen()

    def _lift(self, flavors: Set[str] = frozenset(), pool: str = "") -> None:
        """Law T7: what the cluster's scheduler refused is tried again when its pool or a node that it could use changes."""
        for gang in list(self.refused.values()):
            usable = self.pools[gang.pool]["flavors"]
            if gang.pool == pool or (flavors and (not usable or not flavors.isdisjoint(usable))):
                self._try_again(gang)

    def _try_again(self, gang: Gang) -> None:
        gang.refused = False
        self.refused.pop(gang.id, None)
        self.loosened += 1

    def workflow(self, name: str) -> Row:
        """{}: it is not known."""
        return self.workflows.get(name, {})

    def _submit(self, action: Action) -> None:
        groups, said = action["groups"], action["workflow"]
        row = {name: said[name] for name in KEPT if name in said}
        row |= {"status": said.get("status", "PENDING"), "aside": said.get("held_by") == THE_SERVER, "ended": set()}
        row["done"] = {each["name"] for each in groups if each.get("status") == "COMPLETED" and not each["stopping"]}
        row["begun"] = any(each.get("queued_time") for each in groups)
        row["timed"] = "exec_timeout_s" in action
        row["limits"] = {cause: action[field] for cause, (field, _) in LIMITS.items() if action.get(field) is not None}
        row["after"] = [dict(each) for each in said.get("after", ())]
        self.workflows[row["id"]] = row
        self._wait_or_not(row)
        self._count_elements(row["id"])
        self.arriving.add(row["id"])
        self.time(action)
        for each in row["after"]:
            self.awaited.setdefault(each["workflow"], []).append((row["id"], each))
        names = {"", *(each["name"] for each in groups)}
        for id, each in self.awaited.get(row.get("parent") or "", ()):  # A restart takes the place of what had failed.
            waits = id in self.workflows and not self.workflows[id]["begun"]
            if each["ended"] is not None and each.get("element", "") in names and waits:
                each.update(workflow=row["id"], ended=None)
                self.awaited.setdefault(row["id"], []).append((id, each))

    def time(self, submit: Action) -> None:
        """The times of its groups count from when they began."""
        name = submit["workflow"]["id"]
        for cause in self.workflows[name]["limits"]:
            for each in submit["groups"]:
                self._begin(f"{name}/{each['name']}", cause, each.get(LIMITS[cause][1]))

    def _begin(self, gang: str, cause: str, since: float | None) -> None:
        limit = self.workflows[gang.partition("/")[0]]["limits"][cause]
        self.due[gang, cause] = None if since is None else since + limit
        if since is not None:
            heappush(self.ends, (since + limit, gang, cause))

    def _queue(self, action: Action) -> None:
        row = action["gang"]
        old, was = self.gangs.get(row["id"]), None
        if old is not None:
            was = old.state
            self.set(old, None)
        workflow = self.workflow(row["id"].partition("/")[0])
        gang = self.gangs[row["id"]] = Gang(row, workflow.get("submitted_by", ""), self.pods)
        gang.was = was
        if gang.alike not in self.queues:
            self.queues[gang.alike] = Queue(gang.pool, firm=gang.firm)
        gang.queue = self.queues[gang.alike]
        self.refused |= {gang.id: gang} if gang.refused else {}
        self._list(gang)
        workflow["begun"] = True
        for cause in workflow.get("limits", ()):
            self._begin(gang.id, cause, self.now if cause == QUEUED else None)

    def _move_group(self, action: Action) -> None:
        row, status = self.workflow(action["workflow"]), action["status"]
        if status == "COMPLETED" and not action.get("stopping"):
            row.get("done", set()).add(action["group"])
        elif status == "RUNNING" and RUN in row.get("limits", ()):
            name = f"{action['workflow']}/{action['group']}"
            if self.due.get((name, RUN)) is None:
                self._begin(name, RUN, self.now)
        if self.ending and status not in ALIVE:
            self.ending[f"{action['workflow']}/{action['group']}"] -= 1
        self._end(action["workflow"], status, action["group"])

    def _move_workflow(self, action: Action) -> None:
        name, status = action["workflow"], action["status"]
        self._change(action, status=status)
        self._wait_or_not(self.workflow(name))
        if status not in ("PENDING", "RUNNING"):
            self.workflows.pop(name, None)
            self.on_nodes.pop(name, None)
            self.over.add(name)
        self._end(name, status)

    def _wait_or_not(self, row: Row) -> None:
        theirs = self.pending.setdefault(row.get("submitted_by", ""), {})
        if row.get("status") == "PENDING":
            theirs[row["id"]] = row
        elif row:
            theirs.pop(row["id"], None)

    def _set_most(self, action: Action) -> None:
        self._change(action, most=action["most"])
        self._count_elements(action["workflow"])

    def _count_elements(self, workflow: str) -> None:
        """Law W4: some arrays may have only so many elements on nodes."""
        self.on_nodes.pop(workflow, None)
        if self.workflow(workflow).get("most") is not None:
            self.on_nodes[workflow] = sum(REAL in gang.layers for gang in self.of_workflow(workflow))

    def _end(self, workflow: str, status: str, element: str = "") -> None:
        """By W5. *element* "": the workflow has *status*, and after its end all elements that had not ended have it too."""
        for _, each in self.awaited.get(workflow, ()) if self.awaited and status not in ALIVE else ():
            of = each.get("element", "")
            if each["workflow"] == workflow and (of == element if element else not (of and each["ended"])):
                each["ended"] = status

    def _change(self, action: Action, **changes: object) -> None:
        if action["workflow"] in self.workflows:
            self.workflows[action["workflow"]].update(changes)

    def _reassign(self, action: Action) -> None:
        self._change(action, pool=action["pool"], priority=action["priority"])
        self.arriving.add(action["workflow"])

    def _aside(self, action: Action) -> None:
        """Laws W8: what waits leaves the queue; what runs keeps its nodes."""
        self._change(action, aside=True)
        for gang in self.of_workflow(action["workflow"]):
            if gang.state in (PENDING, NOMINATED):
                self.set(gang, None)

    def _abandon(self, action: Action) -> None:
        self._change(action, aside=False, held_by=None)
        self._move_workflow({**action, "status": "FAILED_CANCELED"})
        for gang in self.of_workflow(action["workflow"]):
            self.set(gang, None)

    def of_workflow(self, name: str) -> list[Gang]:
        return [gang for gang in self.gangs.values() if gang.workflow == name]

    def _move_task(self, action: Action) -> None:
        name, pod, _ = action["key"]
        ended = self.workflow(name).get("ended", set())
        (ended.discard if action["status"] in ("INITIALIZING", "RUNNING") else ended.add)(pod)

    def _set_spent(self, action: Action) -> None:
        spent = action["spent"]
        scope = spent["of"], spent["name"]
        if action["budget"] is None:
            self.spent.pop(scope, None)
        else:
            self.spent[scope] = spent["since"], spent["held"]


OTHERS: Mapping[str, Callable[[Replay, Action], None]] = {
    "SetFlavors": Replay._put_flavors,
    "PutNode": lambda world, a: world._put_node(a["node"]["name"], a["node"]),
    "DropNode": lambda world, a: world._put_node(a["name"], None),
    "PutCohort": lambda world, a: world._edit(world.cohorts, a["cohort"]["name"], a["cohort"]),
    "DropCohort": lambda world, a: world._edit(world.cohorts, a["before"]["name"], None),
    "PutPool": lambda world, a: world._edit(world.pools, a["pool"]["name"], a["pool"]),
    "PutLimits": lambda world, a: world._edit(world.limits, a["limits"]["user"], a["limits"]),
    "Submit": Replay._submit,
    "Queue": Replay._queue,
    "MoveTask": Replay._move_task,
    "MoveGroup": Replay._move_group,
    "MoveWorkflow": Replay._move_workflow,
    "Hold": lambda world, a: world._change(a, held_by=a.get("by", "")),
    "EndHold": lambda world, a: world._change(a, held_by=None, aside=False),
    "SetAside": Replay._aside,
    "Abandon": Replay._abandon,
    "SetMost": Replay._set_most,
    "Reassign": Replay._reassign,
    "SetSpent": Replay._set_spent,
    **dict.fromkeys(("RetryTask", "RestartTask", "SetOwnerAside"), lambda *_: None),
}
KINDS = frozenset({*STEPS, *OTHERS})
