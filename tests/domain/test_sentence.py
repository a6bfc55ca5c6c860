"""The sentence of `why` is a pure function of what is known: each source adds its part, in one order."""

from dataclasses import replace
from typing import Any

import pytest

from runrig.domain.blockers import Verdict
from runrig.domain.gangs import Priority
from runrig.domain.pools import PoolState
from runrig.domain.quantities import FlavorResource
from runrig.domain.reasons import Code, Reason
from runrig.domain.shown.sentence import Facts, Hold, sentence
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
BEHIND = GroupWhy("i", Status.WAITING, verdict=Verdict.WAITS, reasons=(UPSTREAM,))
STARTS = GroupWhy("g", Status.SCHEDULING, 1, 0, Verdict.STARTS)
AFTER = replace(STARTS, verdict=Verdict.STARTS_AFTER_STOPS, stops=("x-1", "y-1"))
STOPS = GroupWhy("g", Status.RUNNING, preempted_by="x-1")

HOLD = Hold(2, ("n0", "n1"), preemptible=True, borrower=None, borrowed={}, subpools=False)
BORROWS = replace(HOLD, borrower="a", borrowed={FlavorResource("f", "gpu"): 1, FlavorResource("f", "cpu"): 500})
MANY = replace(HOLD, gpus=0, nodes=("n0", "n1", "n2", "n3", "n4"), preemptible=False)

CAUSE = example(WorkflowCause)
DRAINS = PoolEnding("a", "bob", at(60), PoolState.DELETING, PoolState.DELETING)
GONE = replace(DRAINS, state=PoolState.ARCHIVED)
BY_BOB = "it was deleted by bob at 1970-01-01 00:01:00 UTC"
STANDS = Standstill(at(3600), "no disk")


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"groups": (WAITS,)}, "w-1 waits: a is full; HIGH never borrows (number 2 in the queue)"),
        ({"groups": (BEHIND, WAITS)}, "w-1 waits: a is full; HIGH never borrows (g is number 2 in the queue)"),
        ({"groups": (PLACED,)}, "w-1 waits: no node has room"),
        ({"groups": (BEHIND,)}, "w-1 waits: x must complete first"),
        ({"groups": (STARTS,)}, "w-1 starts in the next cycle"),
        ({"groups": (AFTER,)}, "w-1 starts once x-1, y-1 have stopped, as the next cycle decides"),
        (
            {"workflow": replace(IT, held_by=THE_SERVER, held_since=1.0), "groups": (WAITS,)},
            "w-1 waits: it is set aside since 1970-01-01 00:00:01 UTC, because the server failed at it: "
            "`runrig workflow release w-1` tries it again, `runrig workflow cancel w-1` ends it",
        ),
        ({"workflow": RUNS, "groups": (STOPS,), "hold": HOLD}, "w-1 stops: it is preempted by x-1"),
        (
            {"workflow": RUNS, "groups": (BEHIND,), "hold": HOLD},
            "w-1 is RUNNING with 2 GPUs on n0, n1; HIGH within its pool's quota: only HIGH and NORMAL of its own pool can preempt it",
        ),
        ({"hold": MANY}, "w-1 is starting with no GPU on 5 nodes; HIGH is never preempted"),
        (
            {"workflow": RUNS, "hold": BORROWS},
            "w-1 is RUNNING with 2 GPUs on n0, n1; pool a borrows 0.5 of f/cpu and 1 GPU: RECLAIM may take it back",
        ),
        ({"workflow": FAILED}, "w-1 is FAILED: exit code 1"),
        ({"workflow": CANCELED}, "w-1 is FAILED_CANCELED"),
    ],
)
def test_it_begins_with_what_blocks_the_workflow_or_how_it_stands(facts: dict[str, Any], told: str) -> None:
    assert sentence(Facts(**{"workflow": IT} | facts)) == told


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"spread": ("g lies in 2 racks",)}, "g lies in 2 racks"),
        ({"said": ("its image is pulled", "n0 is slow")}, "its image is pulled; n0 is slow"),
        ({"ending": DRAINS}, f"pool a is DELETING ({BY_BOB}), and what has started there goes on to its end"),
        ({"standstill": STANDS}, "nothing is decided since 1970-01-01 01:00:00 UTC: no disk"),
        ({"doubt": "the clock went back"}, "the clock went back: limits count only what has passed until `runrig admin accept-clock`"),
    ],
)  # fmt: skip
def test_each_source_adds_its_part(facts: dict[str, Any], told: str) -> None:
    assert sentence(Facts(IT, (STARTS,), **facts)) == f"w-1 starts in the next cycle; {told}"


@pytest.mark.parametrize(
    ("workflow", "facts", "told"),
    [
        (
            FAILED,
            {"cause": CAUSE},
            "w-1 is FAILED; main failed: KeyError: 'state_dict' (exit code 1); all it wrote: `runrig workflow logs w-1 --task main`",
        ),
        (
            replace(FAILED, failure_message="no image"),
            {"cause": replace(CAUSE, attempt=1)},
            "w-1 is FAILED: no image; main failed: KeyError: 'state_dict' (exit code 1); "
            "all it wrote: `runrig workflow logs w-1 --task main --attempt 2`",
        ),
        (
            CANCELED,
            {"ending": GONE},
            f"w-1 is FAILED_CANCELED; pool a became DELETING with that, and ARCHIVED later: {BY_BOB}",
        ),
        (
            CANCELED,
            {"ending": replace(GONE, then=PoolState.ARCHIVED)},
            f"w-1 is FAILED_CANCELED; pool a became ARCHIVED with that: {BY_BOB}",
        ),
    ],
)
def test_what_has_ended_says_of_what(workflow: Workflow, facts: dict[str, Any], told: str) -> None:
    assert sentence(Facts(workflow, **facts)) == told


def test_all_parts_have_one_order() -> None:
    everything = Facts(IT, (STARTS,), None, ("spread",), ("said",), CAUSE, DRAINS, STANDS, "doubt")
    found = sentence(everything)
    places = [found.index(each) for each in ("next cycle", "spread", "said", "failed", "DELETING", "no disk", "doubt")]
    assert places == sorted(places)
