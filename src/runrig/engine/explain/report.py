"""Numbers for people: what a pool has, uses, borrows and lends, and what is free on a node.

`used` counts HIGH and NORMAL work, `total` all work. Both show current usage, including gangs that are stopping.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from runrig.domain.gangs import GangState, nodes_of
from runrig.domain.nodes import Node
from runrig.domain.pools import Pool, PoolState
from runrig.domain.quantities import GPU, amount_in_words, counted, totals
from runrig.domain.shown.pools import PoolGpus
from runrig.domain.shown.sentence import Holding
from runrig.domain.value import NO_AMOUNTS, Amounts
from runrig.domain.workflows import Task
from runrig.engine.nodes.gpu_counts import GpusByState
from runrig.engine.quota.guarantees import shared_by
from runrig.engine.quota.numbers import borrowed, lent
from runrig.engine.quota.pool_tree import QuotaTree, has_subpools
from runrig.engine.quota.quota_node import REAL, NodeKind, QuotaNode, left_of_promise
from runrig.engine.state.state import State


def pool_balance(
    state: State,
    name: str,
    *,
    gpus: Mapping[str, GpusByState] | None = None,
    lends: Sequence[int] | None = None,
    subtree_used: int | None = None,
) -> PoolGpus:
    """The GPUs of pool *name*. Raises KeyError if it does not exist.

    Callers with many pools pass *gpus*, the result of `gpus_by_flavor`, and the values of `tree_rows` for *lends* (by flavor)
    and *subtree_used*; None: computed here. Empty *lends*: lent GPUs are not needed.
    """
    pool = state.pools[name]
    known = gpus_by_flavor(state) if gpus is None else gpus
    capacity = sum([each.capacity for flavor, each in known.items() if not pool.flavors or flavor in pool.flavors])
    if pool.state is PoolState.ARCHIVED:
        return PoolGpus(capacity=capacity)
    tree = state.ledger.tree
    node, indices = tree.pools[name], tree.gpus
    lends = [lent(node, index) for index in indices] if lends is None else lends or [0] * len(indices)
    if subtree_used is None:
        used = (node.used if has_subpools(node) else tree.firm[name].usage)[REAL]
        subtree_used = sum([used[index] for index in indices])
    return _summed(tree, pool, lends, subtree_used, capacity)


def _summed(tree: QuotaTree, pool: Pool, subtree_lends: Sequence[int], subtree_used: int, capacity: int) -> PoolGpus:
    """One loop over the flavors, because a response can contain thousands of pools, and most have one flavor."""
    node, firm, low = tree.pools[pool.name], tree.firm[pool.name], tree.low[pool.name]
    promised = unallocated = used = lows = total = drawn = left = borrows = lends = 0
    for index, subtree_lent in zip(tree.gpus, subtree_lends, strict=True):
        own, draws = firm.nominal[index], firm.drawn(index)
        high, cheap = firm.usage[REAL][index], low.usage[REAL][index]
        promised += node.nominal[index]
        unallocated += own
        used += high
        lows += cheap
        total += node.usage[REAL][index]
        drawn += draws
        left += 0 if firm.twin is None else left_of_promise(firm, index, REAL) - max(0, firm.balance(index))
        borrows += max(0, high + cheap - own - draws)
        # The pool's own LOW work comes first: only what others use beyond it counts as lent.
        taken = subtree_lent + sum([max(0, -child.balance(index)) for child in node.children])
        lends += max(0, min(taken, own - high) - cheap)
    deleting = pool.state is PoolState.DELETING
    unallocated = 0 if deleting else unallocated
    shared = totals(each for index in tree.gpus for each in shared_by(firm, index)) if firm.twin is not None else {}
    return PoolGpus(
        quota=0 if deleting else promised,
        unallocated=unallocated,
        used=used,
        low=lows,
        subtree_used=subtree_used,
        total=total,
        available=unallocated - used + drawn,
        shared=Amounts(shared) if shared and not deleting else NO_AMOUNTS,
        drawn=drawn,
        shared_left=0 if deleting else left,
        borrowed=borrows,
        lent=lends,
        held=promised if deleting else 0,
        capacity=capacity,
    )


def gpus_by_flavor(state: State) -> Mapping[str, GpusByState]:
    """Flavors with ready nodes. Usage on other nodes does not count."""
    return {name: each for name, each in state.ledger.nodes.gpus(REAL).items() if each.ready}


@dataclass(frozen=True, slots=True)
class Remaining:
    """Live workflows of a pool, without its subpools, and the GPUs that they use."""

    gpus: int
    workflows: int

    def __str__(self) -> str:
        return f"{counted(self.workflows, 'workflow')} with {amount_in_words(GPU, self.gpus)}"


def remaining(state: State, name: str) -> Remaining:
    """Counts the live work in the pool *name*, which must not be ARCHIVED."""
    tree = state.ledger.tree
    gpus = sum(leaf.usage[REAL][index] for index in tree.gpus for leaf in (tree.firm[name], tree.low[name]))
    return Remaining(gpus, state.alive[name])


def holding(state: State, workflow: str) -> Holding | None:
    """The usage of a live workflow; None while none of its gangs is admitted. O(groups × resources × depth)."""
    entries = [state.ledger.entries.get(group.gang_id) for group in state.groups_of(workflow)]
    admitted = [entry for entry in entries if entry is not None and entry.state is GangState.ADMITTED]
    if not admitted:
        return None
    keys = state.ledger.tree.keys
    leaf = state.ledger.leaf(admitted[0])
    amounts = [(index, amount) for entry in admitted for index, amount in entry.request]
    indices = sorted({index for index, _ in amounts})
    over = [
        (node.name, excess)
        for node in leaf.path
        if node.kind is NodeKind.POOL and (excess := _over_nominal(node, indices))
    ]
    borrower, excess_of = over[-1] if over else (None, {})
    return Holding(
        gpus=sum(amount for index, amount in amounts if keys[index].resource == GPU),
        nodes=nodes_of(*(entry.placement for entry in admitted)),
        preemptible=admitted[0].gang.priority.preemptible,
        borrower=borrower,
        borrowed={keys[index]: amount for index, amount in excess_of.items()},
        subpools=has_subpools(state.ledger.tree.pools[leaf.name]) and bool(_over_nominal(leaf.path[1], indices)),
    )


def _over_nominal(node: QuotaNode, indices: Iterable[int]) -> dict[int, int]:
    """Resource index → how much *node* borrows; only amounts above zero."""
    return {index: amount for index in indices if (amount := borrowed(node, index))}


# ---------------------------------------------------------------- nodes


def node_free(state: State, name: str) -> Mapping[str, int]:
    """Resource → free amount, for the resources that the node lists; negative if more is in use than the node has."""
    return dict(state.ledger.nodes.by_name[name].free[REAL])


def gpu_holders(tasks: Iterable[Task], nodes: Iterable[Node]) -> dict[str, list[tuple[str, str] | None]]:
    """Node → for each GPU index, the (workflow, task) of *tasks* that uses it; None: free. O(tasks + GPUs of *nodes*).

    Ignores indices beyond the node's GPUs: the node has lost GPUs that a task still uses.
    """
    holders: dict[str, list[tuple[str, str] | None]] = {
        node.name: [None] * node.resources.get(GPU, 0) for node in nodes
    }
    for task in sorted(tasks, key=lambda task: task.key):
        gpus = holders.get(task.node, []) if task.node is not None else []
        for index in task.gpus:
            if index < len(gpus):
                gpus[index] = (task.workflow, task.name)
    return holders
