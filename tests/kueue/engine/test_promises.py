"""Rule R5 for imported queues: a preemptor whose targets have stopped is served first and keeps what was freed for it."""

from dataclasses import replace

from runrig.domain.pools import Quota
from runrig.domain.quantities import FlavorResource
from runrig.kueue.decisions import CycleReport
from runrig.kueue.declared import ClusterQueue, NodeChoice, Policies, Policy, ResourceFlavor
from tests.kueue.engine.clusters import cluster, pods, queue, runs, waits

RECLAIM = Policies(reclaim=Policy.ANY)
FOUR = pods(4, cpu=1)


def lab(name: str, policies: Policies = RECLAIM, **nominal: int) -> ClusterQueue:
    """*nominal*: CPUs by flavor."""
    quotas = {FlavorResource(flavor, "cpu"): Quota(amount) for flavor, amount in nominal.items()}
    return replace(queue(name, "lab", policies, flavors=tuple(nominal), cpu=0), quotas=quotas)


def told(report: CycleReport) -> tuple[list[str], list[tuple[str, str]]]:
    return sorted(each.workload for each in report.admitted), sorted(
        (each.workload, each.by) for each in report.preempted
    )


def test_two_preemptors_that_prefer_freed_quota_do_not_take_each_others_reservation() -> None:
    """Ten of *big* become free for p0, which needs four. *small* is reserved for p1 and p2, and only one of them can
    get the rest of *big*.
    """
    world = cluster(
        (),
        (
            lab("v", Policies(), big=0, small=0),
            lab("p0", big=4),
            lab("p1", big=3, small=4),
            lab("p2", big=3, small=4),
            lab("x", Policies(), big=0, small=0),
        ),
        runs("w-big", "v", pods(10, cpu=1), since=1, flavor="big"),
        runs("w-1", "v", FOUR, since=2, flavor="small"),
        runs("w-2", "v", FOUR, since=3, flavor="small"),
        waits("p0", "p0", FOUR, at=5),
        waits("p1", "p1", FOUR, at=6),
        waits("p2", "p2", FOUR, at=7),
        waits("x", "x", pods(8, cpu=1, choice=NodeChoice((("kind", "small"),))), at=8),
        flavors=[ResourceFlavor(name, {"kind": name}) for name in ("big", "small")],
    )
    assert told(world.cycle(10)) == ([], [("w-1", "p2"), ("w-2", "p1"), ("w-big", "p0")])
    world.carry_out()
    assert told(world.cycle(11)) == (["p0", "p1", "p2"], [])


def test_a_preemptor_heads_a_strict_queue_even_if_a_higher_priority_arrives() -> None:
    queues = queue("v", "lab", Policies(), cpu=0), queue("q", "lab", RECLAIM, strict=True, cpu=4)
    world = cluster((), queues, runs("w", "v", FOUR), waits("p", "q", FOUR, at=5))
    assert told(world.cycle(10)) == ([], [("w", "p")])
    world.carry_out()
    world.submit(waits("late", "q", FOUR, priority=9))
    assert told(world.cycle(11)) == (["p"], [])


def test_a_workload_cannot_preempt_its_preemptor_until_one_of_them_ends() -> None:
    """a evicts b; b cannot evict a although its priority allows it, until a has ended."""
    queues = [queue("q", policies=Policies(within_queue=Policy.LOWER_OR_NEWER), cpu=4)]
    world = cluster((), queues, waits("old", "q", FOUR, at=1))
    world.cycle(10)
    world.submit(waits("high", "q", FOUR, at=5, priority=3))
    assert told(world.cycle(11)) == ([], [("old", "high")])
    world.carry_out()
    assert told(world.cycle(12)) == (["high"], [])
    world._context.evicted_by.note(["urgent"], "high")  # as if high had evicted it before
    world.submit(waits("urgent", "q", FOUR, at=6, priority=9))
    assert told(world.cycle(13)) == ([], [])
    world._context.evicted_by.forget("high")
    world.wake()
    assert told(world.cycle(14)) == ([], [("high", "urgent")])
