"""A scenario of runrig's own format, in virtual time: a server's engine, and tasks that only take time.

A cycle runs at each event: a workflow arrives, a task ends, a preempted one has stopped, or a timeout is due.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from runrig.domain.after import After
from runrig.domain.balances import Balance
from runrig.domain.errors import Conflict, NotFound, Refused
from runrig.domain.gangs import GangState, Placement
from runrig.domain.kueue import Pending, Preemption, Settings, Warned
from runrig.domain.observed import Observation, Phase, TaskFact
from runrig.domain.plan import Action, Admit, Preempt, PutNode
from runrig.domain.quantities import PODS
from runrig.domain.reasons import Code, Reason
from runrig.domain.steps import drained
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Status, Task, TaskKey, WorkflowSpec
from runrig.engine import cycle
from runrig.engine.explain.why import explain, outside
from runrig.engine.ledger.queue import Bucket, Entry
from runrig.engine.lifecycle import pools
from runrig.engine.lifecycle.arrays import check_element
from runrig.engine.lifecycle.workflows import next_deadline
from runrig.engine.quota.numbers import balance_of
from runrig.engine.quota.quota_node import REAL, QuotaNode
from runrig.engine.quota.share import Shares
from runrig.engine.scheduling.queue_order import waiting_in_order
from runrig.engine.state.state import State
from runrig.kueue.options import Options
from runrig.service.simulate.scenario import Arrival, Scenario
from runrig.wire.simulate import COHORT, Admitted, Cycle, Moment, Outcome, PodSetStarted, Quotas
from runrig.wire.simulate import TreeNode as Shown

DEFAULT_DURATION_S = 60.0
LONGEST_GRACE_S = 1.0
"""The same values as in the simulated backend."""

_STOPPED = 143
_Ends = tuple[WorkflowSpec, Mapping[str, WorkflowStatus | None]]
"""A workflow, and how it ("") and its groups have ended; None: not yet."""

_NO_NODES = "the file lists no nodes, so only quotas are checked"


@dataclass(slots=True)
class _Run:
    """A running task, and its result."""

    end: float
    exit_code: int = 0


class ClusterRun:
    """Runs until nothing more happens, unless the options limit the cycles."""

    def __init__(self, name: str, scenario: Scenario, options: Options) -> None:
        """Raises Refused, and the other errors of a server for the cluster."""
        self._name = name
        self._most = options.cycles
        self._arrivals = list(reversed(scenario.arrivals))
        self._submitted = -math.inf
        self._runs: dict[TaskKey, _Run] = {}
        self._ended: dict[str, _Ends] = {}
        self._cycles: list[Cycle] = []
        self._warnings: list[Warned] = []
        if options.settings != Settings():
            self._warnings.append(
                Warned(
                    0,
                    "--fair-sharing, --feature-gates, --as-peer",
                    "ignored: these options apply only to Kueue manifests",
                )
            )
        cluster = scenario.cluster
        if any(pool.budget is not None for pool in cluster.pools):
            self._warnings.append(Warned(1, "budget", "ignored: a simulation has no calendar"))
        has_nodes = bool(cluster.nodes)
        if not has_nodes:
            self._warnings.append(Warned(1, "nodes", _NO_NODES))
        self._state = State(fixed_nodes=has_nodes, place=has_nodes, topology=cluster.topology)
        self._state.apply_all(pools.declare(self._state, cluster).actions, at=0.0)
        self._state.apply_all([PutNode(node) for node in cluster.nodes], at=0.0)
        self._before = _moment(self._state)

    def steps(self) -> Iterator[int]:
        """Runs; yields the number of cycles so far after each."""
        while not self._most or len(self._cycles) < self._most:
            at = self._next()
            if at is None:
                return
            found = self._cycle(at)
            if found is not None:
                self._cycles.append(found)
            yield len(self._cycles)

    def outcome(self) -> Outcome:
        """Returns the outcome so far."""
        return Outcome(
            scenario=self._name,
            tree=tuple(_tree(self._state)),
            before=self._before,
            after=_moment(self._state),
            cycles=tuple(self._cycles),
            warnings=tuple(self._warnings),
        )

    # ------------------------------------------------------------ time

    def _next(self) -> float | None:
        """Returns the time of the next event; None: nothing more happens."""
        times = [run.end for run in self._runs.values()]
        times += [arrival.at for arrival in self._arrivals[-1:]]
        deadline = next_deadline(self._state)
        times += [] if deadline is None else [deadline]
        return min(times, default=None)

    def _cycle(self, at: float) -> Cycle | None:
        """Handles everything that happens *at* this time; None if it was an obsolete timeout."""
        arrived = self._arrive(at)
        ended = any(run.end <= at for run in self._runs.values())
        actions = self._decide(at, Observation(dict(self._facts(at))))
        while more := self._decide(at, Observation(dict(self._facts(None)))):
            actions += more
        if not (arrived or ended or actions):
            return None
        found = Cycle(
            admitted=tuple(self._admitted(each) for each in actions if isinstance(each, Admit)),
            preempted=tuple(self._preempted(each) for each in actions if isinstance(each, Preempt)),
            pending=tuple(self._pending()),
            at=round(at, 6),
        )
        finished = [id for id, workflow in self._state.workflows.items() if workflow.status.finished]
        self._ended |= {id: _ends(self._state, id) for id in finished}
        self._state.take_changes()  # Drops finished work.
        return found

    def _arrive(self, at: float) -> bool:
        """Submits due workflows; returns True if there were any."""
        arrived = False
        while self._arrivals and self._arrivals[-1].at <= at:
            arrived = True
            self._submit(self._arrivals.pop())
        return arrived

    def _submit(self, arrival: Arrival) -> None:
        parsed = arrival.parsed
        state = self._state
        spec = parsed.spec_in(state)
        # Each is one tick later, so that equal times keep the order of the file.
        self._submitted = max(arrival.at, math.nextafter(self._submitted, math.inf))
        try:
            after = tuple(map(self._as_it_is, spec.spec.after))
            plan = replace(parsed, after=after).plan(state, self._submitted)
        except (Conflict, Refused, NotFound) as error:
            self._warnings.append(Warned(1, arrival.path, f"refused: {error.message}"))
            return
        state.specs[spec.hash] = spec.spec
        state.apply_all(plan.actions, arrival.at)

    def _as_it_is(self, after: After) -> After:
        """Raises NotFound; Conflict for an element of what is not an array."""
        id = after.workflow
        spec, statuses = self._ended.get(id) or _ends(self._state, id)
        if after.element:
            check_element(id, spec, after.element)
        return replace(after, ended=statuses[after.element])

    def _decide(self, at: float, observed: Observation) -> tuple[Action, ...]:
        actions = cycle.run(self._state, observed, at).actions
        self._go_on(at)
        return actions

    # ------------------------------------------------------------ tasks

    def _facts(self, now: float | None) -> Iterator[tuple[TaskKey, TaskFact]]:
        """Yields the observed facts of all tasks on nodes. *now* None: none has ended, because an end is an event of its own."""
        for key in sorted(self._state.active):
            run = self._runs[key]
            ended = now is not None and run.end <= now
            yield key, TaskFact(Phase.ENDED, run.exit_code) if ended else TaskFact(Phase.RUNNING)

    def _go_on(self, now: float) -> None:
        """Starts and stops tasks as the state requires; removes those no longer on nodes."""
        runs = {}
        for key in sorted(self._state.active):
            task = self._state.tasks[key]
            run = self._runs.get(key) or _Run(round(now + self._duration(task), 6))
            if self._stops(task) and run.exit_code != _STOPPED:
                grace = self._state.pools[self._state.workflows[task.workflow].pool].grace_s
                gone = round(now + min(grace, LONGEST_GRACE_S), 6)
                run = run if run.end <= gone else _Run(gone, _STOPPED)
            runs[key] = run
        self._runs = runs

    def _stops(self, task: Task) -> bool:
        entry = self._state.ledger.entries[f"{task.workflow}/{task.group}"]
        return entry.state is GangState.STOPPING or task.restarting

    def _duration(self, task: Task) -> float:
        said = self._state.task_spec(task).duration_s
        return DEFAULT_DURATION_S if said is None else said

    # ------------------------------------------------------------ results

    def _admitted(self, action: Admit) -> Admitted:
        gang = self._state.ledger.entries[action.gang].gang
        return Admitted(gang.id, gang.pool, tuple(_started(self._state, gang.id, action.placement)))

    def _preempted(self, action: Preempt) -> Preemption:
        pool = self._state.ledger.entries[action.gang].gang.pool
        return Preemption(action.gang, pool, action.by, action.law.value)

    def _pending(self) -> Iterator[Pending]:
        """Yields gangs with reserved nodes, then the queue, each in order, then those that are not queued yet."""
        ledger = self._state.ledger
        for entry in sorted(ledger.nominated.values(), key=lambda entry: entry.order):
            left = tuple(name for name in entry.waits_for if name in ledger.entries)
            yield _waiting(entry, (Reason(Code.WAITS_FOR_TARGETS, "R4", holders=left),), parked=False)
        heads: set[str] = set()
        known: dict[tuple[Bucket, bool], tuple[Reason, ...]] = {}
        for entry in waiting_in_order(ledger):
            # All gangs in a bucket get the same answer, except the head of the queue.
            kind = (entry.bucket, entry.gang.pool not in heads)
            heads.add(entry.gang.pool)
            if kind not in known:
                known[kind] = drained(explain(ledger, entry))
            parked = ledger.sleepers.left_alone(entry.bucket)
            yield _waiting(entry, known[kind], parked=parked)
        yield from self._outside()

    def _outside(self) -> Iterator[Pending]:
        state = self._state
        for workflow in sorted(state.workflows):
            for group in state.groups_of(workflow):
                if group.status is not Status.WAITING:
                    continue
                reasons = tuple(outside(state, group))
                first = reasons[0].code.value if reasons else None
                yield Pending(group.gang_id, state.workflows[workflow].pool, False, True, first, reasons)


def _ends(state: State, id: str) -> _Ends:
    """Returns the specification of *id*, and how it (under "") and its groups ended; None: not yet.

    Raises NotFound.
    """
    if id not in state.workflows:
        raise NotFound(f"workflow {id!r:.80} has not been submitted before. List it earlier")
    status = state.workflows[id].status
    groups = {each.name: each.status.alone for each in state.groups_of(id)}
    return state.spec_of(id), {"": status if status.finished else None} | groups


def _waiting(entry: Entry, reasons: tuple[Reason, ...], *, parked: bool) -> Pending:
    first = reasons[0].code if reasons else None
    return Pending(
        workload=entry.gang.id,
        queue=entry.gang.pool,
        considered=first is not Code.BEHIND_HEAD,
        parked=parked,
        reason=first.value if first else None,
        reasons=reasons,
    )


def _started(state: State, gang: str, placement: Placement) -> Iterator[PodSetStarted]:
    ledger = state.ledger
    pod_sets = {each.name: each for each in ledger.entries[gang].gang.pod_sets}
    keys = ledger.pools[ledger.entries[gang].gang.pool].topology_keys
    topology = ledger.nodes.topology(tuple(key.label for key in keys))
    asked = any(each.topology for each in pod_sets.values())
    for each in placement:
        pod_set = pod_sets[each.pod_set]
        yield PodSetStarted(
            each.pod_set,
            each.count,
            pod_set.count,
            tuple((resource, each.flavor) for resource, _ in pod_set.requests if resource != PODS),
            tuple((share.node, share.count) for share in each.shares),
            tuple((topology.path_of_node(share.node), share.count) for share in each.shares) if asked else (),
        )


# ---------------------------------------------------------------- the tree


def _keys(state: State) -> dict[str, QuotaNode]:
    """Returns pools and cohorts by their names in quotas, cohorts first, each sorted by name."""
    tree = state.ledger.tree
    cohorts = {_cohort_key(state, name): node for name, node in sorted(tree.cohorts.items())}
    return cohorts | dict(sorted(tree.pools.items()))


def _cohort_key(state: State, name: str) -> str:
    return f"cohort/{name}" if name in state.ledger.tree.pools else name


def _tree(state: State) -> Iterator[Shown]:
    tree = state.ledger.tree
    names = {id(node): key for key, node in _keys(state).items()}
    for key, node in _keys(state).items():
        kind = COHORT if tree.cohorts.get(node.name) is node else "Pool"
        yield Shown(key, node.name, kind, names.get(id(node.parent)))


def _moment(state: State) -> Moment:
    shares = Shares(state.ledger.tree.keys)
    return Moment(_quotas(state), {key: shares.shown(node) for key, node in _keys(state).items()})


def _quotas(state: State) -> Quotas:
    tree = state.ledger.tree
    return {
        key: {
            kind: _numbers(state, node, index)
            for index, kind in enumerate(tree.keys)
            if node.pool is None or not node.pool.flavors or kind.flavor in node.pool.flavors
        }
        for key, node in _keys(state).items()
    }


def _numbers(state: State, node: QuotaNode, index: int) -> Balance:
    firm = None if node.pool is None else state.ledger.tree.firm[node.name]
    return balance_of(node, index)._replace(used=None if firm is None else firm.usage[REAL][index])
