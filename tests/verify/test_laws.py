"""Each law, in a log that obeys it and one that breaks it."""

from typing import Any

import pytest

from runrig.verify.verify import CODES, Checker
from tests.verify.logs import (
    Event,
    admit,
    array,
    broken,
    cohort,
    element,
    ended,
    gone,
    limits,
    log,
    moved,
    node,
    nominate,
    of,
    pool,
    preempt,
    queue,
    recorded,
    reports,
    spent,
    submit,
    timed,
    waiting,
    work,
)


def test_a_late_start_is_found_only_where_the_log_marks_the_end_of_a_cycle() -> None:
    declared, submitted, later = log(TWO, work("w", "a"), [submit("x", "b", at=3.0)])
    assert reports([declared, submitted, later]) == []
    assert {report.law for report in reports([declared, submitted, later._replace(rest=2.5)])} == {"P5"}


def test_the_gate_refuses_only_what_could_never_run() -> None:
    """P3: within its guarantee, or for LOW by borrowing, on nodes that are free of all else."""

    def refused(priority: str, gpus: int) -> set[str]:
        gang = queue("x", "a", priority, gpus=gpus)[1]["gang"]
        said = [{"user": "ann", "law": "P3", "numbers": {}, "gang": gang}, {"user": "ann", "law": "S7", "numbers": {}}]
        full = [*work("w", "b", "LOW", gpus=4), admit("w", ("n0", 1, [0, 1, 2, 3]))]
        declared, running, later = log(TWO, full, [submit("z", "b", at=3.0)])
        return broken([declared, running, later._replace(refused=said)])

    assert refused("NORMAL", 3) == refused("LOW", 5) == set()
    assert refused("NORMAL", 2) == refused("LOW", 4) == {"P3"}


def test_a_late_start_is_not_proven_where_a_search_reached_its_limit() -> None:
    declared, waiting, later = log(TWO, work("w", "a"), [submit("x", "b", at=3.0)])
    checker = Checker()
    assert checker.read([declared, waiting, later._replace(rest=2.5, unproven=["w/g"])]) == []
    assert checker.numbers.not_proven == 1
    assert broken([declared, waiting, later._replace(rest=2.5, unproven=["x/g"])]) == {"P5"}


def test_pods_without_a_platform_get_the_default_one_of_their_pool() -> None:
    """T1. So a place of another flavor is none that was missed: P3, P5."""
    kinds: list[dict[str, Any]] = [{"name": name, "node_labels": {}, "taints": []} for name in ("old", "new")]
    quotas = {f"{name}/gpu": {"nominal": 2} for name in ("old", "new")}
    declared = [
        ("SetFlavors", {"flavors": kinds}),
        node("n0", 2, flavor="old"),
        pool("a", quotas=quotas, default_platform="new"),
    ]
    (kind, action), (_, queued) = admit("w", ("n0", 1, [0])), queue("y", "a", gpus=2)
    start = kind, {**action, "placement": [{**action["placement"][0], "flavor": "old"}]}
    first, waits, later = log(declared, work("w", "a"), [submit("x", "a", at=3.0)])
    refused = [{"user": "ann", "law": "P3", "numbers": {}, "gang": queued["gang"]}]
    assert broken([first, waits, later._replace(rest=2.5, refused=refused)]) == set()
    assert broken(log(declared, work("w", "a"), [start])) == {"T1"}


def element_gone(index: int) -> list[Event]:
    (kind, action), (other, moves) = gone("w", "COMPLETED")
    return [element((kind, action), index), (other, {**moves, "group": str(index)})]


def starts(index: int) -> list[Event]:
    """An element of the array w is queued and starts."""
    return [element(queue("w", "a"), index), element(admit("w", ("n0", 1, [index])), index)]


def most(name: str, elements: int) -> Event:
    return "SetMost", {"workflow": name, "most": elements}


def ends(name: str, index: int, status: str) -> Event:
    """An element of the array *name* ends."""
    return "MoveGroup", {"workflow": name, "group": str(index), "status": status, "message": "", "stopping": None}


def restart(name: str, parent: str, element: str) -> Event:
    kind, action = submit(name, "a")
    return kind, {"workflow": {**action["workflow"], "parent": parent}, "groups": [{"name": element}]}


def running(run: float | None) -> list[Event]:
    """Work with this `exec_timeout` starts."""
    return [timed(submit("w", "a"), run), queue("w", "a"), admit("w", ("n0", 1, [0])), moved("w", "RUNNING")]


def waits(wait: float | None) -> list[Event]:
    """Work with this `queue_timeout` waits for other work."""
    others = [*work("u", "b"), admit("u", ("n0", 1, [0]))]
    return [*others, timed(submit("w", "a", "LOW"), wait=wait), queue("w", "a", "LOW", gpus=4)]


def starts_and_ends(name: str) -> list[Event]:
    """A whole cycle, of other work."""
    return [*work(name, "b"), admit(name, ("n0", 1, [1])), *gone(name)]


def refused(name: str, pool: str) -> list[Event]:
    """Work that is queued again because the cluster's scheduler did not place it."""
    submitted, (kind, action) = work(name, pool)
    return [submitted, (kind, {"gang": action["gang"] | {"refused": "no node was good enough"}})]


TWO = [node("n0", 4), pool("a", 2), pool("b", 2)]
SWEPT = [*array("w", "a", 2), waiting("v", "a", "w", element="1")]
RACKS = [
    *(node(f"n{at}", 1, labels={"rack": f"r{at // 2}"}) for at in range(4)),
    pool("a", 4, topology_keys=[{"key": "rack", "label": "rack"}]),
]
PARENT = [node("n0", 4), pool("a", 2, paused_by="ann"), pool("a--x", 1, parent="a")]
IN_A_RACK = [{"key": "rack", "group": "default", "required": True, "slice_size": None}]
LENT = [*work("low", "a", "LOW", gpus=4), admit("low", ("n0", 1, [0, 1, 2, 3]))]
TAKEN = [*work("firm", "b", at=3.0, gpus=2), nominate("firm", "n0", "low"), preempt("low", "firm")]
GONE = [*gone("low"), admit("firm", ("n0", 1, [0, 1]))]
STRICT = [node("n0", 4), pool("a", 4, queueing="STRICT_FIFO"), pool("b", 0)]
TWO_LOW = [*work("old", "a", "LOW", 1.0, 2), admit("old", ("n0", 1, [0, 1]))]
LATER = [*work("new", "a", "LOW", 2.0, 2), admit("new", ("n0", 1, [2, 3]))]
AGAIN = [admit("w", ("n0", 2, [0, 1])), *gone("w")]
BEGUN = admit("w", ("n0", 1, [0]))
MOVES: Event = ("Reassign", {"workflow": "w", "pool": "c", "priority": "NORMAL"})
STOPPED = [of("Stop", "w", cause="FAILED_EXEC_TIMEOUT")]
SEVERAL: dict[str, Any] = {"count": 4, "min_count": 2}

CASES: dict[str, tuple[list[list[Event]], list[list[Event]], str]] = {
    "Q3: within the balance of the tree": (
        [
            [node("n0", 4), pool("a", 2, limits={"borrowing_limit": 1})],
            [*work("w", "a", "LOW", gpus=3), admit("w", ("n0", 1, [0, 1, 2]))],
        ],
        [
            [node("n0", 4), pool("a", 2, limits={"borrowing_limit": 0})],
            [*work("w", "a", "LOW", gpus=3), admit("w", ("n0", 1, [0, 1, 2]))],
        ],
        "Q3",
    ),
    "P2: firm work draws only what its cohort has": (
        [
            [node("n0", 4), cohort("c", 1), pool("a", 2, cohort="c")],
            [*work("w", "a", gpus=3), admit("w", ("n0", 1, [0, 1, 2]))],
        ],
        [
            [node("n0", 4), cohort("c", 0), pool("a", 2, cohort="c")],
            [*work("w", "a", gpus=3), admit("w", ("n0", 1, [0, 1, 2]))],
        ],
        "P2",
    ),
    "Q5: nothing starts below a circle": (
        [[node("n0", 4), cohort("c", 0, "d"), pool("a", 2, cohort="c")], [*work("w", "a"), admit("w", ("n0", 1, [0]))]],
        [
            [node("n0", 4), cohort("c", 0, "d"), cohort("d", 0, "c"), pool("a", 2, cohort="c")],
            [*work("w", "a"), admit("w", ("n0", 1, [0]))],
        ],
        "Q5",
    ),
    "P1: only LOW is preempted": (
        [TWO, LENT, TAKEN, GONE],
        [TWO, [*work("low", "a", "NORMAL", gpus=2), admit("low", ("n0", 1, [0, 1]))], TAKEN],
        "P1",
    ),
    "P3: no more than the guarantee of the pool is accepted": (
        [TWO, work("w", "a", gpus=2)],
        [TWO, work("w", "a", gpus=3)],
        "P3",
    ),
    "P3: nor LOW work that could never borrow enough": (
        [TWO, work("w", "a", "LOW", gpus=4)],
        [TWO, work("w", "a", "LOW", gpus=5)],
        "P3",
    ),
    "P4: who is ahead starts first": (
        [
            TWO,
            [*work("w", "a", at=1.0), *work("v", "b", at=2.0), admit("w", ("n0", 1, [0])), admit("v", ("n0", 1, [1]))],
        ],
        [
            TWO,
            [*work("w", "a", at=1.0), *work("v", "b", at=2.0), admit("v", ("n0", 1, [1])), admit("w", ("n0", 1, [0]))],
        ],
        "P4",
    ),
    "P4: LOW within quota is ahead of LOW that borrows": (
        [
            TWO,
            [
                *work("w", "a", "LOW", 1.0, 3),
                *work("v", "b", "LOW", 2.0),
                admit("v", ("n0", 1, [0])),
                admit("w", ("n0", 1, [1, 2, 3])),
            ],
        ],
        [
            TWO,
            [
                *work("w", "a", "LOW", 1.0, 3),
                *work("v", "b", "LOW", 2.0),
                admit("w", ("n0", 1, [1, 2, 3])),
                admit("v", ("n0", 1, [0])),
            ],
        ],
        "P4",
    ),
    "P4: no gang overtakes the head of a strict pool": (
        [STRICT, [*work("w", "a", gpus=4), admit("w", ("n0", 1, [0, 1, 2, 3])), *work("v", "a", at=2.0)]],
        [
            STRICT,
            [*work("x", "b", "LOW", gpus=2), admit("x", ("n0", 1, [0, 1]))],
            [*work("w", "a", gpus=4), *work("v", "a", at=2.0), admit("v", ("n0", 1, [2]))],
        ],
        "P4",
    ),
    "P4: LOW does not overtake LOW of its strict pool": (
        [
            STRICT,
            [*work("w", "a", "LOW", gpus=2), *work("v", "a", "LOW", 2.0)],
            [admit("w", ("n0", 1, [0, 1])), admit("v", ("n0", 1, [2]))],
        ],
        [
            STRICT,
            [*work("x", "b", "LOW", gpus=2), admit("x", ("n0", 1, [0, 1]))],
            [*work("w", "a", "LOW", gpus=4), *work("v", "a", "LOW", 2.0), admit("v", ("n0", 1, [2]))],
        ],
        "P4",
    ),
    "P4: what the cluster's scheduler refused is the head of its strict pool all the same": (
        [STRICT, [*refused("w", "a"), *work("v", "b", "LOW", 2.0), admit("v", ("n0", 1, [0]))]],
        [STRICT, [*refused("w", "a"), *work("v", "a", at=2.0), admit("v", ("n0", 1, [0]))]],
        "P4",
    ),
    "P5: what the cluster's scheduler refused is tried again when a node changes": (
        [TWO, refused("w", "a"), [*work("v", "b"), admit("v", ("n0", 1, [0]))]],
        [TWO, refused("w", "a"), [node("n1", 1), *work("v", "b"), admit("v", ("n0", 1, [0]))]],
        "P5",
    ),
    "P4: a gang keeps the submit time of its workflow": (
        [TWO, [submit("w", "a"), queue("w", "a")]],
        [TWO, [submit("w", "a"), queue("w", "a", at=0.5)]],
        "P4",
    ),
    "P5: a cycle admits all that fits": (
        [TWO, work("w", "a"), [admit("w", ("n0", 1, [0]))]],
        [TWO, [*work("w", "a"), *work("v", "b", at=2.0)], [admit("w", ("n0", 1, [0]))]],
        "P5",
    ),
    "R1: by PRIORITY in its own pool": (
        [
            TWO,
            LENT,
            [*work("firm", "a", at=3.0, gpus=2), nominate("firm", "n0", "low"), preempt("low", "firm", "PRIORITY")],
        ],
        [
            TWO,
            LENT,
            [*work("firm", "a", at=3.0, gpus=2), nominate("firm", "n0", "low"), preempt("low", "firm", "RECLAIM")],
        ],
        "R1",
    ),
    "R1: no gang waits for LOW work of its own pool": (
        [
            TWO,
            LENT,
            [*work("firm", "a", at=3.0, gpus=2), nominate("firm", "n0", "low"), preempt("low", "firm", "PRIORITY")],
        ],
        [TWO, LENT, work("firm", "a", at=3.0, gpus=2), [*work("x", "b", "LOW"), *gone("x")]],
        "R1",
    ),
    "R2: LOW within the quota of its pool is safe": (
        [
            TWO,
            [*TWO_LOW, *LATER],
            [*work("firm", "b", at=3.0, gpus=2), nominate("firm", "n0", "new"), preempt("new", "firm")],
        ],
        [
            [node("n0", 2), pool("a", 2), pool("b", 2)],
            TWO_LOW,
            [*work("firm", "b", at=3.0), nominate("firm", "n0", "old"), preempt("old", "firm")],
        ],
        "R2",
    ),
    "R3: no gang stops without need": (
        [
            TWO,
            [*TWO_LOW, *LATER],
            [*work("firm", "b", at=3.0, gpus=2), nominate("firm", "n0", "new"), preempt("new", "firm")],
        ],
        [
            TWO,
            [*TWO_LOW, *LATER],
            [
                *work("firm", "b", at=3.0, gpus=2),
                nominate("firm", "n0", "new", "old"),
                preempt("new", "firm"),
                preempt("old", "firm"),
            ],
        ],
        "R3",
    ),
    "R4: LOW is not nominated": (
        [TWO, LENT, TAKEN],
        [TWO, LENT, [*work("firm", "b", "LOW", at=3.0, gpus=2), nominate("firm", "n0", "low"), preempt("low", "firm")]],
        "R4",
    ),
    "R4: a reservation is not given up": (
        [TWO, LENT, TAKEN, [node("n0", 1), of("Withdraw", "firm")]],
        [TWO, LENT, TAKEN, [of("Withdraw", "firm")]],
        "R4",
    ),
    "R4: who is nominated starts when its place is free": (
        [TWO, LENT, TAKEN, GONE],
        [TWO, LENT, TAKEN, gone("low")],
        "R4",
    ),
    "R7: an edit stops nothing": (
        [TWO, LENT, [pool("a", 0)]],
        [TWO, LENT, [pool("a", 0), of("Stop", "low", cause="FAILED_CANCELED")]],
        "R7",
    ),
    "A1: the most pods that fit": (
        [[node("n0", 3), pool("a", 4)], [*work("w", "a", **SEVERAL), admit("w", ("n0", 3, [0, 1, 2]))]],
        [[node("n0", 3), pool("a", 4)], [*work("w", "a", **SEVERAL), admit("w", ("n0", 2, [0, 1]))]],
        "A1",
    ),
    "A1: a count that the gang allows": (
        [TWO, [*work("w", "a", "LOW", **SEVERAL), admit("w", ("n0", 4, [0, 1, 2, 3]))]],
        [[node("n0", 1), pool("a", 4)], [*work("w", "a", **SEVERAL), admit("w", ("n0", 1, [0]))]],
        "A1",
    ),
    "A3: a requeued gang asks for its full count": (
        [TWO, [*work("w", "a", count=2), *AGAIN, queue("w", "a", count=2), AGAIN[0]]],
        [TWO, [*work("w", "a", count=2), *AGAIN, queue("w", "a", count=1)]],
        "A3",
    ),
    "T1: room for every pod": (
        [TWO, [*work("w", "a", count=2), admit("w", ("n0", 2, [0, 1]))]],
        [[node("n0", 1), node("n1", 4), pool("a", 2)], [*work("w", "a", count=2), admit("w", ("n0", 2, [0, 1]))]],
        "T1",
    ),
    "T1: on nodes that take new pods (N1)": (
        [TWO, [*work("w", "a"), admit("w", ("n0", 1, [0]))]],
        [[node("n0", 4, cordoned=True), node("n1", 4), pool("a", 2)], [*work("w", "a"), admit("w", ("n0", 1, [0]))]],
        "T1",
    ),
    "T1: a required group in one domain": (
        [RACKS, [*work("w", "a", count=2, topology=IN_A_RACK), admit("w", ("n0", 1, [0]), ("n1", 1, [0]))]],
        [RACKS, [*work("w", "a", count=2, topology=IN_A_RACK), admit("w", ("n0", 1, [0]), ("n2", 1, [0]))]],
        "T1",
    ),
    "W2: no GPU twice": (
        [TWO, [*work("w", "a"), *work("v", "b", at=2.0), admit("w", ("n0", 1, [0])), admit("v", ("n0", 1, [1]))]],
        [TWO, [*work("w", "a"), *work("v", "b", at=2.0), admit("w", ("n0", 1, [0])), admit("v", ("n0", 1, [0]))]],
        "W2",
    ),
    "N2: a drain stops what is on cordoned nodes": (
        [TWO, LENT, [node("n0", 4, cordoned=True), of("Stop", "low", cause="FAILED_EVICTED")]],
        [TWO, LENT, [of("Stop", "low", cause="FAILED_EVICTED")]],
        "N2",
    ),
    "W1: a gang starts once": (
        [TWO, [*work("w", "a"), admit("w", ("n0", 1, [0]))]],
        [TWO, [*work("w", "a"), admit("w", ("n0", 1, [0])), admit("w", ("n0", 1, [1]))]],
        "W1",
    ),
    "W1: a group waits for its inputs": (
        [
            TWO,
            [
                submit("w", "a", g=["before"]),
                ("MoveGroup", {"workflow": "w", "group": "before", "status": "COMPLETED"}),
                queue("w", "a"),
            ],
        ],
        [TWO, [submit("w", "a", g=["before"]), queue("w", "a")]],
        "W1",
    ),
    "W3: nothing on hold starts": (
        [
            TWO,
            [
                *work("w", "a"),
                ("Hold", {"workflow": "w", "by": "ann"}),
                ("EndHold", {"workflow": "w"}),
                admit("w", ("n0", 1, [0])),
            ],
        ],
        [TWO, [*work("w", "a"), ("Hold", {"workflow": "w", "by": "ann"}), admit("w", ("n0", 1, [0]))]],
        "W3",
    ),
    "W1: a group is one gang at a time": (
        [TWO, [*work("w", "a"), BEGUN], [*gone("w"), queue("w", "a"), BEGUN]],
        [TWO, [*work("w", "a"), BEGUN], [queue("w", "a"), BEGUN]],
        "W1",
    ),
    "W1: a group that was COMPLETED is no gang again": (
        [TWO, [*work("w", "a"), BEGUN], [*gone("w", "FAILED"), queue("w", "a"), BEGUN]],
        [TWO, [*work("w", "a"), BEGUN], [*gone("w", "COMPLETED"), queue("w", "a"), BEGUN]],
        "W1",
    ),
    "W1: nothing starts after its workflow has ended": (
        [TWO, [*work("w", "a"), BEGUN]],
        [TWO, [*work("w", "a"), ended("w", "FAILED_CANCELED"), BEGUN]],
        "W1",
    ),
    "W2: a gang keeps its nodes until its group ends": (
        [TWO, [*work("w", "a"), BEGUN], gone("w")],
        [TWO, [*work("w", "a"), BEGUN], [of("Release", "w")]],
        "W2",
    ),
    "W2: a group that has ended holds nothing": (
        [TWO, [*work("w", "a"), BEGUN], [moved("w", "RUNNING")]],
        [TWO, [*work("w", "a"), BEGUN], [moved("w", "FAILED")]],
        "W2",
    ),
    "W4: an element starts when another has ended": (
        [TWO, [*array("w", "a", 1), *starts(0)], [*element_gone(0), *starts(1)]],
        [TWO, [*array("w", "a", 1), *starts(0)], starts(1)],
        "W4",
    ),
    "W4: more elements run when more may": (
        [TWO, [*array("w", "a", 1), *starts(0)], [most("w", 2), *starts(1)]],
        [TWO, [*array("w", "a", 2), *starts(0)], [most("w", 1), *starts(1)]],
        "W4",
    ),
    "W5: a workflow is queued when another has completed": (
        [TWO, [*work("w", "a"), waiting("v", "a", "w")], [ended("w", "COMPLETED"), queue("v", "a")]],
        [TWO, [*work("w", "a"), waiting("v", "a", "w"), queue("v", "a")]],
        "W5",
    ),
    "W5: it is not queued when another has failed": (
        [TWO, [*work("w", "a"), waiting("v", "a", "w", "fail")], [ended("w", "FAILED_CANCELED"), queue("v", "a")]],
        [TWO, [*work("w", "a"), waiting("v", "a", "w")], [ended("w", "FAILED_CANCELED"), queue("v", "a")]],
        "W5",
    ),
    "W5: a workflow is queued when the element of an array has completed": (
        [TWO, SWEPT, [ends("w", 1, "COMPLETED"), queue("v", "a")]],
        [TWO, SWEPT, [ends("w", 0, "COMPLETED"), queue("v", "a")]],
        "W5",
    ),
    "W5: the end of an array does not change how its element ended": (
        [TWO, SWEPT, [ends("w", 1, "COMPLETED"), ended("w", "FAILED"), queue("v", "a")]],
        [TWO, SWEPT, [ends("w", 1, "FAILED"), ended("w", "FAILED"), queue("v", "a")]],
        "W5",
    ),
    "W5: a restart takes the place of the elements that it has": (
        [TWO, SWEPT, [ends("w", 1, "COMPLETED"), ended("w", "FAILED"), restart("x", "w", "0"), queue("v", "a")]],
        [TWO, SWEPT, [ends("w", 1, "COMPLETED"), ended("w", "FAILED"), restart("x", "w", "1"), queue("v", "a")]],
        "W5",
    ),
    "S1: shares add up": (
        [[pool("a", 3), pool("a--x", 2, parent="a"), pool("a--y", 1, parent="a")]],
        [[pool("a", 3), pool("a--x", 2, parent="a"), pool("a--y", 2, parent="a")]],
        "S1",
    ),
    "S3: a pool is ARCHIVED when its work has ended": (
        [TWO, LENT, [*gone("low"), pool("a", 2, state="ARCHIVED")]],
        [TWO, LENT, [pool("a", 2, state="ARCHIVED")]],
        "S3",
    ),
    "S6: a change contains the state before": (
        [TWO, [("PutPool", pool("a", 3)[1] | {"before": pool("a", 2)[1]["pool"]})]],
        [TWO, [("PutPool", pool("a", 3)[1] | {"before": pool("a", 1)[1]["pool"]})]],
        "S6",
    ),
    "S6: settings that only a newer release has are not a change": (
        [TWO, [("PutPool", pool("a", 3)[1] | {"before": pool("a", 2)[1]["pool"] | {"newest": None, "newer": ""}})]],
        [TWO, [("PutPool", pool("a", 3)[1] | {"before": pool("a", 2)[1]["pool"] | {"newest": 1, "newer": ""}})]],
        "S6",
    ),
    "S7: nothing is submitted to a closed pool": (
        [[node("n0", 4), pool("a", 2)], [submit("w", "a")]],
        [[node("n0", 4), pool("a", 2, closed_by="ann")], [submit("w", "a")]],
        "S7",
    ),
    "S8: nothing starts in a paused pool": (
        [TWO, [*work("w", "a"), pool("a", 2, paused_by="ann"), pool("a", 2), admit("w", ("n0", 1, [0]))]],
        [TWO, [*work("w", "a"), pool("a", 2, paused_by="ann"), admit("w", ("n0", 1, [0]))]],
        "S8",
    ),
    "S8: nothing starts in a subpool of a paused pool": (
        [PARENT, [*work("w", "a--x"), pool("a", 2), admit("w", ("n0", 1, [0]))]],
        [PARENT, [*work("w", "a--x"), admit("w", ("n0", 1, [0]))]],
        "S8",
    ),
    "W6: at most so many workflows of a user wait": (
        [
            [node("n0", 4), pool("a", 2, user_waiting=2), pool("a--x", 1, parent="a", user_waiting=2)],
            [submit("v", "a"), submit("w", "a--x")],
        ],
        [
            [node("n0", 4), pool("a", 2, user_waiting=1), pool("a--x", 1, parent="a", user_waiting=1)],
            [submit("v", "a"), submit("w", "a--x")],
        ],
        "W6",
    ),
    "P6: work stops for its exec_timeout when that has run out": (
        [TWO, running(1.0), STOPPED],
        [TWO, running(1.5), STOPPED],
        "P6",
    ),
    "P6: work without exec_timeout does not stop for it": (
        [TWO, running(1.0), STOPPED],
        [TWO, running(None), STOPPED],
        "P6",
    ),
    "P6: no work runs on after its exec_timeout": (
        [TWO, running(1.0), starts_and_ends("v")],
        [TWO, running(0.5), starts_and_ends("v")],
        "P6",
    ),
    "P6: a group ends for its queue_timeout when that has run out": (
        [TWO, waits(1.0), gone("w", "FAILED_QUEUE_TIMEOUT")],
        [TWO, waits(1.5), gone("w", "FAILED_QUEUE_TIMEOUT")],
        "P6",
    ),
    "P6: no group waits longer than its queue_timeout": (
        [TWO, waits(1.0), starts_and_ends("v")],
        [TWO, waits(0.5), starts_and_ends("v")],
        "P6",
    ),
    "P6: a pool accepts only work that runs as long as it allows": (
        [[node("n0", 4), pool("a", 2, max_run_time_s=60.0)], [timed(submit("w", "a"), 60.0)]],
        [[node("n0", 4), pool("a", 2, max_run_time_s=60.0)], [timed(submit("w", "a"), 61.0)]],
        "P6",
    ),
    "P6: so does a pool to which work moves": (
        [[*TWO, pool("c", 2, max_run_time_s=60.0)], [timed(submit("w", "a"), 60.0), MOVES]],
        [[*TWO, pool("c", 2, max_run_time_s=60.0)], [timed(submit("w", "a")), MOVES]],
        "P6",
    ),
    "W7: a pool whose budget is reached starts nothing new": (
        [
            [node("n0", 4), pool("a", 4, budget=9)],
            [*work("v", "a"), spent("pool", "a", 8, 9), admit("v", ("n0", 1, [0]))],
        ],
        [
            [node("n0", 4), pool("a", 4, budget=9)],
            [*work("v", "a"), spent("pool", "a", 9, 9, "STOP"), admit("v", ("n0", 1, [0]))],
        ],
        "W7",
    ),
    "W7: with BORROW, it starts only LOW work": (
        [
            [node("n0", 4), pool("a", 4, budget=9, budget_reached="BORROW")],
            [*work("v", "a", "LOW"), spent("pool", "a", 9, 9, "BORROW"), admit("v", ("n0", 1, [0]))],
        ],
        [
            [node("n0", 4), pool("a", 4, budget=9, budget_reached="BORROW")],
            [*work("v", "a"), spent("pool", "a", 9, 9, "BORROW"), admit("v", ("n0", 1, [0]))],
        ],
        "W7",
    ),
    "W7: a user whose budget is reached starts nothing new in any pool": (
        [
            [node("n0", 4), pool("a", 4), limits("ann", budget=9)],
            [*work("v", "a", user="bob"), spent("user", "ann", 9, 9, "STOP"), admit("v", ("n0", 1, [0]))],
        ],
        [
            [node("n0", 4), pool("a", 4), limits("ann", budget=9)],
            [*work("v", "a"), spent("user", "ann", 9, 9, "STOP"), admit("v", ("n0", 1, [0]))],
        ],
        "W7",
    ),
    "W7: what a reached budget does is what its pool says": (
        [[node("n0", 4), pool("a", 4, budget=9)], [spent("pool", "a", 9, 9, "STOP")]],
        [[node("n0", 4), pool("a", 4, budget=9)], [spent("pool", "a", 9, 9)]],
        "W7",
    ),
    "W7: the log says the budget that is declared": (
        [[node("n0", 4), pool("a", 4, budget=9)], [spent("pool", "a", 1, 9)]],
        [[node("n0", 4), pool("a", 4, budget=9)], [spent("pool", "a", 1, 8)]],
        "W7",
    ),
    "W6: a user holds at most so many GPUs in a pool and its subpools": (
        [
            [node("n0", 4), pool("a", 4, user_gpus=2), pool("a--x", 1, parent="a", user_gpus=2)],
            [*work("v", "a"), admit("v", ("n0", 1, [0])), *work("w", "a--x"), admit("w", ("n0", 1, [1]))],
        ],
        [
            [node("n0", 4), pool("a", 4, user_gpus=1), pool("a--x", 1, parent="a", user_gpus=1)],
            [*work("v", "a"), admit("v", ("n0", 1, [0])), *work("w", "a--x"), admit("w", ("n0", 1, [1]))],
        ],
        "W6",
    ),
    "W6: at most so many workflows of a user wait over all pools": (
        [[node("n0", 4), pool("a", 2), pool("b", 2), limits("ann", waiting=2)], [submit("v", "a"), submit("w", "b")]],
        [[node("n0", 4), pool("a", 2), pool("b", 2), limits("ann", waiting=1)], [submit("v", "a"), submit("w", "b")]],
        "W6",
    ),
    "W6: a user holds at most so many GPUs over all pools": (
        [
            [node("n0", 4), pool("a", 2), pool("b", 2), limits("ann", gpus=2)],
            [*work("v", "a"), admit("v", ("n0", 1, [0])), *work("w", "b"), admit("w", ("n0", 1, [1]))],
        ],
        [
            [node("n0", 4), pool("a", 2), pool("b", 2), limits("ann", gpus=1)],
            [*work("v", "a"), admit("v", ("n0", 1, [0])), *work("w", "b"), admit("w", ("n0", 1, [1]))],
        ],
        "W6",
    ),
    "P5: a user whose limit over all pools is lifted starts": (
        [
            [node("n0", 4), pool("a", 2), pool("b", 2), limits("ann", gpus=1)],
            [*work("v", "a"), admit("v", ("n0", 1, [0])), *work("w", "b", at=2.0)],
        ],
        [
            [node("n0", 4), pool("a", 2), pool("b", 2), limits("ann", gpus=1)],
            [*work("v", "a"), admit("v", ("n0", 1, [0])), *work("w", "b", at=2.0), limits("ann")],
        ],
        "P5",
    ),
    "P4: a gang that a limit of its user stops is passed over": (
        [
            [node("n0", 4), pool("a", 4, queueing="STRICT_FIFO", user_gpus=2)],
            [*work("v", "a", gpus=2), admit("v", ("n0", 1, [0, 1]))],
            [*work("w", "a", at=2.0), *work("x", "a", at=3.0, user="bob"), admit("x", ("n0", 1, [2]))],
        ],
        [
            [node("n0", 4), pool("a", 4, queueing="STRICT_FIFO", user_gpus=3)],
            [*work("v", "a", gpus=2), admit("v", ("n0", 1, [0, 1]))],
            [*work("w", "a", at=2.0), *work("x", "a", at=3.0, user="bob"), admit("x", ("n0", 1, [2]))],
        ],
        "P4",
    ),
    "P5: a user below the limit starts": (
        [
            [node("n0", 4), pool("a", 4, user_gpus=2)],
            [*work("v", "a", gpus=2), admit("v", ("n0", 1, [0, 1])), *work("w", "a", at=2.0)],
        ],
        [
            [node("n0", 4), pool("a", 4, user_gpus=3)],
            [*work("v", "a", gpus=2), admit("v", ("n0", 1, [0, 1])), *work("w", "a", at=2.0)],
        ],
        "P5",
    ),
    "R1: a limit of the user is no reason to preempt": (
        [
            [node("n0", 2), pool("a", 2, user_gpus=2)],
            [*work("v", "a", "LOW", gpus=2), admit("v", ("n0", 1, [0, 1])), *work("w", "a", at=2.0)],
        ],
        [
            [node("n0", 2), pool("a", 2, user_gpus=3)],
            [*work("v", "a", "LOW", gpus=2), admit("v", ("n0", 1, [0, 1])), *work("w", "a", at=2.0)],
        ],
        "R1",
    ),
    "A1: a limit of the user makes gangs smaller": (
        [[node("n0", 4), pool("a", 4, user_gpus=3)], [*work("w", "a", **SEVERAL), admit("w", ("n0", 3, [0, 1, 2]))]],
        [[node("n0", 4), pool("a", 4, user_gpus=3)], [*work("w", "a", **SEVERAL), admit("w", ("n0", 2, [0, 1]))]],
        "A1",
    ),
    "R7: a pause stops nothing": (
        [TWO, LENT, [pool("b", 2, paused_by="ann")]],
        [TWO, LENT, [pool("b", 2, paused_by="ann"), of("Stop", "low", cause="FAILED_CANCELED")]],
        "R7",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_lawful_log_gives_no_report_and_its_unlawful_twin_names_the_rule(name: str) -> None:
    lawful, unlawful, law = CASES[name]
    assert reports(log(*lawful)) == []
    assert law in broken(log(*unlawful))


def test_gang_preempted_a_hundred_times_is_not_requeued() -> None:
    def preempted(times: int) -> list[list[Event]]:
        once = [*LENT, of("Preempt", "low", by="gone/g", law="RECLAIM"), *gone("low")]
        return [TWO, *[once[1 if at else 0 :] for at in range(times)], [LENT[1]]]

    assert broken(log(*preempted(100))) == set()
    assert broken(log(*preempted(101))) == {"R6"}


def test_nomination_may_end_when_its_target_is_set_aside_in_the_same_commit() -> None:
    """W8."""
    ends = [of("Withdraw", "firm"), ("SetAside", {"workflow": "low"})]
    assert broken(log(TWO, LENT, TAKEN, ends)) == set()
    assert broken(log(TWO, LENT, TAKEN, [ends[0], ("SetAside", {"workflow": "other"})])) == {"R4"}


@pytest.mark.parametrize(("at", "unlawful"), [(2.0, set[str]()), (0.5, {"P4"})])
def test_effect_of_a_later_nomination_counts_in_the_next_cycle(at: float, unlawful: set[str]) -> None:
    """P5: `late` claims what stops in the pool of `early`, whose quota is then free."""
    waiting = [*work("first", "a", at=1.0), *work("early", "a", at=1.5), *work("late", "b", at=at)]
    commits = [
        [pool("a", 2), pool("b", 1), *(node(f"n{each}", 1) for each in range(3))],
        [*work("s", "a"), *work("v", "b", "LOW")],
        [admit("s", ("n0", 1, [0])), admit("v", ("n2", 1, [0]))],
        [*(of("Stop", each, cause="COMPLETED") for each in "sv"), *waiting, *work("low", "b", "LOW", at=3.0)],
        [nominate("first", "n2", "v"), nominate("late", "n0", "s"), admit("low", ("n1", 1, [0]))],
    ]
    assert broken(log(*commits)) == unlawful


@pytest.mark.parametrize(("queueing", "unlawful"), [("STRICT_FIFO", set[str]()), ("BEST_EFFORT_FIFO", {"P5"})])
def test_low_work_that_borrows_waits_behind_later_low_work_within_the_quota_of_a_strict_pool(
    queueing: str, unlawful: set[str]
) -> None:
    """P4: the order of a pool is the order of all pools."""
    declared = [pool("vision", 2, queueing=queueing), *(node(f"n{at}", 1) for at in range(3))]
    within = work("late", "vision", "LOW", at=2.0, gpus=2)
    borrows = work("early", "vision", "LOW", at=1.0, count=3)
    *before, last = log(declared, [*borrows, *within])
    assert broken([*before, last._replace(end=True)]) == unlawful


def test_every_rule_has_a_case() -> None:
    assert {law for _, _, law in CASES.values()} | {"R6"} == set(CODES)


def test_report_has_position_rule_subject_and_numbers() -> None:
    _, unlawful, _ = CASES["R2: LOW within the quota of its pool is safe"]
    assert [str(each) for each in reports(log(*unlawful))] == [
        "revision 3, R2: firm/g: it preempts old/g of a, which is within its quota (uses 2 of 2 default/gpu)"
    ]


def test_recorded_histories_of_the_engine_are_lawful() -> None:
    found: dict[str, list[str]] = {}
    for name, commits in recorded():
        found[name] = [str(each) for each in reports(commits)]
    assert {name: each for name, each in found.items() if each} == {}
    assert len(found) > 300


def test_usage_that_the_log_records_is_counted_again() -> None:
    """W7: an hour of 2 GPUs, said to be more; the gang holds them until it has ended."""
    began = [*work("v", "a", gpus=2), spent("pool", "a", 3, 9, at=2.0), admit("v", ("n0", 1, [0, 1]))]
    commits = log([node("n0", 4), pool("a", 4, budget=9)], began, [of("Stop", "v", cause="FAILED_CANCELED")])
    commits += [
        commits[-1]._replace(revision=4, time=3602.0, events=gone("v", "FAILED_CANCELED")),
        commits[-1]._replace(revision=5, time=7202.0, events=[spent("pool", "a", 5, 9, at=7202.0)]),
        commits[-1]._replace(revision=6, time=7203.0, events=[spent("pool", "a", 6, 9, at=7203.0)]),
    ]
    assert [str(each) for each in reports(commits)] == [
        "revision 6, W7: the log says that pool a used 6.000000 GPU-hours this month, but it used 5.000000"
    ]
