"""Kueue manifests: the whole line that each scenario gives, cycle by cycle."""

from typing import Any

import pytest

from runrig.domain.errors import InvalidInput
from runrig.domain.kueue import Settings
from runrig.service.simulate.simulate import Options, parse_gates
from tests.service.simulate.simulations import (
    FLAVOR,
    LATEST,
    TEMPLATE,
    behind,
    cell,
    job,
    kueue,
    line,
    manifests,
    outcome,
    queue,
    running,
    share,
    stamp,
    workload,
)
from tests.worlds.manifests import group, pod

TO_THE_END = Options(cycles=0)


def admitted(name: str, to: str, count: int = 1, **more: Any) -> dict[str, Any]:
    pod_sets = [{"name": "main", "count": count, "flavors": {"cpu": "default"}}]
    return {"workload": f"default/{name}", "queue": to, "pod_sets": pod_sets, **more}


def preempted(name: str, of: str, by: str, reason: str) -> dict[str, Any]:
    return {"workload": f"default/{name}", "queue": of, "by": f"default/{by}", "reason": reason}


def pending(
    name: str, to: str, word: str | None, *reasons: dict[str, Any], considered: bool = True, parked: bool = True
) -> dict[str, Any]:
    waits = {"workload": f"default/{name}", "queue": to, "considered": considered, "parked": parked}
    return {**waits, "reason": word, "reasons": list(reasons)}


def because(code: str, node: str, law: str, have: int = 0, need: int = 0) -> dict[str, Any]:
    resource = "default/cpu" if need else ""
    return {"code": code, "node": node, "resource": resource, "have": have, "need": need, "law": law}


def cycle(*, starts: Any = (), stops: Any = (), waits: Any = ()) -> dict[str, Any]:
    told = {"admitted": list(starts), "preempted": list(stops), "pending": list(waits)}
    return {**told, "skipped_preemptions": {}}


def cpu(nominal: int, usage: int, available: int, potential: int, **more: int) -> dict[str, Any]:
    """In cores."""
    amounts = (each * 1000 for each in (nominal, usage, available, potential))
    return {"default/cpu": cell(*amounts, **{name: amount * 1000 for name, amount in more.items()})}


# ---------------------------------------------------------------- whole lines

BORROWING = manifests(
    FLAVOR,
    *queue("cq-a", 5, "team"),
    *queue("cq-b", 5, "team"),
    workload("w0", "cq-b", 1, running=True),
    workload("w1", "cq-a", 3, 2, at=2),
    workload("w2", "cq-a", 4, at=3),
    workload("w3", "cq-b", 1, at=LATEST),
)


def test_one_head_per_queue_is_evaluated_and_idle_quota_is_borrowed() -> None:
    idle = because("NoIdleToBorrow", "team", "Q3", 2000, 4000)
    assert line(BORROWING) == {
        "scenario": "test.yaml",
        "quota": {
            "before": {"cq-a": cpu(5, 0, 9, 10), "cq-b": cpu(5, 1, 9, 10), "team": cpu(0, 1, 9, 10, subtree=10)},
            "after": {"cq-a": cpu(5, 6, 2, 10), "cq-b": cpu(5, 2, 2, 10), "team": cpu(0, 8, 2, 10, subtree=10)},
        },
        "inactive": [],
        "cohorts": {"team": {"CohortActive": True}},
        "cycles": [
            cycle(
                starts=[admitted("w3", "cq-b"), admitted("w1", "cq-a", 2)],
                waits=[pending("w2", "cq-a", None, idle, considered=False, parked=False)],
            )
        ],
        "shares": {
            "before": {"cq-a": share(), "cq-b": share(), "team": share()},
            "after": {"cq-a": share(100, "cpu"), "cq-b": share(), "team": share()},
        },
        "warnings": [],
    }


def test_preempted_work_keeps_its_quota_until_the_next_cycle_and_is_then_requeued() -> None:
    taking = manifests(
        FLAVOR,
        *queue("cq-a", 4, "team", preemption={"reclaimWithinCohort": "Any"}),
        *queue("cq-b", 4, "team"),
        workload("big", "cq-b", 6, running=True),
        workload("w1", "cq-a", 4, at=LATEST),
    )
    first = cycle(
        stops=[preempted("big", "cq-b", "w1", "InCohortReclamation")],
        waits=[
            pending(
                "w1", "cq-a", "WaitingForPreemptedWorkloads", because("WaitsForTargets", "cq-a", "R4"), parked=False
            )
        ],
    )
    once = line(taking)
    assert once["cycles"] == [first]
    assert once["quota"]["after"] == once["quota"]["before"]
    assert once["quota"]["after"]["cq-b"] == cpu(4, 6, 2, 8)

    to_the_end = line(taking, TO_THE_END)
    idle = because("NoIdleToBorrow", "team", "Q3", 4000, 6000)
    assert to_the_end["cycles"] == [
        first,
        cycle(starts=[admitted("w1", "cq-a")], waits=[pending("big", "cq-b", "WaitingForQuota", idle, parked=False)]),
        cycle(waits=[pending("big", "cq-b", "WaitingForQuota", idle)]),
        cycle(waits=[pending("big", "cq-b", "WaitingForQuota", idle, considered=False)]),
    ]
    assert to_the_end["quota"]["after"]["cq-b"] == cpu(4, 0, 4, 8)


def test_preempted_job_gets_its_original_counts_back() -> None:
    """Law A3: it borrowed three; the queue that they belong to was busy with what it can never have, and then wants them."""
    told = line(
        manifests(
            FLAVOR,
            *queue("cq-a", 0, "x"),
            *queue("cq-b", 3, "x", preemption={"reclaimWithinCohort": "Any"}),
            job("train", 5, 2),
            workload("huge", "cq-b", 9, priority=1),
            workload("owner", "cq-b", 3),
        ),
        Options(2),
    )
    first, second = told["cycles"]
    assert first["admitted"] == [
        admitted("train", "cq-a", 3, job={"parallelism": 3, "completions": 3, "suspend": False})
    ]
    assert second["preempted"] == [
        {
            "workload": "default/train",
            "queue": "cq-a",
            "by": "default/owner",
            "reason": "InCohortReclamation",
            "job": {"parallelism": 5, "completions": 5, "suspend": True},
        }
    ]


LENT = (
    FLAVOR,
    *queue("cq-a", 0, "x"),
    *queue("cq-b", 8, "x", preemption={"reclaimWithinCohort": "Any"}),
    workload("owner", "cq-b", 8, at=LATEST),
)


@pytest.mark.parametrize("gets", [5, 4], ids=["between", "at its minimum"])
def test_job_already_running_with_fewer_pods_gets_its_original_counts_back(gets: int) -> None:
    """Law A3: the file has the Job as it runs, and only its Workload says what its owner asked for."""
    runs = job("train", gets, 4)
    runs["spec"] |= {"suspend": False}
    told = line(manifests(*LENT, runs, behind(running(8, 4, gets), "Job", "train")))
    back = {"parallelism": 8, "completions": 8, "suspend": True}
    assert (told["warnings"], told["cycles"][0]["preempted"]) == (
        [],
        [preempted("run", "cq-a", "owner", "InCohortReclamation") | {"job": back}],
    )


@pytest.mark.parametrize("gets", [5, 4], ids=["between", "at its minimum"])
def test_mpi_job_already_running_with_fewer_workers_gets_its_original_workers_back(gets: int) -> None:
    spec = {
        "mpiReplicaSpecs": {"Worker": {"replicas": gets, **TEMPLATE}},
        "runPolicy": {"suspend": False, "schedulingPolicy": {"minAvailable": 4}},
    }
    runs = job("train", 1, 1) | {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "spec": spec}
    del runs["metadata"]["annotations"]
    told = line(manifests(*LENT, runs, behind(running(8, 4, gets, "worker"), "MPIJob", "train")))
    assert (told["warnings"], told["cycles"][0]["preempted"][0]["job"]) == ([], {"workers": 8, "suspend": True})


def test_job_with_a_different_number_of_pods_than_admitted_is_suspended_and_requeued() -> None:
    """KEP-420, EquivalentToWorkload: behind whoever waited before it, as its Workload is new."""
    runs = job("train", 7, 4)
    runs["spec"] |= {"suspend": False}
    runs["metadata"] |= {"creationTimestamp": stamp(LATEST + 1)}
    told = line(
        manifests(
            FLAVOR,
            *queue("cq-a", 8),
            runs,
            behind(running(8, 4, 5), "Job", "train"),
            workload("waits", "cq-a", 2, at=LATEST),
        ),
        Options(2),
    )
    assert [each["path"] for each in told["warnings"]] == ["spec.parallelism"]
    assert told["quota"]["before"]["cq-a"] == cpu(8, 0, 8, 8)
    first, second = ([each["workload"] for each in one["admitted"]] for one in told["cycles"])
    assert (first, second) == (["default/waits"], ["default/run"])
    assert told["cycles"][1]["admitted"][0]["job"] == {"parallelism": 6, "completions": 6, "suspend": False}


def test_job_with_open_checks_is_not_changed() -> None:
    waiting = workload("train", "cq-a", 1, 5, minCount=2)
    waiting["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "train"}
    ]
    check = {"name": "c", "state": "Pending", "message": "", "lastTransitionTime": stamp(LATEST)}
    waiting["status"] = {"admissionChecks": [check]}
    told = line(manifests(FLAVOR, *queue("cq-a", 3), job("train", 5, 2), waiting))
    assert told["cycles"] == [cycle(starts=[admitted("train", "cq-a", 3, reserved_only=True)])]


def test_open_checks_are_reported_and_nothing_is_written_yet() -> None:
    waiting = workload("w1", "cq-a", 1)
    waiting["status"] = {
        "admissionChecks": [{"name": "c", "state": "Pending", "message": "", "lastTransitionTime": stamp(LATEST)}]
    }
    told = line(manifests(FLAVOR, *queue("cq-a", 3), waiting))
    assert told["cycles"] == [cycle(starts=[admitted("w1", "cq-a", reserved_only=True)])]


def test_cycles_and_stopped_queues_and_work_without_a_queue_do_not_affect_others() -> None:
    """Law Q5."""
    told = line(
        manifests(
            FLAVOR,
            kueue("Cohort", "x", {"parentName": "y"}),
            kueue("Cohort", "y", {"parentName": "x"}),
            *queue("cq-a", 4, "x"),
            *queue("cq-b", 4, stopPolicy="Hold"),
            *queue("cq-c", 4),
            workload("w0", "cq-a", 2, running=True),
            workload("w1", "cq-a", 1),
            workload("w2", "cq-b", 1),
            workload("w3", "cq-c", 5),
            workload("w4", "nowhere", 1),
            workload("w5", "cq-c", 1, at=LATEST),
        ),
        Options(cycles=2),
    )
    assert list(told["quota"]["before"]) == ["cq-b", "cq-c"]
    assert told["inactive"] == [
        {"node": "cq-a", "kind": "ClusterQueue", "reason": "CohortCycle", "usage": {"default/cpu": 2000}},
        {"node": "cq-b", "kind": "ClusterQueue", "reason": "Stopped"},
        {"node": "x", "kind": "Cohort", "reason": "CohortCycle", "usage": {"default/cpu": 2000}},
        {"node": "y", "kind": "Cohort", "reason": "CohortCycle", "usage": {"default/cpu": 2000}},
    ]
    assert [[each["workload"] for each in one["admitted"]] for one in told["cycles"]] == [[], ["default/w5"]]
    waits = {each["workload"]: (each["reason"], each["considered"]) for each in told["cycles"][0]["pending"]}
    assert waits["default/w3"] == ("ExceedsMaxQuota", True)
    assert waits["default/w4"] == (None, False)
    assert [(each["document"], each["path"]) for each in told["warnings"]] == [
        (2, "spec.parentName"),
        (3, "spec.parentName"),
        (14, "spec.queueName"),
    ]


def test_queue_with_an_undefined_flavor_starts_nothing_if_another_flavor_is_defined() -> None:
    objects = (*queue("cq-a", 4), workload("w1", "cq-a", 1, at=LATEST))
    told = line(manifests(kueue("ResourceFlavor", "another"), *objects))
    assert told["inactive"] == [{"node": "cq-a", "kind": "ClusterQueue", "reason": "FlavorNotFound"}]
    why = {**because("FlavorNotFound", "cq-a", "Q2"), "resource": "default"}
    assert told["cycles"] == [cycle(waits=[pending("w1", "cq-a", None, why, considered=False, parked=False)])]
    taken_as_given = line(manifests(*objects))
    assert taken_as_given["inactive"] == []
    assert taken_as_given["cycles"] == [cycle(starts=[admitted("w1", "cq-a")])]


def test_every_cohort_says_whether_it_is_active() -> None:
    """The condition CohortActive of KEP-79, also of cohorts that are only named."""
    told = line(
        manifests(
            FLAVOR,
            kueue("Cohort", "x", {"parentName": "x"}),
            kueue("Cohort", "team", {"parentName": "org"}),
            *queue("cq-a", 4, "team"),
            *queue("cq-b", 4, "x"),
            *queue("held", 4, "held", stopPolicy="Hold"),
        )
    )
    assert told["cohorts"] == {
        "cohort/held": {"CohortActive": True},
        "org": {"CohortActive": True},
        "team": {"CohortActive": True},
        "x": {"CohortActive": False},
    }


# ---------------------------------------------------------------- settings of the manager


def test_a_gate_switches_partial_admission_off() -> None:
    text = manifests(FLAVOR, *queue("cq-a", 3), workload("w1", "cq-a", 1, 5, minCount=2, at=LATEST))
    assert line(text)["cycles"][0]["admitted"] == [admitted("w1", "cq-a", 3)]
    off = Options(settings=Settings(gates={"PartialAdmission": False}))
    assert line(text, off)["cycles"][0]["admitted"] == []


@pytest.mark.parametrize(
    ("on", "says"),
    [
        (True, []),
        (False, ["HierarchicalCohorts cannot be turned off: the simulation always uses hierarchical cohorts"]),
    ],
)
def test_the_gate_of_hierarchical_cohorts_is_known(on: bool, says: list[str]) -> None:
    gates = parse_gates(f"HierarchicalCohorts={str(on).lower()}")
    told = line(BORROWING, Options(settings=Settings(gates=gates)))
    assert [each["message"] for each in told["warnings"]] == says
    assert told["cycles"] == line(BORROWING)["cycles"]


# ---------------------------------------------------------------- the end of a run


def test_configuration_gates_without_effect_are_reported() -> None:
    gates = {"ElasticJobsViaWorkloadSlices": True, "PartialAdmission": True, "TLSOptions": True}
    config = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", "featureGates": gates}
    found = line(manifests(config, FLAVOR, *queue("cq-a", 4)))
    says = "ElasticJobsViaWorkloadSlices is ignored: the feature is not simulated"
    assert found["warnings"] == [{"document": 0, "path": "Configuration, featureGates", "message": says}]


def test_drained_queue_continues_although_its_first_cycle_changes_nothing() -> None:
    """What has to stop is gone before the second cycle, and what it held is lent."""
    drained = manifests(
        FLAVOR,
        *queue("cq-a", 4, "team", stopPolicy="HoldAndDrain"),
        *queue("cq-b", 0, "team", queueingStrategy="StrictFIFO"),
        workload("w0", "cq-a", 4, running=True),
        workload("w1", "cq-b", 4, at=LATEST),
    )
    told = line(drained, TO_THE_END)
    assert [len(each["admitted"]) for each in told["cycles"]] == [0, 1, 0]


@pytest.mark.parametrize("text", ["", "---\n---\n", "# nothing\n"])
def test_an_empty_file_is_an_empty_system(text: str) -> None:
    nothing: dict[str, Any] = {"before": {}, "after": {}}
    assert line(text, TO_THE_END) == {
        "scenario": "test.yaml",
        "quota": nothing,
        "inactive": [],
        "cohorts": {},
        "cycles": [cycle()],
        "shares": nothing,
        "warnings": [],
    }


def test_file_without_any_known_object_is_refused() -> None:
    job = "{apiVersion: batch/v1, kind: Job, metadata: {name: %s}, spec: {template: {spec: {containers: [{name: a, image: x}]}}}}"
    with pytest.raises(InvalidInput) as raised:
        line(f"{job % 'a'}\n---\n{job % 'b'}\n", TO_THE_END)
    why = "ignored: it has no label kueue.x-k8s.io/queue-name, and its namespace no LocalQueue 'default'"
    assert raised.value.message == f"nothing in this file can be simulated: document 1: {why} (and in 1 more place)"
    flavor = "{apiVersion: kueue.x-k8s.io/v1beta1, kind: ResourceFlavor, metadata: {name: f}}"
    assert [each["document"] for each in line(f"{job % 'a'}\n---\n{flavor}\n", TO_THE_END)["warnings"]] == [1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (manifests(*queue("cq-a", -1)), "document 1"),
        (manifests(FLAVOR, FLAVOR), "document 2"),
        ("apiVersion: v1\nkind: [", "document 1"),
        (b"apiVersion: v1\nkind: \xff", "not text"),
    ],
)
def test_invalid_file_is_one_error(text: str | bytes, says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        outcome(text, "test.yaml")
    assert says in caught.value.message


def lent_and_borrowed(*, cpu_held: int, **policies: Any) -> list[str]:
    """Why `new` waits: its queue lent its gpu, and holds *cpu_held* of 6 cpu itself."""
    preemption = {"reclaimWithinCohort": "Any", **policies}
    quota = {"default": {"cpu": 6, "gpu": 5}}
    mine = {"namespaceSelector": {}, "cohortName": "co", "resourceGroups": [group(quota)], "preemption": preemption}
    other = {**mine, "resourceGroups": [group({"default": {"cpu": 20, "gpu": 0}})], "preemption": {}}
    queues = [
        made
        for name, spec in (("mine", mine), ("other", other))
        for made in (kueue("ClusterQueue", name, spec), kueue("LocalQueue", name, {"clusterQueue": name}))
    ]
    documents = [
        holding("own", "mine", cpu=cpu_held, gpu=3),
        holding("lent", "other", cpu=1, gpu=2),
        wanting("new", "mine", cpu=1, gpu=2),
    ]
    (cycle,) = outcome(manifests(FLAVOR, *queues, *documents), "test.yaml").cycles
    return [str(reason) for each in cycle.pending if each.workload == "default/new" for reason in each.reasons]


def wanting(name: str, to: str, **amounts: int) -> dict[str, Any]:
    pods = {"name": "main", "count": 1, "template": pod(amounts)}
    return kueue("Workload", name, {"queueName": to, "podSets": [pods]})


def holding(name: str, to: str, **amounts: int) -> dict[str, Any]:
    granted = {"name": "main", "count": 1, "flavors": dict.fromkeys(amounts, "default"), "resourceUsage": amounts}
    status = {"admission": {"clusterQueue": to, "podSetAssignments": [granted]}}
    return {**wanting(name, to, **amounts), "status": status}


def test_reason_explains_why_nothing_is_reclaimed() -> None:
    short = "needs 2 GPUs, but co has no idle quota"
    why = "queue mine would have to borrow {}, so it cannot reclaim what it lent (borrowWithinCohort: Never)"
    assert lent_and_borrowed(cpu_held=7) == [short, why.format("2 CPU cores")]
    assert lent_and_borrowed(cpu_held=6) == [short, why.format("1 CPU core")]
    assert lent_and_borrowed(cpu_held=7, reclaimWithinCohort="Never") == [short]
    assert why.format("1 CPU core") not in lent_and_borrowed(cpu_held=5)
