"""Pods of gangs that are placed: everything in one of them, and what differs from one to the next."""

from dataclasses import replace

import pytest

from runrig.backends.kubernetes.names import Object
from runrig.backends.kubernetes.objects import gang_objects, pod_group
from runrig.backends.kubernetes.pods import LONGEST_VARIABLE, WHOLE, GangPods
from runrig.backends.kubernetes.wanted import Wanted
from runrig.domain.gangs import Requirement
from runrig.domain.nodes import Flavor, Taint
from runrig.domain.pools import Pool, TopologyKey
from runrig.domain.quantities import CPU, GPU, MEMORY, STORAGE, requests_of
from runrig.domain.workflows import TaskKey, task_uuid
from runrig.ports.backend import Desired
from tests.backends.kubernetes.gangs import UUID, WORKFLOW_UUID, gang, launch, placed, pods, settings, task, variables

LABELS = {
    "app.kubernetes.io/managed-by": "runrig",
    "kai.scheduler/queue": "osmo-pool-jobs-lab---shared",
    "runai/queue": "osmo-pool-jobs-lab---shared",
    "runrig/pool": "lab",
    "runrig/workflow": "wf-1",
    "runrig/workflow-uuid": WORKFLOW_UUID,
    "runrig/group": "g",
    "runrig/gang": UUID,
}
ANNOTATIONS = {"runrig/gang-id": "wf-1/g", "runrig/user": "ada@example.com"}


HOSTS = ("worker-0-39a5f2b8526e5d2d", "worker-1-7ca6d75ecbd15160", "worker-2-9973b28acfb35cba")


def host(name: str) -> str:
    return f"{name}.g-{UUID}.jobs.svc"


def test_placed_pod_is_exactly_this() -> None:
    asked = requests_of({GPU: 8, CPU: 1500, MEMORY: 3 * 1024**3, STORAGE: 5})
    worker = task(
        "Worker",
        count=3,
        args=("--rank={{index}}", "$(X)"),
        environment={"DIR": "{{output}}", "RUNRIG_COUNT": "9"},
        requests=asked,
        allow=("hostNetwork",),
    )
    whole = gang(worker, labels={"team": "a", "runrig/epoch": "no"})
    flavors = settings(Flavor("h100", {"kind": "h100"}, (Taint("gpu", "yes"),)), names={GPU: "example.com/gpu"})
    started = launch(whole, "Worker-1", key=TaskKey("wf-1", "Worker-1", 4), flavor="h100", node="n7", max_count=5)
    amounts = {"cpu": "1500m", "example.com/gpu": 8, "memory": "3Gi", "ephemeral-storage": 5}
    assert GangPods(whole, flavors).pod(started) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "worker-1-95557e37e9fd50a7",
            "namespace": "jobs",
            "annotations": {
                "pod-group-name": UUID,
                "runrig/key": "wf-1/Worker-1/4",
                **ANNOTATIONS,
                "runrig/hosts": "".join(f"{host(name)} slots=8\n" for name in HOSTS),
            },
            "labels": {"team": "a", **LABELS, "runrig/task": "Worker-1", "runrig/retry": "4", "runrig/epoch": "7"},
            "finalizers": ["runrig/kept"],
        },
        "spec": {
            "schedulerName": "kai-scheduler",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "hostname": HOSTS[1],
            "subdomain": f"g-{UUID}",
            "hostNetwork": True,
            "dnsPolicy": "ClusterFirstWithHostNet",
            "nodeSelector": {"kind": "h100"},
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n7"]}]}
                        ]
                    }
                }
            },
            "tolerations": [{"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}],
            "volumes": [
                {"name": "output", "emptyDir": {}},
                {
                    "name": "launcher",
                    "downwardAPI": {
                        "items": [{"path": "hosts", "fieldRef": {"fieldPath": "metadata.annotations['runrig/hosts']"}}]
                    },
                },
            ],
            "containers": [
                {
                    "name": "main",
                    "image": "image:1",
                    "command": ["run"],
                    "args": ["--rank=1", "$$(X)"],
                    "env": [
                        *({"name": name, "value": value} for name, value in launcher(1, 3, 8, host(HOSTS[0])).items()),
                        {"name": "DIR", "value": "/runrig/output"},
                        {"name": "RUNRIG_COUNT", "value": "3"},
                        {"name": "RUNRIG_WORKFLOW_ID", "value": "wf-1"},
                        {"name": "RUNRIG_TASK", "value": "Worker-1"},
                        {"name": "RUNRIG_RETRY_ID", "value": "4"},
                        {"name": "RUNRIG_INDEX", "value": "1"},
                        {"name": "RUNRIG_MAX_COUNT", "value": "5"},
                        {"name": "RUNRIG_HOSTS", "value": ",".join(host(name) for name in HOSTS)},
                    ],
                    "resources": {"limits": amounts, "requests": amounts},
                    "volumeMounts": [
                        {"name": "output", "mountPath": "/runrig/output"},
                        {"name": "launcher", "mountPath": "/runrig/launcher", "readOnly": True},
                    ],
                }
            ],
        },
    }


def launcher(rank: int, nodes: int, gpus: int, first: str) -> dict[str, str]:
    """What launchers find in a pod."""
    return {
        "PYTHONUNBUFFERED": "1",
        "PET_NNODES": str(nodes),
        "PET_NODE_RANK": str(rank),
        "PET_NPROC_PER_NODE": str(gpus),
        "PET_MASTER_ADDR": first,
        "PET_MASTER_PORT": "29500",
        "MASTER_ADDR": first,
        "MASTER_PORT": "29500",
        "RUNRIG_NODES": str(nodes),
        "RUNRIG_NODE_RANK": str(rank),
        "RUNRIG_GPUS": str(gpus),
        "RUNRIG_HOSTFILE": "/runrig/launcher/hosts",
        "OMPI_MCA_orte_default_hostfile": "/runrig/launcher/hosts",
        "PRTE_MCA_prte_default_hostfile": "/runrig/launcher/hosts",
    }


def test_task_that_shares_its_group_has_no_launcher_variables() -> None:
    pod = placed(pods(task("head"), task("worker", count=2)), "worker-1")
    assert [name for name in variables(pod) if name.startswith(("PET", "MASTER", "RUNRIG_NODE"))] == []
    assert variables(pod)["PYTHONUNBUFFERED"] == "1"
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["output"]


def test_launcher_settings_of_a_task_take_precedence() -> None:
    pod = placed(pods(task(environment={"MASTER_PORT": "1234", "PYTHONUNBUFFERED": "0"})), "t")
    assert [variables(pod)[name] for name in ("MASTER_PORT", "PET_MASTER_PORT", "PYTHONUNBUFFERED")] == [
        *("1234", "29500", "0")
    ]


def test_host_file_for_very_many_nodes_is_omitted() -> None:
    pod = placed(pods(task(count=1_000)), "t-0")
    assert "runrig/hosts" not in pod["metadata"]["annotations"]
    assert "RUNRIG_HOSTFILE" not in variables(pod)
    assert variables(pod)["PET_NNODES"] == "1000"


def test_gang_of_several_pods_has_a_service_that_names_them() -> None:
    them = pods(
        task("head"), task("worker", count=2, command=("{{host:head}} {{host:worker}} {{host:worker-1}} {{host:x}}",))
    )
    service, group = gang_objects(them)
    assert service == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": f"g-{UUID}",
            "namespace": "jobs",
            "annotations": ANNOTATIONS,
            "labels": LABELS | {"runrig/epoch": "7"},
        },
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"runrig/gang": UUID}},
    }
    assert (group["kind"], group["spec"]["minMember"]) == ("PodGroup", 3)
    pod = placed(them, "worker-0")
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("worker-0", f"g-{UUID}")
    assert pod["spec"]["containers"][0]["command"] == [
        " ".join([host("head"), host("worker-0"), host("worker-1"), "{{host:x}}"])
    ]
    assert variables(pod)["RUNRIG_HOSTS"] == f"{host('worker-0')},{host('worker-1')}"
    assert variables(placed(them, "head"))["RUNRIG_HOSTS"] == host("head")


def test_gang_of_one_pod_has_no_service_and_reaches_itself() -> None:
    them = pods(task(command=("{{host:t}}", "{{uuid}}", "{{workflow_id}}", "{{input:a}}")))
    pod = placed(them, "t")
    assert [each["kind"] for each in gang_objects(them)] == ["PodGroup"]
    assert "subdomain" not in pod["spec"]
    assert variables(pod)["RUNRIG_HOSTS"] == "127.0.0.1"
    assert pod["spec"]["containers"][0]["command"] == [
        "127.0.0.1",
        task_uuid(WORKFLOW_UUID, "t"),
        "wf-1",
        "{{input:a}}",
    ]


def test_hosts_are_omitted_if_linux_could_not_start_a_program_with_them() -> None:
    most = (LONGEST_VARIABLE - len("RUNRIG_HOSTS=")) // len(host("t-1000") + ",")
    few, many = pods(task(count=most)), pods(task(count=most + 200))
    assert most > 2000
    assert len(f"RUNRIG_HOSTS={variables(placed(few, 't-0'))['RUNRIG_HOSTS']}\0") <= LONGEST_VARIABLE
    assert "RUNRIG_HOSTS" not in variables(placed(many, "t-0"))
    assert variables(placed(many, "t-0"))["RUNRIG_COUNT"] == str(most + 200)


def test_next_attempt_of_a_pod_differs_only_in_name_number_and_node() -> None:
    keys = (TopologyKey("rack", "rack"),)
    sliced = task(count=4, topology=(Requirement("rack", "r", slice_size=2),), files={"/rank": "{{index}}"})
    them = pods(sliced, pool=Pool("lab", topology_keys=keys))
    first = placed(them, "t-2")
    again = placed(them, "t-2", key=TaskKey("wf-1", "t-2", 1), node="n9")
    assert first["metadata"]["labels"]["kai.scheduler/subgroup-name"] == "r-1"
    assert _differences(first, again) == {
        "metadata.name",
        "metadata.annotations.runrig/key",
        "metadata.labels.runrig/retry",
        "spec.affinity",
        "spec.containers",  # RUNRIG_RETRY_ID
    }


def test_subpool_uses_its_own_queue_and_the_topology_of_its_parent() -> None:
    keys = (TopologyKey("rack", "example.com/rack"),)
    parent, sub = Pool("lab", topology_keys=keys), Pool("lab--a", parent="lab", subpool_name="a")
    (group,) = gang_objects(pods(task(topology=(Requirement("rack", "r"),)), pool=sub, top=parent))
    assert group["spec"] == {
        "queue": "osmo-pool-jobs-lab--a",
        "priorityClassName": "osmo-normal",
        "preemptibility": "non-preemptible",
        "minMember": 1,
        "topologyConstraint": {
            "topology": "osmo-pool-jobs-lab-topology",
            "requiredTopologyLevel": "example.com/rack",
            "preferredTopologyLevel": "example.com/rack",
        },
    }


def test_pod_group_requests_only_pods_that_are_still_to_run() -> None:
    """KAI counts no pod that has ended, and binds nobody of a gang that has fewer than it asks for."""
    keys = tuple(TopologyKey(key, key) for key in ("zone", "rack"))
    rack = (Requirement("zone", "z"), Requirement("rack", "r", slice_size=2))
    them = pods(
        task("lead", topology=(Requirement("zone", "z"), Requirement("rack", "lead"))),
        task("work", count=4, topology=rack),
        pool=Pool("lab", topology_keys=keys),
    )
    assert them.leaf("lead", 0) == "z-lead"
    assert [them.leaf("work", index) for index in range(4)] == ["z-r-0", "z-r-0", "z-r-1", "z-r-1"]
    whole = pod_group(them)
    assert pod_group(them, {"z-lead": 1, "z-r-0": 2, "z-r-1": 2}) == whole
    some = pod_group(them, {"z-lead": 1, "z-r-1": 1})
    assert (minimums(whole), minimums(some)) == ({"z-lead": 1, "z-r-0": 2, "z-r-1": 2}, {"z-lead": 1, "z-r-1": 1})
    assert {**some["spec"], "subGroups": 0} == {**whole["spec"], "subGroups": 0}
    flat = pods(task("lead"), task("work", count=4))
    assert (flat.leaf("lead", 0), flat.leaf("work", 3)) == (WHOLE, WHOLE)
    assert [pod_group(flat, alive)["spec"]["minMember"] for alive in (None, {WHOLE: 5}, {WHOLE: 2})] == [5, 5, 2]


def test_branch_is_removed_with_its_last_pod() -> None:
    keys = tuple(TopologyKey(key, key) for key in ("zone", "spine", "rack"))

    def near(spine: str) -> tuple[Requirement, ...]:
        return Requirement("zone", "z"), Requirement("spine", spine), Requirement("rack", "r", slice_size=1)

    them = pods(
        task("a", count=2, topology=near("s1")),
        task("b", count=2, topology=near("s2")),
        pool=Pool("lab", topology_keys=keys),
    )
    left = pod_group(them, {them.leaf("b", 1): 1})["spec"]["subGroups"]
    assert [each["name"] for each in left] == [left[1]["parent"], them.leaf("b", 1)]
    assert ["minMember" in each for each in left] == [False, True]


def test_subgroup_stays_as_long_as_its_last_pod_in_the_cluster() -> None:
    """KAI reports a pod whose subgroup is missing as unschedulable, even one that has ended."""
    keys = (TopologyKey("rack", "r"),)
    whole = gang(
        task("a", topology=(Requirement("rack", "one"),)),
        task("b", count=2, topology=(Requirement("rack", "two"),)),
        pool=Pool("lab", topology_keys=keys),
    )
    wanted = Wanted(Desired(gangs={whole.id: whole}), settings())
    run = [launch(whole, "b-0")]
    (a, b), other = (wanted.gang(whole.id).pods.leaf(name, 0) for name in ("a", "b")), "somebody-elses"
    asked = [minimums(wanted.gang(whole.id).objects(run, there)[-1]) for there in ({a, b, other}, {b}, {a}, set[str]())]
    assert asked == [{a: 1, b: 1}, {b: 1}, {a: 1, b: 1}, {b: 1}]


def minimums(group: Object) -> dict[str, int]:
    return {each["name"]: each["minMember"] for each in group["spec"]["subGroups"]}


@pytest.mark.parametrize(("grace_s", "seconds"), [(0.0, 1), (0.2, 1), (12.5, 13), (86400.0, 86400)])
def test_grace_period_is_that_of_the_pool_in_whole_seconds_and_never_zero(grace_s: float, seconds: int) -> None:
    pod = placed(pods(pool=Pool("lab", grace_s=grace_s)), "t")
    assert pod["spec"]["terminationGracePeriodSeconds"] == seconds


def test_users_cannot_set_labels_that_controllers_act_on() -> None:
    theirs = {
        "kai.scheduler/queue": "x",
        "kai.scheduler/subgroup-name": "x",
        "runai/queue": "x",
        "runrig/gang": "x",
        "osmo.namespace": "x",
        "app.kubernetes.io/managed-by": "x",
        "app.kubernetes.io/name": "kept",
    }
    (group,) = gang_objects(pods(labels=theirs))
    assert group["metadata"]["labels"] == {"app.kubernetes.io/name": "kept", "runrig/epoch": "7", **LABELS}


def test_resource_that_no_node_can_have_is_refused_with_a_way_out() -> None:
    them = pods(task(requests=requests_of({"tpu": 1})))
    with pytest.raises(ValueError, match="tpu") as refused:
        placed(them, "t")
    assert str(refused.value) == (
        "task t requests tpu, but 'tpu' is not a valid Kubernetes resource name. "
        "Map it to a name with a domain under resource_names, such as example.com/tpu"
    )
    named = GangPods(them.gang, settings(names={"tpu": "google.com/tpu"})).pod(launch(them.gang, "t"))
    assert named["spec"]["containers"][0]["resources"]["limits"] == {"google.com/tpu": 1}
    pages = placed(pods(task(requests=requests_of({"hugepages-2Mi": 4194304, CPU: 1000}))), "t")
    assert pages["spec"]["containers"][0]["resources"]["limits"] == {"cpu": 1, "hugepages-2Mi": 4194304}


def test_deleted_flavor_leaves_the_choice_to_the_node() -> None:
    pod = placed(pods(), "t", flavor="gone")
    assert "nodeSelector" not in pod["spec"]
    assert "affinity" in pod["spec"]


def test_rendered_pods_are_first_attempts_without_node_epoch_and_finalizer() -> None:
    them = GangPods(gang(task("a", count=2), task("b"), user=""), replace(settings(), epoch=None))
    shown = list(them.unplaced())
    assert [each["metadata"]["annotations"] for each in shown] == [
        {"pod-group-name": UUID, "runrig/key": f"wf-1/{name}/0", "runrig/gang-id": "wf-1/g"}
        for name in ("a-0", "a-1", "b")
    ]
    for pod, name in zip(shown, ("a-0", "a-1", "b"), strict=True):
        assert _differences(pod, placed(them, name)) == {"metadata.finalizers", "spec.affinity"}


def _differences(one: Object, other: Object) -> set[str]:
    """Where they differ, down to the fields of metadata and spec, and single labels."""
    return set(_paths(one, other, ""))


def _paths(one: object, other: object, path: str) -> list[str]:
    if one == other:
        return []
    if isinstance(one, dict) and isinstance(other, dict) and path.count(".") < 3 and path != ".spec.affinity":
        keys = sorted({*one, *other})
        return [found for key in keys for found in _paths(one.get(key), other.get(key), f"{path}.{key}")]
    return [path.removeprefix(".")]
