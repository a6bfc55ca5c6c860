"""Law T7 under everything else that can happen, in any order (the state machine of `test_properties` with a scheduler that says no)."""

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from runrig.domain.gangs import GangState
from runrig.domain.observed import Observation, Phase, TaskFact
from runrig.domain.plan import (
    Action,
    Admit,
    DropNode,
    Nominate,
    Plan,
    Preempt,
    PutNode,
    PutPool,
    Queue,
    Refuse,
    Release,
    TryAgain,
    Unqueue,
)
from runrig.domain.pools import Queueing
from runrig.engine import cycle
from runrig.engine.ledger.queue import Entry
from runrig.engine.state.state import State
from tests.exploring import tries
from tests.properties.machine import Driver, check_guarantees, shuffled
from tests.properties.oracle import Oracle
from tests.properties.test_properties import CHECKS, Engine

SAID = "no node was good enough"


class DoubtedDriver(Driver):
    """*doubts*: what the backend says in the next cycle.  *marks*: gangs that were refused, and have seen no change that may help since."""

    def __init__(self) -> None:
        super().__init__()
        self.doubts: dict[str, str] = {}
        self.marks: set[str] = set()

    def cycle(self, *, linger: bool = False) -> Plan:
        self.now += 1
        if self.edited:
            self.shaken |= set(self.state.ledger.nominated)
        observed = replace(self._observe(linger=linger), refused=dict(sorted(self.doubts.items(), reverse=True)))
        self.doubts = {}
        rows = self.state.rows()
        twin = State.load(shuffled(rows, seed=int(self.now)))
        plan = cycle.run(self.state, observed, self.now)
        self.sound = False
        assert repr(plan) == repr(cycle.run(twin, observed, self.now)), "a state loaded from rows plans otherwise"
        self.check_that_nobody_is_held_up(State.load(rows), observed, plan)
        self._follow(plan.actions, end=True)
        assert [each.gang.id for each in idle(self.state) if self.due(each) <= self.now] == []
        self.edited = False
        return plan

    def due(self, entry: Entry) -> float:
        """When a gang that waits because it was refused is tried again at the latest: 5 minutes, twice as long each time, an hour."""
        workflow, _, group = entry.gang.id.partition("/")
        found = self.state.groups[workflow, group]
        assert found.queued_time is not None
        return found.queued_time + float(min(3600, 300 * 2 ** (found.refusals - 1)))

    def check_that_nobody_is_held_up(self, without: State, observed: Observation, plan: Plan) -> None:
        """If the refused gangs of pools that are not strict did not wait at all, everything else were decided the same.

        Unless somebody ends in this cycle, or their time is up: then they may be tried.
        """
        if any(isinstance(action, Release | TryAgain) for action in plan.actions):
            return
        changes = tuple(each for each in cycle.see_nodes(without, observed.nodes) if each is not None)
        without.apply_all(changes, self.now)
        for entry in idle(without):
            if without.pools[entry.gang.pool].queueing is not Queueing.STRICT_FIFO:
                without.ledger.apply(Release(entry.gang.id), self.now)
        assert repr(cycle.run(without, observed, self.now).actions) == repr(plan.actions[len(changes) :])

    def _check(self, action: Action) -> None:
        super()._check(action)
        entries = self.shadow.ledger.entries
        match action:
            case PutNode() | DropNode():
                self.marks.clear()  # the pools of this machine may use every node
            case PutPool(pool):
                self.marks -= {name for name in self.marks if name in entries and entries[name].gang.pool == pool.name}
            case Refuse(gang):
                assert entries[gang].state is GangState.ADMITTED
                self.marks.add(gang)
            case TryAgain(gang):
                assert gang in self.marks
                assert self.due(entries[gang]) <= self.now
                self.marks.remove(gang)
            case Release(gang) if gang in self.marks:
                self.marks -= set() if self._stands(entries[gang]) else {gang}
            case Release(gang) if entries[gang].state in (GangState.ADMITTED, GangState.STOPPING):
                self.marks.clear()  # it frees nodes, and the scheduler may count some that are not counted here
            case Unqueue(gang):
                self.marks.discard(gang)  # who releases or resumes it wants it to be tried
            case Queue(gang):
                assert bool(gang.refused) == (gang.id in self.marks), f"{gang.id}: {gang.refused!r}"
            case Admit(gang) | Nominate(gang):
                assert gang not in self.marks, f"{gang} is tried again, and nothing has changed"
            case Preempt(_, by):
                assert by not in self.marks

    def _stands(self, entry: Entry) -> bool:
        if entry.state is not GangState.STOPPING:
            return False
        oracle = Oracle.now(self.shadow)
        for each in entry.placement:
            for share in each.shares:
                node = self.shadow.nodes.get(share.node)
                if node is None or not node.ready or node.cordoned or node.flavor != each.flavor:
                    return False
                if any(left < 0 for left in oracle.free(share.node).values()):
                    return False
        return True

    def shake(self) -> None:
        """Every node changes a little."""
        self.now += 1
        for name, node in self.nodes.items():
            self.nodes[name] = replace(node, labels={**node.labels, "shaken": str(self.now)})
        self.edited = True

    def without_the_refused(self) -> State:
        state = State.load(self.state.rows())
        for entry in idle(state):
            state.ledger.apply(Release(entry.gang.id), self.now)
        return state


def idle(state: State) -> list[Entry]:
    return [each for each in state.ledger.entries.values() if each.state is GangState.PENDING and each.gang.refused]


class DoubtedEngine(Engine):
    driver: DoubtedDriver

    def __init__(self) -> None:
        super().__init__()
        self.driver = DoubtedDriver()

    def _admitted(self) -> list[str]:
        entries = self.driver.state.ledger.entries.values()
        return sorted(each.gang.id for each in entries if each.state is GangState.ADMITTED)

    @precondition(lambda self: self._admitted())
    @rule(data=st.data(), linger=st.booleans())
    def refuse(self, data: st.DataObject, linger: bool) -> None:
        """Some of them, and some that are not there (any more)."""
        names = st.sampled_from([*self._admitted(), *sorted(self.driver.state.ledger.entries), "gone-1/g"])
        for name in data.draw(st.lists(names, min_size=1, max_size=3)):
            self.driver.doubts[name] = SAID
        self.driver.cycle(linger=linger)

    @precondition(lambda self: self.driver.state.active)
    @rule(data=st.data(), linger=st.booleans())
    def throw_out(self, data: st.DataObject, linger: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.driver.state.active)))
        self.driver.facts[key] = TaskFact(Phase.ENDED, 3006, SAID)
        self.driver.cycle(linger=linger)

    @rule(data=st.data(), linger=st.booleans())
    def refuse_and_change_a_node(self, data: st.DataObject, linger: bool) -> None:
        """Before it stops, while it stops, or when it waits."""
        for name in self._admitted()[:2]:
            self.driver.doubts[name] = SAID
        changed = data.draw(st.sampled_from(sorted(self.driver.nodes)))
        if data.draw(st.booleans()):
            self.driver.cycle(linger=linger)
        self._node(replace(self.driver.nodes[changed], ready=data.draw(st.booleans())))
        self.driver.cycle(linger=linger)

    @rule(seconds=st.sampled_from([290, 299, 300, 600, 3600]))
    def time_passes(self, seconds: int) -> None:
        self.driver.now += seconds
        self.driver.cycle()

    @rule()
    def work_that_never_ends_comes_to_rest(self) -> None:
        """Refused gangs wait while everybody else gets their due; then they may be tried again, and get theirs."""
        self.driver.cycle()
        for _ in range(2 * len(self.driver.state.ledger.entries) + 6):
            self.driver.cycle()
        check_guarantees(self.driver.without_the_refused())
        self.driver.shake()
        self.driver.cycle()
        assert idle(self.driver.state) == []
        super().work_that_never_ends_comes_to_rest()

    def drain(self) -> None:
        self.driver.cycle()
        self.driver.cycle()
        self.driver.shake()
        super().drain()


@pytest.mark.explored
def test_no_history_with_refusals_breaks_a_rule() -> None:
    deterministic = settings(
        max_examples=tries(24),
        stateful_step_count=30,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=CHECKS,
    )
    run_state_machine_as_test(DoubtedEngine, settings=deterministic)


@pytest.mark.soak
def test_no_long_history_with_refusals_breaks_a_rule() -> None:
    many = settings(max_examples=1000, stateful_step_count=50, deadline=None, suppress_health_check=CHECKS)
    run_state_machine_as_test(DoubtedEngine, settings=many)
