"""What the state says of its nodes: copied while the lock is held, made into answers afterwards."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from runrig.domain.nodes import Flavor, Node
from runrig.domain.pools import PoolState
from runrig.engine.explain import report
from runrig.engine.state.state import State
from runrig.service.queries.lookup import flavors_of
from runrig.service.queries.visibility import Visibility


@dataclass(frozen=True, slots=True)
class NodeView:
    """*gpus*: the holder of each GPU as (workflow, task), `ANOTHER` if the asker may not see it, None if the GPU is free.

    *pools*: those that may use the node and that the asker sees; *shared_by*: how many may use it, seen or not.
    *tainted*: it has a taint that its flavor does not name, so it takes no new pods.
    """

    node: Node
    flavor: Flavor
    free: Mapping[str, int]
    gpus: tuple[tuple[str, str] | None, ...]
    pools: tuple[str, ...]
    shared_by: int
    tainted: bool


ANOTHER = ("", "")
"""Stands for a holder from a pool that the asker does not see."""


class Picture:
    """What the state says of its nodes, copied, so that the lock is not held while answers are made of it.

    Copying costs O(nodes + pools + active tasks), a tenth of what the views cost.
    """

    def __init__(self, state: State) -> None:
        self.nodes = dict(state.nodes)
        self._flavors = dict(state.flavors)
        self._free = {name: report.node_free(state, name) for name in self.nodes}
        self._tainted = {name for name, node in self.nodes.items() if not state.ledger.nodes.tolerated(node)}
        self._tasks = [state.tasks[key] for key in state.active]
        self._pool_of = {task.workflow: state.workflows[task.workflow].pool for task in self._tasks}
        self._uses = [
            (pool.name, flavors_of(state, pool))
            for pool in state.pools.values()
            if pool.state is not PoolState.ARCHIVED
        ]

    def named(self) -> set[str]:
        """The flavors of nodes, declared or not."""
        return {node.flavor for node in self.nodes.values()}

    def seen(self, visibility: Visibility) -> dict[str, tuple[str, ...]]:
        """Flavor → the pools that may use it and that *visibility* reaches."""
        return {flavor: visibility.of(names) for flavor, names in self._pools().items()}

    def _pools(self) -> dict[str, list[str]]:
        """Flavor → the pools that may use it, by name."""
        pools: dict[str, list[str]] = defaultdict(list)
        for name, flavors in sorted(self._uses):
            for flavor in dict.fromkeys(flavors):
                pools[flavor].append(name)
        return pools

    def views(self, names: Sequence[str], visibility: Visibility) -> Iterator[NodeView]:
        """Yields the nodes *names*.  O(active tasks + pools x flavors + GPUs of *names*)."""
        users, seen = self._pools(), self.seen(visibility)
        nodes = [self.nodes[name] for name in names]
        holders = report.gpu_holders(self._tasks, nodes)
        for node in nodes:
            yield NodeView(
                node=node,
                flavor=self._flavors.get(node.flavor) or Flavor(node.flavor),
                free=self._free[node.name],
                gpus=tuple(self._seen_holder(holder, visibility) for holder in holders[node.name]),
                pools=seen.get(node.flavor, ()),
                shared_by=len(users.get(node.flavor, ())),
                tainted=node.name in self._tainted,
            )

    def _seen_holder(self, holder: tuple[str, str] | None, visibility: Visibility) -> tuple[str, str] | None:
        return holder if holder is None or visibility.sees(self._pool_of[holder[0]]) else ANOTHER
