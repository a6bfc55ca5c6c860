"""One cycle of the engine: five steps, from the nodes that were seen to the pools that have drained.

    plan = run(state, observed, now)

Deterministic: the same state, observation and time give the same plan, byte for byte.  *state* has all actions applied when
`run` returns; if they cannot be committed, the caller loads the state anew.

A long cycle can be run in parts, each of which is committed by itself: `CycleInParts`.  Where nothing else is committed between
them, they are together what `run` gives.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from runrig.domain.errors import FailedAt
from runrig.domain.nodes import Node, flavor_of
from runrig.domain.observed import Observation
from runrig.domain.plan import Action, DropNode, MoveTask, Plan, PutNode
from runrig.domain.subjects import workflow_of
from runrig.engine.lifecycle import pools
from runrig.engine.lifecycle.workflows import digest, time_out
from runrig.engine.scheduling.admission import decide
from runrig.engine.state.state import State

Step = Iterator[Action | None]
"""A generator of actions.  Each is applied before the next is computed, so every decision sees those before it.

None: what was begun is complete, so a part may end here, and a server that starts again from what was applied goes on.
"""


STEP = 8
"""What a gang or a node that is looked at counts in the budget of a part, and a change.  A task that moves counts 1: it is one row
and one entry of the log, and ten thousand of them should not take a hundred transactions.
"""


def run(state: State, observed: Observation, now: float) -> Plan:
    """Returns every action that can be decided at *now*, in seconds since the epoch, and applies it to *state*."""
    cycle = CycleInParts(state, observed, now)
    actions: list[Action] = []
    while not cycle.ended:
        actions += cycle.part().actions
    return Plan(tuple(actions))


class CycleInParts:
    """A cycle that is run part by part.  All of it is decided at one time, unless `begin_again` sets another."""

    def __init__(self, state: State, observed: Observation, now: float) -> None:
        self.state = state
        self._observed = observed
        self._seen = self._see()
        self.begin_again(state, now)

    def begin_again(self, state: State, now: float) -> None:
        """Something else was committed since the last part: all is decided anew, from the head of the order (law P4).

        What was observed is not: it is taken in once, and further where that had stopped.  *state*: the same, or the one that was
        loaded since, in which everything is that the parts so far did and that could be committed.
        """
        loaded = state is not self.state
        self.state, self.now = state, now
        if self._seen and loaded:
            self._seen = self._see()
        self._decided: list[Step] = [
            # 3. Time out groups that have queued or run too long; retry gangs that were refused long ago.
            time_out(state, now),
            # 4. Admit, nominate and preempt.
            decide(state.ledger),
            # 5. Archive DELETING pools whose last workflow has ended.
            pools.archive_drained(state),
        ]

    def _see(self) -> list[Step]:
        return [
            # 1. Take over the nodes of the cluster as the backend sees them.
            see_nodes(self.state, self._observed.nodes),
            # 2. Follow the tasks: which have started, ended or lost their node.
            digest(self.state, self._observed),
        ]

    @property
    def saw_everything(self) -> bool:
        """True if what was observed has been taken in to its end."""
        return not self._seen

    @property
    def ended(self) -> bool:
        return not self._seen and not self._decided

    def part(self, budget: int | None = None) -> Plan:
        """Goes on until one of the five steps that did anything has ended; returns what it did, which *state* has applied.

        *budget*: the part may end sooner, once what it has looked at, or what it has changed, counts so much (`STEP`).
        An empty plan: it looked, and found nothing.  Raises FailedAt if something fails at one workflow; *state* is then in disorder.
        """
        actions: list[Action] = []
        looked = changed = 0
        while not self.ended:
            steps = self._seen or self._decided
            for action in steps[0]:
                if action is not None:
                    self._apply(action)
                    actions.append(action)
                    changed += 1 if isinstance(action, MoveTask) else STEP
                    continue
                looked += 1 if self._seen else STEP
                if budget is not None and max(looked, changed) >= budget:
                    return Plan(tuple(actions))
            steps.pop(0)
            if actions:
                break
        return Plan(tuple(actions))

    def _apply(self, action: Action) -> None:
        try:
            self.state.apply(action, self.now)
        except FailedAt:
            raise
        except Exception as error:
            if (workflow := workflow_of(action)) is None:
                raise
            raise FailedAt(workflow) from error


def see_nodes(state: State, nodes: Iterable[Node] | None) -> Step:
    """Yields the changes that lead from the state's nodes to *nodes*, by name; None means that no node has changed."""
    if nodes is None:
        return
    seen = {node.name: node for node in nodes}
    # Most nodes are as they were when they were last compared.
    known = state.taken_over.get
    for name in sorted(name for name, node in seen.items() if (before := known(name)) is not node and before != node):
        there = state.nodes.get(name)
        # The mark is ours, and the backend knows nothing of it (law N1).
        cordoned = there is not None and there.cordoned
        here = replace(seen[name], flavor=flavor_of(seen[name], state.flavors.values()), cordoned=cordoned)
        if there != here:
            yield PutNode(here)
            yield None
        else:
            state.taken_over[name] = seen[name]
    for name in sorted(state.nodes.keys() - seen.keys()):
        yield DropNode(name)
        yield None
