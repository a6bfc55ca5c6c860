"""How a workflow spends its time, compared with an independent evaluation of the log."""

import random
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runrig.domain.errors import Conflict, Refused
from runrig.domain.observed import Observation, Phase, TaskFact
from runrig.domain.plan import (
    Abandon,
    Action,
    Admit,
    EndHold,
    Hold,
    MoveGroup,
    MoveTask,
    MoveWorkflow,
    Queue,
    RetryTask,
    SetAside,
    Submit,
    Unqueue,
)
from runrig.domain.times import Moment, Times
from runrig.domain.workflows import ExitAction, ExitRule, Status, TaskKey
from runrig.engine import cycle
from runrig.engine.lifecycle import holds, nodes, setting_aside
from runrig.engine.state.timing import times_of
from tests.worlds.engine import HIGH, LOW, NORMAL, World, task, workflow

LOST = (3001, 3004, 3006)
AGAIN = (ExitRule(ExitAction.RESCHEDULE, 3001, 3001), ExitRule(ExitAction.RESCHEDULE, 7, 7))


class History(World):
    """A world with its log, in which admitted work starts when the test decides."""

    def __init__(self) -> None:
        self.log: list[tuple[float, Action]] = []
        self.slow: set[TaskKey] = set()
        super().__init__({"a": 4, "b": 2}, {"n0": 3, "n1": 3})

    def do(self, *actions: Action) -> None:
        self.log += [(self.now, action) for action in actions]
        super().do(*actions)

    def round(self, dice: random.Random) -> None:
        """Time passes, more admitted work starts, and a cycle runs."""
        self.now += dice.randint(1, 5)
        self.slow = {key for key in self.state.unsteady if key not in self.facts and dice.random() < 0.5}
        plan = cycle.run(self.state, self.observe(), self.now)
        self.log += [(self.now, action) for action in plan.actions]

    def observe(self) -> Observation:
        super().observe()
        return Observation({key: fact for key, fact in self.facts.items() if key not in self.slow})

    def end(self, dice: random.Random, code: int) -> None:
        there = sorted(self.state.active - self.slow)
        if there:
            self.facts[dice.choice(there)] = TaskFact(Phase.ENDED, code)

    def step(self, dice: random.Random, number: int) -> None:
        self.now += 1
        ids = sorted(self.state.workflows)
        one = dice.choice(ids) if ids else None
        live = one is not None and not self.state.workflows[one].status.finished
        match dice.randint(0, 9):
            case 0 | 1:
                self._submit(dice, number)
            case 2 | 3:
                self.end(dice, dice.choice((0, 0, 1, 7, 3001)))
            case 4 if one is not None and live:
                held = self.state.workflows[one].held_by is not None
                with suppress(Conflict):  # all of it has started
                    found = holds.end_hold(self.state, one) if held else holds.put_on_hold(self.state, one, user="u")
                    self.do(*found.actions)
            case 5 if dice.random() < 0.4:
                node = dice.choice(("n0", "n1"))
                self.do(*nodes.drain(self.state, (node,), user="u", force=dice.random() < 0.5).plan.actions)
                self.do(*nodes.cordon(self.state, (node,), cordoned=False).actions)
            case 6 if one is not None and live and dice.random() < 0.3:
                self.cancel(one)
            case 7 if one is not None and live and dice.random() < 0.3:
                self._leave_alone(dice, one)
            case _:
                self.round(dice)

    def _leave_alone(self, dice: random.Random, id: str) -> None:
        """Rule W8; a workflow that is already set aside is ended, or released with the holds."""
        if not self.state.workflows[id].set_aside:
            self.do(*setting_aside.set_aside(self.state, id, "ValueError").actions)
        elif dice.random() < 0.5:
            self.do(*setting_aside.abandon(self.state, id, user="u", message="").actions)

    def _submit(self, dice: random.Random, number: int) -> None:
        first = task("t", dice.randint(1, 2), count=dice.choice((None, 2)), exit_rules=AGAIN)
        second = task("u", 1, exit_rules=AGAIN)
        chain = dice.choice(({}, {"u": ("t",)}))
        spec = workflow(f"w{number}", first, second, upstream=chain) if dice.random() < 0.5 else None
        pool, priority = dice.choice(("a", "b")), dice.choice((HIGH, NORMAL, LOW, LOW))
        with suppress(Refused):  # work that can never start
            self.submit(f"w{number}", pool, priority, dice.randint(1, 2), spec)


def events_of(history: History, id: str) -> Iterator[tuple[float, Action]]:
    for at, action in history.log:
        match action:
            case Submit(found):
                whose = found.id
            case MoveTask(key) | RetryTask(key):
                whose = key.workflow
            case (
                MoveGroup(whose) | MoveWorkflow(whose) | Hold(whose) | EndHold(whose) | SetAside(whose) | Abandon(whose)
            ):
                pass
            case Queue(gang):
                whose = gang.id.partition("/")[0]
            case Admit(name) | Unqueue(name):
                whose = name.partition("/")[0]
            case _:
                continue
        if whose == id:
            yield at, action


def read(history: History, id: str) -> Times:
    """Evaluates each interval between two events separately, from everything that happened before it."""
    events = list(events_of(history, id))
    bounds = sorted({at for at, _ in events} | {history.now})
    lost = list(_lost(events))
    sums = dict.fromkeys(Moment, 0.0)
    lost_s, waits, before = 0.0, 0, None
    for begin, end in pairwise(bounds):
        moment = _moment([action for at, action in events if at <= begin])
        waits += moment is Moment.WAITED is not before
        before = moment
        if moment is not None:
            sums[moment] += end - begin
        lost_s += (end - begin) * any(first <= begin and end <= last for first, last in lost)
    named = {each.value: sums[each] for each in Moment}
    return Times(history.now, None, **named, waits=waits, lost=((0.0, lost_s),) if lost_s else ())


def _moment(events: list[Action]) -> Moment | None:
    stands: dict[str, str] = {}
    held = False
    for action in events:
        match action:
            case Queue(gang):
                stands[gang.id.partition("/")[2]] = "queued"
            case Unqueue(name):
                stands[name.partition("/")[2]] = "waits"
            case Admit(name):
                stands[name.partition("/")[2]] = "starts"
            case MoveGroup(_, group, status):
                stands[group] = {Status.RUNNING: "runs", Status.INITIALIZING: "starts"}.get(status, "over")
            case Hold() | SetAside() | EndHold():
                held = not isinstance(action, EndHold)
            case Abandon():
                return None
            case MoveWorkflow(_, status) if status.finished:
                return None
    for word, moment in (("runs", Moment.RUNNING), ("starts", Moment.STARTING), ("queued", Moment.WAITED)):
        if word in stands.values():
            return moment
    return Moment.HELD if held else Moment.BLOCKED


def _lost(events: list[tuple[float, Action]]) -> Iterator[tuple[float, float]]:
    admitted: dict[str, float] = {}
    again: dict[str, float] = {}
    for at, action in events:
        match action:
            case Admit(name):
                admitted[name.partition("/")[2]] = at
            case RetryTask(key):
                again[key.task] = at
            case MoveTask(key, _, code) if code in LOST:
                group = f"{key.task.partition('-')[0]}-group"
                yield max(admitted[group], again.get(key.task, 0.0)), at


@given(st.integers(min_value=0))
def test_each_moment_of_a_workflow_has_the_class_that_the_log_implies(seed: int) -> None:
    dice = random.Random(seed)
    history = History()
    for number in range(60):
        history.step(dice, number)
    history.now += 3
    for id, kept in sorted(history.state.workflows.items()):
        times, expected = times_of(kept).until(history.now), read(history, id)
        of_classes = {each: getattr(times, each.value) for each in Moment}
        assert of_classes == {each: getattr(expected, each.value) for each in Moment}, id
        assert (times.lost_s, times.waits) == (expected.lost_s, expected.waits), id
        assert times.total_s == (history.now if kept.end_time is None else kept.end_time) - kept.submit_time


def test_random_histories_have_every_class_and_lost_time() -> None:
    found = dict.fromkeys((*(moment.value for moment in Moment), "lost_s"), 0.0)
    for seed in range(20):
        dice, history = random.Random(seed), History()
        for number in range(60):
            history.step(dice, number)
        for kept in history.state.workflows.values():
            for name in found:
                found[name] += getattr(times_of(kept).until(history.now), name)
    assert found.pop("blocked") == 0  # a group is queued at the moment when the groups before it complete
    assert min(found.values()) > 0, found


def test_preempted_work_waits_from_then_on_and_its_first_run_is_lost() -> None:
    """R2: it ran for 103 s, and its waits before and after add up."""
    world = World({"a": 2, "b": 2}, {"n0": 4})
    low = world.submit("low", "a", LOW, 3)
    world.cycle()
    world.cycle()
    started = world.now
    world.now += 100
    world.submit("takes", "b", NORMAL, 2)
    world.cycle()
    world.cycle()
    ended = world.now
    world.now += 20
    times = times_of(world.state.workflows[low]).until(world.now)
    assert (times.now, times.since) == (Moment.WAITED, world.now)
    assert (times.running, times.lost_s) == (ended - started, ended - started + times.starting)
    assert (times.waited, times.waits) == (1 + 20, 2)
    assert times.total_s == world.now - 1


@pytest.mark.parametrize(
    ("known", "losing", "lost"),
    [
        ((), (1, 3), ((1, 3),)),
        (((1, 3),), (5, 7), ((1, 3), (5, 7))),
        (((1, 3), (5, 7)), (2, 6), ((1, 7),)),
        (((1, 3), (9, 10)), (2, 12), ((1, 12),)),
        (((4, 5),), (4, 4), ((4, 5),)),
    ],
)
def test_time_lost_twice_counts_once(
    known: tuple[tuple[float, float], ...], losing: tuple[float, float], lost: tuple[tuple[float, float], ...]
) -> None:
    assert Times(0.0, None, lost=known).losing(*losing).lost == lost
