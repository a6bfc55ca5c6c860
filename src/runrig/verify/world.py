"""The state at a point of the log: nodes, pools, workflows and gangs, replayed action by action."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from itertools import count
from typing import Any

from .awaited import Awaited
from .gang import ADMITTED, NOMINATED, PENDING, STOPPING, Gang, Placement, Queue, gpus_of, hold_gpus
from .nodes import Rooms, takes_pods
from .quota import CHARGED, LAYERS, REAL, Node, Tree

THE_SERVER = "the server"
"""Holds what it has set aside, by W8."""
Layers = tuple[int, ...]


class World:
    """*awaited*: by W5. *held*: GPUs by W6. *takes*: node → flavor, if it takes new pods (N1). *touched*: nodes whose room changed.

    *waiting*: queues with gangs, by pool and whether they are HIGH or NORMAL. *low*: LOW gangs in state ADMITTED, by pool. *fresh*:
    by the same, queues that were not asked since their first gang became that. *loosened*: how often something became free.
    *changes*: another number after each change of quota or what is held, and the old one after a trial.
    """

    def __init__(self) -> None:
        self.flavors: dict[str, dict[str, Any]] = {}
        self.nodes: dict[str, dict[str, Any]] = {}
        self.free: tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]] = ({}, {})
        self.pools: dict[str, dict[str, Any]] = {}
        self.cohorts: dict[str, dict[str, Any]] = {}
        self.limits: dict[str, dict[str, Any]] = {}
        self.workflows: dict[str, dict[str, Any]] = {}
        self.gangs: dict[str, Gang] = {}
        self.queues: dict[tuple[str, str, str], Queue] = {}
        self.waiting: dict[tuple[str, bool], dict[Queue, None]] = {}
        self.fresh: dict[bool, dict[Queue, None]] = {True: {}, False: {}}
        self.low: dict[str, dict[str, Gang]] = {}
        self.held: dict[tuple[str, str], int] = {}
        self.nominated: dict[str, Gang] = {}
        self.waited_for: dict[str, set[str]] = {}
        self.gpus: dict[str, dict[int, str]] = {}
        self.capacity, self.takes = dict[str, int](), dict[str, str]()
        self.awaited = Awaited()
        self.ended = set[tuple[str, str]]()
        self.refused: dict[str, Gang] = {}
        self.loosened = self.changes = self.revision = 0
        self.forget()
        self._moments, self.now = count(1), 0.0
        self._tree: Tree | None = None
        self._made: tuple[Any, Gang] | None = None

    def forget(self) -> None:
        """Begins the log of nodes anew."""
        self.touched = list[str]()
        self.rooms: dict[Layers, Rooms] = {
            layers: Rooms(self.nodes, self.takes, [self.free[each] for each in layers], self.touched)
            for layers in ((CHARGED,), (REAL,), LAYERS)
        }

    # ------------------------------------------------------------ the tree

    @property
    def tree(self) -> Tree:
        """Built anew after an edit of pools or cohorts."""
        if self._tree is None:
            self._tree = Tree(self.pools, self.cohorts, self.capacity)
            for gang in self.gangs.values():
                self._charge_quota(gang, gang.layers, 1)
        return self._tree

    def waiting_in(self, pool: str) -> list[Queue]:
        return [queue for firm in (True, False) for queue in self.waiting.get((pool, firm), ())]

    def leaf(self, gang: Gang) -> Node:
        return (self.tree.firm if gang.firm else self.tree.low)[gang.pool]

    def asked(self, gang: Gang, placement: Placement) -> dict[str, int]:
        """Key → amount of quota that *placement* needs."""
        of, tree, known = gang.asked
        if of is placement and tree is self.tree:
            return known
        found: dict[str, int] = {}
        for requests, each in zip(gang.requests, placement, strict=True):
            for resource, amount in requests.items():
                if resource != "pods":
                    key = f"{each['flavor']}/{resource}"
                    found[key] = found.get(key, 0) + amount * each["count"]
        found = {key: amount for key, amount in found.items() if self.tree.governs(gang.pool, key.partition("/")[2])}
        gang.asked = placement, self.tree, found
        return found

    def _charge_quota(self, gang: Gang, layers: Layers, sign: int) -> None:
        if layers and self._tree is not None and gang.pool in self._tree.firm:
            leaf = self.leaf(gang)
            for key, amount in self.asked(gang, gang.placement).items():
                for layer in layers:
                    self._tree.charge(leaf, key, sign * amount, layer, firm=gang.firm)

    # ------------------------------------------------------------ nodes

    def _charge_nodes(self, gang: Gang, layers: Layers, sign: int) -> None:
        for requests, each in zip(gang.requests, gang.placement, strict=True):
            for share in each["shares"]:
                name, number = share["node"], sign * share["count"]
                for layer in layers:
                    free = self.free[layer].setdefault(name, {})
                    for resource, amount in requests.items():
                        free[resource] = free.get(resource, 0) - amount * number
                self.touched.append(name)

    def _open_or_close(self, node: Mapping[str, Any]) -> None:
        if node["name"] in self.nodes and takes_pods(node, self.flavors):
            self.takes[node["name"]] = node["flavor"]
        else:
            self.takes.pop(node["name"], None)

    def _layers(self, gang: Gang) -> Layers:
        """Stopping gangs for which a nominated one is waiting are no longer charged, by R4."""
        if gang.state == NOMINATED:
            return (CHARGED,)
        if gang.state in (ADMITTED, STOPPING):
            return (REAL,) if self.waited_for.get(gang.id) else LAYERS
        return ()

    def settle(self, gang: Gang) -> None:
        """Charges the gang as its state says."""
        wanted, before = self._layers(gang), gang.layers
        if wanted != before:
            self._charge(gang, tuple([each for each in before if each not in wanted]), -1)
            self._charge(gang, tuple([each for each in wanted if each not in before]), 1)
            gang.layers = wanted

    def _charge(self, gang: Gang, layers: Layers, sign: int) -> None:
        if layers:
            self.loosened += sign < 0
            self.changes = next(self._moments)
            self._charge_quota(gang, layers, sign)
            self._charge_nodes(gang, layers, sign)

    def set(
        self, gang: Gang, state: str | None, placement: Placement | None = None, targets: tuple[str, ...] = ()
    ) -> None:
        """Moves the gang on; *placement* None: as it was."""
        before = gang.targets
        self._unlist(gang)
        if gang.placement and (placement is not None or state in (PENDING, None)):
            gang.state = None
            self.settle(gang)
            hold_gpus(self.gpus, gang, take=False)
            self._count_gpus(gang, 0)
            gang.placement = []
        gang.state, gang.targets = state, targets
        if placement is not None:
            gang.placement = placement
        for name in {*before, *targets} if before or targets else ():
            waiters = self.waited_for.setdefault(name, set())
            (waiters.add if name in targets else waiters.discard)(gang.id)
            if not waiters:
                del self.waited_for[name]
            if name in self.gangs:
                self.settle(self.gangs[name])
        self.settle(gang)
        if placement is not None:
            gang.since = self.now
            self._count_gpus(gang, gpus_of(gang, placement))
        if state == ADMITTED and placement is not None:
            hold_gpus(self.gpus, gang, take=True)
        self._list(gang)

    def _unlist(self, gang: Gang) -> None:
        self.nominated.pop(gang.id, None)
        self.low.get(gang.pool, {}).pop(gang.id, None)
        if gang.state == PENDING:
            row = gang.queue.row
            del row[bisect_left(row, (gang.order,))]
            if not row:
                del self.waiting[gang.pool, gang.queue.firm][gang.queue]
                self.fresh[gang.queue.firm].pop(gang.queue, None)

    def _list(self, gang: Gang) -> None:
        if gang.state == NOMINATED:
            self.nominated[gang.id] = gang
        elif gang.state == ADMITTED and not gang.firm:
            self.low.setdefault(gang.pool, {})[gang.id] = gang
        elif gang.state == PENDING:
            if not gang.queue.row:
                self.waiting.setdefault((gang.pool, gang.queue.firm), {})[gang.queue] = None
            insort(gang.queue.row, (gang.order, gang))
            if gang.queue.row[0][1] is gang and gang.queue.stopped != self.loosened:
                self.fresh[gang.queue.firm][gang.queue] = None
        elif gang.state is None:
            self.gangs.pop(gang.id, None)
            self.refused.pop(gang.id, None)

    def _count_gpus(self, gang: Gang, gpus: int) -> None:
        for holder in gang.holders if gpus != gang.gpus else ():
            self.held[holder] = self.held.get(holder, 0) + gpus - gang.gpus
        gang.gpus = gpus

    @contextmanager
    def without(self, gangs: list[Gang], layers: Layers = (CHARGED,)) -> Iterator[None]:
        """A trial: *gangs* are gone, and come back at the end."""
        assert self.tree is not None  # It was built with all gangs, before any is removed.
        taken = [(gang, tuple(each for each in gang.layers if each in layers)) for gang in gangs]
        kept = self.loosened, self.changes
        for gang, gone in taken:
            self._charge(gang, gone, -1)
        try:
            yield
        finally:
            for gang, gone in taken:
                self._charge(gang, gone, 1)
            self.loosened, self.changes = kept

    # ------------------------------------------------------------ actions

    def apply(self, kind: str, action: Mapping[str, Any]) -> None:
        """Carries out an action. Unknown gangs are passed over: retention has deleted their beginning."""
        if kind in _OF_GANGS:
            gang = self.gangs.get(action["gang"])
            if gang is not None:
                _OF_GANGS[kind](self, gang, action)
        elif kind in _OTHERS:
            _OTHERS[kind](self, action)

    def _put_node(self, action: Mapping[str, Any]) -> None:
        self._drop_node(action["node"])
        node = self.nodes[action["node"]["name"]] = action["node"]
        self._count(node, 1)
        self._lift(flavors={node["flavor"]})

    def _drop_node(self, action: Mapping[str, Any]) -> None:
        node = self.nodes.pop(action["name"], None)
        if node is not None:
            self._count(node, -1)
            self._lift(flavors={node["flavor"]})
        self.loosened += 1

    def _count(self, node: Mapping[str, Any], sign: int) -> None:
        self.touched.append(node["name"])
        self._open_or_close(node)
        self.changes = next(self._moments)
        for resource, amount in node["resources"].items():
            if node["flavor"] and resource != "pods":
                key = f"{node['flavor']}/{resource}"
                self.capacity[key] = self.capacity.get(key, 0) + sign * amount

    def _edit(self, table: dict[str, Any], name: str, value: Any) -> None:
        table.pop(name, None)
        if value is not None:
            table[name] = value
        self._tree_changes()
        self._lift(pool=name if table is self.pools else "")

    def _tree_changes(self) -> None:
        self._tree = None
        self.loosened += 1
        self.changes = next(self._moments)

    def _put_flavors(self, action: Mapping[str, Any]) -> None:
        self.flavors = {each["name"]: each for each in action["flavors"]}
        for node in self.nodes.values():
            self._open_or_close(node)
        self._tree_changes()
        self.touched.extend(self.nodes)

    def _submit(self, action: Mapping[str, Any]) -> None:
        row = dict(action["workflow"])
        ended = [each for each in action["groups"] if each.get("status") == "COMPLETED" and not each["stopping"]]
        row["done"] = {each["name"] for each in ended}
        row["begun"] = any(each.get("queued_time") for each in action["groups"])
        row["status"], row["aside"] = row.get("status", "PENDING"), row.get("held_by") == THE_SERVER
        self.awaited.submit(row, action["groups"], self._has_begun)
        self.workflows[row["id"]] = row

    def _has_begun(self, workflow: str) -> bool:
        return self.workflows[workflow]["status"] != "PENDING" or bool(self.workflows[workflow]["begun"])

    def _move_workflow(self, action: Mapping[str, Any]) -> None:
        self._change_workflow(action, status=action["status"])
        self.awaited.move(action["workflow"], action["status"])

    def queued(self, action: Mapping[str, Any]) -> Gang:
        """Returns the gang that *action* queues, made once."""
        row = action["gang"]
        if self._made is None or self._made[0] is not row:
            user = self.workflows.get(row["id"].partition("/")[0], {}).get("submitted_by", "")
            self._made = row, Gang(row, user)
        return self._made[1]

    def _queue(self, action: Mapping[str, Any]) -> None:
        old = self.gangs.get(action["gang"]["id"])
        if old is not None:
            self.set(old, None)
        gang = self.queued(action)
        self.gangs[gang.id], self._made = gang, None
        if gang.alike not in self.queues:
            self.queues[gang.alike] = Queue(gang.pool, firm=gang.firm)
        gang.queue = self.queues[gang.alike]
        self.refused |= {gang.id: gang} if gang.refused else {}
        self._list(gang)
        if gang.workflow in self.workflows:
            self.workflows[gang.workflow]["begun"] = True

    def _move_group(self, action: Mapping[str, Any]) -> None:
        row = self.workflows.get(action["workflow"])
        if row is not None and action["status"] == "COMPLETED" and not action.get("stopping"):
            row["done"].add(action["group"])
        self.awaited.move(action["workflow"], action["status"], action["group"])

    def _change_workflow(self, action: Mapping[str, Any], **changes: Any) -> None:
        if action["workflow"] in self.workflows:
            self.workflows[action["workflow"]].update(changes)

    def _aside(self, action: Mapping[str, Any]) -> None:
        """Laws W8: what waits leaves the queue; what runs keeps its nodes."""
        self._change_workflow(action, aside=True)
        for gang in self.of_workflow(action["workflow"]):
            if gang.state in (PENDING, NOMINATED):
                self.set(gang, None)

    def _abandon(self, action: Mapping[str, Any]) -> None:
        self._change_workflow(action, aside=False, held_by=None)
        self._move_workflow({**action, "status": "FAILED_CANCELED"})
        for gang in self.of_workflow(action["workflow"]):
            self.set(gang, None)

    def of_workflow(self, name: str) -> list[Gang]:
        return [gang for gang in list(self.gangs.values()) if gang.workflow == name]

    def _move_task(self, action: Mapping[str, Any]) -> None:
        pod = action["key"][0], action["key"][1]
        (self.ended.discard if action["status"] in ("INITIALIZING", "RUNNING") else self.ended.add)(pod)

    def _refuse(self, gang: Gang, _: Mapping[str, Any]) -> None:
        gang.refused, self.refused[gang.id] = True, gang
        self.set(gang, STOPPING)

    def _set_priority(self, gang: Gang, action: Mapping[str, Any]) -> None:
        self._unlist(gang)
        with self.without([gang], LAYERS):
            gang.rank_as(action["priority"])
        self._list(gang)
        self.loosened, self.changes = self.loosened + 1, next(self._moments)

    def _release(self, gang: Gang, _: Mapping[str, Any]) -> None:
        freed = gang.placement if gang.state in (ADMITTED, STOPPING) and not gang.refused else []
        self.set(gang, None)
        self._lift(flavors={each["flavor"] for each in freed if each["shares"]})

    def _try_again(self, gang: Gang, _: Mapping[str, Any]) -> None:
        gang.refused = False
        self.refused.pop(gang.id, None)
        self.loosened += 1

    def _lift(self, flavors: Set[str] = frozenset(), pool: str = "") -> None:
        """Law T7: what the cluster's scheduler refused is tried again when its pool or a node that it could use changes."""
        for gang in list(self.refused.values()):
            usable = self.pools[gang.pool]["flavors"]
            if gang.pool == pool or (flavors and (not usable or not flavors.isdisjoint(usable))):
                self._try_again(gang, {})


_OF_GANGS: dict[str, Callable[[World, Gang, Mapping[str, Any]], None]] = {
    "Unqueue": lambda world, gang, _: world.set(gang, None),
    "Release": World._release,
    "Nominate": lambda world, gang, a: world.set(gang, NOMINATED, a["placement"], tuple(a["targets"])),
    "Withdraw": lambda world, gang, _: world.set(gang, PENDING),
    "Preempt": lambda world, gang, _: world.set(gang, STOPPING),
    "Stop": lambda world, gang, _: world.set(gang, STOPPING),
    "Refuse": World._refuse,
    "TryAgain": World._try_again,
    "Admit": lambda world, gang, a: world.set(gang, ADMITTED, a["placement"]),
    "Replace": lambda world, gang, a: world.set(gang, ADMITTED, a["placement"]),
    "SetPriority": World._set_priority,
}
_OTHERS: dict[str, Callable[[World, Mapping[str, Any]], None]] = {
    "SetFlavors": World._put_flavors,
    "PutNode": World._put_node,
    "DropNode": World._drop_node,
    "PutCohort": lambda world, a: world._edit(world.cohorts, a["cohort"]["name"], a["cohort"]),
    "DropCohort": lambda world, a: world._edit(world.cohorts, a["before"]["name"], None),
    "PutPool": lambda world, a: world._edit(world.pools, a["pool"]["name"], a["pool"]),
    "PutLimits": lambda world, a: world._edit(world.limits, a["limits"]["user"], a["limits"]),
    "Submit": World._submit,
    "Queue": World._queue,
    "MoveTask": World._move_task,
    "MoveGroup": World._move_group,
    "MoveWorkflow": World._move_workflow,
    "Hold": lambda world, a: world._change_workflow(a, held_by=a.get("by", "")),
    "EndHold": lambda world, a: world._change_workflow(a, held_by=None, aside=False),
    "SetAside": World._aside,
    "Abandon": World._abandon,
    "SetMost": lambda world, a: world._change_workflow(a, most=a["most"]),
    "Reassign": lambda world, a: world._change_workflow(a, pool=a["pool"], priority=a["priority"]),
}
SILENT = ("RetryTask", "RestartTask", "SetSpent", "SetOwnerAside")
KINDS = frozenset({*_OF_GANGS, *_OTHERS, *SILENT})
