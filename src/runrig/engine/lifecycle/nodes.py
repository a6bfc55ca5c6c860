"""Nodes that users cordon, uncordon and drain (rules N1, N2).

Each function checks all names before anything changes.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from runrig.domain.errors import NotFound
from runrig.domain.gangs import GangState, nodes_of
from runrig.domain.plan import Action, Plan, PutNode
from runrig.domain.quantities import few
from runrig.domain.workflows import Status
from runrig.engine.ledger.queue import Entry
from runrig.engine.lifecycle.finished_groups import stop_pods
from runrig.engine.state.state import State

MOST_NAMED = 5


def cordon(state: State, names: Collection[str], *, cordoned: bool) -> Plan:
    """Cordons or uncordons the nodes *names*; those already in that state are skipped.

    Nothing on them stops. Raises NotFound if one of them does not exist.
    """
    unknown = sorted(set(names) - state.nodes.keys())
    if unknown:
        raise NotFound(
            f"node {few([f'{name!r:.80}' for name in unknown], MOST_NAMED)} not found. List nodes with `runrig resource list`",
            {"nodes": unknown},
        )
    nodes = [state.nodes[name] for name in sorted(set(names))]
    return Plan(tuple(PutNode(replace(node, cordoned=cordoned)) for node in nodes if node.cordoned != cordoned))


@dataclass(frozen=True, slots=True)
class NodeDrain:
    """*plan* cordons the nodes and stops *stops*; *stays* run to completion on them. Both are sorted by id."""

    plan: Plan
    stops: tuple[Entry, ...]
    stays: tuple[Entry, ...]


def drain(state: State, names: Collection[str], *, user: str, force: bool = False) -> NodeDrain:
    """Drains the nodes *names*: they are cordoned, and preemptible gangs on them stop as a whole, to be queued again.

    *force*: all gangs on them stop. Gangs that are already stopping are in neither list. O(gangs on them). Raises NotFound.
    """
    actions: list[Action] = [*cordon(state, names, cordoned=True).actions]
    here = {gang: entry for name in names for gang, entry in state.ledger.on_node.get(name, {}).items()}
    admitted = [entry for _, entry in sorted(here.items()) if entry.state is GangState.ADMITTED]
    stops, stays = list[Entry](), list[Entry]()
    for entry in admitted:
        (stops if force or entry.gang.priority.preemptible else stays).append(entry)
    for entry in stops:
        actions += _stop(state, entry, names, user)
    return NodeDrain(Plan(tuple(actions)), tuple(stops), tuple(stays))


def _stop(state: State, entry: Entry, names: Collection[str], user: str) -> Iterator[Action]:
    workflow, _, group = entry.gang.id.partition("/")
    first = next(name for name in nodes_of(entry.placement) if name in names)
    return stop_pods(state.groups[workflow, group], Status.FAILED_EVICTED, f"{user} drained node {first}")
