"""Whatever is lost, no required group is torn and no GPU is held twice; and other nodes are found whenever there are some."""

import random
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import product

import pytest

from runrig.domain.errors import Refused
from runrig.domain.gangs import GangState, Placement
from runrig.domain.nodes import Node
from runrig.domain.observed import Phase, TaskFact
from runrig.domain.plan import Action, DropNode, Replace
from runrig.domain.quantities import GPU
from runrig.domain.workflows import Task, TaskSpec
from runrig.engine.state.replacement import find_replacement
from tests.properties.losses import come_back, each_pod, submit, turn
from tests.worlds.engine import HIGH, LOW, NORMAL
from tests.worlds.placement import PLENTY, LoggedWorld, change, city, held, hold_on, overfull, pods

LEVELS = ("zone", "rack")


Pod = tuple[str, int]


def torn(tasks: tuple[TaskSpec, ...], where: Mapping[Pod, Mapping[str, str]]) -> list[object]:
    """Required groups whose pods are in more than one domain, read off the tasks as written.  *where*: labels of each pod's node."""
    places: dict[object, set[tuple[str, ...]]] = {}
    for spec in tasks:
        for index in range(spec.pods):
            path: tuple[object, ...] = ()
            for at, level in enumerate(LEVELS if (spec.name, index) in where else ()):
                asked = next((each for each in spec.topology if each.key == level), None)
                size = asked and asked.slice_size
                path = (*path, asked and asked.group, (spec.name, index // size) if size else None)
                if asked is not None and asked.required:
                    labels = where[spec.name, index]
                    places.setdefault((level, path), set()).add(tuple(labels[each] for each in LEVELS[: at + 1]))
    return [path for path, found in places.items() if len(found) > 1]


SHAPES = (
    lambda mix: [pods("t", mix.randint(2, 5), 1, "rack")],
    lambda mix: [pods("t", mix.randint(2, 6), 1, "zone", "rack?")],
    lambda mix: [pods("t", mix.randint(3, 6), 1, "zone", "rack*2")],
    lambda mix: [pods("t", 2, mix.randint(1, 2), "zone/z", "rack/x"), pods("u", 2, 1, "zone/z", "rack/y")],
    lambda mix: [pods("t", 1, 2, "zone"), pods("u", 3, 1, "zone", "rack/y")],
    lambda mix: [pods("t", mix.randint(1, 4), mix.randint(1, 3))],
)


@pytest.mark.parametrize("seed", range(25))
def test_lost_nodes_tear_no_required_group_and_never_double_book_a_gpu(seed: int) -> None:
    """T1, W2."""
    mix = random.Random(seed)
    drawn = " | ".join(
        f"{zone}/r{rack}: {' '.join(str(mix.choice((2, 4))) for _ in range(mix.randint(1, 3)))}"
        for zone in "ab"
        for rack in range(mix.randint(1, 3))
    )
    world = city(drawn, team=PLENTY)
    away: list[Node] = []
    for step in range(20):
        if mix.random() < 0.5:
            submit_any(world, f"w{step}", mix)
        elif away and mix.random() < 0.4:
            come_back(world, away.pop())
        elif world.state.active and mix.random() < 0.3:
            lose_one_on_a_cordoned_node(world, mix)
        elif world.state.nodes:
            gone = mix.sample(sorted(world.state.nodes), min(len(world.state.nodes), mix.randint(1, 2)))
            away += [world.state.nodes[name] for name in gone]
            before = {name: entry.placement for name, entry in world.state.ledger.entries.items()}
            check_moves(turn(world, *gone), before, set(gone))
        turn(world)
        check(world)
    state = world.replayed()
    state.take_changes()
    world.state.take_changes()
    assert replace(state.rows(), specs={}) == replace(world.state.rows(), specs={})


def lose_one_on_a_cordoned_node(world: LoggedWorld, mix: random.Random) -> None:
    key = mix.choice(sorted(world.state.active))
    node = world.state.tasks[key].node
    assert node is not None
    change(world, node, ready=False)
    turn(world, facts={key: TaskFact(Phase.ENDED, 3001, "lost")})
    change(world, node, ready=True)


def submit_any(world: LoggedWorld, name: str, mix: random.Random) -> None:
    shape = mix.choice(SHAPES)(mix)
    with suppress(Refused):
        submit(world, name, *shape, ignore=mix.random() < 0.5, priority=mix.choice((HIGH, NORMAL, LOW)))


def live_tasks(world: LoggedWorld, workflow: str) -> list[Task]:
    return [task for task in world.state.current_tasks((workflow, "g")) if task.key in world.state.active]


def check(world: LoggedWorld) -> None:
    for group in world.state.groups.values():
        if group.stopping is None:
            live = {(each.spec, each.index): each for each in live_tasks(world, group.workflow)}
            labels = {pod: world.state.nodes[str(each.node)].labels for pod, each in live.items()}
            assert torn(world.state.group_spec((group.workflow, group.name)).tasks, labels) == []
    assert overfull(world) == {}
    state = world.state
    held = [
        (task.node, index)
        for key in state.active
        for task in (state.tasks[key],)
        for index in task.gpus
        if state.groups[task.workflow, task.group].stopping is None
    ]
    assert len(held) == len(set(held))
    for key in state.active:
        assert state.slot(state.tasks[key]) == (state.tasks[key].node, state.tasks[key].gpus)


def check_moves(actions: list[Action], before: Mapping[str, Placement], gone: set[str]) -> None:
    """Pods whose nodes are there keep nodes and GPUs; nobody's count or flavor changes."""
    for action in actions:
        if isinstance(action, Replace):
            for old, new in zip(before[action.gang], action.placement, strict=True):
                assert (old.pod_set, old.flavor, old.count) == (new.pod_set, new.flavor, new.count)
                for was, now in zip(each_pod(old), each_pod(new), strict=True):
                    assert was == now or was[0] in gone
                    assert now[0] not in gone or was == now


@pytest.mark.parametrize("seed", range(40))
def test_replacement_nodes_are_found_exactly_if_there_are_some(seed: int) -> None:
    """T1: against all ways to put the lost pods on nodes."""
    mix = random.Random(1000 + seed)
    answers: set[bool] = set()
    while len(answers) < 2:
        found = one_loss(mix)
        if found is not None:
            answers.add(found)


def one_loss(mix: random.Random) -> bool | None:
    """Whether there was a place; None if nobody lost anything."""
    drawn = " | ".join(
        f"{zone}/r{rack}: {' '.join(str(mix.choice((1, 2, 3))) for _ in range(mix.randint(1, 2)))}"
        for zone in "ab"
        for rack in range(mix.randint(1, 2))
    )
    world = city(drawn, team=PLENTY)
    for name, gpus in [(name, mix.randint(0, 1)) for name in world.state.nodes]:
        if gpus and mix.random() < 0.4:
            hold_on(world, f"low{name}", {name: gpus})
    with suppress(Refused):
        submit(world, "w", *mix.choice(SHAPES)(mix))
    turn(world)
    entry = world.state.ledger.entries.get("w-1/g")
    if entry is None or entry.state is not GangState.ADMITTED:
        return None
    stands = {(each.pod_set, at): pod[0] for each in entry.placement for at, pod in enumerate(each_pod(each))}
    gone = mix.sample(sorted(set(stands.values())), mix.randint(1, min(2, len(set(stands.values())))))
    lost = [pod for pod, node in stands.items() if node in gone]
    if len(lost) > 4:
        return None
    world.do(*map(DropNode, gone))
    found = find_replacement(world.state.ledger, entry, lost, stands.keys() - set(lost))
    tasks = world.state.group_spec(("w-1", "g")).tasks
    ways = [
        nodes for nodes in product(world.state.nodes, repeat=len(lost)) if allowed(world, tasks, stands, lost, nodes)
    ]
    assert (found is not None) == bool(ways)
    if found is not None:
        after = {(each.pod_set, at): pod[0] for each in found for at, pod in enumerate(each_pod(each))}
        assert {pod: node for pod, node in after.items() if pod not in lost} == {
            pod: node for pod, node in stands.items() if pod not in lost
        }
        assert tuple(after[pod] for pod in lost) in ways
    return found is not None


def allowed(
    world: LoggedWorld, tasks: tuple[TaskSpec, ...], stands: Mapping[Pod, str], lost: list[Pod], nodes: tuple[str, ...]
) -> bool:
    """The *lost* pods have room on *nodes*, beside all that stays, and no required group is torn."""
    asks = {each.name: dict(each.requests).get(GPU, 0) for each in tasks}
    more: Counter[str] = Counter()
    for (spec, _), node in zip(lost, nodes, strict=True):
        more[node] += asks[spec]
    taken = held(world)
    if any(taken[node][GPU] + gpus > world.state.nodes[node].resources[GPU] for node, gpus in more.items()):
        return False
    where = {**stands, **dict(zip(lost, nodes, strict=True))}
    return not torn(tasks, {pod: world.state.nodes[node].labels for pod, node in where.items()})
