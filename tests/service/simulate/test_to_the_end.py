"""A run of Kueue manifests to the end: it stops when nothing can come any more, and not at the first cycle in which nothing starts."""

import json
from pathlib import Path
from typing import Any

import pytest

from runrig.domain.kueue import Settings
from runrig.domain.pools import HOSTNAME
from runrig.kueue.run import MOST_IDLE
from runrig.service.simulate.simulate import Options
from runrig.wire.simulate import as_line
from tests.service.simulate.simulations import kueue, line, manifests, outcome, pods, queue, workload
from tests.worlds.manifests import group, manifest


def with_head(name: str, to: str, *, at: int, workers: int) -> dict[str, Any]:
    """A head and some workers, of one core each.  Either pod set takes one flavor."""
    made = workload(name, to, 1, at=at)
    made["spec"]["podSets"] = [pods(1) | {"name": "head"}, pods(1, workers) | {"name": "workers"}]
    return made


def flavored(name: str, *cores: int, strategy: str = "StrictFIFO") -> tuple[dict[str, Any], dict[str, Any]]:
    """A queue with so many *cores* in the flavors f0, f1, and so on."""
    cluster_queue, local = queue(name, 0, queueingStrategy=strategy)
    quotas = {f"f{at}": {"cpu": {"nominalQuota": number}} for at, number in enumerate(cores)}
    cluster_queue["spec"]["resourceGroups"] = [group(quotas)]
    return cluster_queue, local


def starts(*documents: dict[str, Any], flavors: int = 4) -> list[list[str]]:
    """What each cycle of a run to the end admits: the name, and the flavor of each pod set."""
    made = [kueue("ResourceFlavor", f"f{at}") for at in range(flavors)]
    told = line(manifests(*made, *documents), Options(cycles=0))
    return [
        [
            " ".join(
                [each["workload"].removeprefix("default/"), *(part["flavors"]["cpu"] for part in each["pod_sets"])]
            )
            for each in cycle["admitted"]
        ]
        for cycle in told["cycles"]
    ]


@pytest.mark.parametrize("strategy", ["StrictFIFO", "BestEffortFIFO"])
def test_remaining_flavors_are_tried(strategy: str) -> None:
    """The head takes one core of f0, and three are no place for four workers.  With the head in f1 they fit."""
    q = flavored("cq-a", 4, 1, strategy=strategy)
    assert starts(*q, with_head("first", "cq-a", at=1, workers=4)) == [[], ["first f1 f0"], []]


def test_remaining_flavors_are_tried_on_nodes_too() -> None:
    """Quota is plenty.  The head takes the node of f0, and three cores are no place for four workers."""
    tree = kueue("Topology", "hosts", {"levels": [{"nodeLabel": HOSTNAME}]})
    flavors = [
        kueue("ResourceFlavor", name, {"nodeLabels": {"kind": name}, "topologyName": "hosts"}) for name in ("f0", "f1")
    ]
    nodes = [
        manifest(
            "Node", kind, None, "v1", meta={"labels": {"kind": kind, HOSTNAME: kind}}, status={"allocatable": room}
        )
        for kind, room in (("f0", {"cpu": 4, "pods": 9}), ("f1", {"cpu": 1, "pods": 9}))
    ]
    first = with_head("first", "cq-a", at=1, workers=4)
    for pod_set in first["spec"]["podSets"]:
        pod_set["topologyRequest"] = {"required": HOSTNAME}
    behind = workload("behind", "cq-a", 1, at=2)
    documents = tree, *flavors, *nodes, *flavored("cq-a", 99, 99), first, behind
    assert starts(*documents, flavors=0) == [[], ["first f1 f0"], []]


def test_workload_behind_another_starts_after_it() -> None:
    q = flavored("cq-a", 4, 1, 1)
    behind = workload("behind", "cq-a", 1, at=2)
    assert starts(*q, with_head("first", "cq-a", at=1, workers=4), behind) == [[], ["first f1 f0"], ["behind f2"], []]


def test_each_of_several_flavors_is_tried() -> None:
    """The workers fill f1, and so the head has to go on to the last."""
    q = flavored("cq-a", 1, 5, 1)
    holds = workload("holds", "cq-a", 1, at=0)
    last = with_head("last", "cq-a", at=1, workers=5)
    assert starts(*q, holds, last) == [["holds f0"], [], ["last f2 f1"], []]


def test_run_ends_when_the_head_that_cannot_start_has_tried_all_flavors() -> None:
    """It looks at f0, f1, f2 and f0 again: nothing new."""
    assert starts(*flavored("cq-a", 4, 1, 1), with_head("never", "cq-a", at=1, workers=9)) == [[]] * 3


def test_run_ends_when_heads_have_tried_all_flavors_at_different_times() -> None:
    """Two and three flavors, and a queue that starts somebody meanwhile."""
    queues = (*flavored("cq-a", 4, 1), *flavored("cq-b", 4, 1, 1), *flavored("cq-c", 4, 1))
    never = (with_head(f"never-{name}", f"cq-{name}", at=1, workers=9) for name in "ab")
    found = starts(*queues, *never, with_head("first", "cq-c", at=1, workers=4))
    assert found == [[], ["first f1 f0"], *[[]] * 6]


def test_run_that_would_repeat_too_late_is_cut_off() -> None:
    """2, 3, 5, 7 and 11 flavors come round together after 2,310 cycles."""
    sizes = (2, 3, 5, 7, 11)
    queues = [part for size in sizes for part in flavored(f"cq-{size}", 4, *[1] * (size - 1))]
    never = [with_head(f"never-{size}", f"cq-{size}", at=1, workers=9) for size in sizes]
    assert len(starts(*queues, *never, flavors=11)) == MOST_IDLE + 1


# ---------------------------------------------------------------- runs that never settle

EXAMPLES = Path(__file__).parents[3] / "examples" / "kueue"


def told(example: str, settings: Settings) -> tuple[list[list[str]], list[str]]:
    """(who starts, and who goes, in each cycle; warnings)."""
    made = json.loads(as_line(outcome((EXAMPLES / example).read_text(), example, Options(0, settings))))
    cycles = [
        [
            *(f"{each['workload'].removeprefix('default/')} starts" for each in cycle["admitted"]),
            *(f"{each['workload'].removeprefix('default/')} goes" for each in cycle["preempted"]),
        ]
        for cycle in made["cycles"]
    ]
    return cycles, [each["message"] for each in made["warnings"]]


def test_peer_mode_run_ends_when_it_begins_to_repeat() -> None:
    turn = [["s-waits starts"], ["s-waits goes"]]
    assert told("22-comes-to-rest.yaml", Settings(as_peer=True)) == (
        turn * 2,
        ["cycles 3 to 4 repeat forever: work is evicted and admitted in turn"],
    )


def test_peer_mode_run_that_settles_is_not_reported_as_endless() -> None:
    cycles, warnings = told("09-priority.yaml", Settings(as_peer=True))
    assert cycles[:2] == [["newer goes"], ["urgent starts"]]
    assert warnings == []


@pytest.mark.parametrize(("as_peer", "warns"), [(False, True), (True, False)])
def test_gate_for_preemptors_has_an_effect_only_in_peer_mode(as_peer: bool, warns: bool) -> None:
    gates = {"PrioritizePreemptorWorkloads": True}
    _, warnings = told("09-priority.yaml", Settings(gates=gates, as_peer=as_peer))
    assert bool(warnings) is warns
