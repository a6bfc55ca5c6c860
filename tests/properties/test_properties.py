"""The promises of the engine under everything that can happen to it, in any order (a Hypothesis state machine)."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from runrig.domain.after import After, When
from runrig.domain.budgets import month_of, next_month
from runrig.domain.errors import RunrigError
from runrig.domain.gangs import GangState, Priority
from runrig.domain.limits import Limits
from runrig.domain.nodes import Flavor, Node
from runrig.domain.plan import Admit, Nominate, Plan, Preempt, PutNode, SetFlavors, Withdraw
from runrig.domain.pools import BudgetReached, Cohort, Pool, PoolState, Queueing, Quota
from runrig.domain.quantities import CPU, GPU, FlavorResource, requests_of
from runrig.domain.workflows import Array, ExitAction, ExitRule, GroupSpec, TaskSpec, WorkflowSpec
from runrig.engine.lifecycle import holds, pausing, pools, submission_gate, workflows
from runrig.engine.lifecycle import limits as limits_of_users
from runrig.engine.lifecycle import nodes as nodes_of
from runrig.engine.lifecycle.arrays import cancel_element, set_most
from runrig.engine.lifecycle.gangs import gang_of
from runrig.engine.lifecycle.limits import check_gpus_at_once
from runrig.engine.lifecycle.reassignments import reassign
from tests.exploring import tries
from tests.properties.machine import Driver, check_guarantees
from tests.worlds.lawful import judge_commits

FLAVORS = (Flavor("a", {"kind": "a"}, position=0), Flavor("b", {"kind": "b"}, position=1))
RULES = (
    (),
    (),
    (),
    (ExitRule(ExitAction.RESCHEDULE, 1, 1),),
    (ExitRule(ExitAction.RESCHEDULE, 3001, 3001),),
    (ExitRule(ExitAction.COMPLETE, 1, 2),),
    (ExitRule(ExitAction.FAIL, 3006, 3006),),
    (ExitRule(ExitAction.COMPLETE, 3006, 3006),),
)
COHORTS = ("c0", "c1", "c2")
POOLS = ("p0", "p1", "p2")
SUBPOOLS = ("x", "y")

limits = st.sampled_from((None, None, None, None, 0, 1, 2, 3))
quotas = st.builds(Quota, st.sampled_from((0, 1, 2, 2, 3, 3, 4)), limits, limits)
weights = st.sampled_from((1, 1, 1, 2, 3, 4))
cores = st.builds(Quota, st.integers(0, 4).map(lambda each: each * 1000), st.none(), st.none())
nodes = st.builds(
    lambda kind, gpus, cpu, listed: Node(
        "", {GPU: gpus, **({CPU: cpu * 1000} if listed else {})}, labels={"kind": kind}
    ),
    st.sampled_from("aaab"),
    st.sampled_from((0, 1, 2, 2, 3, 3, 4, 4)),
    st.integers(0, 4),
    st.sampled_from((True, False, False)),
)


@st.composite
def quota_maps(draw: st.DrawFn) -> dict[FlavorResource, Quota]:
    found = {FlavorResource("a", GPU): draw(quotas)}
    if draw(st.booleans()):
        found[FlavorResource("b", GPU)] = draw(quotas)
    if draw(st.integers(0, 3)) == 0:
        for flavor in "ab":
            found[FlavorResource(flavor, CPU)] = draw(cores)
    return found


@st.composite
def tasks(draw: st.DrawFn, name: str) -> TaskSpec:
    count = draw(st.sampled_from((None, None, None, 1, 2, 3)))
    minimum = draw(st.none() | st.integers(1, count)) if count else None
    gpus, cpu = draw(st.sampled_from((0, 1, 1, 1, 1, 2, 2, 3))), draw(st.sampled_from((0, 0, 0, 1000, 2000)))
    requests = requests_of({GPU: gpus, CPU: cpu})
    platform = draw(st.sampled_from((None, None, None, None, None, "a", "b")))
    rules = draw(st.sampled_from(RULES))
    return TaskSpec(
        name, "i", ("c",), requests=requests, platform=platform, exit_rules=rules, count=count, min_count=minimum
    )


@st.composite
def group_lists(draw: st.DrawFn) -> tuple[GroupSpec, ...]:
    groups: list[GroupSpec] = []
    for at in range(draw(st.sampled_from((1, 1, 1, 1, 2, 3, 4, 6)))):
        mates = [draw(tasks(f"t{at}{each}")) for each in range(draw(st.sampled_from((1, 1, 2))))]
        mates[0] = replace(mates[0], lead=True)
        upstream = tuple(group.name for group in groups if draw(st.booleans()))
        groups.append(GroupSpec(f"g{at}", tuple(mates), upstream, ignore_nonlead_status=draw(st.booleans())))
    return tuple(groups[::-1] if len(groups) > 2 and draw(st.booleans()) else groups)


def plain(gpus: int) -> tuple[GroupSpec, ...]:
    return (GroupSpec("g0", (TaskSpec("t", "i", ("c",), lead=True, requests=((GPU, gpus),)),)),)


class Engine(RuleBasedStateMachine):
    hour_s = 3600.0

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver()
        self.submitted = 0

    @initialize(
        machines=st.lists(nodes, min_size=1, max_size=4),
        shares=st.lists(quota_maps(), min_size=2, max_size=3),
        depth=st.integers(0, 3),
        heavy=st.lists(weights, min_size=6, max_size=6),
    )
    def begin(
        self, machines: list[Node], shares: list[dict[FlavorResource, Quota]], depth: int, heavy: list[int]
    ) -> None:
        self.driver.do([SetFlavors(FLAVORS)])
        for at, node in enumerate(machines):
            self._node(replace(node, name=f"n{at}"))
        self.driver.do([PutNode(replace(node, flavor=node.labels["kind"])) for node in self.driver.nodes.values()])
        for at in range(depth):
            parent = COHORTS[at - 1] if at else None
            self.driver.attempt(pools.put_cohort, Cohort(COHORTS[at], parent, weight=heavy[at]), create=True)
        for at, share in enumerate(shares):
            cohort = COHORTS[(depth - 1 - at) % depth] if depth else None
            pool = Pool(POOLS[at], share, cohort=cohort, weight=heavy[3 + at])
            self.driver.attempt(pools.put_pool, pool, create=True)
        self.driver.check_ledger()

    def _node(self, node: Node) -> None:
        self.driver.nodes[node.name] = node
        self.driver.edited = True

    # ------------------------------------------------------------ work

    @rule(
        at=st.integers(0, 11),
        priority=st.sampled_from((Priority.HIGH, Priority.NORMAL, Priority.LOW, Priority.LOW)),
        groups=group_lists(),
    )
    def submit(self, at: int, priority: Priority, groups: tuple[GroupSpec, ...]) -> None:
        there = sorted(self.driver.state.pools)
        if there:
            self._submit(there[at % len(there)], priority, groups)

    def _submit(self, pool: str, priority: Priority, groups: tuple[GroupSpec, ...]) -> None:
        self.submitted += 1
        self.driver.now += 1
        # A graph of several groups may also time out.
        exec_timeout_s, queue_timeout_s = (6.0, 9.0) if len(groups) > 3 else (None, None)
        spec = WorkflowSpec(
            f"w{self.submitted}", groups, exec_timeout_s=exec_timeout_s, queue_timeout_s=queue_timeout_s
        )
        self.driver.submit(spec, pool, priority, user="ann" if self.submitted % 3 else "bob")

    @precondition(lambda self: self.driver.state.pools)
    @rule(
        data=st.data(),
        task=tasks("t0"),
        size=st.integers(1, 4),
        most=st.sampled_from((None, 1, 1, 2)),
        retries=st.integers(0, 2),
        fail_fast=st.booleans(),
    )
    def submit_an_array(
        self, data: st.DataObject, task: TaskSpec, size: int, most: int | None, retries: int, fail_fast: bool
    ) -> None:
        """Rule W4."""
        self.submitted += 1
        self.driver.now += 1
        group = GroupSpec("runs", (replace(task, lead=True, retries=retries),))
        array = Array(group, tuple(range(size)), size, most=most, fail_fast=fail_fast)
        pool = data.draw(st.sampled_from(sorted(self.driver.state.pools)))
        priority = data.draw(st.sampled_from((Priority.NORMAL, Priority.LOW)))
        self.driver.submit(WorkflowSpec(f"w{self.submitted}", array=array), pool, priority)

    @precondition(lambda self: self.driver.state.workflows)
    @rule(data=st.data(), when=st.sampled_from(When))
    def submit_after_others(self, data: st.DataObject, when: When) -> None:
        """Rule W5."""
        self.submitted += 1
        self.driver.now += 1
        known = self.driver.state.workflows
        names = data.draw(st.sets(st.sampled_from(sorted(known)), min_size=1, max_size=2))
        after = tuple(
            After(each, when, known[each].status if known[each].status.finished else None) for each in sorted(names)
        )
        pool = data.draw(st.sampled_from(sorted(self.driver.state.pools)))
        self.driver.submit(
            WorkflowSpec(f"w{self.submitted}", plain(1), after=after), pool, Priority.NORMAL, after=after
        )

    @precondition(lambda self: self._arrays())
    @rule(data=st.data(), most=st.none() | st.integers(1, 4))
    def change_an_array(self, data: st.DataObject, most: int | None) -> None:
        """Cancels one element, or changes how many may run at a time."""
        name = data.draw(st.sampled_from(self._arrays()))
        edited = self.driver.edited
        if most is None:
            self.driver.attempt(cancel_element, name, data.draw(st.sampled_from("0123")), user="u")
        else:
            self.driver.attempt(set_most, name, most)
        self.driver.edited = edited

    def _arrays(self) -> list[str]:
        state = self.driver.state
        return sorted(each for each in state.workflows if state.spec_of(each).array is not None)

    @rule(
        at=st.integers(0, 11),
        low=st.lists(st.integers(1, 2), max_size=5),
        firm=st.lists(st.integers(1, 2), max_size=3),
        linger=st.booleans(),
    )
    def borrow_and_take_back(self, at: int, low: list[int], firm: list[int], linger: bool) -> None:
        """LOW fills what is there, then firm work of each pool asks for its own."""
        there = sorted(self.driver.state.pools)
        if not there:
            return
        for gpus in low:
            self._submit(there[at % len(there)], Priority.LOW, plain(gpus))
        self.driver.cycle()
        for offset, gpus in enumerate(firm):
            self._submit(there[(at + offset) % len(there)], Priority.NORMAL, plain(gpus))
        self.driver.cycle(linger=linger)

    @rule(linger=st.booleans())
    def cycle(self, linger: bool) -> None:
        self.driver.cycle(linger=linger)

    @rule(
        budget=st.integers(1, 8),
        come=st.lists(
            st.tuples(
                st.sampled_from(("submit", "submit", "cancel", "edit")), st.integers(0, 11), st.sampled_from(Priority)
            ),
            max_size=6,
        ),
        restart=st.booleans(),
    )
    def cycle_in_parts(self, budget: int, come: list[tuple[str, int, Priority]], restart: bool) -> None:
        """Work arrives, is cancelled, and quota changes between the parts of a cycle."""
        arrivals = [partial(self._arrives, what, at, priority) for what, at, priority in come]
        self.driver.cycle_in_parts(budget, arrivals, restart=restart)

    def _arrives(self, what: str, at: int, priority: Priority) -> None:
        state = self.driver.state
        if what == "cancel" and state.workflows:
            self._cancel(sorted(state.workflows)[at % len(state.workflows)])
        elif what == "edit" and state.pools:
            pool = state.pools[sorted(state.pools)[at % len(state.pools)]]
            if pool.parent is None and pool.state is not PoolState.ARCHIVED:
                share = {FlavorResource("a", GPU): Quota(at % 5)}
                self.driver.attempt(pools.put_pool, replace(pool, quotas=share), create=False)
        elif what == "submit" and state.pools:
            self._submit(sorted(state.pools)[at % len(state.pools)], priority, plain(1 + at % 2))

    @precondition(lambda self: self.driver.state.active)
    @rule(data=st.data(), code=st.sampled_from((0, 0, 0, 1, 2, 301, 302, 3001, 3003, 3004, 3005)))
    def end_a_task(self, data: st.DataObject, code: int) -> None:
        self.driver.end_task(data.draw(st.sampled_from(sorted(self.driver.state.active))), code)
        self.driver.cycle()

    @precondition(lambda self: self.driver.state.active)
    @rule(data=st.data())
    def end_a_workflow(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted({key.workflow for key in self.driver.state.active})))
        for key in self.driver.state.active:
            if key.workflow == name:
                self.driver.end_task(key, 0)
        self.driver.cycle()

    @precondition(lambda self: self.driver.state.workflows)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self._cancel(data.draw(st.sampled_from(sorted(self.driver.state.workflows))))

    def _cancel(self, name: str) -> None:
        self.driver.now += 1
        edited = self.driver.edited
        self.driver.attempt(workflows.cancel, name, user="u")
        self.driver.edited = edited

    @precondition(lambda self: self.driver.state.workflows)
    @rule(data=st.data(), act=st.sampled_from((partial(holds.put_on_hold, user="u"), holds.end_hold)))
    def hold_or_release(self, data: st.DataObject, act: Callable[..., Plan]) -> None:
        name = data.draw(st.sampled_from(sorted(self.driver.state.workflows)))
        edited = self.driver.edited
        self.driver.attempt(act, name)
        self.driver.edited = edited

    @precondition(lambda self: self.driver.state.pools)
    @rule(data=st.data(), resumes=st.booleans(), lasts=st.sampled_from((None, None, 1, 4)))
    def pause_or_resume(self, data: st.DataObject, resumes: bool, lasts: int | None) -> None:
        """Rule S8: a pause stops nothing."""
        state, now = self.driver.state, self.driver.now
        name = data.draw(st.sampled_from(sorted(state.pools)))
        until = None if lasts is None else now + lasts
        act = pausing.resume if resumes else partial(pausing.pause, user="u", now=now, until=until)
        edited, stopping, active = self.driver.edited, set(state.ledger.stopping), set(state.active)
        self.driver.attempt(act, name)
        assert (set(state.ledger.stopping), state.active) == (stopping, active)
        self.driver.edited = edited

    @precondition(lambda self: self.driver.state.workflows)
    @rule(data=st.data(), priority=st.none() | st.sampled_from(Priority), elsewhere=st.booleans())
    def move_or_reprioritise(self, data: st.DataObject, priority: Priority | None, elsewhere: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.driver.state.workflows)))
        pool = data.draw(st.sampled_from(sorted(self.driver.state.pools))) if elsewhere else None
        edited = self.driver.edited
        self.driver.attempt(reassign, name, pool=pool, priority=priority)
        self.driver.edited = edited

    # ------------------------------------------------------------ edits

    @rule(
        name=st.sampled_from(POOLS),
        share=quota_maps(),
        cohort=st.sampled_from((None, *COHORTS)),
        strict=st.booleans(),
        weight=weights,
        most=st.sampled_from(
            ((None, None, None), (None, None, None), (2, None, None), (None, 3, None), (None, None, 1), (None, None, 3))
        ),
        budget=st.sampled_from((None, None, None, 1, 3)),
        reached=st.sampled_from(BudgetReached),
    )
    def put_pool(
        self,
        name: str,
        share: dict[FlavorResource, Quota],
        cohort: str | None,
        strict: bool,
        weight: int,
        most: tuple[int | None, int | None, int | None],
        budget: int | None,
        reached: BudgetReached,
    ) -> None:
        """Rule W6: *most* has its limits. Rule W7: *budget*, in GPU-hours."""
        before = self.driver.state.pools.get(name)
        queueing = Queueing.STRICT_FIFO if strict else Queueing.BEST_EFFORT_FIFO
        create = before is None or before.state is PoolState.ARCHIVED
        pool = Pool(name, share, cohort=cohort, queueing=queueing, weight=weight)
        pool = replace(pool, user_waiting=most[0], gpus_per_workflow=most[1], user_gpus=most[2])
        pool = replace(pool, budget=budget, budget_reached=reached)
        self.driver.attempt(pools.put_pool, pool, create=create)

    @rule(
        user=st.sampled_from(("ann", "bob")),
        most=st.sampled_from((None, 1, 2, 3)),
        waiting=st.sampled_from((None, None, 2)),
        budget=st.sampled_from((None, None, None, 1, 2)),
    )
    def put_limits(self, user: str, most: int | None, waiting: int | None, budget: int | None) -> None:
        self.driver.attempt(limits_of_users.put_limits, Limits(user=user, gpus=most, waiting=waiting, budget=budget))

    @rule(hours=st.sampled_from((1, 1, 2, 24 * 31)))
    def time_passes(self, hours: int) -> None:
        """Rule W7: budgets are reached, and months begin."""
        self.driver.cycle()
        self.driver.now += hours * self.hour_s
        self.driver.cycle()

    @rule(parent=st.sampled_from(POOLS), short=st.sampled_from(SUBPOOLS), gpus=st.sampled_from((0, 1, 1, 2, 2, 3)))
    def put_subpool(self, parent: str, short: str, gpus: int) -> None:
        name = f"{parent}--{short}"
        before = self.driver.state.pools.get(name)
        create = before is None or before.state is PoolState.ARCHIVED
        share = {FlavorResource("a", GPU): Quota(gpus)}
        self.driver.attempt(pools.put_pool, Pool(name, share, parent=parent, subpool_name=short), create=create)

    @rule(kind=st.sampled_from(("delete pool", "put cohort", "put node", "put node", "drop node")), data=st.data())
    def edit(self, kind: str, data: st.DataObject) -> None:
        node = data.draw(st.sampled_from(("n0", "n1", "n2", "n3")))
        match kind:
            case "delete pool" if self.driver.state.pools:
                self.driver.attempt(pools.delete_pool, data.draw(st.sampled_from(sorted(self.driver.state.pools))))
            case "put cohort":
                name, parent = data.draw(st.sampled_from(COHORTS)), data.draw(st.sampled_from((None, *COHORTS)))
                cohort = Cohort(name, parent, data.draw(quota_maps()), data.draw(weights))
                self.driver.attempt(pools.put_cohort, cohort, create=name not in self.driver.state.cohorts)
            case "put node":
                self._node(replace(data.draw(nodes), name=node, ready=data.draw(st.booleans())))
            case "drop node" if len(self.driver.nodes) > 1 and node in self.driver.nodes:
                del self.driver.nodes[node]
                self.driver.edited = True

    @rule(
        what=st.sampled_from(("cordon", "uncordon", "uncordon", "drain", "drain", "force")),
        names=st.sets(st.sampled_from(("n0", "n1", "n2", "n3")), min_size=1, max_size=2),
    )
    def close_nodes(self, what: str, names: set[str]) -> None:
        """Laws N1 and N2.  A node that is not there refuses all of it."""
        if what in ("cordon", "uncordon"):
            self.driver.attempt(nodes_of.cordon, names, cordoned=what == "cordon")
        else:
            self.driver.attempt(lambda state: nodes_of.drain(state, names, user="u", force=what == "force").plan)

    @rule(data=st.data())
    def lose_a_node_that_is_in_use(self, data: st.DataObject) -> None:
        self.driver.cycle()
        state, nodes = self.driver.state, self.driver.nodes
        used = sorted({str(state.tasks[key].node) for key in state.active} & nodes.keys())
        if used and len(nodes) > 1:
            del nodes[data.draw(st.sampled_from(used))]
            self.driver.edited = True
            self.driver.cycle()

    # ------------------------------------------------------------ invariants

    @rule()
    def work_that_never_ends_comes_to_rest(self) -> None:
        """Law R5.  Each gang may start once, and each firm gang may preempt once."""
        self.driver.cycle()
        bound = 2 * len(self.driver.state.ledger.entries) + 6
        quiet = 0
        for _ in range(bound):
            decided = self.driver.cycle().actions
            quiet = 0 if any(isinstance(each, Admit | Nominate | Preempt | Withdraw) for each in decided) else quiet + 1
            if quiet == 2:
                check_guarantees(self.driver.state)
                return
        raise AssertionError(f"no rest after {bound} cycles")

    def teardown(self) -> None:
        if not self.driver.state.flavors or not self.driver.sound:
            return
        self.driver.check_replay()
        self.drain()
        judge_commits(self.driver.commits)

    def drain(self) -> None:
        """Nothing new comes, what runs ends: then everything that still passes the gate ends too."""
        for name, node in self.driver.nodes.items():
            self.driver.nodes[name] = replace(node, ready=True)
        for name in sorted(self.driver.state.on_hold):
            self.driver.attempt(holds.end_hold, name)
        for name in [each.name for each in self.driver.state.pools.values() if each.paused_by is not None]:
            self.driver.attempt(pausing.resume, name)
        self.driver.attempt(nodes_of.cordon, self.driver.state.nodes, cordoned=False)
        self.driver.now = next_month(month_of(self.driver.now))  # Budgets renew.
        self.driver.edited = True
        for _ in range(4 * len(self.driver.state.groups) + 6):
            if not self.driver.state.workflows:
                break
            for key in self.driver.state.active:
                self.driver.end_task(key, 0)
            self.driver.cycle()
        waiting = [each for each in self.driver.state.ledger.entries.values() if each.state is not GangState.ADMITTED]
        stuck = {each.gang.pool for each in waiting if not self._passes_the_gate(each.gang.workflow)}
        for entry in waiting:
            pool = self.driver.state.pools[entry.gang.pool]
            behind = pool.queueing is Queueing.STRICT_FIFO and pool.name in stuck
            assert behind or not self._passes_the_gate(entry.gang.workflow), (
                f"{entry.gang.id} is {entry.state} for ever"
            )
        assert not self.driver.state.active
        for workflow in [each.id for each in self.driver.state.workflows.values() if not each.waits_for_others]:
            assert any(entry.gang.workflow == workflow for entry in waiting), f"{workflow} hangs: nothing of it waits"
        for pool in self.driver.state.pools.values():
            live = any(each.pool == pool.name for each in self.driver.state.workflows.values())
            assert live or pool.state is not PoolState.DELETING

    def _passes_the_gate(self, workflow: str) -> bool:
        """As a new submission would, were the pool open."""
        state, flow = self.driver.state, self.driver.state.workflows[workflow]
        try:
            for group in state.spec_of(workflow).groups:
                submission_gate._check(state, state.pools[flow.pool], group, gang_of(flow, group), who="it")
                check_gpus_at_once(state, gang_of(flow, group), flow.submitted_by, "it")
        except RunrigError:
            return False
        return True


CHECKS = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)


@pytest.mark.explored
def test_no_history_breaks_a_rule() -> None:
    """Q3, Q4, P2, R2-R5, T1, A1 and the ledger, after every step."""
    deterministic = settings(
        max_examples=tries(48),
        stateful_step_count=30,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=CHECKS,
    )
    run_state_machine_as_test(Engine, settings=deterministic)


@pytest.mark.soak
def test_no_long_history_breaks_a_rule() -> None:
    many = settings(max_examples=2000, stateful_step_count=50, deadline=None, suppress_health_check=CHECKS)
    run_state_machine_as_test(Engine, settings=many)
