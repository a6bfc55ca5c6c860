"""Additions of a cluster to the requests of a pod: namespace defaults, overhead, manager settings and a default queue."""

# ruff: noqa: E501  a case and its messages are easier to compare in one line

from typing import Any

import pytest

from runrig.domain.kueue import FAIR, Settings, Strategy
from tests.worlds.manifests import home, job, manifest, only, pod, read, warnings, workload

CONFIG = "config.kueue.x-k8s.io/{}"


def limits(*items: dict[str, Any], namespace: str = "default") -> dict[str, Any]:
    return manifest("LimitRange", "l", {"limits": list(items)}, "v1", meta={"namespace": namespace})


def container(requests: dict[str, Any] | None = None, most: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests or {}, "limits": most or {}}}


def template(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers), **spec}}


def asked(made: dict[str, Any], *around: dict[str, Any]) -> dict[str, int]:
    """The requests of one pod of a Job with the template *made*; the same for a Workload, wherever the other objects
    are in the file.
    """
    (pods,) = only(read(*home(), *around, job("j", {"template": made}))).pod_sets
    (same,) = only(read(*around, *home(), workload(spec={"podSets": [{"count": 1, "template": made}]}))).pod_sets
    assert only(read(job("j", {"template": made}), *home(), *around)).pod_sets == (pods,)
    assert pods.requests == same.requests
    return dict(pods.requests)


# ---------------------------------------------------------------- LimitRange


@pytest.mark.parametrize(
    ("item", "made", "cpu"),
    [
        ({"defaultRequest": {"cpu": 3}}, container(), 3000),
        ({"default": {"cpu": 3}}, container(), 3000),
        ({"default": {"cpu": 5}, "defaultRequest": {"cpu": 3}}, container(), 3000),
        ({"default": {"cpu": 5}, "defaultRequest": {"cpu": 3}}, container({"cpu": 1}), 1000),
        ({"default": {"cpu": 5}, "defaultRequest": {"cpu": 3}}, container(most={"cpu": 2}), 2000),
        ({"max": {"cpu": 4}}, container(), 4000),
        ({"min": {"cpu": "250m"}}, container(), 250),
        ({"min": {"cpu": 1}, "max": {"cpu": 4}}, container(), 4000),
    ],
)
def test_a_container_gets_the_defaults_of_its_namespace(item: dict[str, Any], made: dict[str, Any], cpu: int) -> None:
    assert asked(template(made), limits({"type": "Container", **item})) == {"cpu": cpu}
    assert asked(template(made, made), limits({"type": "Container", **item})) == {"cpu": 2 * cpu}
    elsewhere = limits({"type": "Container", **item}, namespace="other")
    assert asked(template(made), elsewhere).get("cpu", 0) == asked(template(made)).get("cpu", 0)


def test_the_first_default_of_several_limit_ranges_counts() -> None:
    first, second = (limits({"type": "Container", "defaultRequest": {"cpu": cpu}}) for cpu in (1, 2))
    second["metadata"] = {**second["metadata"], "name": "m"}
    memory = manifest("LimitRange", "n", {"limits": [{"type": "Container", "defaultRequest": {"memory": "1Ki"}}]}, "v1")
    assert asked(template(container()), first, second, memory) == {"cpu": 1000, "memory": 1024}


@pytest.mark.parametrize(
    ("item", "made", "problem"),
    [
        ({"max": {"cpu": 2}}, container({"cpu": 3}, {"cpu": 3}), "a container has more cpu than the LimitRange of its namespace allows"),
        ({"max": {"cpu": 2}}, container({"cpu": 1}, {"cpu": 3}), "a container has more cpu than the LimitRange of its namespace allows"),
        ({"min": {"cpu": 2}}, container({"cpu": 1}), "a container has less cpu than the LimitRange of its namespace requires"),
        ({"max": {"cpu": 2}}, container({"cpu": 2}), ""),
        ({"min": {"cpu": 2}}, container({"cpu": 2}), ""),
    ],
)  # fmt: skip
def test_workloads_out_of_bounds_are_never_considered(item: dict[str, Any], made: dict[str, Any], problem: str) -> None:
    documents = *home(), limits({"type": "Container", **item}), job("j", {"template": template(made)})
    (found,) = read(*documents).system.workloads
    said = [f"{problem}: Kueue never considers this workload"] if problem else []
    assert (found.problem, [message for _, _, message in warnings(*documents)]) == (problem, said)


def test_bounds_of_a_pod_apply_to_the_sum_of_its_containers() -> None:
    documents = (
        *home(),
        limits({"type": "Pod", "max": {"cpu": 3}}),
        job("j", {"template": template(*[container({"cpu": 2})] * 2)}),
    )
    assert (
        read(*documents).system.workloads[0].problem == "a pod has more cpu than the LimitRange of its namespace allows"
    )


# ---------------------------------------------------------------- the pod as a whole, and the objects around it


@pytest.mark.parametrize(
    ("whole", "containers", "expected"),
    [
        ({"requests": {"cpu": 3}}, [container()], {"cpu": 3000}),
        ({"limits": {"cpu": 3}}, [container()], {"cpu": 3000}),
        ({"requests": {"cpu": 3}, "limits": {"cpu": 4}}, [container({"cpu": 1}), container({"cpu": 1})], {"cpu": 3000}),
        (
            {"requests": {"memory": 8, "gpu": 2}},
            [container({"cpu": 1, "gpu": 1})],
            {"cpu": 1000, "gpu": 1, "memory": 8},
        ),
        ({"requests": {"hugepages-2Mi": 4}}, [container({"cpu": 1})], {"cpu": 1000, "hugepages-2Mi": 4}),
    ],
)
def test_resources_of_the_whole_pod_override_those_of_its_containers(
    whole: dict[str, Any], containers: list[dict[str, Any]], expected: dict[str, int]
) -> None:
    assert asked(template(*containers, resources=whole)) == expected


def test_overhead_comes_from_the_runtime_class_unless_the_pod_sets_it() -> None:
    kata = {**manifest("RuntimeClass", "kata", version="node.k8s.io/v1"), "handler": "kata"}
    kata["overhead"] = {"podFixed": {"cpu": "250m", "memory": 100}}
    one = container({"cpu": 1})
    assert asked(template(one, runtimeClassName="kata"), kata) == {"cpu": 1250, "memory": 100}
    assert asked(template(one, runtimeClassName="kata", overhead={"cpu": 1}), kata) == {"cpu": 2000}
    assert asked(template(one, runtimeClassName="kata", resources={"requests": {"cpu": 2}}), kata)["cpu"] == 2250
    assert asked(template(one), kata) == {"cpu": 1000}


def test_a_running_pod_already_has_its_defaults() -> None:
    node = {**manifest("Node", "n", version="v1"), "status": {"allocatable": {"cpu": 4, "pods": 9}}}
    running = manifest("Pod", "p", {"nodeName": "n", **template(container())["spec"]}, "v1")
    found = read(node, limits({"type": "Container", "default": {"cpu": 3}}), running)
    assert found.system.nodes[0].resources == {"cpu": 4000, "pods": 8}


# ---------------------------------------------------------------- the manager


def configuration(version: str = "v1beta2", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": CONFIG.format(version), "kind": "Configuration", **fields}


def in_config_map(made: dict[str, Any]) -> dict[str, Any]:
    import yaml

    data = {"controller_manager_config.yaml": yaml.safe_dump(made)}
    return {**manifest("ConfigMap", "kueue-manager-config", version="v1"), "data": data}


EXCLUDES = configuration(resources={"excludeResourcePrefixes": ["example.com/", "cp"]})
MIG: list[dict[str, Any]] = [
    {"input": "nvidia.com/mig-1g", "strategy": "Replace", "outputs": {"slices": 1, "vram": "5Gi"}},
    {"input": "nvidia.com/mig-2g", "strategy": "Replace", "outputs": {"slices": 2, "vram": "10Gi"}},
    {"input": "cpu", "outputs": {"credits": "0.5"}},
]
TRANSFORMS = configuration(resources={"transformations": MIG})


@pytest.mark.parametrize("wrap", [dict, in_config_map], ids=["as a file", "as installed"])
@pytest.mark.parametrize(
    ("settings", "requests", "expected"),
    [
        (EXCLUDES, {"cpu": 1, "memory": 5, "example.com/licence": 2}, {"memory": 5}),
        (TRANSFORMS, {"memory": 5}, {"memory": 5}),
        (TRANSFORMS, {"cpu": 3}, {"cpu": 3000, "credits": 2}),
        (TRANSFORMS, {"nvidia.com/mig-1g": 2, "nvidia.com/mig-2g": 1}, {"slices": 4, "vram": 20 * 1024**3}),
        (TRANSFORMS, {"nvidia.com/mig-1g": 2, "slices": 1}, {"slices": 3, "vram": 10 * 1024**3}),
        (configuration(resources={"transformations": [{"input": "gpu", "multiplyBy": "cpu", "strategy": "Replace", "outputs": {"core-gpus": 1}}]}), {"gpu": 2, "cpu": 3}, {"cpu": 3000, "core-gpus": 6}),
        (configuration(resources={"transformations": [{"input": "cpu", "outputs": {"cpu": "-0.5"}}]}), {"cpu": 3}, {"cpu": 3000}),
        (configuration(resources={"excludeResourcePrefixes": ["gpu"], "transformations": [{"input": "gpu", "outputs": {"credits": 9}}]}), {"gpu": 1, "cpu": 1}, {"cpu": 1000}),
    ],
)  # fmt: skip
def test_resources_can_be_excluded_and_transformed(
    settings: dict[str, Any], requests: dict[str, Any], expected: dict[str, int], wrap: Any
) -> None:
    assert asked(template(container(requests)), wrap(settings)) == expected


def test_uncovered_resources_are_ignored_if_the_manager_allows_it() -> None:
    made = job("j", {"template": template(container({"cpu": 1, "gpu": 2}))})
    for strategy, expected in (
        ("IgnoreUndeclared", (("cpu", 1000),)),
        ("BlockUndeclared", (("cpu", 1000), ("gpu", 2))),
    ):
        found = only(read(*home(), made, configuration(resources={"quotaCheckStrategy": strategy})))
        assert found.pod_sets[0].requests == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (configuration(), Settings()),
        (configuration(fairSharing={}), Settings(FAIR)),
        (
            configuration(fairSharing={"preemptionStrategies": ["LessThanInitialShare"]}),
            Settings((Strategy.INITIAL_SHARE,)),
        ),
        (configuration("v1beta1", fairSharing={"enable": True}), Settings(FAIR)),
        (configuration("v1beta1", fairSharing={"enable": False}), Settings()),
        (configuration(featureGates={"B": False, "A": True}), Settings(gates={"A": True, "B": False})),
    ],
)
def test_settings_of_the_manager_are_read(settings: dict[str, Any], expected: Settings) -> None:
    assert (read(settings).settings, read(in_config_map(settings)).settings) == (expected, expected)


def test_a_workload_that_was_not_ready_keeps_its_position_if_configured() -> None:
    evicted = {
        "type": "Evicted",
        "status": "True",
        "reason": "PodsReadyTimeout",
        "lastTransitionTime": "2026-01-01T00:00:20Z",
    }
    waits = workload(meta={"creationTimestamp": "2026-01-01T00:00:01Z"}, status={"conditions": [evicted]})
    by_creation = configuration(waitForPodsReady={"requeuingStrategy": {"timestamp": "Creation"}})
    assert only(read(*home(), waits)).queued_at - only(read(*home(), waits, by_creation)).queued_at == 19


def test_unsupported_settings_cause_warnings() -> None:
    found = configuration(
        admissionFairSharing={"usageHalfLifeTime": "1h"}, integrations={"frameworks": ["pod"]}, leaderElection={}, x=1
    )
    assert [(path, message) for _, path, message in warnings(found)] == [
        ("x", "unknown field, ignored. Use one of " + warnings(found)[0][2].partition("Use one of ")[2]),
        ("integrations", "ignored: jobs of all kinds are simulated, enabled or not"),
        ("admissionFairSharing", "ignored: usage-based fair sharing between local queues is not simulated"),
    ]


@pytest.mark.parametrize(
    ("version", "ready", "blocks"),
    [
        ("v1beta1", {"enable": True}, True),
        ("v1beta1", {"enable": True, "blockAdmission": True}, True),
        ("v1beta1", {"enable": True, "blockAdmission": False}, False),
        ("v1beta1", {"enable": False}, False),
        ("v1beta1", {"timeout": "5m"}, False),
        ("v1beta2", {"timeout": "5m"}, False),
        ("v1beta2", {"blockAdmission": True}, True),
    ],
)
def test_a_manager_that_blocks_admission_until_pods_are_ready_causes_a_warning(
    version: str, ready: dict[str, Any], blocks: bool
) -> None:
    """In the older version that is the default."""
    found = warnings(configuration(version, waitForPodsReady=ready))
    assert [
        message.endswith("pods count as ready immediately, so admission is never blocked") for _, _, message in found
    ] == [True] * blocks


def test_the_first_of_two_configurations_counts() -> None:
    excludes, transforms = configuration(fairSharing={}), in_config_map(configuration(featureGates={"A": True}))
    found = read(excludes, transforms)
    assert found.settings == Settings(FAIR)
    assert [each.message for each in found.warnings] == [
        "duplicate configuration of the manager: only the first one is used"
    ]


# ---------------------------------------------------------------- the default queue


def default_queue(namespace: str = "default") -> dict[str, Any]:
    return manifest("LocalQueue", "default", {"clusterQueue": "cq"}, meta={"namespace": namespace})


def without_label(name: str = "j", namespace: str = "default", **meta: Any) -> dict[str, Any]:
    return manifest("Job", name, {"template": pod()}, "batch/v1", meta={"namespace": namespace, **meta})


def test_a_job_without_a_queue_goes_to_the_default_queue_of_its_namespace() -> None:
    assert only(read(*home(), without_label(), default_queue())).queue == "cq"
    assert only(read(*home(), default_queue(), without_label(labels={"kueue.x-k8s.io/queue-name": ""}))).queue == "cq"
    assert read(*home(), without_label(namespace="other"), default_queue()).system.workloads == ()
    assert read(*home(), without_label(namespace="kube-system"), default_queue("kube-system")).system.workloads == ()


def test_objects_created_by_a_job_do_not_go_to_the_default_queue() -> None:
    made_by = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s", "uid": "u"}
    assert read(*home(), default_queue(), without_label(ownerReferences=[made_by])).system.workloads == ()
    cron = {**made_by, "apiVersion": "batch/v1", "kind": "CronJob"}
    assert only(read(*home(), default_queue(), without_label(ownerReferences=[cron]))).queue == "cq"
