"""Writes the recorded plans: ``python -m tests.properties.record_plans``, from the repository's root.

Record anew only when the plans are meant to change, and say in the CHANGELOG how: until then a difference is a fault.
``python -m tests.properties.record_plans sentences`` keeps every input and plan, which must be equal still but for the messages
of its actions, and writes anew what is said.

Chance is `random()` of a seeded generator, so that the same engine gives the same bytes.
"""

import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from runrig.domain.errors import RunrigError
from runrig.domain.gangs import GangState, Requirement
from runrig.domain.nodes import Flavor, Node
from runrig.domain.observed import Phase, TaskFact
from runrig.domain.plan import Action, Plan, PutCohort, PutNode, PutPool, SetFlavors
from runrig.domain.pools import Cohort, Pool, PoolState, Queueing, Quota, TopologyKey
from runrig.domain.quantities import CPU, GPU, FlavorResource, requests_of
from runrig.domain.workflows import ExitAction, ExitRule, GroupSpec, TaskKey, TaskSpec, WorkflowSpec
from runrig.engine.lifecycle import pools, workflows
from runrig.store.codec import encode
from tests.properties.recorded import DATA, Plain, Player, encoded, read, told, write

T = TypeVar("T")

SAID = "no node was good enough"
LOST_STARTS_AGAIN = (ExitRule(ExitAction.RESCHEDULE, 3001, 3001),)
RULES = (
    (),
    (),
    (ExitRule(ExitAction.RESCHEDULE, 1, 1),),
    LOST_STARTS_AGAIN,
    LOST_STARTS_AGAIN,
    (ExitRule(ExitAction.COMPLETE, 1, 2),),
    (ExitRule(ExitAction.FAIL, 3006, 3006),),
    (ExitRule(ExitAction.COMPLETE, 3006, 3006),),
)


class Chance:
    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed).random

    def number(self, least: int, most: int) -> int:
        return least + int(self._random() * (most - least + 1))

    def one(self, several: Sequence[T]) -> T:
        return several[self.number(0, len(several) - 1)]

    def some(self, several: Sequence[T], count: int) -> list[T]:
        left = list(several)
        return [left.pop(self.number(0, len(left) - 1)) for _ in range(min(count, len(left)))]

    def often(self, percent: int) -> bool:
        return self._random() * 100 < percent


@dataclass(frozen=True)
class Kind:
    """A family of histories.  *sizes*: GPUs of a node.  *levels*: topology keys of its pools, coarse to fine.

    *doubts*: per cent of the cycles in which a scheduler of the cluster's own refuses gangs.  *groups*: the most of a workflow.
    """

    name: str
    count: int
    steps: int
    pools: tuple[int, int]
    nodes: tuple[int, int]
    sizes: tuple[int, ...]
    flavors: tuple[str, ...] = ("a", "b")
    levels: tuple[str, ...] = ()
    doubts: int = 0
    groups: int = 2
    options: tuple[tuple[str, bool], ...] = ()

    @property
    def placing(self) -> bool:
        return dict(self.options).get("place", True)


ONE = ("default",)
KINDS = (
    Kind("trees", 80, 60, (2, 5), (2, 6), (1, 2, 2, 3, 4)),
    Kind("racks", 75, 60, (1, 3), (4, 12), (2, 2, 4), ONE, ("zone", "rack")),
    Kind("hosts", 30, 50, (1, 3), (4, 10), (2, 4), ONE, ("zone", "rack", "host")),
    Kind("doubts", 40, 60, (2, 3), (2, 5), (1, 2, 3, 4), doubts=25),
    Kind("doubted-racks", 25, 60, (1, 3), (4, 8), (2, 4), ONE, ("zone", "rack"), doubts=20),
    Kind("quotas", 25, 60, (2, 5), (0, 0), (), options=(("fixed_nodes", False), ("place", False))),
    Kind("moving", 25, 60, (2, 4), (2, 6), (2, 4), options=(("fixed_nodes", False),)),
    Kind("fleets", 15, 80, (4, 7), (20, 40), (8,), ("a", "b"), ("zone", "rack")),
    Kind("graphs", 20, 70, (1, 2), (3, 5), (4, 8), ONE, doubts=10, groups=6),
)


class Recorder:
    """One random history.  *nodes* and *ended*: what the backend will show; *away*: nodes that are gone for now."""

    def __init__(self, kind: Kind, number: int) -> None:
        self.kind, self.name = kind, f"{kind.name}-{number}"
        self.mix = Chance(self.name)
        self.player = Player(dict(kind.options))
        self.steps: list[Plain] = []
        self.now = 0.0
        self.nodes: dict[str, Node] = {}
        self.away: list[Node] = []
        self.ended: dict[TaskKey, TaskFact] = {}
        self.submitted = 0

    def record(self) -> Plain:
        self._begin()
        moves = self._moves()
        while len(self.steps) < self.kind.steps:
            self.now += 1
            self.mix.one(moves)()
        self._cycle()
        self._why()
        return {"name": self.name, "options": dict(self.kind.options), "steps": self.steps}

    def _moves(self) -> list[Callable[[], None]]:
        weights: list[tuple[int, Callable[[], None]]] = [
            (14, self._submit),
            (8, self._cycle),
            (10, self._borrow_and_take_back),
            (8, self._end_tasks),
            (5, self._end_workflow),
            (4, self._cancel),
            (4, self._edit_pool),
            (6, self._edit_subpool),
            (2, self._delete_pool),
            (3, self._edit_cohort),
            (2, self._time_passes),
            (1, self._flavors_in_another_order),
            (1, self._reload),
            (4, self._why),
        ]
        if self.kind.placing:
            weights += [(6, self._change_node), (5, self._lose_node), (3, self._come_back)]
        if self.kind.doubts:
            weights += [(4, self._throw_out), (10, self._time_passes)]
        return [move for weight, move in weights for _ in range(weight)]

    # ------------------------------------------------------------ the cluster

    def _begin(self) -> None:
        mix, kind = self.mix, self.kind
        flavors = tuple(Flavor(name, {"kind": name} if name != "default" else {}) for name in kind.flavors)
        self.do(SetFlavors(flavors))
        for index in range(mix.number(*kind.nodes)):
            self.nodes[f"n{index:02}"] = self._node(f"n{index:02}")
        self.do(*(PutNode(node) for node in self.nodes.values()))
        depth = mix.number(0, 3)
        cohorts = [f"c{index}" for index in range(depth)]
        for index, name in enumerate(cohorts):
            parent = mix.one([None, *cohorts[:index]])
            self.do(PutCohort(Cohort(name, parent, self._quotas() if mix.often(30) else {})))
        for index in range(mix.number(*kind.pools)):
            self.do(PutPool(self._pool(f"p{index}", mix.one([None, *cohorts, *cohorts]))))

    def _node(self, name: str) -> Node:
        mix, kind = self.mix, self.kind
        flavor = mix.one((*kind.flavors, kind.flavors[0]))
        gpus = mix.one(kind.sizes)
        resources = {GPU: gpus} | ({CPU: mix.number(0, 4) * 1000} if mix.often(20) and not kind.levels else {})
        zone = mix.one(("z0", "z1"))
        labels = {"kind": flavor} | {"zone": zone, "rack": f"{zone}-r{mix.number(0, 2)}", "host": name}
        if kind.levels and mix.often(3):
            del labels["rack"]
        return Node(name, resources, flavor, {key: labels[key] for key in ("kind", *kind.levels) if key in labels})

    def _quota(self) -> Quota:
        mix = self.mix
        most = max(4, sum(node.resources[GPU] for node in self.nodes.values()) * 2 // 3)
        limits = (None, None, None, 0, most // 4, most // 2, most)
        nominal = mix.number(1, most) if mix.often(85) else 0
        return Quota(nominal, mix.one(limits), mix.one(limits))

    def _quotas(self) -> dict[FlavorResource, Quota]:
        mix = self.mix
        found = {FlavorResource(name, GPU): self._quota() for name in self.kind.flavors if mix.often(90)}
        if not self.kind.levels and mix.often(20):
            found |= {FlavorResource(name, CPU): Quota(mix.number(0, 6) * 1000) for name in self.kind.flavors}
        return found or {FlavorResource(self.kind.flavors[0], GPU): self._quota()}

    def _pool(self, name: str, cohort: str | None) -> Pool:
        mix, kind = self.mix, self.kind
        keys = tuple(TopologyKey(level, level) for level in kind.levels)
        rules = mix.one(((), (), (), (("RESCHEDULE", 3001, 3001),), (("COMPLETE", 2, 2),)))
        return Pool(
            name,
            self._quotas(),
            cohort=cohort,
            queueing=Queueing.STRICT_FIFO if mix.often(25) else Queueing.BEST_EFFORT_FIFO,
            flavors=mix.one(((), (), (), kind.flavors[::-1], kind.flavors[:1])),
            topology_keys=keys[1:] if mix.often(12) else keys,
            default_exit_actions=rules,
        )

    # ------------------------------------------------------------ steps

    def step(self, step: Plain) -> None:
        self.steps.append(self.player.play(step))

    def do(self, *actions: Action) -> None:
        self.step({"do": encoded(actions), "at": self.now})

    def attempt(self, plan_of: Callable[..., Plan], *args: object, **options: object) -> None:
        """A command that may be refused, and then leaves no trace."""
        try:
            plan = plan_of(self.player.state, *args, **options)
        except RunrigError:
            return
        self.do(*plan.actions)

    def _cycle(self, refused: dict[str, str] | None = None) -> None:
        self.now += 1
        linger = self.mix.often(25)
        facts = self._facts(linger=linger)
        nodes = dict(self.nodes) if self.kind.placing else None
        if refused is None:
            refused = self._doubts() if self.mix.often(self.kind.doubts) else {}
        self.step({"cycle": [], "at": self.now, "refused": refused} | told(self.player, facts, nodes))

    def _facts(self, *, linger: bool) -> dict[TaskKey, TaskFact]:
        state = self.player.state
        facts: dict[TaskKey, TaskFact] = {}
        for key in sorted(state.active):
            task = state.tasks[key]
            stopping = state.groups[key.workflow, task.group].stopping is not None or task.restarting
            if key in self.ended:
                facts[key] = self.ended[key]
            elif task.node is not None and task.node not in self.nodes:
                facts[key] = TaskFact(Phase.ENDED, 3001, "the node is gone")
            elif stopping and not linger:
                facts[key] = TaskFact(Phase.ENDED, 143)
            elif key not in self.player.facts and self.mix.often(20):
                facts[key] = TaskFact(Phase.STARTING)
            else:
                facts[key] = TaskFact(Phase.RUNNING)
        return facts

    def _doubts(self) -> dict[str, str]:
        entries = self.player.state.ledger.entries
        admitted = sorted(name for name, each in entries.items() if each.state is GangState.ADMITTED)
        names = self.mix.some(admitted, self.mix.number(1, 2)) + self.mix.some(sorted(entries), 1) + ["gone-1/g"]
        return dict.fromkeys(sorted(names), SAID)

    def _why(self) -> None:
        self.step({"why": {}})

    def _reload(self) -> None:
        self.step({"reload": True})

    def _time_passes(self) -> None:
        self.now += self.mix.one((30, 290, 299, 300, 600, 3600))
        self._cycle()

    # ------------------------------------------------------------ work

    def _submit(self) -> None:
        for _ in range(self.mix.number(1, 3)):
            self._submit_one(self._groups(), self.mix.one(("HIGH", "NORMAL", "NORMAL", "LOW", "LOW", "LOW")))
        if self.mix.often(60):
            self._cycle()

    def _submit_one(self, groups: tuple[GroupSpec, ...], priority: str, pool: str | None = None) -> None:
        mix, there = self.mix, sorted(self.player.state.pools)
        self.submitted += 1
        self.now += 1
        # Half of the names occur again: their number grows.
        name = f"w{self.submitted}" if mix.often(50) else "again"
        limits = (None, None, None, None, None, 8.0, 60.0, 4000.0)
        spec = WorkflowSpec(name, groups, exec_timeout_s=mix.one(limits), queue_timeout_s=mix.one(limits))
        asked = {"pool": pool or mix.one(there), "priority": priority, "at": self.now}
        step = self.player.play({"submit": f"h{self.submitted}", "spec": encode(WorkflowSpec, spec)} | asked)
        # Refused submissions leave no trace, so a few are enough.
        if "plan" in step or mix.often(30):
            self.steps.append(step)

    def _borrow_and_take_back(self) -> None:
        """LOW fills what is there, then firm work of each pool asks for its own."""
        mix, there = self.mix, sorted(self.player.state.pools)
        size = max(self.kind.sizes, default=2)
        borrowers = mix.some(there, mix.number(1, 3))
        for _ in range(mix.number(2, 6)):
            gpus = mix.one((1, 1, max(1, size // 2), size))
            self._submit_one(self._plain(gpus, mix.one((None, None, 2, 3))), "LOW", mix.one(borrowers))
        self._cycle()
        for name in mix.some(there, mix.number(1, 3)):
            groups = self._near() if self.kind.levels and mix.often(60) else self._plain(mix.number(1, size))
            self._submit_one(groups, mix.one(("HIGH", "NORMAL")), name)
        self._cycle()
        if mix.often(30):
            self._why()

    def _plain(self, gpus: int, count: int | None = None) -> tuple[GroupSpec, ...]:
        return (GroupSpec("g0", (self._task("t", gpus, lead=True, count=count),)),)

    def _task(self, name: str, gpus: int, *, lead: bool = False, **more: Any) -> TaskSpec:
        return TaskSpec(name, "i", ("c",), lead=lead, requests=requests_of({GPU: gpus}), **more)

    def _near(self) -> tuple[GroupSpec, ...]:
        """A gang with topology requirements: together, apart, in slices, nested, required or only preferred."""
        mix, levels = self.mix, self.kind.levels
        coarse, fine = levels[0], mix.one(levels[1:])
        size = max(self.kind.sizes) // mix.one((1, 2, 2))
        need = Requirement
        count = mix.number(2, 6)
        shape = mix.number(0, 6)
        if shape == 0:
            found = [self._task("t", size, count=count, topology=(need(fine),))]
        elif shape == 1:
            found = [self._task("t", size, count=count, topology=(need(coarse), need(fine, required=False)))]
        elif shape == 2:
            found = [self._task("t", size, count=count, topology=(need(coarse), need(fine, slice_size=2)))]
        elif shape == 3:
            both = [(need(coarse, "z"), need(fine, name)) for name in ("x", "y")]
            found = [self._task(name, size, count=2, topology=each) for name, each in zip("tu", both, strict=True)]
        elif shape == 4:
            found = [
                self._task("t", size, topology=(need(coarse),)),
                self._task("u", 1, count=3, topology=(need(coarse), need(fine, "y"))),
            ]
        elif shape == 5:
            least = mix.number(1, count)
            found = [self._task("t", 1, count=count, min_count=least, topology=(need(fine, required=mix.often(50)),))]
        else:
            slices = (need(coarse, slice_size=4), need(fine, slice_size=2, required=mix.often(50)))
            found = [self._task("t", 1, count=mix.number(4, 7), topology=slices)]
        rules = LOST_STARTS_AGAIN if mix.often(40) else mix.one(RULES)
        mates = tuple(replace(each, lead=each is found[0], exit_rules=rules) for each in found)
        return (GroupSpec("g0", mates, ignore_nonlead_status=mix.often(60)),)

    def _groups(self) -> tuple[GroupSpec, ...]:
        mix = self.mix
        if self.kind.levels and mix.often(55):
            return self._near()
        groups: list[GroupSpec] = []
        for index in range(mix.one((1, 1, 1, 2) if self.kind.groups == 2 else range(1, self.kind.groups + 1))):
            mates = [self._any_task(f"t{index}{each}", lead=not each) for each in range(mix.one((1, 1, 2, 3)))]
            upstream = tuple(group.name for group in groups if mix.often(60))
            groups.append(GroupSpec(f"g{index}", tuple(mates), upstream, ignore_nonlead_status=mix.often(50)))
        return tuple(groups[::-1]) if self.kind.groups > 2 and mix.often(30) else tuple(groups)

    def _any_task(self, name: str, *, lead: bool) -> TaskSpec:
        mix = self.mix
        count = mix.one((None, None, 1, 2, 3, 4))
        least = mix.number(1, count) if count and mix.often(50) else None
        gpus = mix.one((0, 1, 1, 1, 1, 2, 2, max(self.kind.sizes, default=3)))
        platform = mix.one((None, None, None, None, None, *self.kind.flavors))
        # A pool without quota for it accepts none.
        cpu = mix.one((0, 1000, 2000)) if mix.often(10) else 0
        found = self._task(
            name, gpus, lead=lead, count=count, min_count=least, platform=platform, exit_rules=mix.one(RULES)
        )
        return replace(found, requests=requests_of({GPU: gpus, CPU: cpu}))

    def _end_tasks(self) -> None:
        for key in self.mix.some(sorted(self.player.state.active), self.mix.number(1, 3)):
            self.ended[key] = TaskFact(Phase.ENDED, self.mix.one((0, 0, 0, 1, 2, 301, 3001, 3003, 3004, 3005)))
        self._cycle()

    def _end_workflow(self) -> None:
        active = sorted(self.player.state.active)
        for name in self.mix.some(sorted({key.workflow for key in active}), self.mix.number(1, 3)):
            self.ended |= {key: TaskFact(Phase.ENDED, 0) for key in active if key.workflow == name}
        self._cycle()

    def _throw_out(self) -> None:
        for key in self.mix.some(sorted(self.player.state.active), 1):
            self.ended[key] = TaskFact(Phase.ENDED, 3006, SAID)
        self._cycle()

    def _cancel(self) -> None:
        for name in self.mix.some(sorted(self.player.state.workflows), 1):
            self.attempt(workflows.cancel, name, user="u")

    # ------------------------------------------------------------ edits

    def _edit_pool(self) -> None:
        mix, state = self.mix, self.player.state
        name = f"p{mix.number(0, self.kind.pools[1] - 1)}"
        before = state.pools.get(name)
        create = before is None or before.state is PoolState.ARCHIVED
        self.attempt(pools.put_pool, self._pool(name, mix.one((None, "c0", "c1", "c2"))), create=create)

    def _edit_subpool(self) -> None:
        mix, state = self.mix, self.player.state
        parents = sorted(name for name, pool in state.pools.items() if pool.parent is None)
        parent, short = mix.one(parents), mix.one(("x", "y"))
        name = f"{parent}--{short}"
        before = state.pools.get(name)
        create = before is None or before.state is PoolState.ARCHIVED
        whole = [key for key in state.pools[parent].quotas if key.resource == GPU]
        share = {key: Quota(mix.number(0, state.pools[parent].quotas[key].nominal)) for key in whole}
        self.attempt(pools.put_pool, Pool(name, share, parent=parent, subpool_name=short), create=create)
        if mix.often(50):
            self._submit_one(self._groups(), mix.one(("NORMAL", "LOW")), name if name in state.pools else parent)

    def _delete_pool(self) -> None:
        names = sorted(self.player.state.pools)
        slices = [name for name in names if "--" in name]
        self.attempt(pools.delete_pool, self.mix.one(slices if slices and self.mix.often(75) else names))
        if self.mix.often(50):
            self._cycle()

    def _edit_cohort(self) -> None:
        mix, state = self.mix, self.player.state
        name, parent = mix.one(("c0", "c1", "c2")), mix.one((None, None, "c0", "c1", "c2", "c3"))
        if mix.often(20):
            self.attempt(pools.delete_cohort, name, leave_children=mix.often(60))
        else:
            cohort = Cohort(name, parent, self._quotas() if mix.often(60) else {})
            self.attempt(pools.put_cohort, cohort, create=name not in state.cohorts)

    def _flavors_in_another_order(self) -> None:
        self.do(SetFlavors(tuple(self.player.state.flavors.values())[::-1]))

    def _change_node(self) -> None:
        """Cordoned, smaller than what it holds, of another flavor, or in another rack."""
        for name in self.mix.some(sorted(self.nodes), 1):
            self.nodes[name] = replace(self._node(name), ready=self.mix.often(70))
        self._cycle()

    def _lose_node(self) -> None:
        """Nodes in use, rather than others."""
        state = self.player.state
        used = sorted({str(state.tasks[key].node) for key in state.active} & self.nodes.keys())
        for name in self.mix.some(used or sorted(self.nodes), self.mix.one((1, 1, 2))):
            if len(self.nodes) > 1:
                self.away.append(self.nodes.pop(name))
        self._cycle()

    def _come_back(self) -> None:
        while self.away:
            node = self.away.pop()
            self.nodes[node.name] = node
        self._cycle()


def record(kinds: Sequence[Kind] = KINDS) -> list[Plain]:
    return [Recorder(kind, number).record() for kind in kinds for number in range(kind.count)]


def with_new_sentences(history: Plain) -> Plain:
    """Raises ValueError where anything but a sentence, a message or a setting that no step gives is another."""
    player = Player(history["options"])
    played = [player.play(step) for step in history["steps"]]
    if any(_silent(now) != _silent(was) for was, now in zip(history["steps"], played, strict=True) if "why" not in was):
        raise ValueError(f"{history['name']} has other plans now")
    return history | {"steps": played}


def _silent(step: Plain) -> Plain:
    """*step* without the messages of its actions."""
    actions = {name: step[name] for name in ("cycle", "plan") if name in step}
    return step | {
        name: [[kind, _given({**fields, "message": ""})] for kind, fields in each] for name, each in actions.items()
    }


def _given(value: Any) -> Any:
    """*value* without fields that are None or empty, so that a new setting that no history gives is no difference."""
    if isinstance(value, dict):
        return {name: _given(each) for name, each in value.items() if each not in (None, "", [], ())}
    return [_given(each) for each in value] if isinstance(value, list | tuple) else value


def counted(histories: Sequence[Plain]) -> Counter[str]:
    """How often each thing occurs, for whoever wants to know what is covered."""
    found: Counter[str] = Counter()
    near: set[tuple[str, str]] = set()
    for name, step in ((history["name"], step) for history in histories for step in history["steps"]):
        if "plan" in step and '"required":' in str(step["spec"]).replace("'", '"'):
            near.add((name, step["plan"][0][1]["workflow"]["id"]))
        for kind, fields in step.get("cycle", ()):
            if kind in ("Preempt", "Nominate", "Admit", "Replace"):
                by = fields["by" if kind == "Preempt" else "gang"]
                found[f"topology: {kind}"] += (name, by.partition("/")[0]) in near
        found[next(key for key in ("cycle", "do", "submit", "why", "reload") if key in step)] += 1
        found.update(f"cycle: {kind}" for kind, _ in step.get("cycle", ()))
        found.update(f"preempt: {fields['law']}" for kind, fields in step.get("cycle", ()) if kind == "Preempt")
        found.update(f"gate: {step['refused']}" for _ in range("submit" in step and "refused" in step))
        lines = [line for lines in step.get("why", {}).values() for line in lines]
        found.update(f"why: {line.split(': ', 1)[1].split()[0]}" for line in lines)
    return found


if __name__ == "__main__":
    made = [with_new_sentences(each) for each in read()] if sys.argv[1:] == ["sentences"] else record()
    write(made)
    print(f"{len(made)} histories, {DATA.stat().st_size:,} bytes")
    print("\n".join(f"{count:>8} {what}" for what, count in sorted(counted(made).items())))
