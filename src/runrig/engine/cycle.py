"""One cycle: what was seen, what is due, who starts, who stops, what has drained.

    plan = run(state, observed, now)

Deterministic: the same state, observation and time give the same plan, byte for byte.  The actions have been applied to the
state when it returns; if they cannot be committed, the state is loaded anew.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from runrig.domain.nodes import Node, flavor_of
from runrig.domain.observed import Observation
from runrig.domain.plan import Action, DropNode, Plan, PutNode
from runrig.engine.lifecycle import pools
from runrig.engine.lifecycle.workflows import digest, time_out
from runrig.engine.scheduling.admission import decide
from runrig.engine.state.state import State


def run(state: State, observed: Observation, now: float) -> Plan:
    """Everything that can be decided at *now*."""
    actions: list[Action] = []
    steps = (
        see_nodes(state, observed.nodes),
        digest(state, observed),
        time_out(state, now),
        decide(state.ledger),
        pools.archive_drained(state),
    )
    for step in steps:
        for action in step:
            state.apply(action, now)
            actions.append(action)
    return Plan(tuple(actions))


def see_nodes(state: State, nodes: Iterable[Node] | None) -> Iterator[Action]:
    """Nodes that came, changed or went; None: nothing of the kind."""
    if nodes is None:
        return
    seen = {node.name: replace(node, flavor=flavor_of(node, state.flavors.values())) for node in nodes}
    for name, node in sorted(seen.items()):
        if state.nodes.get(name) != node:
            yield PutNode(node)
    yield from (DropNode(name) for name in sorted(state.nodes) if name not in seen)
