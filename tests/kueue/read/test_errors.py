"""Errors in files: all are reported together, each with the document, the path, the value and the rule."""

# ruff: noqa: E501  a case and its messages are easier to compare in one line

from typing import Any

import pytest

from runrig.domain.errors import InvalidInput, Problem
from runrig.kueue.read import LARGEST_JSON, LARGEST_YAML, read_manifests
from tests.worlds.manifests import errors, group, home, job, manifest, pod, read, workload

QUOTA = "spec.resourceGroups[0].flavors[0].resources[0]"


def nominal(quantity: object, resource: str = "cpu") -> dict[str, object]:
    return manifest(
        "ClusterQueue", "cq", {"namespaceSelector": {}, "resourceGroups": [group({"f": {resource: quantity}})]}
    )


@pytest.mark.parametrize(
    ("quantity", "message"),
    [
        ("1e400", "'1e400' does not fit in 64 bits"),
        ("9e18", "'9e18' does not fit in 64 bits"),
        ("9223372036854775.808", "'9223372036854775.808' does not fit in 64 bits"),
        ("1e999999999999", "'1e999999999999' is not a valid quantity: use a number such as 4, 500m or 64Gi"),
        (float("inf"), "'.inf' is not a valid quantity: use a number such as 4, 500m or 64Gi"),
        (float("nan"), "'.nan' is not a valid quantity: use a number such as 4, 500m or 64Gi"),
        ("NaN", "'NaN' is not a valid quantity: use a number such as 4, 500m or 64Gi"),
        (-1, "'-1' is negative: amounts must be at least 0"),
        ("-1m", "'-1m' is negative: amounts must be at least 0"),
        ("1e3Ki", "'1e3Ki' is not a valid quantity: use a number such as 4, 500m or 64Gi"),
        ("a lot", "'a lot' is not a valid quantity: use a number such as 4, 500m or 64Gi"),
        ("9" * 101, f"'{'9' * 57}...' is not a valid quantity: use a number such as 4, 500m or 64Gi"),
        (True, "expected a quantity, got true"),
        ([1], "expected a quantity, got a list"),
    ],
)
def test_quantities_must_be_finite_not_negative_and_fit_64_bits(quantity: Any, message: str) -> None:
    assert errors(nominal(quantity)) == [f"document 1, {QUOTA}.nominalQuota: {message}"]


def test_unquoted_quantities_are_read_as_written() -> None:
    text = (
        "{{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {{name: q}}, spec: {{namespaceSelector: {{}}, "
        "resourceGroups: [{{coveredResources: [cpu], flavors: [{{name: f, resources: [{{name: cpu, nominalQuota: {}}}]}}]}}]}}}}"
    )
    assert errors(text.format("1e400")) == [f"document 1, {QUOTA}.nominalQuota: '1e400' does not fit in 64 bits"]
    found = read_manifests(text.format("0x10"), "a.yaml").system.queues[0].quotas
    assert [quota.nominal for quota in found.values()] == [16000]


CASES = [
    ("- a", ["document 1: expected a mapping, got a list"]),
    ("hello", ["document 1: expected a mapping, got text 'hello'"]),
    ("kind: 3\napiVersion: v1", ["document 1, kind: expected text, got 3. Put it in quotes."]),
    (manifest("Cohort", "a", []), ["document 1, spec: expected a mapping, got a list"]),
    (manifest("Cohort", "a", "x"), ["document 1, spec: expected a mapping, got text 'x'"]),
    (manifest("Cohort", 7), ["document 1, metadata.name: expected text, got 7. Put it in quotes."]),
    ({**manifest("Cohort", "a"), "metadata": {}}, ["document 1: metadata.name is missing"]),
    (manifest("Cohort", ""), ["document 1: metadata.name is missing"]),
    (manifest("Node", "n", version="v1", meta={"labels": {"x": True}}), ["document 1, metadata.labels.x: expected text, got true. Put it in quotes."]),
    (manifest("ClusterQueue", "a", {"namespaceSelector": {}, "fairSharing": {"weight": -1}}), ["document 1, spec.fairSharing.weight: '-1' is negative: amounts must be at least 0"]),
    (manifest("ClusterQueue", "a", {"namespaceSelector": {}, "resourceGroups": {}}), ["document 1, spec.resourceGroups: expected a list, got a mapping"]),
    (manifest("ClusterQueue", "a", {"namespaceSelector": {}, "preemption": {"withinClusterQueue": 1}}), ["document 1, spec.preemption.withinClusterQueue: expected text, got 1. Put it in quotes."]),
    (manifest("WorkloadPriorityClass", "a", value="high"), ["document 1, value: expected a whole number, got text 'high'"]),
    (manifest("WorkloadPriorityClass", "a", value=2**31), ["document 1, value: 2147483648 is too large (maximum 2147483647)"]),
    (workload("w", {"podSets": [{"count": -1, "template": pod()}]}), ["document 1, spec.podSets[0].count: -1 is negative. Use at least 0"]),
    (workload("w", {"podSets": [{"count": 1.5, "template": pod()}]}), ["document 1, spec.podSets[0].count: expected a whole number, got 1.5"]),
    (workload("w", {"podSets": [{"count": "2", "template": pod()}]}), ["document 1, spec.podSets[0].count: expected a whole number, got text '2'"]),
    (workload("w", {"active": "no"}), ["document 1, spec.active: expected true or false, got text 'no'"]),
    (workload("w", {"podSets": [{"count": 1, "template": pod({"cpu": -2})}]}), ["document 1, spec.podSets[0].template.spec.containers[0].resources.requests.cpu: '-2' is negative: amounts must be at least 0"]),
    (workload("w", {"podSets": [{"count": 4, "template": pod({"memory": "4E"})}]}), ["document 1, spec.podSets[0]: 4 × 4000000000000000000 memory does not fit in 64 bits"]),
    (workload("w", {"podSets": [{"count": 1, "template": pod({"memory": "9E"}, overhead={"memory": "9E"})}]}), ["document 1, spec.podSets[0].template.spec: 18000000000000000000 memory does not fit in 64 bits"]),
    (workload(meta={"creationTimestamp": "yesterday"}), ["document 1, metadata.creationTimestamp: 'yesterday' is not a valid time: use a format such as 2026-01-31T12:00:00Z"]),
    (workload(meta={"creationTimestamp": "2026-02-30T12:00:00Z"}), ["document 1, metadata.creationTimestamp: '2026-02-30T12:00:00Z' is not a valid time: this day or hour does not exist"]),
    (workload(status={"admission": "yes"}), ["document 1, status.admission: expected a mapping, got text 'yes'"]),
    (workload(status={"conditions": [{"type": "Evicted", "status": True}]}), ["document 1, status.conditions[0].status: expected text, got true. Put it in quotes."]),
    (job("j", {"parallelism": -1}), ["document 1, spec.parallelism: -1 is negative. Use at least 0"]),
]  # fmt: skip


@pytest.mark.parametrize(("document", "messages"), CASES)
def test_invalid_values_are_rejected_with_the_rule(document: dict[str, Any] | str, messages: list[str]) -> None:
    assert errors(document) == messages


def test_duplicate_objects_of_one_kind_are_an_error() -> None:
    spec: dict[str, Any] = {"namespaceSelector": {}}
    assert errors(manifest("ClusterQueue", "a", spec), "", manifest("ClusterQueue", "a", spec)) == [
        "document 3: duplicate ClusterQueue a: first defined in document 1"
    ]
    old = manifest("Cohort", "a", version="kueue.x-k8s.io/v1alpha1")
    assert errors(old, manifest("Cohort", "a")) == ["document 2: duplicate Cohort a: first defined in document 1"]
    assert errors(*home(), workload(), workload()) == [
        "document 5: duplicate Workload default/w: first defined in document 4",
        "document 5, spec.queueName: two workloads would be called default/w: rename one",
    ]


def test_equal_names_in_different_namespaces_or_kinds_are_allowed() -> None:
    local = {"clusterQueue": "cq"}
    found = read_manifests(str(manifest("LocalQueue", "cq", local)), "a.yaml")
    assert len(found.warnings) == 1
    twice = [manifest("LocalQueue", "lq", local, meta={"namespace": name}) for name in ("a", "b")]
    texts = "\n---\n".join(str(item) for item in [*home(), *twice, manifest("Cohort", "cq")])
    assert read_manifests(texts, "a.yaml").warnings == ()


def test_a_job_named_like_another_workload_is_prefixed_with_its_kind() -> None:
    found = read(*home(), workload("x"), job("x", {}))
    assert [each.name for each in found.system.workloads] == ["default/x", "default/job-x"]
    assert errors(*home(), workload("x"), workload("job-x"), job("x", {})) == [
        "document 6, metadata.labels.kueue.x-k8s.io/queue-name: two workloads would be called default/job-x: rename one"
    ]


def test_all_errors_of_a_file_are_reported_and_of_many_the_first() -> None:
    found = errors(nominal(-1), workload("w", {"priority": "x"}))
    assert found == [
        f"document 1, {QUOTA}.nominalQuota: '-1' is negative: amounts must be at least 0",
        "document 2, spec.priority: expected a whole number, got text 'x'",
    ]
    many = errors(*(manifest("Cohort", f"c{i}", []) for i in range(30)))
    assert (len(many), many[0], many[-2:]) == (
        21,
        "document 1, spec: expected a mapping, got a list",
        ["document 20, spec: expected a mapping, got a list", "and 10 more problems"],
    )


def test_errors_have_a_line_and_a_column() -> None:
    with pytest.raises(InvalidInput) as raised:
        read_manifests("---\n---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: Cohort\nmetadata:\n  name: 5\n", "a.yaml")
    message = "document 2, metadata.name: expected text, got 5. Put it in quotes."
    assert raised.value.problems == (Problem(message, "metadata.name", 6, 9),)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x89PNG\r\n\x1a\n", "the file a.yaml is not text: byte 0x89 is not UTF-8"),
        ("a: \x00", "the file a.yaml has the character U+0000, which is not allowed in YAML. Check that it is a text file."),
        ("a: 1\n---\nb: [", "document 2: not valid YAML: did not find expected node content while parsing a flow node"),
        ("a: 1\n---\n\tb: 1", "document 2: a tab: YAML is indented with spaces"),
        ("a: *b", "document 1: the alias *b has no anchor before it"),
        ("a: 1\na: 2", "document 1: the key 'a' is defined twice; first on line 1"),
        ("a: !!python/object:os.system x", "document 1: the tag 'tag:yaml.org,2002:python/object:os.system' is not supported. Omit it."),
        ("[" * 200, "document 1: nested more than 100 levels deep"),
    ],
)  # fmt: skip
def test_unreadable_files_are_rejected(data: bytes | str, message: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        read_manifests(data, "a.yaml")
    assert raised.value.problems[0].message == message


@pytest.mark.parametrize("data", [b"#" * 50_000_000, "#" * 50_000_000])
def test_oversized_files_are_rejected_immediately(data: bytes | str) -> None:
    with pytest.raises(InvalidInput) as raised:
        read_manifests(data, "a.yaml")
    assert [problem.message for problem in raised.value.problems] == [
        f"the file a.yaml has 50,000,000 bytes: the limit for YAML is {LARGEST_YAML:,}. "
        f"Use JSON (kubectl get -o json), with a limit of {LARGEST_JSON:,}"
    ]


def test_aliases_that_expand_endlessly_are_rejected() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
    bomb = "\n".join(lines)
    assert "values once aliases are expanded" in errors(bomb)[0]
    halves = "\n---\n".join(["\n".join(lines[:5])] * 4)
    assert errors(halves)[0].startswith("document 2: the file test.yaml has more than")
