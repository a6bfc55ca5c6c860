"""The state of a branch when it has settled: plain values, so that two can be compared after their states are gone."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from runrig.domain.gangs import Gang, GangState, Law, Placement
from runrig.domain.pools import PoolState, family
from runrig.domain.shown.plans import PlanDrain, PlanExposed, PlanGang, PlanPoolRow
from runrig.domain.value import at
from runrig.domain.workflows import Status
from runrig.engine.explain.monitor_snapshot import waiting
from runrig.engine.explain.report import gpus_by_flavor, pool_balance, remaining
from runrig.engine.ledger.queue import Entry
from runrig.engine.lifecycle.submission_gate import affordable, refusal
from runrig.engine.quota.quota_node import CHARGED, QuotaNode
from runrig.engine.state.state import State


@dataclass(frozen=True, slots=True)
class Stopped:
    """*by*, *law*: for a preemption. Otherwise *by* is empty, *law* is None, and *cause* says why."""

    by: str = ""
    law: Law | None = None
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A branch that has settled or reached its budget (*rests* False), after *cycles*.

    *ran*, *runs*: gang → its placement at first and now, None if it did not run; for gangs that changed. *parties*: describes
    them.
    *began*: gangs that run now and were admitted in the branch. *stopped*: gang → why it first stopped.
    *moved*: gangs that keep running with some pods elsewhere. *ended*: gang → the status of its group, which has ended.
    *never*: waiting gang → why it can never start. *excesses*: by pool and resource. *stays*: gangs that still use drained
    nodes.
    """

    revision: int
    rests: bool
    cycles: int
    ran: Mapping[str, Placement | None]
    runs: Mapping[str, Placement | None]
    parties: Mapping[str, PlanGang]
    began: frozenset[str]
    stopped: Mapping[str, Stopped]
    moved: frozenset[str]
    ended: Mapping[str, Status]
    pools: Mapping[str, PlanPoolRow]
    never: Mapping[str, tuple[PlanGang, str]]
    excesses: Mapping[tuple[str, str], PlanExposed]
    drains: Mapping[str, PlanDrain]
    stays: tuple[PlanGang, ...]


def plan_gang(gang: Gang, placement: Placement = ()) -> PlanGang:
    """*gang* with the GPUs that it uses at *placement*; without one, those that all of its pods request."""
    gpus = gang.gpus([each.count for each in placement or gang.pod_sets])
    return PlanGang(gang.id, gang.pool, gang.priority.value, gpus)


# ---------------------------------------------------------------- comparing states


def pool_rows(state: State) -> dict[str, PlanPoolRow]:
    """All pools except ARCHIVED ones, by name."""
    gangs, gpus = Counter[str](), gpus_by_flavor(state)
    for (pool_name, _), each in waiting(state).items():
        gangs[pool_name] += each.gangs
    rows = {}
    for name, pool in sorted(state.pools.items()):
        if pool.state is not PoolState.ARCHIVED:
            found = pool_balance(state, name, gpus=gpus, lends=())
            rows[name] = PlanPoolRow(pool.state, found.quota, found.used, found.total, found.available, gangs[name])
    return rows


def hopeless(state: State, *, nodes: bool) -> dict[str, tuple[PlanGang, str]]:
    """The waiting gangs that the gate would now reject (rule P3), with the gate's message.

    *nodes*: see `refusal`. False: only gangs that exceed what the quotas can ever give are listed.
    """
    found: dict[str, tuple[PlanGang, str]] = {}
    for bucket in state.ledger.pending.values():
        if not nodes and any(affordable(state, bucket.waiting[0])):
            continue
        refused = refusal(state, bucket.waiting[0], nodes=nodes)
        if refused is not None:  # all gangs of a bucket get the same answer
            found |= {entry.gang.id: (plan_gang(entry.gang), refused.message) for entry in bucket.waiting}
    return dict(sorted(found.items()))


def excesses(state: State) -> dict[tuple[str, str], PlanExposed]:
    """The excess of each pool and resource; pools without admitted LOW work are left out."""
    tree = state.ledger.tree
    found = {}
    for name, node in sorted(tree.pools.items()):
        for index, key in enumerate(tree.keys):
            if not node.over_nominal((index,)):
                continue
            gangs = tuple(plan_gang(entry.gang, entry.placement) for entry in _low_work(state, node, index))
            if gangs:
                found[name, str(key)] = PlanExposed(
                    name, str(key), node.usage[CHARGED][index], node.subtree[index], gangs
                )
    return found


def _low_work(state: State, node: QuotaNode, index: int) -> list[Entry]:
    """Preemptible gangs below *node* that use the resource at *index*, in the order of rule R3."""
    pools = family(state.pools, node.name)
    candidates = [each for pool in pools for each in state.ledger.preemptible.get(pool.name, ())]
    return [entry for _, entry in sorted(candidates) if any(held == index for held, _ in entry.request)]


def drains(state: State) -> dict[str, PlanDrain]:
    """DELETING pools, by name."""
    found = {}
    for name, pool in sorted(state.pools.items()):
        if pool.state is PoolState.DELETING:
            left = remaining(state, name)
            found[name] = PlanDrain(name, left.workflows, left.gpus, at(_last_end(state, name)))
    return found


def stays(state: State, nodes: Collection[str]) -> tuple[PlanGang, ...]:
    """The gangs that use *nodes*, by id."""
    here = {gang: entry for name in nodes for gang, entry in state.ledger.on_node.get(name, {}).items()}
    return tuple(plan_gang(entry.gang, entry.placement) for _, entry in sorted(here.items()))


def _last_end(state: State, pool: str) -> float | None:
    ends = [end for workflow in state.workflows.values() if workflow.pool == pool for end in _ends(state, workflow.id)]
    return None if None in ends else max((end for end in ends if end is not None), default=None)


def _ends(state: State, workflow: str) -> Iterator[float | None]:
    limit = state.spec_of(workflow).exec_timeout_s
    for group in state.groups_of(workflow):
        if not group.status.finished:
            runs = group.status is Status.RUNNING and group.start_time is not None and limit is not None
            yield (group.start_time or 0.0) + (limit or 0.0) if runs else None


def admitted(state: State) -> dict[str, Entry]:
    return {name: entry for name, entry in state.ledger.placed.items() if entry.state is GangState.ADMITTED}
