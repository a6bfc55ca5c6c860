"""Commands about nodes: cordon, uncordon, drain (laws N1, N2)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from runrig.domain.plan import PutNode
from runrig.domain.shown.plans import PlanGang
from runrig.engine.foresight.outcome import plan_gang
from runrig.engine.ledger.queue import Entry
from runrig.engine.lifecycle import nodes
from runrig.engine.state.state import State
from runrig.service.commands.subpools import Editing


@dataclass(frozen=True, slots=True)
class Drained:
    """*changed*: the nodes that were not cordoned before.  *stops*: gangs that were told to stop; *stays*: those that go on there."""

    changed: tuple[str, ...]
    stops: tuple[PlanGang, ...]
    stays: tuple[PlanGang, ...]


class Nodes:
    """*editing*: as of `Subpools`.  All commands raise NotFound for a node that is not there, and change nothing then."""

    def __init__(self, editing: Editing) -> None:
        self._editing = editing

    def cordon(self, names: Sequence[str], *, user: str, cordoned: bool) -> tuple[str, ...]:
        """The nodes of *names* that this changed, by name."""
        with self._editing(user) as writing:
            plan = nodes.cordon(writing.state, names, cordoned=cordoned)
            writing.commit(plan)
        return tuple(action.node.name for action in plan.actions if isinstance(action, PutNode))

    def drain(self, names: Sequence[str], *, user: str, force: bool = False) -> Drained:
        """*force*: HIGH and NORMAL work stops too."""
        with self._editing(user) as writing:
            found = nodes.drain(writing.state, names, user=user, force=force)
            stops, stays = (_parties(writing.state, each) for each in (found.stops, found.stays))
            writing.commit(found.plan)
        changed = (action.node.name for action in found.plan.actions if isinstance(action, PutNode))
        return Drained(tuple(changed), stops, stays)


def _parties(state: State, entries: Sequence[Entry]) -> tuple[PlanGang, ...]:
    """Gangs as other answers call them: the only one of a workflow by its name."""
    parties = (plan_gang(each.gang, each.placement) for each in entries)
    alone = {each.gang.id for each in entries if len(state.groups_of(each.gang.workflow)) == 1}
    return tuple(replace(each, gang=each.gang.partition("/")[0]) if each.gang in alone else each for each in parties)
