"""Nodes in a line, gangs in a line, and where their pods went: what the tests of the engine's placement share.

world = city("a/r0: 8 8 | a/r1: 8 | b/r0: 4", team=32)     # n0, n1 in rack r0 of zone a, ...
submit(world, "w", pods("t", 2, 8, "rack"))                # two pods of 8 GPUs, required in one rack
world.cycle()                                              # -> ["admit w"]
pods_on(world, "w")                                        # -> {"t": {"n0": 1, "n1": 1}}
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from runrig.domain.gangs import Assignment, GangState, NodeShare, Priority, Requirement
from runrig.domain.nodes import Flavor, Node
from runrig.domain.observed import Observation, Phase, TaskFact
from runrig.domain.plan import Action, Admit, Plan, PutNode, Queue, Submit
from runrig.domain.pools import Cohort, Pool, TopologyKey
from runrig.domain.quantities import GPU, UNLISTED_IS_UNCOUNTED, requests_of
from runrig.domain.reasons import Reason
from runrig.domain.workflows import Group, GroupSpec, TaskSpec, Workflow, WorkflowSpec
from runrig.engine import cycle
from runrig.engine.explain.why import why
from runrig.engine.ledger.fit import with_gpus
from runrig.engine.ledger.queue import Entry
from runrig.engine.lifecycle.gangs import gang_of
from runrig.engine.state.state import State
from tests.worlds.engine import LOW, NORMAL, World, gpu_quota

LEVELS = ("zone", "rack")
TWO_RACKS = "a/r0: 8 8 | a/r1: 8 8"
PLENTY = 1000
DEFAULT = (Flavor("default"),)


# ---------------------------------------------------------------- what there is


def keys(*levels: str) -> tuple[TopologyKey, ...]:
    """Keys that have the name of their label."""
    return tuple(TopologyKey(level, level) for level in levels)


def team(name: str, quota: int, levels: Sequence[str] = LEVELS, **more: Any) -> Pool:
    return replace(Pool(name, gpu_quota(quota), topology_keys=keys(*levels)), **more)


def fleet(drawn: str, levels: Sequence[str] = LEVELS) -> dict[str, Node]:
    """Domains with the GPUs of their nodes, which are called n0, n1, ... from the first to the last."""
    found: dict[str, Node] = {}
    for domain in drawn.split("|"):
        path, _, sizes = domain.partition(":")
        labels = dict(zip(levels, path.strip().split("/"), strict=True))
        for gpus in sizes.split():
            name = f"n{len(found)}"
            found[name] = Node(name, {GPU: int(gpus)}, labels=labels)
    return found


class LoggedWorld(World):
    """A world that keeps every action, so that its log can be read again."""

    def __init__(
        self,
        pools: Mapping[str, int | Pool],
        nodes: Mapping[str, int | Node] | None = None,
        cohorts: tuple[Cohort, ...] = (),
        flavors: tuple[Flavor, ...] = DEFAULT,
    ) -> None:
        self.log: list[tuple[Action, float]] = []
        super().__init__(pools, nodes, cohorts, flavors)

    def do(self, *actions: Action) -> None:
        self.log += [(action, self.now) for action in actions]
        super().do(*actions)

    def plan(self) -> Plan:
        """One cycle, and all of what it decided."""
        self.now += 1
        found = cycle.run(self.state, self.observe(), self.now)
        self.log += [(action, self.now) for action in found.actions]
        return found

    def replayed(self) -> State:
        """The log, applied to nothing."""
        state = State()
        state.specs = dict(self.state.specs)
        for action, at in self.log:
            state.apply(action, at)
        return state


def city(
    drawn: str, levels: Sequence[str] = LEVELS, cohorts: tuple[Cohort, ...] = (), **pools: int | Pool
) -> LoggedWorld:
    """Nodes as `fleet` draws them; a pool with a number has that quota, and all levels as its keys."""
    made = {name: team(name, pool, levels) if isinstance(pool, int) else pool for name, pool in pools.items()}
    return LoggedWorld(made, fleet(drawn, levels), cohorts)


def change(world: World, node: str, **fields: Any) -> None:
    world.do(PutNode(replace(world.state.nodes[node], **fields)))


# ---------------------------------------------------------------- who asks for what


def near(*asked: str) -> tuple[Requirement, ...]:
    """Each KEY or KEY/GROUP, with ? where it is preferred, and *N where it is said of N pods at a time."""
    return tuple(_requirement(each) for each in asked)


def _requirement(text: str) -> Requirement:
    plain, _, size = text.partition("*")
    key, _, group = plain.rstrip("?").partition("/")
    return Requirement(key, group or "default", not plain.endswith("?"), int(size) if size else None)


def pods(name: str, count: int, gpus: int, *asked: str, least: int | None = None, **amounts: int) -> TaskSpec:
    """*count* pods, at least *least*, of *gpus* GPUs and *amounts* each."""
    requests = requests_of({GPU: gpus, **amounts})
    return TaskSpec(name, "i", ("c",), requests=requests, count=count, min_count=least, topology=near(*asked))


def group(name: str, *tasks: TaskSpec) -> WorkflowSpec:
    """A workflow of one group, called g; its first task is the lead."""
    return WorkflowSpec(name, (GroupSpec("g", tuple(replace(each, lead=each is tasks[0]) for each in tasks)),))


def submit(world: World, name: str, *tasks: TaskSpec, pool: str = "team", priority: Priority = NORMAL) -> None:
    """Through the gate."""
    world.submit(name, pool, priority, spec=group(name, *tasks))


def enter(world: World, spec: WorkflowSpec, pool: str, priority: Priority) -> None:
    """Past the gate: what a gang is that was accepted before an edit made it impossible."""
    world.now += 1
    wanted = f"hash of {spec.name}"
    world.state.specs[wanted] = spec
    workflow = Workflow(f"{spec.name}-1", spec.name, spec.name, 1, pool, priority, "u", world.now, wanted)
    groups = tuple(Group(workflow.id, each.name) for each in spec.groups)
    world.do(Submit(workflow, groups), *(Queue(gang_of(workflow, each)) for each in spec.groups))


def stand(world: World, name: str, where: Mapping[str, Mapping[str, int]], flavor: str = "default") -> None:
    """The gang *name*, which waits, starts with its pods where the test says: pod set → node → pods."""
    state = world.state
    gang = state.ledger.entries[f"{name}-1/g"].gang
    placement = tuple(
        Assignment(each.name, flavor, sum(shares.values()), tuple(NodeShare(*share) for share in shares.items()))
        for each in gang.pod_sets
        for shares in (where[each.name],)
    )
    world.do(Admit(gang.id, with_gpus(state.ledger, gang, placement)))


def hold(world: World, name: str, pool: str = "team", priority: Priority = LOW, **gpus: int) -> None:
    """A gang that runs, with a pod of so many GPUs on each of the nodes named."""
    hold_on(world, name, gpus, pool, priority)


def hold_on(world: World, name: str, gpus: Mapping[str, int], pool: str = "team", priority: Priority = LOW) -> None:
    """As `hold`, by *gpus*: node → GPUs."""
    tasks = [pods(f"on-{node}", 1, amount) for node, amount in gpus.items()]
    enter(world, group(name, *tasks), pool, priority)
    stand(world, name, {f"on-{node}": {node: 1} for node in gpus})
    world.now += 1


def full_of_low(drawn: str = TWO_RACKS) -> LoggedWorld:
    """LOW gangs low0, low1, ... that each hold a node, in this order."""
    world = city(drawn, team=PLENTY)
    for name in list(world.state.nodes):
        hold_on(world, name.replace("n", "low"), {name: 8})
    return world


def linger(world: World) -> Observation:
    """Everything that is on nodes goes on running, also what was told to stop."""
    return Observation({key: TaskFact(Phase.RUNNING) for key in world.state.active})


# ---------------------------------------------------------------- where it went


def entry_of(world: World, name: str) -> Entry:
    return world.state.ledger.entries[f"{name}-1/g"]


def pods_on(world: World, name: str) -> dict[str, dict[str, int]]:
    """Pod set → node → pods; empty while it has no place."""
    return {
        each.pod_set: {share.node: share.count for share in each.shares} for each in entry_of(world, name).placement
    }


def one_by_one(world: World, name: str) -> dict[str, list[str]]:
    """Pod set → the node of each pod, pod 0 first."""
    return {
        each.pod_set: [share.node for share in each.shares for _ in range(share.count)]
        for each in entry_of(world, name).placement
    }


def per_domain(world: World, name: str, level: str) -> dict[str, str]:
    """Domain (its labels from the coarsest key down, joined by /) → the pod sets of the pods there, one word for each pod."""
    words: dict[str, list[str]] = {}
    for pod_set, nodes in one_by_one(world, name).items():
        for node in nodes:
            words.setdefault(domain_of(world, name, node, level), []).append(pod_set)
    return {domain: " ".join(sorted(each)) for domain, each in sorted(words.items())}


def domain_of(world: World, name: str, node: str, level: str) -> str:
    levels = [key.label for key in world.state.pools[entry_of(world, name).gang.pool].topology_keys]
    labels = world.state.nodes[node].labels
    return "/".join(labels[label] for label in levels[: levels.index(level) + 1])


def reasons(world: World, name: str) -> tuple[Reason, ...]:
    return why(world.state, f"{name}-1")[0].reasons


def held(world: World) -> dict[str, Counter[str]]:
    """Node → what admitted and stopping gangs hold of each resource there, counted pod by pod."""
    found: dict[str, Counter[str]] = {name: Counter() for name in world.state.nodes}
    for entry in world.state.ledger.entries.values():
        if entry.state in (GangState.ADMITTED, GangState.STOPPING):
            for each, pod_set in zip(entry.placement, entry.gang.pod_sets, strict=True):
                for share in each.shares:
                    for resource, amount in pod_set.requests if share.node in found else ():
                        found[share.node][resource] += amount * share.count
    return found


def overfull(world: World, *, names: Iterable[str] | None = None) -> dict[str, dict[str, int]]:
    """Nodes on which more is held than there is, with how much more."""
    found: dict[str, dict[str, int]] = {}
    for name, amounts in held(world).items():
        if names is None or name in names:
            listed = world.state.nodes[name].resources
            over = {
                resource: amount - listed.get(resource, 0)
                for resource, amount in amounts.items()
                if amount > listed.get(resource, amount if resource in UNLISTED_IS_UNCOUNTED else 0)
            }
            found |= {name: over} if over else {}
    return found
