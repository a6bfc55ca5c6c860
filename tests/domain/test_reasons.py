"""Every reason in words, singular and plural: the sentence and, for lists, the headline."""

from typing import Any

import pytest

from runrig.domain.older_gangs import Older, Share
from runrig.domain.reasons import Code, DomainRoom, Reason
from runrig.domain.value import Amounts

GIB = 2**30
RACKS = (DomainRoom(("r0",), 1, Amounts({"gpu": 4})), DomainRoom(("s0", "r1"), 2, Amounts({"gpu": 1, "memory": GIB})))
SCATTERED = (DomainRoom(("r0",), 3),)
NEEDS: dict[str, Any] = {"have": 2, "need": 4}
CUT = Older("a", ("x-1",), gave=False)
GAVE = Older("a", ("x-1", "y-1"), gave=True)


def full(have: int, need: int, **more: Any) -> Reason:
    return Reason(Code.QUOTA_FULL, "P2", "a", "default/gpu", have, need, **more)


def pods(code: Code, where: str, have: int, need: int, **more: Any) -> Reason:
    return Reason(code, "T1", where, "default", have, need, **more)


def of(code: Code, where: str = "", resource: str = "default/gpu", law: str = "Q3", **more: Any) -> Reason:
    return Reason(code, law, where, resource, **more)


WORDS: list[tuple[Reason, str, str]] = [
    # ------------------------------------------------------------ quota
    (full(0, 1), "needs 1 GPU, but pool a has no quota left", "quota: 0 GPUs left in a, needs 1"),
    (
        full(0, 1, holders=("x-1",)),
        "needs 1 GPU, but pool a has no quota left; in use by x-1",
        "quota: 0 GPUs left in a, needs 1",
    ),
    (
        full(1, 2, holders=("x-1", "y-1", "3 gangs of other pools (4 GPUs)")),
        "needs 2 GPUs, but pool a has only 1 GPU left of its quota; in use by x-1, y-1 and 3 gangs of other pools (4 GPUs)",
        "quota: 1 GPU left in a, needs 2",
    ),
    (
        full(2, 1280, at_least=True),
        "needs at least 1,280 GPUs, but pool a has only 2 GPUs left of its quota",
        "quota: 2 GPUs left in a, needs 1,280",
    ),
    (
        full(-1, 2, holders=("x-1",), older=(CUT,)),
        "needs 2 GPUs, but pool a is 1 GPU over its quota; "
        "waiting for x-1 to finish, which started before the quota of pool a was cut",
        "quota: a is 1 GPU over, needs 2",
    ),
    (
        full(0, 1, holders=("x-1", "z-1"), older=(GAVE,), share=Share.SUBTREE),
        "needs 1 GPU, but pool a and its subpools have no quota left; in use by x-1 and z-1; "
        "waiting for enough of x-1 and y-1 to finish, which started before pool a gave quota to its subpools",
        "quota: 0 GPUs left in a, needs 1",
    ),
    (
        full(1, 2, share=Share.SUBTREE),
        "needs 2 GPUs, but pool a and its subpools have only 1 GPU left of their quota",
        "quota: 1 GPU left in a, needs 2",
    ),
    (
        full(-2, 2, share=Share.SUBTREE),
        "needs 2 GPUs, but pool a and its subpools are 2 GPUs over their quota",
        "quota: a is 2 GPUs over, needs 2",
    ),
    (
        full(0, 1, share=Share.OWN),
        "needs 1 GPU, but pool a has no unallocated quota left",
        "quota: 0 GPUs left in a, needs 1",
    ),
    (
        full(2, 4, share=Share.OWN),
        "needs 4 GPUs, but pool a has only 2 GPUs left of its unallocated quota",
        "quota: 2 GPUs left in a, needs 4",
    ),
    (
        full(-1, 4, share=Share.OWN),
        "needs 4 GPUs, but pool a is 1 GPU over its unallocated quota",
        "quota: a is 1 GPU over, needs 4",
    ),
    (
        full(1, 2, own=2, shared=Amounts({"k": 4})),
        "needs 2 GPUs, but pool a has only 1 GPU left of its guaranteed 6 GPUs (2 of its own, 4 shared by k)",
        "quota: 1 GPU left in a, needs 2",
    ),
    (
        full(0, 1, own=0, shared=Amounts({"k": 1})),
        "needs 1 GPU, but pool a has nothing left of its guaranteed 1 GPU (0 of its own, 1 shared by k)",
        "quota: 0 GPUs left in a, needs 1",
    ),
    (
        full(-1, 1, own=1, shared=Amounts({"k": 1, "top": 2})),
        "needs 1 GPU, but pool a is 1 GPU over its guaranteed 4 GPUs (1 of its own, 1 shared by k, 2 shared by top)",
        "quota: a is 1 GPU over, needs 1",
    ),
    (
        of(Code.QUOTA_FULL, "a", "h100/gpu", "P2", named=True, **NEEDS),
        "needs 4 h100 GPUs, but pool a has only 2 GPUs left of its quota",
        "quota: 2 h100 GPUs left in a, needs 4",
    ),
    (
        of(Code.QUOTA_FULL, "a", "h100/memory", "P2", named=True, have=GIB, need=64 * GIB),
        "needs 64Gi memory of flavor h100, but pool a has only 1Gi memory left of its quota",
        "quota: 1Gi memory of flavor h100 left in a, needs 64Gi",
    ),
    (
        of(Code.QUOTA_FULL, "a", "default/cpu", "P2", have=1000, need=1500),
        "needs 1.5 CPU cores, but pool a has only 1 CPU core left of its quota",
        "quota: 1 CPU core left in a, needs 1.5",
    ),
    (
        of(Code.QUOTA_FULL, "q", "f/example.com/disk", have=1, need=2),
        "needs 2 example.com/disk, but queue q has only 1 example.com/disk left of its quota",
        "quota: 1 example.com/disk left in q, needs 2",
    ),
    (
        of(Code.BORROWING_LIMIT, "pool a", need=1),
        "needs 1 GPU, but pool a is at its borrowing limit",
        "borrowing limit: 0 GPUs left in pool a, needs 1",
    ),
    (
        of(Code.BORROWING_LIMIT, "cohort k", **NEEDS),
        "needs 4 GPUs, but cohort k is only 2 GPUs below its borrowing limit",
        "borrowing limit: 2 GPUs left in cohort k, needs 4",
    ),
    (
        of(Code.BORROWING_LIMIT, "pool a", have=-1, need=4),
        "needs 4 GPUs, but pool a is 1 GPU over its borrowing limit",
        "borrowing limit: pool a is 1 GPU over, needs 4",
    ),
    (
        of(Code.NO_IDLE_TO_BORROW, "the cluster", need=1),
        "needs 1 GPU, but the cluster has no idle quota",
        "idle quota: 0 GPUs in the cluster, needs 1",
    ),
    (
        of(Code.NO_IDLE_TO_BORROW, "the cluster", **NEEDS),
        "needs 4 GPUs, but the cluster has only 2 GPUs of idle quota",
        "idle quota: 2 GPUs in the cluster, needs 4",
    ),
    (
        of(Code.NO_IDLE_TO_BORROW, "the cluster", "default/memory", have=-GIB, need=GIB),
        "needs 1Gi memory, but the cluster is 1Gi memory over its quota",
        "idle quota: the cluster is 1Gi memory over, needs 1Gi",
    ),
    (
        of(Code.EXCEEDS_POTENTIAL, "pool a", have=1, need=8),
        "can never start: needs 8 GPUs, but pool a can get at most 1 GPU",
        "can never start: pool a has at most 1 GPU, needs 8",
    ),
    (
        of(Code.EXCEEDS_POTENTIAL, "pool a", at_least=True, **NEEDS),
        "can never start: needs at least 4 GPUs, but pool a can get at most 2 GPUs",
        "can never start: pool a has at most 2 GPUs, needs 4",
    ),
    (
        of(Code.COHORT_CYCLE, "pool a", ""),
        "the cohorts above pool a form a cycle; nothing below them can start until an administrator breaks it",
        "cohort cycle: pool a",
    ),
    (
        Reason(Code.USER_LIMIT, "W6", "vision", "gpu", 8, 2, own=8, said="cy"),
        "cy uses 8 GPUs; the limit of vision for one user is 8",
        "limit of its user: 8 of 8 GPUs in use in vision",
    ),
    (
        Reason(Code.USER_LIMIT, "W6", "vision", "gpu", 1, 8, own=8, said="cy", at_least=True),
        "cy uses 1 GPU; the limit of vision for one user is 8, and it needs at least 8 GPUs",
        "limit of its user: 1 of 8 GPUs in use in vision",
    ),
    (
        Reason(Code.USER_LIMIT, "W6", "vision", "gpu", 0, 9, own=8, said="cy"),
        "can never start: needs 9 GPUs, and the limit of vision for one user is 8",
        "limit of its user: 0 of 8 GPUs in use in vision",
    ),
    (
        of(Code.NO_MATCHING_FLAVOR, "pool a", "h100", "P3"),
        "can never start: pool a has no h100 nodes",
        "can never start: no h100 in pool a",
    ),
    (
        of(Code.NO_MATCHING_FLAVOR, "pool a", "a100, b200, h100", "P3"),
        "can never start: pool a has no a100, b200 or h100 nodes",
        "can never start: no a100, b200, h100 in pool a",
    ),
    # ------------------------------------------------------------ nodes
    (pods(Code.NO_ROOM_ON_NODES, "", 0, 1), "no node has room for its pod", "nodes: no room for its pod"),
    (pods(Code.NO_ROOM_ON_NODES, "", 3, 4), "not enough free nodes: 3 of 4 pods fit", "nodes: 3 of 4 pods fit"),
    (
        pods(Code.NO_ROOM_ON_NODES, "", 1, 2, at_least=True),
        "not enough free nodes: 1 of its minimum of 2 pods fits",
        "nodes: 1 of 2 pods fits",
    ),
    (
        pods(Code.NO_DOMAIN_FITS, "rack", 0, 1, domains=SCATTERED),
        "no rack has room for its pod. Closest: r0 (fits 3 pods, enough in total, but spread over too many nodes)",
        "rack: no room for its pod",
    ),
    (
        pods(Code.NO_DOMAIN_FITS, "rack", 2, 4, domains=RACKS),
        "no rack has room for all 4 pods; the best fits 2. "
        "Closest: r0 (fits 1 pod, 4 GPUs short), s0/r1 (fits 2 pods, 1 GPU and 1Gi memory short)",
        "rack: 2 of 4 pods fit",
    ),
    (
        pods(Code.NO_DOMAIN_FITS, "rack", 0, 4, at_least=True),
        "no rack has room for its minimum of 4 pods; the best fits none",
        "rack: 0 of 4 pods fit",
    ),
    (
        pods(Code.NO_EMPTY_NODES, "pool a", 0, 1),
        "can never start: its pod does not fit on any node of pool a, even an empty one",
        "can never start: its pod fits on no node",
    ),
    (
        pods(Code.NO_EMPTY_NODES, "pool a", 3, 4),
        "can never start: 3 of 4 pods fit on the nodes of pool a, even if all were empty",
        "can never start: 3 of 4 pods fit on empty nodes",
    ),
    (
        pods(Code.NO_EMPTY_NODES, "pool a", 1, 4),
        "can never start: 1 of 4 pods fits on the nodes of pool a, even if all were empty",
        "can never start: 1 of 4 pods fits on empty nodes",
    ),
    (
        pods(Code.PLACEMENT_NOT_PROVEN, "", 0, 1),
        "no placement found for its pod within the search limit",
        "no placement found (search limit)",
    ),
    (
        pods(Code.PLACEMENT_NOT_PROVEN, "", 0, 4),
        "no placement found for all 4 pods within the search limit",
        "no placement found (search limit)",
    ),
    (
        of(Code.NOT_ALL_GROUPS_FIT, "rack", ""),
        "each of its groups fits in a rack, but not all of them at the same time",
        "rack: groups do not fit together",
    ),
    (
        of(Code.KEYS_CHANGED, "pool a", ""),
        "the topology keys of pool a changed after submission; cancel it and submit it again",
        "topology keys of pool a changed",
    ),
    (
        of(Code.KAI_NOT_PLACED, "0/3 nodes are available", ""),
        "the cluster did not place or keep it (0/3 nodes are available); "
        "retried when its pool or a usable node changes, or after at most 1 hour",
        "not placed by the cluster",
    ),
    # ------------------------------------------------------------ order, holds and preemption
    (of(Code.HELD, "ann", ""), "put on hold by ann", "on hold (ann)"),
    (of(Code.HELD, "ann", "", since=60.0), "put on hold by ann at 1970-01-01 00:01:00 UTC", "on hold (ann)"),
    (
        of(Code.PAUSED, "vision", "", since=60.0, said="moves"),
        "pool vision was paused at 1970-01-01 00:01:00 UTC (moves); ask an administrator to run `runrig pool resume vision`",
        "pool vision is paused",
    ),
    (
        of(Code.BUDGET, "vision", "", have=1200, own=1000, until=60.0),
        "the budget of pool vision is reached: none of its 1,000 GPU-hours are left this month; it renews on 1970-01-01 00:01:00 UTC",
        "budget reached: none of 1,000 GPU-hours left in vision",
    ),
    (
        of(Code.BUDGET, "", "", have=1, own=1, until=60.0, said="ann", stopped="LOW"),
        "the budget of ann is reached: none of its 1 GPU-hour is left this month; it renews on 1970-01-01 00:01:00 UTC; until then only "
        "LOW work starts",
        "budget reached: none of 1 GPU-hour left in all pools",
    ),
    (
        of(Code.SET_ASIDE, "vision", "", stopped="pool"),
        "the pause or budget of pool vision was set aside after an internal error and stays as it is; "
        "the server tries again every 5 minutes",
        "set aside: internal error",
    ),
    (
        of(Code.SET_ASIDE, "ann", "", stopped="user"),
        "the budget of ann was set aside after an internal error and stays as it is; the server tries again every 5 minutes",
        "set aside: internal error",
    ),
    (
        of(Code.SET_ASIDE, "w-1", "", since=60.0),
        "set aside at 1970-01-01 00:01:00 UTC after an internal error; "
        "retry it with `runrig workflow release w-1`, or end it with `runrig workflow cancel w-1`",
        "set aside: internal error",
    ),
    (of(Code.AFTER, where="ok", holders=("prep-1",)), "prep-1 must complete first", "after prep-1"),
    (of(Code.AFTER, where="any", holders=("prep-1",)), "prep-1 must end first", "after prep-1"),
    (
        of(Code.ARRAY, have=3, need=3, gangs=10),
        "3 of its 10 elements are running or queued, and at most 3 may run at a time",
        "array: 3 at a time",
    ),
    (
        of(Code.ARRAY, have=1, need=1, gangs=2),
        "1 of its 2 elements is running or queued, and at most 1 may run at a time",
        "array: 1 at a time",
    ),
    (of(Code.AFTER, where="fail", holders=("prep-1",)), "prep-1 must fail first", "after prep-1"),
    (of(Code.UPSTREAM, holders=("prep",)), "group prep must complete first", "after prep"),
    (
        of(Code.UPSTREAM, holders=("prep", "split")),
        "groups prep and split must complete first",
        "after prep and 1 more",
    ),
    (of(Code.BEHIND_HEAD, "a", "", holders=("x-1",)), "behind x-1, the head of a STRICT_FIFO queue", "behind x-1"),
    (of(Code.WAITS_FOR_TARGETS, holders=("x-1",)), "x-1 must stop first", "waiting for x-1 to stop"),
    (
        of(Code.WAITS_FOR_TARGETS, holders=("x-1", "y-1", "z-1")),
        "x-1, y-1 and z-1 must stop first",
        "waiting for x-1 and 2 more to stop",
    ),
    (of(Code.WAITS_FOR_TARGETS), "preempted work must stop first", "waiting for others to stop"),
    (of(Code.NO_TARGETS, need=1), "no workflow that it can preempt uses GPUs", "nothing to preempt"),
    (
        of(Code.NO_TARGETS, resource="h100/gpu", named=True, need=1),
        "no workflow that it can preempt uses h100 GPUs",
        "nothing to preempt",
    ),
    (
        of(Code.NO_TARGETS, have=1, need=4, gangs=1),
        "needs 4 GPUs, but preempting the only candidate frees only 1 GPU",
        "nothing to preempt",
    ),
    (
        of(Code.NO_TARGETS, gangs=3, **NEEDS),
        "needs 4 GPUs, but preempting all 3 candidates frees only 2 GPUs",
        "nothing to preempt",
    ),
    (
        of(Code.NO_TARGETS, have=4, need=4, gangs=3),
        "preempting all 3 candidates frees 4 GPUs, but not enough on the right nodes",
        "nothing to preempt",
    ),
    (of(Code.NOT_CONSIDERED), "queued; not evaluated yet", "not evaluated yet"),
    # ------------------------------------------------------------ imported queues
    (
        of(Code.WOULD_BORROW, "q", need=1),
        "queue q would have to borrow 1 GPU, so it cannot reclaim what it lent (borrowWithinCohort: Never)",
        "q would borrow 1, so it reclaims nothing",
    ),
    (
        of(Code.WOULD_BORROW, "q", need=2),
        "queue q would have to borrow 2 GPUs, so it cannot reclaim what it lent (borrowWithinCohort: Never)",
        "q would borrow 2, so it reclaims nothing",
    ),
    (
        of(Code.NO_MATCHING_FLAVOR, "q", "memory", "Q2"),
        "its pods cannot use memory in queue q",
        "can never start: no memory in q",
    ),
    (
        of(Code.MISCONFIGURED, "q", ""),
        "queue q does not accept this workload; check the warnings and its namespaceSelector",
        "",
    ),
    (
        of(Code.REQUESTS_NOTHING, "q", "main"),
        "can never start: pod set main requests no resource of queue q; add a request, such as cpu",
        "can never start: no request",
    ),
    (
        of(Code.EXCEEDS_POTENTIAL, "q", law="Q4", have=1, need=2),
        "can never start: needs 2 GPUs, but queue q can get at most 1 GPU",
        "can never start: q has at most 1 GPU, needs 2",
    ),
    (of(Code.STOPPED, "q", ""), "queue q is stopped; nothing starts until it is resumed", ""),
    (
        of(Code.STOPPED, "q", "", stopped="the workload"),
        "the workload is stopped; nothing starts until it is resumed",
        "",
    ),
    (of(Code.FLAVOR_NOT_FOUND, "q", "h100"), "queue q uses flavor h100, which is not defined", ""),
]


@pytest.mark.parametrize(("reason", "sentence", "headline"), WORDS, ids=lambda each: "")
def test_a_reason_has_a_sentence_and_a_headline(reason: Reason, sentence: str, headline: str) -> None:
    assert (str(reason), reason.headline) == (sentence, headline)


def test_every_code_is_tested() -> None:
    assert {reason.code for reason, _, _ in WORDS} == set(Code)
