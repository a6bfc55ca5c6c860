"""One cycle of the engine: seven steps, from observing nodes to archiving drained pools.

  plan = run(state, observed, now)

Deterministic: the same state, observation and time give the same plan, byte for byte. When `run` returns, all actions are
applied to *state*. If they cannot be committed, the caller reloads the state.

A long cycle can run in parts that are committed separately: `CycleInParts`. If nothing else is committed between them, the
parts together are the result of `run`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from runrig.domain.errors import FailedAt
from runrig.domain.nodes import Node, flavor_of
from runrig.domain.observed import Observation
from runrig.domain.plan import Action, DropNode, MoveTask, Plan, PutNode
from runrig.domain.subjects import failed_at
from runrig.engine.lifecycle import pools
from runrig.engine.lifecycle.after import look_after
from runrig.engine.lifecycle.budgets import follow_budgets
from runrig.engine.lifecycle.pausing import end_pauses
from runrig.engine.lifecycle.workflows import digest, time_out
from runrig.engine.scheduling.admission import decide
from runrig.engine.state.state import State

Step = Iterator[Action | None]
"""A generator of actions. Each is applied before the next is computed, so every decision sees those before it.

None: everything so far is complete, so a part may end here; a server that restarts continues from what was applied.
"""


STEP = 8
"""The cost of evaluating a gang or a node, or of making a change, in the budget of a part.

A task that changes counts 1: it is one row and one log entry, and ten thousand of them should not take a hundred
transactions.
"""


def run(state: State, observed: Observation, now: float) -> Plan:
    """Returns every action that can be decided at *now*, in seconds since the epoch, and applies it to *state*."""
    cycle = CycleInParts(state, observed, now)
    actions: list[Action] = []
    while not cycle.ended:
        actions += cycle.part().actions
    return Plan(tuple(actions))


class CycleInParts:
    """A cycle that runs part by part. All of it uses one time, unless `begin_again` sets another."""

    def __init__(self, state: State, observed: Observation, now: float) -> None:
        self.state = state
        self._observed = observed
        self._seen = self._see()
        self.begin_again(state, now)

    def begin_again(self, state: State, now: float) -> None:
        """Something else was committed since the last part: decides everything again, from the head of the queue (rule P4).

        The observation is not processed again; it continues where it stopped. *state*: the same, or one loaded since, which
        contains everything from the parts so far that could be committed.
        """
        loaded = state is not self.state
        self.state, self.now = state, now
        if self._seen and loaded:
            self._seen = self._see()
        self._decided: list[Step] = [
            # 3. Resume pools whose pause has ended; follow budgets that are reached or renewed.
            chain(
                end_pauses(state, now, self._observed.aside),
                follow_budgets(state, now, self._observed.held, self._observed.aside),
            ),
            # 4. Queue or end workflows that waited for others to end.
            look_after(state),
            # 5. Time out gangs that have queued or run too long; retry gangs that were refused long ago.
            time_out(state, now),
            # 6. Admit, nominate and preempt.
            decide(state.ledger),
            # 7. Archive DELETING pools whose last workflow has ended.
            pools.archive_drained(state, self._observed.aside),
        ]

    def _see(self) -> list[Step]:
        return [
            # 1. Adopt the nodes that the backend reports.
            see_nodes(self.state, self._observed.nodes),
            # 2. Follow the tasks: which have started, ended or lost their node.
            digest(self.state, self._observed),
        ]

    @property
    def saw_everything(self) -> bool:
        """Whether the whole observation has been processed."""
        return not self._seen

    @property
    def ended(self) -> bool:
        return not self._seen and not self._decided

    def part(self, budget: int | None = None) -> Plan:
        """Runs until one of the seven steps that changed anything has ended. Returns its actions, which are applied to *state*.

        *budget*: the part may end earlier, once what it evaluated or changed reaches this value (see `STEP`). An empty plan:
        there was nothing to do. Raises FailedAt if a workflow, pool or budget causes an error; *state* is then inconsistent.
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
            if (failed := failed_at(action)) is None:
                raise
            raise failed from error


def see_nodes(state: State, nodes: Iterable[Node] | None) -> Step:
    """Yields the changes from the state's nodes to *nodes*, by name. *nodes* None: no node has changed."""
    if nodes is None:
        return
    seen = {node.name: node for node in nodes}
    # Most nodes are the same objects as in the last comparison.
    known = state.taken_over.get
    for name in sorted(name for name, node in seen.items() if (before := known(name)) is not node and before != node):
        there = state.nodes.get(name)
        # The cordon is runrig's own, so the backend does not report it (rule N1).
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
