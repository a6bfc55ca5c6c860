"""The line of a cluster queue: no workload is lost or duplicated, however classes are parked, woken and merged."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runrig.kueue.declared import ClusterQueue, Workload, WorkloadPodSet
from runrig.kueue.engine.cluster_queue import QueueState
from runrig.kueue.engine.queue_tree import QueueTree
from runrig.kueue.engine.workload import WorkloadShape, WorkloadState

SHAPES = tuple(WorkloadShape((WorkloadPodSet(count=count),), (), (), 0, (None,)) for count in (1, 2))

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.integers(0, 1), st.integers(0, 3)),
        st.sampled_from([("pop",), ("again",), ("park",), ("park alone",), ("wake",), ("first",), ("nobody first",)]),
    ),
    max_size=60,
)


def line() -> QueueState:
    queue = ClusterQueue("q")
    return QueueState(queue, QueueTree((), (queue,), ()).queues["q"], {})


@given(STEPS)
def test_every_workload_is_in_line_exactly_once_or_removed(steps: list[tuple[Any, ...]]) -> None:
    tested = line()
    waiting: set[WorkloadState] = set()
    out: list[WorkloadState] = []
    arrived = 0
    for step, *details in steps:
        if step == "arrive":
            shape, priority = details
            workload = Workload(f"w{arrived}", "q", (), priority, 0.0, float(arrived % 3))
            state = WorkloadState(workload, "q", tested.leaf, SHAPES[shape])
            tested.arrive(state)
            waiting.add(state)
            arrived += 1
        elif step == "pop":
            popped = tested.pop()
            if popped is not None:
                assert popped in waiting
                waiting.remove(popped)
                out.append(popped)
        elif step == "wake":
            tested.wake()
        elif step == "nobody first":
            tested.let_first(None)
        elif out:
            state = out.pop()
            waiting.add(state)
            if step == "first":
                tested.let_first(state)
            if step.startswith("park"):
                tested.park(state, alike_too=step == "park")
            else:
                tested.add(state)
        assert sorted(each.spec.name for each, _ in tested.waiting()) == sorted(w.spec.name for w in waiting)
        assert tested.in_line or tested.pop() is None, "a cycle must not miss it"
    tested.let_first(None)
    tested.wake()
    drained = []
    while (popped := tested.pop()) is not None:
        drained.append(popped)
    assert sorted(each.spec.name for each in drained) == sorted(each.spec.name for each in waiting)
    assert [each.key for each in drained] == sorted(each.key for each in drained)
    assert not tested.in_line
