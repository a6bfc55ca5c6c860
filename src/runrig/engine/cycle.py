"""One cycle of the engine: five steps, from the nodes that were seen to the pools that have drained.

    plan = run(state, observed, now)

Deterministic: the same state, observation and time give the same plan, byte for byte.  *state* has all actions applied when
`run` returns; if they cannot be committed, the caller loads the state anew.
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
    """Returns every action that can be decided at *now*, in seconds since the epoch, and applies it to *state*."""
    actions: list[Action] = []
    steps = (
        # 1. Take over the nodes of the cluster as the backend sees them.
        see_nodes(state, observed.nodes),
        # 2. Follow the tasks: which have started, ended or lost their node.
        digest(state, observed),
        # 3. Time out groups that have queued or run too long; retry gangs that were refused long ago.
        time_out(state, now),
        # 4. Admit, nominate and preempt.
        decide(state.ledger),
        # 5. Archive DELETING pools whose last workflow has ended.
        pools.archive_drained(state),
    )
    # The steps are generators: each action is applied before the next is computed, so every decision sees those before it.
    for step in steps:
        for action in step:
            state.apply(action, now)
            actions.append(action)
    return Plan(tuple(actions))


def see_nodes(state: State, nodes: Iterable[Node] | None) -> Iterator[Action]:
    """Yields the changes that lead from the state's nodes to *nodes*, by name; None means that no node has changed."""
    if nodes is None:
        return
    seen = {node.name: replace(node, flavor=flavor_of(node, state.flavors.values())) for node in nodes}
    for name, node in sorted(seen.items()):
        if state.nodes.get(name) != node:
            yield PutNode(node)
    yield from (DropNode(name) for name in sorted(state.nodes) if name not in seen)
