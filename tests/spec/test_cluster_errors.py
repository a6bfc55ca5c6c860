"""What a bad cluster file is told: each problem with its place, all of them at once."""

# ruff: noqa: E501  a case and its messages are easier to compare in one line

from typing import Any

import pytest

from runrig.domain.cluster import BACKENDS
from runrig.spec.cluster import read_cluster
from tests.spec.files import problems

FLAVORS = "\nflavors: [{name: h100, node_labels: {gpu: h100}}, {name: all}]"

CASES = [
    ("pol: []", (1, 1, "a cluster file has no field 'pol'. Did you mean 'pools'?")),
    ("workflow: {}", (1, 1, "a cluster file has no field 'workflow': this is a workflow file. Submit it with `runrig workflow submit`.")),
    ("backend: {type: slurm}", (1, 17, f"type: expected one of {', '.join(BACKENDS)}, got text 'slurm'")),
    ("backend: {speed: 0}", (1, 18, "speed: 0 is out of range. Use 0.001 to 1,000,000")),
    ("backend: {speed: .nan}", (1, 18, "speed: .nan is out of range. Use 0.001 to 1,000,000")),
    ("backend: {type: local, speed: 2}", (1, 31, "speed: speed applies only to the simulated backend, not to local")),
    ("backend: {type: kubernetes}\nnodes: [{name: a, resources: {gpu: 1}}]", (2, 8, "nodes: the kubernetes backend reads its nodes from the cluster. Omit nodes.")),
    ("backend: {type: local}\npools: [{name: p, topology_keys: [{key: a, label: b}]}]", (2, 8, "pools: pool p has topology_keys, but the local backend is one machine without topology. Omit them.")),
    ("nodes: [{name: a}]", (1, 9, "a node needs resources. Add resources: {gpu: 8}")),
    ("nodes: [{name: 'n{3..1}', resources: {gpu: 1}}]", (1, 16, "name: the range {3..1} is reversed. Use {1..3}")),
    ("nodes: [{name: 'n{1..999999}', resources: {gpu: 1}}]", (1, 16, "name: the range {1..999999} has too many numbers (999,999, maximum 100,000)")),
    ("nodes: [{name: 'n{1..2}{1..2}', resources: {gpu: 1}}]", (1, 16, "name: 'n{1..2}{1..2}' has more than one range. Use one range per entry.")),
    ("nodes: [{name: 'n{1-2}', resources: {gpu: 1}}]", (1, 16, "name: 'n{1-2}' has braces that are not a range. Use for example n{00..15}")),
    ("nodes: [{name: a, resources: {gpu: 2147483648}}]", (1, 36, "gpu: too many GPUs on one node (2,147,483,648, maximum 1,024)")),
    ("nodes: [{name: a, resources: {gpu: -1}}]", (1, 36, "gpu: '-1' is negative: amounts of gpu must be at least 0")),
    ("nodes: [{name: a, resources: {gpu: .inf}}]", (1, 36, "gpu: '.inf' is not a quantity: use a number such as 4, 500m or 64Gi")),
    ("nodes: [{name: a, resources: {gpu: 1}}, {name: a, resources: {gpu: 1}}]", (1, 48, "name: node 'a' is defined twice; first on line 1")),
    ("nodes: [{name: a_, resources: {gpu: 1}}]", (1, 16, "name: 'a_' must be letters, digits, '-', '_' and '.', and start and end with a letter or digit")),
    ("nodes: [{name: 'a{0..1}', resources: {gpu: 1}, labels: {x: '{n*2}'}}]", (1, 60, "x: {n*2} cannot be evaluated. Use only n, whole numbers, +, -, //, % and brackets.")),
    ("nodes: [{name: 'a{0..1}', resources: {gpu: 1}, labels: {x: '{exit()}'}}]", (1, 60, "x: {exit()} cannot be evaluated. Use only n, whole numbers, +, -, //, % and brackets.")),
    ("nodes: [{name: 'a{0..1}', resources: {gpu: 1}, labels: {x: 'r{8//n}'}}]", (1, 60, "x: 8 // n divides by zero for n = 0")),
    ("nodes: [{name: a, resources: {gpu: 1}, labels: {x: 'r{n}'}}]", (1, 52, "x: 'r{n}' needs n. Give the name a range, such as n{00..15}")),
    ("nodes: [{name: a, resources: {gpu: 1}, labels: {gpu: h100}}]" + FLAVORS, (1, 9, "nodes[0]: node 'a' matches the flavors h100, all by its labels. Each node must match exactly one.")),
    ("nodes: [{name: a, resources: {gpu: 1}}]\nflavors: [{name: h100, node_labels: {gpu: h100}}]", (1, 9, "nodes[0]: node 'a' matches none of the flavors h100 by its labels. Each node must match exactly one.")),
    ("flavors: [{name: a}, {name: a}]", (1, 29, "name: flavor 'a' is defined twice; first on line 1")),
    ("flavors: [{name: A/b}]", (1, 18, "name: 'A/b' must be lower-case letters, digits, '-' and '.', at most 63")),
    ("flavors: [{name: a, allow: [root]}]", (1, 29, "allow[0]: expected one of privileged, hostNetwork, volumeMounts, got text 'root'")),
    ("cohorts: [{name: a, parent: b}, {name: b, parent: c}, {name: c, parent: a}]", (1, 29, "parent: the parents of cohorts form a cycle: a → b → c → a")),
    ("cohorts: [{name: a, parent: a}]", (1, 29, "parent: the parents of cohorts form a cycle: a → a")),
    ("cohorts: [{name: a}, {name: a}]", (1, 29, "name: cohort 'a' is defined twice; first on line 1")),
    ("cohorts: [{name: A}]", (1, 18, "name: cohort name 'A' must be lower-case letters, digits and '-', start with a letter and not end with '-'")),
    ("pools: [{quota: 1}]", (1, 9, "a pool needs name. Add name: vision")),
    ("pools: [{name: a--b}]", (1, 16, "name: pool name 'a--b' contains '--', which separates a pool from its subpool: use a single '-', or 'runrig pool subpool create' for a subpool")),
    ("pools: [{name: a}, {name: a}]", (1, 27, "name: pool 'a' is defined twice; first on line 1")),
    ("pools: [{name: a, quota: -1}]", (1, 26, "quota: -1 is negative. Use at least 0")),
    ("pools: [{name: a, quota: 1}]" + FLAVORS, (1, 26, "quota: there are 2 flavors, h100, all. Give an amount for each: h100=8,all=8, or in full {h100: {gpu: 8}, all: {gpu: 8}}")),
    ("pools: [{name: a, flavors: [h100], quota: {all: 1}}]" + FLAVORS, (1, 49, "all: 'all' is not one of the pool's flavors (h100). Add it there")),
    ("pools: [{name: a, flavors: [h10]}]" + FLAVORS, (1, 29, "flavors[0]: unknown flavor 'h10'. Did you mean 'h100'?")),
    ("pools: [{name: a, quota: {h10: {gpu: 1}}}]" + FLAVORS, (1, 32, "h10: unknown flavor 'h10'. Did you mean 'h100'?")),
    ("pools: [{name: a, borrowing_limit: 1}]", (1, 19, "a pool has no field 'borrowing_limit': set it in the quota, as in quota: {gpu: {nominal: 8, borrowing_limit: 4}}")),
    ("pools: [{name: a, quota: {gpu: {nominal: 1, limit: 2}}}]", (1, 45, "a quota has no field 'limit'. Use one of nominal, borrowing_limit, lending_limit")),
    ("pools: [{name: a, quota: {nominal: 1}}]", (1, 36, "nominal: set it for a resource, as in quota: {gpu: {nominal: 8, borrowing_limit: 4}}")),
    ("pools: [{name: a, quota: {default: {gpu: 1, lending_limit: 0}}}]", (1, 60, "lending_limit: set it for a resource, as in quota: {gpu: {nominal: 8, borrowing_limit: 4}}")),
    ("pools: [{name: a, quota: {fpga: 1}}]", (1, 33, "fpga: 'fpga' is neither a resource nor a flavor. Use one of gpu, cpu, memory, storage, default")),
    ("pools: [{name: a, weight: 0}]", (1, 27, "weight: 0 is too small. Use at least 1")),
    (
        "pools: [{name: a, default_run_time: 2h, max_run_time: 1h}]",
        (1, 37, "default_run_time: the default run time 2h exceeds the maximum of 1h. Lower it, or raise the maximum"),
    ),
    ("pools: [{name: a, max_run_time: 0}]", (1, 33, "max_run_time: a run time must be greater than 0. Omit it for no limit")),
    ("pools: [{name: a, grace_s: -1}]", (1, 28, "grace_s: -1 is out of range. Use 0 to 86,400")),
    ("pools: [{name: a, queueing: FIFO}]", (1, 29, "queueing: expected one of BEST_EFFORT_FIFO, STRICT_FIFO, got text 'FIFO'")),
    ("pools: [{name: a, default_platform: h100}]", (1, 37, "default_platform: 'h100' is not one of the pool's flavors. Use default")),
    ("pools: [{name: a, topology_keys: [{key: r, label: x}, {key: r, label: y}]}]", (1, 61, "key: the key 'r' is defined twice; first on line 1")),
    ("pools: [{name: a, topology_keys: [{key: n, label: kubernetes.io/hostname}, {key: r, label: x}]}]", (1, 34, "topology_keys: kubernetes.io/hostname is the finest label: its topology key must come last")),
    ("pools: [{name: a, topology_keys: [{key: r, label: x}, {key: s, label: x}]}]", (1, 71, "label: the label 'x' is defined twice; first on line 1")),
    (f"pools: [{{name: a, topology_keys: [{', '.join(f'{{key: k{n}, label: l{n}}}' for n in range(17))}]}}]", (1, 34, "topology_keys: too many topology keys (17, maximum 16)")),
    ("pools: [{name: a, topology_keys: [{key: r, label: a b}]}]", (1, 34, "topology_keys: 'a b' is not a node label: use one such as topology.kubernetes.io/rack")),
    ("pools: [{name: a, topology_keys: [{key: r, label: a..b/rack}]}]", (1, 34, "topology_keys: 'a..b/rack' is not a node label: use one such as topology.kubernetes.io/rack")),
    ("pools: [{name: a, namespaces: [A]}]", (1, 32, "namespaces[0]: 'A' is not a namespace. Use up to 63 lower-case letters, digits and '-'.")),
    ("pools: [{name: a, quota: 10, subpools: [{name: x, quota: 6}, {name: y, quota: '50%'}]}]", (1, 40, "subpools: together they have 11 GPUs (default), but pool a has 10. Reduce their quotas.")),
    ("pools: [{name: a, quota: 10, subpools: [{name: x, quota: '101%'}]}]", (1, 58, "quota: 101% is more than the parent's quota. Use at most 100%.")),
    ("pools: [{name: a, quota: 10, subpools: [{name: x, quota: {memory: 1Gi}}]}]", (1, 58, "quota: a subpool has only a GPU quota, without limits: memory and the limits come from its parent")),
    ("pools: [{name: a, subpools: [{name: x, quota: 1}]}]", (1, 47, "quota: its parent has no quota of default/gpu, so it has nothing to share")),
    ("pools: [{name: a, quota: 2, subpools: [{name: x, quota: 1, weight: 2}]}]", (1, 60, "a subpool has no field 'weight': a subpool has only name and quota; it inherits the rest")),
    ("roles: [{user: a, role: boss}]", (1, 25, "role: expected one of admin, user, viewer, got text 'boss'")),
    (
        "pools: [{name: p, quota: 1, subpools: [{name: s, quota: 1}]}]\nroles: [{user: a, role: user, pool: p--s}]",
        (2, 37, "pool: 'p--s' is a subpool, and roles on a pool include its subpools. Grant it on 'p'"),
    ),
    (
        "roles: [{user: a b, role: admin}]",
        (
            1,
            16,
            "user: user name 'a b' must be letters, digits and '.', '_', '@', '+', '-', and start with a letter or digit",
        ),
    ),
    ("roles: [{user: a, role: user, pool: p}]", (1, 37, "pool: unknown pool 'p' in this file. None is defined")),
    ("resource_names: {gpu: a b}", (1, 23, "gpu: 'a b' is not a Kubernetes resource name. Use for example nvidia.com/gpu.")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wrong"), CASES)
def test_problems_of_a_cluster_file_are_reported_with_the_rule(text: str, wrong: tuple[Any, ...]) -> None:
    assert wrong in problems(read_cluster, text)


def test_all_problems_are_reported_together_in_file_order() -> None:
    text = "backend: {type: x}\npools:\n- {name: A, quota: -1}\n- {nam: b}\nroles: 3\n"
    assert [(line, message.partition(":")[0]) for line, _, message in problems(read_cluster, text)] == [
        (1, "type"),
        (3, "name"),
        (3, "quota"),
        (4, "a pool needs name. Add name"),
        (4, "a pool has no field 'nam'. Did you mean 'name'?"),
        (5, "roles"),
    ]


def test_a_broken_file_names_the_line() -> None:
    assert problems(read_cluster, "pools:\n- name: a\n  quota: [1\n") == [
        (4, 1, "not valid YAML: did not find expected ',' or ']' while parsing a flow sequence")
    ]
