"""How a placement deviates from preferred levels: over how many domains the pods are spread (rule T4)."""

from collections.abc import Sequence

from runrig.domain.gangs import Gang, Placement
from runrig.domain.steps import Steps
from runrig.engine.nodes.topology import value_of
from runrig.engine.state.state import State

Admitted = tuple[Gang, Placement]


def spreads_in(state: State, admitted: Sequence[Admitted]) -> Steps[tuple[str, ...]]:
    """For each of *admitted*: ``split over 2 racks; preferred: 1`` for every preferred level that it did not get, joined; or
    "".

    By the current labels of the nodes; removed nodes do not count.
    """
    yield from ()
    return tuple("; ".join(_spreads(state, gang, placement)) for gang, placement in admitted)


def _spreads(state: State, gang: Gang, placement: Placement) -> list[str]:
    pool = state.pools[gang.pool]
    keys = (pool if pool.parent is None else state.pools[pool.parent]).topology_keys
    nodes: dict[tuple[str, str], set[str]] = {}
    for pod_set, assignment in zip(gang.pod_sets, placement, strict=False):
        for wanted in pod_set.topology:
            if not wanted.required and wanted.slice_size is None:
                on = {share.node for share in assignment.shares}
                nodes.setdefault((wanted.key, wanted.group), set()).update(on)
    found = []
    for level, each in enumerate(keys):
        labels = [key.label for key in keys[: level + 1]]
        for (key, _), on in sorted(nodes.items()):
            there = [state.nodes[node] for node in on if node in state.nodes]
            domains = {tuple(value_of(node, label) for label in labels) for node in there}
            if key == each.key and len(domains) > 1:
                found.append(f"split over {len(domains)} {key}s; preferred: 1")
    return found
