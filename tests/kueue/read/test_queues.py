"""Reading of ClusterQueue, Cohort, LocalQueue, ResourceFlavor and the small kinds."""

from fractions import Fraction

import pytest

from runrig.domain.nodes import Taint
from runrig.domain.pools import Queueing, Quota
from runrig.domain.quantities import FlavorResource
from runrig.kueue.declared import (
    ClusterQueue,
    Fungibility,
    LabelSelector,
    MatchExpression,
    Policies,
    Policy,
    Preference,
    QueueCohort,
    ResourceFlavor,
    ResourceGroup,
    StopPolicy,
    System,
    Toleration,
    Topology,
)
from runrig.kueue.read import Manifests, read_manifests
from tests.worlds.manifests import OLD, group, home, manifest, read, system, workload

FLAVORS = (manifest("ResourceFlavor", "a"), manifest("ResourceFlavor", "b"))


def queue(**spec: object) -> ClusterQueue:
    (found,) = system(manifest("ClusterQueue", "cq", {"namespaceSelector": {}, **spec})).queues
    return found


def test_an_empty_queue_spec_has_the_defaults_of_the_api() -> None:
    assert queue() == ClusterQueue("cq")
    assert ClusterQueue("cq") == ClusterQueue(
        name="cq",
        groups=(),
        quotas={},
        cohort=None,
        queueing=Queueing.BEST_EFFORT_FIFO,
        policies=Policies(Policy.NEVER, Policy.NEVER, Policy.NEVER, None),
        fungibility=Fungibility(False, True, Preference.BORROWING_OVER_PREEMPTION),
        weight=Fraction(1),
        stop=StopPolicy.NONE,
        namespaces=LabelSelector(),
    )


def test_a_queue_is_read_with_all_fields() -> None:
    groups = [
        group({"b": {"cpu": {"nominalQuota": "1500m", "borrowingLimit": 2, "lendingLimit": "0.5"}, "memory": "1Gi"},
               "a": {"cpu": 3, "memory": "1.5"}}),
        group({"gpu": {"nvidia.com/gpu": 8}}),
    ]  # fmt: skip
    spec = {
        "cohortName": "co",
        "resourceGroups": groups,
        "queueingStrategy": "StrictFIFO",
        "namespaceSelector": {
            "matchLabels": {"z": "1", "a": "2"},
            "matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["x", "y"]}],
        },
        "preemption": {
            "withinClusterQueue": "LowerOrNewerEqualPriority",
            "reclaimWithinCohort": "Any",
            "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": -5},
        },
        "flavorFungibility": {
            "whenCanBorrow": "TryNextFlavor",
            "whenCanPreempt": "TryNextFlavor",
            "preference": "PreemptionOverBorrowing",
        },
        "fairSharing": {"weight": "250m"},
        "stopPolicy": "HoldAndDrain",
    }
    found = system(*FLAVORS, manifest("ResourceFlavor", "gpu"), manifest("ClusterQueue", "cq", spec))
    assert found.queues == (
        ClusterQueue(
            name="cq",
            groups=(
                ResourceGroup(("cpu", "memory"), ("b", "a")),
                ResourceGroup(("nvidia.com/gpu",), ("gpu",)),
            ),
            quotas={
                FlavorResource("b", "cpu"): Quota(1500, 2000, 500),
                FlavorResource("b", "memory"): Quota(2**30),
                FlavorResource("a", "cpu"): Quota(3000),
                FlavorResource("a", "memory"): Quota(2),
                FlavorResource("gpu", "nvidia.com/gpu"): Quota(8),
            },
            cohort="co",
            queueing=Queueing.STRICT_FIFO,
            policies=Policies(Policy.LOWER_OR_NEWER, Policy.ANY, Policy.LOWER, -5),
            fungibility=Fungibility(True, True, Preference.PREEMPTION_OVER_BORROWING),
            weight=Fraction(1, 4),
            stop=StopPolicy.HOLD_AND_DRAIN,
            namespaces=LabelSelector(
                (("a", "2"), ("z", "1")), (MatchExpression("team", "NotIn", ("x", "y")),)
            ),
        ),
    )  # fmt: skip


def test_fields_of_the_old_version_have_other_names() -> None:
    spec = {
        "cohort": "co",
        "namespaceSelector": {},
        "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"},
    }
    found = system(manifest("ClusterQueue", "cq", spec, OLD))
    assert found.queues == (ClusterQueue("cq", cohort="co", fungibility=Fungibility(False, False)),)


def test_a_field_name_of_another_version_causes_a_warning() -> None:
    found = read(manifest("ClusterQueue", "cq", {"cohort": "co", "namespaceSelector": {}}))
    assert found.system.queues == (ClusterQueue("cq", cohort="co"),)
    assert [(w.path, w.message) for w in found.warnings] == [
        ("spec.cohort", "renamed to cohortName in this version: treated as such")
    ]
    both = {"cohort": "co", "cohortName": "other", "namespaceSelector": {}}
    assert read(manifest("ClusterQueue", "cq", both)).system.queues == (ClusterQueue("cq", cohort="other"),)


def test_without_a_selector_no_namespace_is_selected() -> None:
    found = read(manifest("ClusterQueue", "cq", {}))
    assert found.system.queues == (ClusterQueue("cq", namespaces=None),)
    assert [w.message for w in found.warnings] == [
        "namespaceSelector is missing, so this queue accepts no workloads; {} selects all namespaces"
    ]


def test_an_empty_cohort_name_means_no_cohort() -> None:
    assert queue(cohortName="") == ClusterQueue("cq")


@pytest.mark.parametrize(
    ("version", "field"), [("v1alpha1", "parent"), ("v1beta1", "parentName"), ("v1beta2", "parentName")]
)
def test_a_cohort_is_read_in_every_version(version: str, field: str) -> None:
    spec = {
        field: "root",
        "fairSharing": {"weight": 2},
        "resourceGroups": [group({"a": {"cpu": {"nominalQuota": 1, "borrowingLimit": 0, "lendingLimit": 3}}})],
    }
    found = system(FLAVORS[0], manifest("Cohort", "co", spec, f"kueue.x-k8s.io/{version}"))
    quotas = {FlavorResource("a", "cpu"): Quota(1000, 0, 3000)}
    assert found.cohorts == (QueueCohort("co", "root", quotas, Fraction(2)),)


def test_a_cohort_without_spec_is_a_root_without_quota() -> None:
    assert system(manifest("Cohort", "co")).cohorts == (QueueCohort("co"),)


def test_a_cohort_that_is_only_named_is_not_an_object() -> None:
    assert queue(cohortName="nowhere") == ClusterQueue("cq", cohort="nowhere")
    assert system(manifest("Cohort", "co", {"parentName": "up"})).cohorts == (QueueCohort("co", "up"),)


def test_a_flavor_is_read_with_all_fields() -> None:
    spec = {
        "nodeLabels": {"type": "spot"},
        "nodeTaints": [{"key": "k", "value": "v", "effect": "NoExecute"}, {"key": "k", "effect": "NoSchedule"}],
        "tolerations": [{"key": "k", "operator": "Exists"}, {"key": "a", "value": "b", "effect": "NoSchedule"}],
        "topologyName": "t",
    }
    found = read(manifest("ResourceFlavor", "a", spec), manifest("Topology", "t", {"levels": [{"nodeLabel": "rack"}]}))
    assert found.system.flavors == (
        ResourceFlavor(
            "a",
            {"type": "spot"},
            (Taint("k", "v", "NoExecute"), Taint("k", "", "NoSchedule")),
            (Toleration("k", "Exists", "", ""), Toleration("a", "Equal", "b", "NoSchedule")),
            "t",
        ),
    )
    assert found.system.topologies == (Topology("t", ("rack",)),)
    assert [w.message for w in found.warnings] == [
        "no node in this file has its labels and all levels of its topology: no pods can be placed"
    ]


def test_file_order_is_kept() -> None:
    names = ["z", "a", "m"]
    found = system(*(manifest("ClusterQueue", name, {"namespaceSelector": {}}) for name in names))
    assert [queue.name for queue in found.queues] == names


def test_namespaces_have_the_label_that_kubernetes_adds() -> None:
    found = system(manifest("Namespace", "b", version="v1", meta={"labels": {"team": "x"}}), *home(), workload())
    assert found.namespaces == {
        "b": {"team": "x", "kubernetes.io/metadata.name": "b"},
        "default": {"kubernetes.io/metadata.name": "default"},
    }


def test_workloads_get_the_stop_policy_of_their_local_queue() -> None:
    flavor, cluster_queue, _ = home()
    stopped = manifest("LocalQueue", "lq", {"clusterQueue": "cq", "stopPolicy": "Hold"})
    (found,) = system(flavor, cluster_queue, stopped, workload()).workloads
    assert (found.queue, found.stop) == ("cq", StopPolicy.HOLD)


def test_an_empty_file_is_an_empty_system() -> None:
    for text in ("", "\n\n", "# nothing\n", "---\n---\n...\n"):
        assert system(text) == System()


def test_lists_are_expanded_and_empty_documents_are_counted() -> None:
    items = [manifest("Cohort", "a"), {"apiVersion": "v1", "kind": "List", "items": [manifest("Cohort", "b")]}, None]
    text = ["", {"apiVersion": "v1", "kind": "List", "items": items}, "", manifest("Cohort", "c", {"x": 1})]
    found = read(*text)
    assert found.system.cohorts == (QueueCohort("a"), QueueCohort("b"), QueueCohort("c"))
    assert [(w.document, w.path) for w in found.warnings] == [(3, "spec.x")]  # the empty start is not a document


def test_items_of_a_typed_list_need_no_kind() -> None:
    found = system(
        {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "CohortList", "items": [{"metadata": {"name": "a"}}]}
    )
    assert found.cohorts == (QueueCohort("a"),)


def test_json_is_read_too() -> None:
    assert system('{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Cohort", "metadata": {"name": "a"}}').cohorts == (
        QueueCohort("a"),
    )


def test_bytes_are_utf_8_with_or_without_a_byte_order_mark() -> None:
    text = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort, metadata: {name: a}}"
    for data in (text.encode(), b"\xef\xbb\xbf" + text.encode()):
        assert read_manifests(data, "a.yaml") == Manifests(System(cohorts=(QueueCohort("a"),)))
