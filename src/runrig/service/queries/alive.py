"""The state of a workflow that has not ended."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from runrig.domain.pools import PoolState, Queueing
from runrig.domain.shown.sentence import Holding
from runrig.domain.shown.why import GroupWhy
from runrig.domain.steps import Steps
from runrig.domain.workflows import Workflow
from runrig.engine.explain import report
from runrig.engine.foresight.next_cycle import MOST_LOOKS, why_next
from runrig.engine.foresight.outcome import plan_gang
from runrig.engine.state.state import State


class Alive(NamedTuple):
    """A workflow that has not ended. *draining*: its pool is being deleted. *passable*: a later gang of its pool may
    start before it.

    *gpus*: of the gangs in *groups*.
    """

    workflow: Workflow
    groups: tuple[GroupWhy, ...]
    holding: Holding | None
    draining: bool
    passable: bool
    gpus: Mapping[str, int]


def alive_in(state: State, id: str, element: str | None = None, most_looks: int = MOST_LOOKS) -> Steps[Alive | None]:
    """Returns the workflow *id* in *state*; None if it has ended. *element*, *most_looks*: as in `why_next`."""
    workflow = state.workflows.get(id)
    if workflow is None:
        return None
    pool = state.pools[workflow.pool]
    draining, passable = pool.state is PoolState.DELETING, pool.queueing is Queueing.BEST_EFFORT_FIFO
    groups = yield from why_next(state, id, most_looks, element)
    return Alive(workflow, groups, report.holding(state, id), draining, passable, dict(_mentioned(state, groups)))


def _mentioned(state: State, groups: Iterable[GroupWhy]) -> Iterator[tuple[str, int]]:
    """Yields the gangs in the ledger that *groups* name, and their GPUs."""
    for group in groups:
        blockers = (each.reason for each in (*group.blockers, *group.in_full))
        holders = (gang for reason in (*group.reasons, *blockers) for gang in reason.holders)
        for gang in {*group.stops, *group.waits_for, *holders}:
            if (entry := state.ledger.entries.get(gang)) is not None:
                yield gang, plan_gang(entry.gang, entry.placement).gpus


MOST_LOOKS_HERE = 16
"""Maximum gangs ahead of one that the server evaluates itself while others wait."""

alive_here = partial(alive_in, most_looks=MOST_LOOKS_HERE)
