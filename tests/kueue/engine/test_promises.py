"""Rule R5 for imported queues: a preemptor whose targets have stopped is served first and keeps what was freed for it."""

from runrig.domain.pools import Queueing, Quota
from runrig.domain.quantities import FlavorResource
from runrig.kueue.decisions import CycleReport
from runrig.kueue.declared import (
    ClusterQueue,
    Granted,
    NodeChoice,
    Policies,
    Policy,
    ResourceFlavor,
    ResourceGroup,
    System,
    Workload,
    WorkloadPodSet,
)
from runrig.kueue.engine.simulator import Simulator

RECLAIM = Policies(reclaim=Policy.ANY)


def queue(name: str, *, policies: Policies = RECLAIM, strict: bool = False, **nominal: int) -> ClusterQueue:
    quotas = {FlavorResource(flavor, "cpu"): Quota(amount) for flavor, amount in nominal.items()}
    queueing = Queueing.STRICT_FIFO if strict else Queueing.BEST_EFFORT_FIFO
    return ClusterQueue(name, (ResourceGroup(("cpu",), tuple(nominal)),), quotas, "lab", queueing, policies)


def waits(name: str, cpu: int, at: float, *, queue: str = "", priority: int = 0, only: str = "") -> Workload:
    nodes = NodeChoice((("kind", only),)) if only else NodeChoice()
    pod_set = WorkloadPodSet("main", cpu, None, (("cpu", 1),), nodes)
    return Workload(name, queue or name, (pod_set,), priority, at, at)


def runs(name: str, cpu: int, flavor: str, since: float) -> Workload:
    granted = (Granted("main", cpu, (("cpu", flavor),), (("cpu", cpu),)),)
    pod_set = WorkloadPodSet("main", cpu, None, (("cpu", 1),))
    return Workload(name, "v", (pod_set,), granted=granted, reserved_at=since)


def told(report: CycleReport) -> tuple[list[str], list[tuple[str, str]]]:
    return sorted(each.workload for each in report.admitted), sorted(
        (each.workload, each.by) for each in report.preempted
    )


def test_two_preemptors_that_prefer_freed_quota_do_not_take_each_others_reservation() -> None:
    """Ten of *big* become free for p0, which needs four. *small* is reserved for p1 and p2, and only one of them can
    get the rest of *big*.
    """
    system = System(
        queues=(
            queue("v", policies=Policies(), big=0, small=0),
            queue("p0", big=4),
            queue("p1", big=3, small=4),
            queue("p2", big=3, small=4),
            queue("x", policies=Policies(), big=0, small=0),
        ),
        flavors=tuple(ResourceFlavor(name, {"kind": name}) for name in ("big", "small")),
        workloads=(
            runs("w-big", 10, "big", 1),
            runs("w-1", 4, "small", 2),
            runs("w-2", 4, "small", 3),
            waits("p0", 4, 5),
            waits("p1", 4, 6),
            waits("p2", 4, 7),
            waits("x", 8, 8, only="small"),
        ),
        namespaces={"default": {}},
    )
    world = Simulator(system)
    assert told(world.cycle(10)) == ([], [("w-1", "p2"), ("w-2", "p1"), ("w-big", "p0")])
    world.carry_out()
    assert told(world.cycle(11)) == (["p0", "p1", "p2"], [])


def test_a_preemptor_heads_a_strict_queue_even_if_a_higher_priority_arrives() -> None:
    system = System(
        queues=(queue("v", policies=Policies(), big=0), queue("q", strict=True, big=4)),
        flavors=(ResourceFlavor("big"),),
        workloads=(runs("w", 4, "big", 1), waits("p", 4, 5, queue="q")),
        namespaces={"default": {}},
    )
    world = Simulator(system)
    assert told(world.cycle(10)) == ([], [("w", "p")])
    world.carry_out()
    world.submit(waits("late", 4, 10, queue="q", priority=9))
    assert told(world.cycle(11)) == (["p"], [])


def test_a_workload_cannot_preempt_its_preemptor_until_one_of_them_ends() -> None:
    """a evicts b; b cannot evict a although its priority allows it, until a has ended."""
    policies = Policies(within_queue=Policy.LOWER_OR_NEWER)
    system = System(
        queues=(queue("q", policies=policies, big=4),),
        flavors=(ResourceFlavor("big"),),
        workloads=(waits("old", 4, 1, queue="q"),),
        namespaces={"default": {}},
    )
    world = Simulator(system)
    world.cycle(10)
    world.submit(waits("high", 4, 5, queue="q", priority=3))
    assert told(world.cycle(11)) == ([], [("old", "high")])
    world.carry_out()
    assert told(world.cycle(12)) == (["high"], [])
    world._context.evicted_by.note(["urgent"], "high")  # as if high had evicted it before
    world.submit(waits("urgent", 4, 6, queue="q", priority=9))
    assert told(world.cycle(13)) == ([], [])
    world._context.evicted_by.forget("high")
    world.wake()
    assert told(world.cycle(14)) == ([], [("high", "urgent")])
