"""Nodes in the state: copied under the lock, turned into responses later."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from runrig.domain.errors import NotFound
from runrig.domain.gangs import HOLDING, GangState
from runrig.domain.nodes import NO_FLAVOR, Flavor, Node
from runrig.domain.pools import PoolState
from runrig.domain.quantities import gpus_in
from runrig.domain.shown import nodes as shown
from runrig.domain.shown.nodes import GpuHolder
from runrig.domain.shown.plans import PlanGang
from runrig.domain.workflows import Task
from runrig.engine.explain import report
from runrig.engine.state.state import State
from runrig.service.queries.lookup import flavors_of
from runrig.service.queries.visibility import Visibility

_CORDONED = "node.kubernetes.io/unschedulable"
_DOWN = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
"""Taints with which Kubernetes explains why a node accepts no new pods."""


def check_node(state: State, name: str) -> None:
    """Raises NotFound."""
    if name not in state.nodes:
        raise NotFound(f"node {name!r:.80} not found. List nodes with `runrig resource list`")


@dataclass(frozen=True, slots=True)
class NodeWork(PlanGang):
    """*gang*, *pool*: "" if the user may not see it. *gpus*: on that node. *stops*: it is stopping; else it runs to
    completion.
    """

    stops: bool


def work_on(state: State, name: str, visibility: Visibility) -> Iterator[NodeWork]:
    """Yields the gangs that use the node *name*, by id, visible ones first. O(pods of these gangs)."""
    held = [entry for _, entry in sorted(state.ledger.on_node.get(name, {}).items()) if entry.state in HOLDING]
    for entry in sorted(held, key=lambda each: not visibility.sees(each.gang.pool)):
        gang = entry.gang
        seen = visibility.sees(gang.pool)
        gpus = sum(
            share.count * gpus_in(pod_set.requests)
            for assignment, pod_set in zip(entry.placement, gang.pod_sets, strict=True)
            for share in assignment.shares
            if share.node == name
        )
        stops = entry.state is GangState.STOPPING
        yield NodeWork(gang.id if seen else "", gang.pool if seen else "", gang.priority.value, gpus, stops)


_ANOTHER = GpuHolder(None, None)


def users_of(state: State) -> Mapping[str, list[str]]:
    """Returns flavor → the names of the pools that can use it, sorted. O(pools x flavors)."""
    pools: dict[str, list[str]] = defaultdict(list)
    for name, pool in sorted(state.pools.items()):
        if pool.state is not PoolState.ARCHIVED:
            for flavor in dict.fromkeys(flavors_of(state, pool)):
                pools[flavor].append(name)
    return pools


def _active_tasks(state: State, names: Sequence[str]) -> Iterator[Task]:
    """Yields the active tasks of every gang that uses one of the nodes *names*."""
    if len(names) == len(state.nodes):
        yield from (state.tasks.records[key] for key in state.active)
        return
    gangs = {gang for name in names for gang in state.ledger.on_node.get(name, ())}
    for gang in sorted(gangs):
        workflow, group = gang.split("/")
        yield from (task for task in state.current_tasks((workflow, group)) if task.key in state.active)


def _conditions(node: Node, *, tainted: bool) -> tuple[str, ...]:
    """Returns the node's conditions, the most informative one last. *tainted*: with taints that its flavor does not
    list.
    """
    if node.open:
        return ("Ready", "NoFlavor") if node.flavor == NO_FLAVOR else ("Ready", "Tainted") if tainted else ("Ready",)
    taints = {taint.key for taint in node.taints}
    return ("NotReady", "Cordoned") if node.cordoned or (_CORDONED in taints and not _DOWN & taints) else ("NotReady",)


class Picture:
    """A copy of the nodes *names* in the state, so that responses are computed without the lock.

    *backend*: its name. *users*: as in `users_of`. *only*: responses name only these pools; empty: all.

    Copying costs O(names + pods of the gangs on them), a tenth of computing the responses.
    """

    def __init__(
        self,
        state: State,
        names: Sequence[str],
        backend: str,
        users: Mapping[str, list[str]],
        only: Collection[str] = (),
    ) -> None:
        self._backend = backend
        self._nodes = [state.nodes[name] for name in names]
        self._users = users
        self._only = only
        self._flavors = dict(state.flavors)
        self._free = {name: report.node_free(state, name) for name in names}
        self._tainted = {node.name for node in self._nodes if not state.ledger.nodes.tolerated(node)}
        self._tasks = [task for task in _active_tasks(state, names) if task.node in self._free]
        self._pool_of = {task.workflow: state.workflows[task.workflow].pool for task in self._tasks}

    def shown(self, visibility: Visibility) -> Iterator[shown.Node]:
        """Yields the nodes in order. O(their tasks and GPUs + pools x flavors)."""
        seen = {flavor: visibility.of(self._shown(names)) for flavor, names in self._users.items()}
        holders = report.gpu_holders(self._tasks, self._nodes)
        told = {each: self._seen_holder(each, visibility) for held in holders.values() for each in set(held)}
        for node in self._nodes:
            flavor = self._flavors.get(node.flavor) or Flavor(node.flavor)
            yield shown.Node(
                name=node.name,
                backend=self._backend,
                ready=node.open,
                cordoned=node.cordoned,
                conditions=_conditions(node, tainted=node.name in self._tainted),
                flavor=flavor.name,
                resources=node.resources,
                free=self._free[node.name],
                gpus=tuple(told[holder] for holder in holders[node.name]),
                pools=len(self._users.get(node.flavor, ())),
                labels=node.labels,
                taints=node.taints,
                pool_names=seen.get(node.flavor, ()),
                allow=flavor.allow,
            )

    def _shown(self, pools: Sequence[str]) -> Sequence[str]:
        return [pool for pool in pools if pool in self._only] if self._only else pools

    def _seen_holder(self, holder: tuple[str, str] | None, visibility: Visibility) -> GpuHolder | None:
        if holder is None:
            return None
        return GpuHolder(*holder) if visibility.sees(self._pool_of[holder[0]]) else _ANOTHER
