"""Numbers for people: what a pool has, holds, borrows and lends; what is free on a node.

`used` counts HIGH and NORMAL, `total` counts all; both count what is held now, gangs that are stopping included.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from runrig.domain.gangs import GangState
from runrig.domain.pools import PoolState
from runrig.domain.quantities import GPU, FlavorResource
from runrig.engine.explain.quota_report import lent
from runrig.engine.quota.quota_node import REAL, Kind, QuotaNode
from runrig.engine.state.state import State


@dataclass(frozen=True, slots=True)
class PoolBalance:
    """Of one resource, summed over flavors.

    *quota*: what was promised (0 while DELETING, *held* then says what still is); *unallocated*: of that not given to
    subpools; *used*: by HIGH and NORMAL submitted to the pool itself; *subtree_used*: with its subpools; *total*: all
    priorities, subpools included; *available*: unallocated - used, negative while it drains; *borrowed*: above the promise;
    *lent*: idle promise that others hold; *capacity*: on ready nodes of the pool's flavors.
    """

    quota: int
    unallocated: int
    used: int
    subtree_used: int
    total: int
    available: int
    borrowed: int
    lent: int
    held: int
    capacity: int


def pool_balance(
    state: State,
    name: str,
    resource: str = GPU,
    *,
    capacities: Mapping[str, int] | None = None,
    lends: int | None = None,
) -> PoolBalance:
    """Raises KeyError for a pool that does not exist.

    *capacities*: as `capacity_by_flavor` says; *lends*: what it lends, as `tree_rows` says; for those who ask of many pools.
    """
    pool = state.pools[name]
    known = capacity_by_flavor(state, resource) if capacities is None else capacities
    capacity = sum(amount for flavor, amount in known.items() if not pool.flavors or flavor in pool.flavors)
    if pool.state is PoolState.ARCHIVED:
        return PoolBalance(0, 0, 0, 0, 0, 0, 0, 0, 0, capacity)
    tree = state.ledger.tree
    indices = [index for index, key in enumerate(tree.keys) if key.resource == resource]
    node, firm = tree.pools[name], tree.firm[name]
    promised = sum(node.nominal[index] for index in indices)
    deleting = pool.state is PoolState.DELETING
    unallocated = 0 if deleting else sum(firm.nominal[index] for index in indices)
    used = sum(firm.usage[REAL][index] for index in indices)
    return PoolBalance(
        quota=0 if deleting else promised,
        unallocated=unallocated,
        used=used,
        subtree_used=sum(_firm_below(node, index) for index in indices),
        total=sum(node.usage[REAL][index] for index in indices),
        available=unallocated - used,
        borrowed=sum(max(0, node.usage[REAL][index] - node.nominal[index]) for index in indices),
        lent=sum(lent(node, index) for index in indices) if lends is None else lends,
        held=promised if deleting else 0,
        capacity=capacity,
    )


def capacity_by_flavor(state: State, resource: str = GPU) -> Mapping[str, int]:
    """Flavor → what its ready nodes have.  O(nodes)."""
    found: Counter[str] = Counter()
    for node in state.nodes.values():
        if node.ready:
            found[node.flavor] += node.resources.get(resource, 0)
    return found


def _firm_below(node: QuotaNode, index: int) -> int:
    if node.kind is Kind.FIRM:
        return node.usage[REAL][index]
    return sum(_firm_below(child, index) for child in node.children)


@dataclass(frozen=True, slots=True)
class Remaining:
    """What is still alive in a pool, its subpools not counted: workflows, and the GPUs that they hold."""

    gpus: int
    workflows: int

    def __str__(self) -> str:
        gpus, workflows = "GPU" if self.gpus == 1 else "GPUs", "workflow" if self.workflows == 1 else "workflows"
        return f"{self.workflows} {workflows} with {self.gpus} {gpus}"


def remaining(state: State, name: str) -> Remaining:
    """Of a pool that is not ARCHIVED.  O(live workflows)."""
    tree = state.ledger.tree
    gpus = sum(
        leaf.usage[REAL][index]
        for index, key in enumerate(tree.keys)
        if key.resource == GPU
        for leaf in (tree.firm[name], tree.low[name])
    )
    return Remaining(gpus, live_workflows(state)[name])


def live_workflows(state: State) -> Counter[str]:
    """Pool → how many of its workflows have not ended."""
    return Counter(each.pool for each in state.workflows.values() if not each.status.finished)


@dataclass(frozen=True, slots=True)
class Hold:
    """What a workflow's admitted gangs hold together, and where they stand with law R2.

    *nodes*: sorted; *preemptible*: by its priority; *borrower*: the outermost pool above it that holds more than its nominal of
    something that the workflow holds, so that its LOW may be reclaimed, None if there is none; *borrowed*: how much more, of each.
    *subpools*: whether its own pool has any, whose HIGH and NORMAL preempt its LOW too.
    """

    gpus: int
    nodes: tuple[str, ...]
    preemptible: bool
    borrower: str | None
    borrowed: Mapping[FlavorResource, int]
    subpools: bool


def hold(state: State, workflow: str) -> Hold | None:
    """Of a live workflow; None while none of its gangs is admitted.  O(groups x resources x depth)."""
    entries = [state.ledger.entries.get(group.gang_id) for group in state.groups_of(workflow)]
    admitted = [entry for entry in entries if entry is not None and entry.state is GangState.ADMITTED]
    if not admitted:
        return None
    keys = state.ledger.tree.keys
    leaf = state.ledger.leaf(admitted[0])
    amounts = [(index, amount) for entry in admitted for index, amount in entry.request]
    over = [
        (node.name, found)
        for node in leaf.path
        if node.kind is Kind.POOL and (found := _over(node, sorted({index for index, _ in amounts})))
    ]
    borrower, borrowed = over[-1] if over else (None, {})
    return Hold(
        gpus=sum(amount for index, amount in amounts if keys[index].resource == GPU),
        nodes=tuple(sorted({share.node for entry in admitted for each in entry.placement for share in each.shares})),
        preemptible=admitted[0].gang.priority.preemptible,
        borrower=borrower,
        borrowed={keys[index]: amount for index, amount in borrowed.items()},
        subpools=any(child.kind is Kind.POOL for child in state.ledger.tree.pools[leaf.name].children),
    )


def _over(node: QuotaNode, indices: Iterable[int]) -> dict[int, int]:
    """What the subtree holds above what it brings."""
    return {index: -balance for index in indices if (balance := node.balance(index)) < 0}


# ---------------------------------------------------------------- nodes


def node_free(state: State, name: str) -> Mapping[str, int]:
    """What nobody holds, per resource that the node lists."""
    return dict(state.ledger.nodes.by_name[name].free[REAL])


def gpu_holders(state: State, name: str) -> tuple[tuple[str, str] | None, ...]:
    """Per GPU index of the node the (workflow, task) that holds it, None if nobody does.  O(tasks on nodes).

    A task may hold more than there are: the node has lost some, or somebody else took them.
    """
    holders: list[tuple[str, str] | None] = [None] * state.nodes[name].resources.get(GPU, 0)
    for key in sorted(state.active):
        task = state.tasks[key]
        if task.node == name:
            for index in task.gpus:
                if index < len(holders):
                    holders[index] = (task.workflow, task.name)
    return tuple(holders)
