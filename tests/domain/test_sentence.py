"""The sentence of `why`: a pure function to which each source of facts adds its part, in one order."""

from dataclasses import replace
from typing import Any

import pytest

from runrig.domain.blockers import Verdict
from runrig.domain.gangs import Priority
from runrig.domain.pools import PoolState
from runrig.domain.quantities import FlavorResource
from runrig.domain.reasons import Code, Reason
from runrig.domain.shown.sentence import Facts, Holding, sentence
from runrig.domain.shown.why import GroupWhy, PoolEnding, Standstill, WorkflowCause
from runrig.domain.value import at, example
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import THE_SERVER, Status, Workflow

IT = Workflow("w-1", "", "w", 1, "a", Priority.HIGH, "ann", 0.0, "")
RUNS = replace(IT, status=WorkflowStatus.RUNNING)
FAILED = replace(IT, status=WorkflowStatus.FAILED, failure_message="exit code 1")
CANCELED = replace(IT, status=WorkflowStatus.FAILED_CANCELED)

FULL = Reason(Code.QUOTA_FULL, "P2", sentence="a is full")
NODES = Reason(Code.NO_ROOM_ON_NODES, "T1", sentence="no node has room")
UPSTREAM = Reason(Code.UPSTREAM, "W1", sentence="x must complete first")
WAITS = GroupWhy("g", Status.SCHEDULING, 2, 4, Verdict.WAITS, reasons=(FULL,))
PLACED = GroupWhy("h", Status.SCHEDULING, 0, 0, Verdict.WAITS, reasons=(NODES,))
ON_HOLD = GroupWhy("g", Status.WAITING, reasons=(Reason(Code.HELD, "W3", sentence="put on hold by ann"),))
BEHIND = GroupWhy("i", Status.WAITING, verdict=Verdict.WAITS, reasons=(UPSTREAM,))
STARTS = GroupWhy("g", Status.SCHEDULING, 1, 0, Verdict.STARTS)
AFTER = replace(STARTS, verdict=Verdict.STARTS_AFTER_STOPS, stops=("x-1", "y-1"))
STOPS = GroupWhy("g", Status.RUNNING, preempted_by="x-1")
LATE = GroupWhy("g", Status.RUNNING, stopping="ran longer than its time limit")

HOLDING = Holding(2, ("n0", "n1"), preemptible=True, borrower=None, borrowed={}, subpools=False)
BORROWS = replace(HOLDING, borrower="a", borrowed={FlavorResource("f", "gpu"): 1, FlavorResource("f", "cpu"): 500})
MANY = replace(HOLDING, gpus=0, nodes=("n0", "n1", "n2", "n3", "n4"), preemptible=False)

CAUSE = example(WorkflowCause)
DRAINS = PoolEnding("a", "bob", at(60), PoolState.DELETING, PoolState.DELETING)
GONE = replace(DRAINS, state=PoolState.ARCHIVED)
THEN = "at 1970-01-01 00:01:00 UTC"
STANDS = Standstill(at(3600), "no disk")


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"groups": (WAITS,)}, "w-1 is waiting: a is full. HIGH workflows never borrow. Position 2 in pool a."),
        (
            {"groups": (BEHIND, WAITS)},
            "w-1 is waiting: a is full. HIGH workflows never borrow. Group g: position 2 in pool a.",
        ),
        ({"groups": (PLACED,)}, "w-1 is waiting: no node has room."),
        ({"groups": (BEHIND,)}, "w-1 is waiting: x must complete first."),
        ({"groups": (ON_HOLD,)}, "w-1 is waiting: put on hold by ann. Release it with `runrig workflow release w-1`."),
        ({"groups": (STARTS,)}, "w-1 starts in the next cycle."),
        ({"groups": (replace(AFTER, stops=("x-1",)),)}, "w-1 starts when x-1 has stopped."),
        ({"groups": (AFTER,)}, "w-1 starts when x-1 and y-1 have stopped."),
        (
            {"workflow": replace(IT, held_by=THE_SERVER, held_since=1.0), "groups": (WAITS,)},
            "w-1 is waiting: set aside at 1970-01-01 00:00:01 UTC after an internal error; "
            "retry it with `runrig workflow release w-1`, or end it with `runrig workflow cancel w-1`.",
        ),
        ({"workflow": RUNS, "groups": (STOPS,), "holding": HOLDING}, "w-1 is stopping: preempted by x-1."),
        ({"workflow": RUNS, "groups": (LATE, BEHIND)}, "w-1 is stopping: ran longer than its time limit."),
        (
            {"workflow": RUNS, "groups": (LATE,), "holding": MANY},
            "w-1 is RUNNING on 5 nodes (no GPUs). Group g is stopping: ran longer than its time limit. "
            "It cannot be preempted (priority HIGH).",
        ),
        (
            {"groups": (replace(LATE, group="3"), replace(WAITS, group="10"))},
            "w-1 is waiting: a is full. HIGH workflows never borrow. Element 10: position 2 in pool a.",
        ),
        (
            {"workflow": RUNS, "groups": (replace(LATE, group="3"),), "holding": MANY},
            "w-1 is RUNNING on 5 nodes (no GPUs). Element 3 is stopping: ran longer than its time limit. "
            "It cannot be preempted (priority HIGH).",
        ),
        (
            {"workflow": RUNS, "groups": (BEHIND,), "holding": HOLDING},
            "w-1 is RUNNING on n0 and n1 (2 GPUs). "
            "It is within its pool's quota; only HIGH and NORMAL workflows of pool a can preempt it.",
        ),
        (
            {"workflow": RUNS, "holding": replace(HOLDING, gpus=1, nodes=("n0",), subpools=True)},
            "w-1 is RUNNING on n0 (1 GPU). "
            "It is within its pool's quota; only HIGH and NORMAL workflows of pool a and its subpools can preempt it.",
        ),
        ({"holding": MANY}, "w-1 is starting on 5 nodes (no GPUs). It cannot be preempted (priority HIGH)."),
        (
            {"workflow": RUNS, "holding": BORROWS},
            "w-1 is RUNNING on n0 and n1 (2 GPUs). "
            "Pool a is borrowing 0.5 CPU cores and 1 GPU, which the lending pools can reclaim.",
        ),
        ({"workflow": FAILED}, "w-1 is FAILED: exit code 1."),
        ({"workflow": CANCELED}, "w-1 is FAILED_CANCELED."),
    ],
)
def test_it_starts_with_the_blocker_or_the_state(facts: dict[str, Any], told: str) -> None:
    assert sentence(Facts(**{"workflow": IT} | facts)) == told


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"spread": ("g is split over 2 racks",)}, "g is split over 2 racks"),
        ({"said": ("its image is pulled.", "n0 is slow")}, "its image is pulled. n0 is slow"),
        ({"ending": DRAINS}, f"Pool a was deleted by bob {THEN} and is DELETING; running work finishes first"),
        ({"standstill": STANDS}, "No decisions since 1970-01-01 01:00:00 UTC: no disk"),
        (
            {"doubt": "the clock went back"},
            "The clock went back. Until `runrig admin accept-clock`, time limits count only measured time",
        ),
    ],
)
def test_each_source_adds_its_part(facts: dict[str, Any], told: str) -> None:
    assert sentence(Facts(IT, (STARTS,), **facts)) == f"w-1 starts in the next cycle. {told}."


@pytest.mark.parametrize(
    ("workflow", "facts", "told"),
    [
        (
            FAILED,
            {"cause": CAUSE},
            "w-1 is FAILED. Task main failed: KeyError: 'state_dict' (exit code 1). "
            "All output: `runrig logs w-1 --task main`.",
        ),
        (
            replace(FAILED, failure_message="no image"),
            {"cause": replace(CAUSE, attempt=1)},
            "w-1 is FAILED: no image. Task main failed: KeyError: 'state_dict' (exit code 1). "
            "All output: `runrig logs w-1 --task main --attempt 2`.",
        ),
        (
            replace(
                FAILED, status=WorkflowStatus.FAILED_EXEC_TIMEOUT, failure_message="ran longer than its time limit"
            ),
            {"cause": replace(CAUSE, sentence="epoch 3", exit_code=143, ending="exit code 143")},
            "w-1 is FAILED_EXEC_TIMEOUT: ran longer than its time limit. Task main, last output: epoch 3 (exit code 143). "
            "All output: `runrig logs w-1 --task main`.",
        ),
        (
            CANCELED,
            {"ending": GONE},
            f"w-1 is FAILED_CANCELED. Pool a was deleted by bob {THEN}. It was DELETING then, and is ARCHIVED now.",
        ),
        (
            CANCELED,
            {"ending": replace(GONE, then=PoolState.ARCHIVED)},
            f"w-1 is FAILED_CANCELED. Pool a was deleted by bob {THEN}. It was ARCHIVED then.",
        ),
    ],
)
def test_finished_workflows_have_no_standstill_or_clock_warning(
    workflow: Workflow, facts: dict[str, Any], told: str
) -> None:
    assert sentence(Facts(workflow, **facts)) == told


def test_parts_have_a_fixed_order() -> None:
    everything = Facts(IT, (STARTS,), None, ("spread",), ("said",), CAUSE, DRAINS, STANDS, "doubt")
    found = sentence(everything)
    places = [found.index(each) for each in ("next cycle", "spread", "said", "failed", "DELETING", "no disk", "Doubt")]
    assert places == sorted(places)
