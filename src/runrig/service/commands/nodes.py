"""Commands about nodes: cordon, uncordon, drain (rules N1, N2)."""

from collections.abc import Sequence
from dataclasses import replace

from runrig.domain.plan import Plan, PutNode
from runrig.domain.shown.nodes import NodesDrained, NodesMarked
from runrig.domain.shown.plans import PlanGang
from runrig.engine.foresight.outcome import plan_gang
from runrig.engine.ledger.queue import Entry
from runrig.engine.lifecycle import nodes
from runrig.engine.state.state import State
from runrig.service.commands.subpools import Editing


class Nodes:
    """*editing*: as in `Subpools`. All commands raise NotFound for an unknown node, without changing anything."""

    def __init__(self, editing: Editing) -> None:
        self._editing = editing

    def cordon(self, names: Sequence[str], *, user: str, cordoned: bool) -> NodesMarked:
        with self._editing(user) as writing:
            plan = nodes.cordon(writing.state, names, cordoned=cordoned)
            writing.commit(plan)
        return NodesMarked(_changed(plan))

    def drain(self, names: Sequence[str], *, user: str, force: bool = False) -> NodesDrained:
        """*force*: also stop HIGH and NORMAL workflows."""
        with self._editing(user) as writing:
            found = nodes.drain(writing.state, names, user=user, force=force)
            stops, stays = (_parties(writing.state, each) for each in (found.stops, found.stays))
            writing.commit(found.plan)
        return NodesDrained(_changed(found.plan), stops, stays)


def _changed(plan: Plan) -> tuple[str, ...]:
    return tuple(action.node.name for action in plan.actions if isinstance(action, PutNode))


def _parties(state: State, entries: Sequence[Entry]) -> tuple[PlanGang, ...]:
    """Returns gangs by the names used in other responses: the only gang of a workflow has the workflow's name."""
    parties = (plan_gang(each.gang, each.placement) for each in entries)
    alone = {each.gang.id for each in entries if len(state.groups_of(each.gang.workflow)) == 1}
    return tuple(replace(each, gang=each.gang.partition("/")[0]) if each.gang in alone else each for each in parties)
