"""A plan is what then happens: the branches against the engine run by hand, under everything that can have happened before."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from runrig.domain.errors import RunrigError
from runrig.domain.gangs import GangState, Law
from runrig.domain.observed import Observation, Phase, TaskFact
from runrig.domain.plan import DropNode, Preempt, PutNode
from runrig.domain.pools import Quota
from runrig.domain.quantities import GPU, FlavorResource
from runrig.domain.records import Loaded
from runrig.domain.shown.plans import Plan, PlanPoolRow
from runrig.domain.workflows import TaskKey
from runrig.engine import cycle
from runrig.engine.foresight.branch import Edit, StateBranch
from runrig.engine.foresight.consequences import concerns_nodes, consequences
from runrig.engine.foresight.outcome import drains, hopeless, pool_rows
from runrig.engine.lifecycle import pools
from runrig.engine.lifecycle.nodes import drain
from runrig.engine.state.state import State
from tests.exploring import tries
from tests.properties.machine import Driver, shuffled
from tests.properties.test_properties import CHECKS, Engine


@dataclass
class Reality:
    """*rows* after the edit, run on by hand until nothing changes.  *state*: as it is then, loaded from its rows."""

    state: State
    running: set[str]
    preempted: dict[str, tuple[str, Law]]
    ended: set[str]
    waiting: set[str]

    @classmethod
    def of(cls, rows: Loaded, edit: Edit, now: float) -> "Reality":
        state = State.load(rows)
        state.apply_all(edit.actions, now)
        preempted: dict[str, tuple[str, Law]] = {}
        lost, quiet = edit.lost, False
        while not quiet:
            actions = cycle.run(state, _seen(state, lost), now).actions
            lost, quiet = frozenset(), not actions
            for each in actions:
                if isinstance(each, Preempt):
                    preempted.setdefault(each.gang, (each.by, each.law))
        ended = {*_over(state)}
        entries = state.ledger.entries.values()
        running = {each.gang.id for each in entries if each.state is GangState.ADMITTED}
        waiting = {each.gang.id for each in entries} - running
        return cls(State.load(state.rows()), running, preempted, ended, waiting)


def _over(state: State) -> list[str]:
    return [group.gang_id for group in state.groups.values() if group.status.finished]


def _seen(state: State, lost: frozenset[str]) -> Observation:
    facts: dict[TaskKey, TaskFact] = {}
    for key in state.active:
        task = state.tasks[key]
        if state.groups[key.workflow, task.group].stopping is not None:
            facts[key] = TaskFact(Phase.ENDED, 143)
        elif task.node in lost:
            facts[key] = TaskFact(Phase.ENDED, 3001)
        elif task.status.value == "RUNNING":
            facts[key] = TaskFact(Phase.RUNNING)
        else:
            facts[key] = TaskFact(Phase.STARTING)
    return Observation(facts)


def planned(rows: Loaded, edit: Edit, now: float) -> Plan:
    nodes = concerns_nodes(edit)
    outcomes = []
    for each in (Edit(), edit):
        branch = StateBranch(State.load(rows), each, now)
        for _ in branch.run():
            pass
        outcomes.append(branch.outcome(nodes=nodes))
    return consequences(*outcomes)


class Planner(Engine):
    """What the engine itself does is checked by `test_properties`."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(checked=False)

    def teardown(self) -> None:
        """Its plans were checked on the way."""

    @precondition(lambda self: self.driver.state.pools)
    @rule(
        what=st.sampled_from(("quota", "quota", "delete", "drain", "force", "lose", "drop")),
        at=st.integers(0, 11),
        share=st.integers(0, 4),
        settled=st.booleans(),
    )
    def plan(self, what: str, at: int, share: int, settled: bool) -> None:
        if settled:
            self.driver.cycle()
        state, rows, now = self.driver.state, self.driver.state.rows(), self.driver.now
        unchanged = planned(rows, Edit(), now)
        assert unchanged == Plan(unchanged.revision, unchanged.rests, unchanged.cycles)
        try:
            edit = self._edit(state, what, at, share)
        except RunrigError:
            return
        found = planned(rows, edit, now)
        assert repr(found) == repr(planned(shuffled(rows, seed=at), edit, now))
        assert self.driver.state.rows() == rows
        self._check(found, rows, edit, now)

    @staticmethod
    def _edit(state: State, what: str, at: int, share: int) -> Edit:
        pool = state.pools[sorted(state.pools)[at % len(state.pools)]]
        node = state.nodes[sorted(state.nodes)[at % len(state.nodes)]]
        match what:
            case "quota":
                resized = replace(pool, quotas={FlavorResource("a", GPU): Quota(share)})
                return Edit(pools.put_pool(state, resized, create=False).actions)
            case "delete":
                return Edit(pools.delete_pool(state, pool.name).actions)
            case "drain" | "force":
                return Edit(drain(state, [node.name], user="u", force=what == "force").plan.actions)
            case "lose":
                return Edit((PutNode(replace(node, ready=False)),), lost=frozenset({node.name}))
        return Edit((DropNode(node.name),), lost=frozenset({node.name}))

    @staticmethod
    def _check(found: Plan, rows: Loaded, edit: Edit, now: float) -> None:
        old, new = Reality.of(rows, Edit(), now), Reality.of(rows, edit, now)
        ran = {row.gang.id for row in rows.gangs if row.state is GangState.ADMITTED}
        assert found.rests
        assert {each.gang for each in found.starts} == new.running - old.running
        entries = new.state.ledger.entries
        assert all(
            set(each.nodes) == {share.node for part in entries[each.gang].placement for share in part.shares}
            for each in found.starts
        )
        assert {each.gang for each in found.waits} == old.running - new.running - ran - new.ended
        told = {each.gang: (each.by, each.law) for each in found.preempted}
        assert told == {gang: why for gang, why in new.preempted.items() if gang not in old.preempted}
        assert {each.gang for each in found.cancels} == new.ended - old.ended - ran
        lost = {each.gang: each.then for each in found.loses}
        stopped = {gang for gang in (old.running & ran) - new.running if gang not in told}
        assert stopped <= lost.keys()
        assert {gang for gang in stopped if lost[gang] == "queued"} == stopped & new.waiting
        nodes = concerns_nodes(edit)
        never = [hopeless(each.state, nodes=nodes).keys() for each in (old, new)]
        assert {each.gang for each in found.never} == never[1] - never[0]
        assert {each.pool for each in found.drains} == drains(new.state).keys() - drains(old.state).keys()
        rows_of = [pool_rows(each.state) for each in (old, new)]
        both = {name: tuple(each.get(name, PlanPoolRow()) for each in rows_of) for name in {**rows_of[0], **rows_of[1]}}
        told_of = {each.pool: (each.before, each.after) for each in found.pools}
        assert told_of == {name: pair for name, pair in both.items() if pair[0] != pair[1]}


@pytest.mark.explored
def test_plan_predicts_what_happens() -> None:
    deterministic = settings(
        max_examples=tries(45),
        stateful_step_count=30,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=CHECKS,
    )
    run_state_machine_as_test(Planner, settings=deterministic)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(8))
def test_many_plans_predict_what_happens(part: int) -> None:
    """2,000 worlds, in parts that can run beside each other and say how far they came; each part draws its own."""
    many = settings(max_examples=250, stateful_step_count=50, deadline=None, suppress_health_check=CHECKS)
    run_state_machine_as_test(Planner, settings=many)
