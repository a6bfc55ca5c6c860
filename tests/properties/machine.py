"""A state machine over the whole engine: everything that people, backends and time can do, in any order.

`Driver` holds three states that must agree: the live one, a shadow to which every action is applied one by one (each is
checked by the second opinion first), and one that is loaded from shuffled rows before each cycle and must plan the same.
Every third cycle a fourth does, which is cut into parts at random places.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from runrig.domain.after import After
from runrig.domain.budgets import HeldBefore
from runrig.domain.errors import RunrigError
from runrig.domain.gangs import Gang, GangState, Placement, Priority
from runrig.domain.nodes import Node
from runrig.domain.observed import Observation, Phase, TaskFact
from runrig.domain.plan import Action, Admit, Nominate, Plan, Replace, Withdraw
from runrig.domain.pools import Queueing
from runrig.domain.quantities import FlavorResource
from runrig.domain.records import Loaded
from runrig.domain.workflows import TaskKey, WorkflowSpec
from runrig.engine import cycle
from runrig.engine.cycle import CycleInParts
from runrig.engine.ledger.options import flavor_choices
from runrig.engine.ledger.queue import Entry
from runrig.engine.lifecycle import submission_gate
from runrig.engine.lifecycle.contradictions import contradiction
from runrig.engine.placement.partial import least_counts
from runrig.engine.placement.pod_slots import shares_of, slots_of
from runrig.engine.state.state import State
from runrig.verify.court import Commit
from tests.properties.answers import check_agreement, stopped_by_user
from tests.properties.ledgers import portrait
from tests.properties.oracle import Oracle, asked, holds_now
from tests.worlds.lawful import commit_of


class Driver:
    """*nodes*: what the backend shows.  *edited*: quota or nodes changed since the last cycle.

    *shaken*: nominated gangs that have lived through an edit.  *checked*: False if only the history counts.
    """

    def __init__(self, *, checked: bool = True) -> None:
        self.checked = checked
        self.state = State()
        self.shadow = State()
        self.log: list[tuple[Action, float]] = []
        self.commits: list[Commit] = []
        self.specs: dict[str, WorkflowSpec] = {}
        self.nodes: dict[str, Node] = {}
        self.facts: dict[TaskKey, TaskFact] = {}
        self.now = 0.0
        self.edited = True
        self.shaken: set[str] = set()
        self.sound = True

    # ------------------------------------------------------------ acting

    def do(self, actions: Iterable[Action]) -> None:
        """A command: its plan is applied as a whole."""
        actions = tuple(actions)
        self.state.apply_all(actions, self.now)
        self._follow(actions)

    def attempt(self, plan_of: Callable[..., Plan], *args: object, **options: object) -> bool:
        """A command that may be refused; then nothing has changed."""
        before = self.state.rows()
        try:
            plan = plan_of(self.state, *args, **options)
        except RunrigError:
            assert self.state.rows() == before, "a refusal changed the state"
            return False
        assert self.state.rows() == before, "a planned command changed the state before it was applied"
        self.edited = True
        self.do(plan.actions)
        return True

    def submit(
        self, spec: WorkflowSpec, pool: str, priority: Priority, user: str = "u", after: tuple[After, ...] = ()
    ) -> None:
        spec_hash = f"hash of {spec.name}"
        for each in (self.state, self.shadow):
            each.specs[spec_hash] = spec
        try:
            plan = submission_gate.submit(
                self.state,
                spec,
                spec_hash=spec_hash,
                pool=pool,
                priority=priority,
                user=user,
                uuid="",
                now=self.now,
                after=after,
            )
        except RunrigError:
            for each in (self.state, self.shadow):
                del each.specs[spec_hash]
            return
        self.specs[spec_hash] = spec
        self.do(plan.actions)

    def cycle(self, *, linger: bool = False) -> Plan:
        """*linger*: what is to stop takes its time."""
        observed = self._begin_cycle(linger=linger)
        if not self.checked:
            plan = cycle.run(self.state, observed, self.now)
            self._follow(plan.actions, end=True)
            return plan
        rows = shuffled(self.state.rows(), seed=int(self.now))
        twin = State.load(rows)
        plan = cycle.run(self.state, observed, self.now)
        self.sound = False
        again = cycle.run(twin, _shuffled_observation(observed, seed=int(self.now)), self.now)
        differing = [pair for pair in zip(plan.actions, again.actions, strict=False) if pair[0] != pair[1]][:1]
        assert repr(plan) == repr(again), f"a state loaded from rows plans otherwise: {differing}"
        if int(self.now) % 3 == 0:
            self._check_cut(rows, observed, plan, twin)
        self._follow(plan.actions, end=True)
        self.edited = False
        return plan

    def _check_cut(self, rows: Loaded, observed: Observation, plan: Plan, uncut: State) -> None:
        """Cut at random places, with nothing coming in between, the cycle is what it is uncut: same plan, same rows."""
        chance = random.Random(int(self.now))
        state = State.load(rows)
        running = CycleInParts(state, observed, self.now)
        actions: list[Action] = []
        while not running.ended:
            actions += running.part(chance.randint(1, 6)).actions
            state.take_changes()
        uncut.take_changes()
        assert repr(actions) == repr([*plan.actions]), "a cycle that was cut plans otherwise"
        assert repr(state.rows()) == repr(uncut.rows())

    def cycle_in_parts(self, budget: int, arrivals: Iterable[Callable[[], None]], *, restart: bool) -> None:
        """One of *arrivals* comes after each part.  *restart*: behind the last of them the server starts again, from its rows."""
        running, coming = CycleInParts(self.state, self._begin_cycle(linger=False), self.now), list(arrivals)
        while not running.ended:
            actions = running.part(budget).actions
            self._follow(actions, end=running.ended)
            if coming:
                coming.pop(0)()
                self._shake()
                running.begin_again(self.state, self.now)
            elif restart:
                self.state = State.load(self.state.rows())
                return
        self.edited = False

    def _begin_cycle(self, *, linger: bool) -> Observation:
        self.now += 1
        self._shake()
        return self._observe(linger=linger)

    def _shake(self) -> None:
        if self.edited:
            self.shaken |= set(self.state.ledger.nominated)

    def _observe(self, *, linger: bool) -> Observation:
        facts: dict[TaskKey, TaskFact] = {}
        for key in self.state.active:
            task = self.state.tasks[key]
            stopping = self.state.groups[key.workflow, task.group].stopping is not None or task.restarting
            if key in self.facts:
                facts[key] = self.facts[key]
            elif task.node is not None and task.node not in self.nodes:
                facts[key] = TaskFact(Phase.ENDED, 3001, "the node is gone")
            elif stopping and not linger:
                facts[key] = TaskFact(Phase.ENDED, 143)
            else:
                facts[key] = TaskFact(Phase.RUNNING)
        return Observation(facts, tuple(self.nodes.values()), held=HeldBefore(0.0, {}))

    def end_task(self, key: TaskKey, code: int) -> None:
        self.facts[key] = TaskFact(Phase.ENDED, code)

    def _follow(self, actions: Iterable[Action], *, end: bool | None = None) -> None:
        """The shadow does the same, action by action, and a store would write the same rows.

        *end*: these are the last ones of a cycle; None: they are a command.
        """
        actions = tuple(actions)
        if not self.checked:
            self.log += ((action, self.now) for action in actions)
            self.state.take_changes()
            return
        self.sound = False
        if actions:
            self.commits.append(commit_of(len(self.commits) + 1, self.now, actions, self.specs, end=end))
        for action in actions:
            self._check(action)
            self.shadow.apply(action, self.now)
            self.log.append((action, self.now))
        assert self.state.rows() == self.shadow.rows()
        assert self.state.take_changes() == self.shadow.take_changes()
        self.check_ledger()
        self.sound = True

    # ------------------------------------------------------------ checking

    def check_ledger(self) -> None:
        if not self.checked:
            return
        rows = self.state.rows()
        assert contradiction(rows) is None
        rebuilt = State.load(rows)
        assert rebuilt.rows() == rows
        assert portrait(self.state) == portrait(rebuilt)
        check_nodes(self.state)
        check_agreement(self.state, rebuilt)

    def check_replay(self) -> None:
        again = State()
        again.specs = dict(self.specs)
        for action, at in self.log:
            again.apply(action, at)
        again.take_changes()
        assert replace(again.rows(), specs={}) == replace(self.state.rows(), specs={})

    def _check(self, action: Action) -> None:
        """Checks what `judge_commits` leaves open: Q3 as the balance of each node, R3 with an exact search, what stays in a move."""
        match action:
            case Admit(gang, placement):
                check_balances(self.shadow, self.shadow.ledger.entries[gang].gang, placement)
            case Nominate(gang, placement, targets):
                check_nomination(self.shadow, gang, placement, targets)
                self.shaken.discard(gang)
            case Replace(gang, placement):
                check_replacement(self.shadow, gang, placement)
            case Withdraw(gang):
                assert gang in self.shaken, f"{gang} lost its nomination though nothing was edited"


def shuffled(rows: Loaded, *, seed: int) -> Loaded:
    """The same rows in another order (flavors keep theirs: it means something)."""
    mix = random.Random(seed)
    names = ("nodes", "cohorts", "pools", "workflows", "groups", "tasks", "gangs", "spent")
    mixed: dict[str, Any] = {name: tuple(mix.sample(getattr(rows, name), len(getattr(rows, name)))) for name in names}
    dicts: dict[str, Any] = {
        name: dict(mix.sample(list(getattr(rows, name).items()), len(getattr(rows, name))))
        for name in ("specs", "numbers")
    }
    return replace(rows, **mixed, **dicts)


def _shuffled_observation(observed: Observation, *, seed: int) -> Observation:
    """The same in another order, and in other words: of those that run, some are only said to run."""
    mix = random.Random(seed)
    assert observed.nodes is not None
    tasks = dict(mix.sample(list(observed.tasks.items()), len(observed.tasks)))
    running = {key for key, fact in tasks.items() if fact == TaskFact(Phase.RUNNING) and mix.random() < 0.5}
    nodes = tuple(mix.sample(observed.nodes, len(observed.nodes)))
    told = {key: fact for key, fact in tasks.items() if key not in running}
    return replace(observed, tasks=told, nodes=nodes, running=running)


def check_replacement(state: State, gang_id: str, placement: Placement) -> None:
    """Checks an admitted gang.  What moves finds room that is free now, and is not held for others; the rest keeps nodes and GPUs."""
    entry = state.ledger.entries[gang_id]
    assert entry.state is GangState.ADMITTED
    moved = []
    for old, new in zip(entry.placement, placement, strict=True):
        assert (old.pod_set, old.flavor, old.count) == (new.pod_set, new.flavor, new.count)
        pairs = zip(slots_of(old.shares), slots_of(new.shares), strict=True)
        seats = [now for was, now in pairs if was != now]
        assert all(state.nodes[seat.node].open and state.nodes[seat.node].flavor == new.flavor for seat in seats)
        moved.append(replace(new, count=len(seats), shares=shares_of(seats)))
    taken = held_gpus(state)
    fresh = [(share.node, index) for each in moved for share in each.shares for index in share.gpus]
    assert len({*fresh} - taken) == len(fresh), f"{gang_id} gets GPUs that somebody has"
    for oracle in (Oracle.now(state), Oracle.decided(state)):
        check_room(oracle, entry.gang, tuple(moved))


def check_balances(state: State, gang: Gang, placement: Placement) -> None:
    """Law Q3 on the path, in KEP-79's own terms; where an edit has broken it, nothing gets worse."""
    before = Oracle.now(state)
    after = Oracle(state, [*before.holders, (gang, placement)])
    path = before.path(("low" if gang.priority.may_borrow else "firm", gang.pool))
    for key in before.quota_part(gang, placement):
        broken = dict(before.violated(key, path))
        for place, owes in after.violated(key, path):
            assert place in broken, f"{gang.id} is admitted and {place} owes {owes} of {key}"
            assert owes <= broken[place], f"{gang.id} is admitted and {place} owes even more: {owes} of {key}"


def held_gpus(state: State) -> set[tuple[str, int]]:
    held: set[tuple[str, int]] = set()
    for entry in state.ledger.entries.values():
        if holds_now(entry):
            for share in (share for each in entry.placement for share in each.shares):
                for index in share.gpus:
                    assert (share.node, index) not in held
                    held.add((share.node, index))
    return held


def check_room(oracle: Oracle, gang: Gang, placement: Placement) -> None:
    need: dict[str, dict[str, int]] = {}
    for pod_set, each in zip(gang.pod_sets, placement, strict=True):
        for share in each.shares:
            mine = need.setdefault(share.node, {})
            for resource, amount in pod_set.requests:
                mine[resource] = mine.get(resource, 0) + amount * share.count
    for node, amounts in need.items():
        free = oracle.free(node)
        for resource, amount in amounts.items():
            assert amount <= free.get(resource, amount), (
                f"{gang.id} takes {amount} {resource} of {node}, free are {free}"
            )


def check_nomination(state: State, gang_id: str, placement: Placement, targets: tuple[str, ...]) -> None:
    entries = state.ledger.entries
    gang = entries[gang_id].gang
    assert not gang.priority.may_borrow
    spoken_for = {name for entry in entries.values() for name in entry.waits_for}
    mine = [name for name in targets if name not in spoken_for]
    _check_protection(state, gang, placement, mine)
    after = Oracle.decided(state, without=mine)
    assert after.allows(gang, placement)
    check_room(after, gang, placement)
    for name in mine:
        without = Oracle.decided(state, without=[each for each in mine if each != name])
        assert not (without.allows(gang, placement) and without.could_place(gang, placement)), (
            f"{name} need not stop for {gang_id}"
        )


def _held_on_nodes(state: State, entry: Entry) -> set[FlavorResource]:
    """What it holds by the flavors that its nodes have today, which may not be those that it was admitted with."""
    return {
        FlavorResource(state.nodes[share.node].flavor, resource)
        for pod_set, each in zip(entry.gang.pod_sets, entry.placement, strict=True)
        for share in each.shares
        if share.node in state.nodes
        for resource, _ in pod_set.requests
    }


def _check_protection(state: State, gang: Gang, placement: Placement, targets: list[str]) -> None:
    """Law R2: while each is taken, the outermost pool above it holds more than its nominal of something that is asked.

    Of a parent of the preemptor's pool, its own work holds more than what subpools leave over.
    """
    for at, name in enumerate(targets):
        entry = state.ledger.entries[name]
        if entry.state is GangState.STOPPING:
            continue
        oracle = Oracle.decided(state, without=targets[:at])
        keys = oracle.quota_part(gang, placement)
        held = set(asked(entry.gang, entry.placement)) | _held_on_nodes(state, entry)
        assert held & set(asked(gang, placement)), f"{name} holds nothing that {gang.id} asks"
        if entry.gang.pool != gang.pool:
            outermost = oracle.outermost(entry.gang.pool, gang.pool)
            assert oracle.over_nominal(outermost, keys), f"{name} is safe: {outermost} is within its nominal"


def check_nodes(state: State) -> None:
    """What the ledger says is free on a node is what the second opinion says."""
    now, decided = Oracle.now(state), Oracle.decided(state)
    held_gpus(state)
    for name in state.nodes:
        room = state.ledger.nodes.by_name[name]
        assert dict(room.free[1]) == now.free(name)
        assert dict(room.free[0]) == decided.free(name)


def check_guarantees(state: State) -> None:
    """Promise 1, law R1: at rest no firm gang waits for LOW of its own pool, unless its user is at a limit (law W6)."""
    if state.ledger.nominated:
        return
    low: dict[str, list[str]] = {}
    for entry in state.ledger.entries.values():
        if holds_now(entry) and entry.gang.priority.preemptible:
            low.setdefault(entry.gang.pool, []).append(entry.gang.id)
    for entry in state.ledger.entries.values():
        pool = state.pools[entry.gang.pool]
        if entry.state is not GangState.PENDING or not entry.bucket.firm or pool.queueing is Queueing.STRICT_FIFO:
            continue
        if stopped_by_user(state, entry):
            continue
        oracle = Oracle.decided(state, without=low.get(pool.name, []))
        for choice in flavor_choices(state.ledger, entry, least_counts(entry.gang.pod_sets)):
            possible = oracle.allows(entry.gang, choice) and oracle.could_place(entry.gang, choice)
            assert not possible, f"{entry.gang.id} waits, and would start without LOW of its own pool"
