"""What a good cluster file says, and quotas in their short forms."""

import json
from typing import Any

import pytest

from runrig.domain.access import Grant, RoleKind
from runrig.domain.amounts import ONLY, Amount
from runrig.domain.cluster import ClusterSpec
from runrig.domain.nodes import Flavor, Node, Taint
from runrig.domain.pools import Cohort, Pool, Queueing, Quota, TopologyKey
from runrig.domain.quantities import FlavorResource
from runrig.spec.cluster import read_cluster
from tests.spec.files import problems
from tests.worlds.edits import amounts

TI = 2**40
GPU = FlavorResource("default", "gpu")
KINDS = ["h100", "b200"]
H100, B200 = FlavorResource("h100", "gpu"), FlavorResource("b200", "gpu")

FULL = """
backend: {name: lab, type: simulated, speed: 60}
nodes:
- name: "n{08..11}"
  resources: {gpu: 8, cpu: 96, memory: 1Ti}
  labels: {kind: h100, rack: "r{n//4}", slot: "{(n-8) % 2 + 1}"}
- {name: spare, resources: {gpu: 4, cpu: 1500m}, labels: {kind: b200}, taints: [{key: new}], cordoned: true}
cohorts:
- {name: research, parent: org, weight: 2, quota: {h100: {gpu: {nominal: 16, lending_limit: 8}}}}
pools:
- name: vision
  cohort: research
  flavors: [h100]
  quota: {gpu: 64, cpu: 10}
  queueing: STRICT_FIFO
  grace_s: 5
  weight: 3
  default_platform: h100
  default_exit_actions: {RESCHEDULE: "137,143"}
  topology_keys: [{key: zone, label: topology.kubernetes.io/zone}, {key: rack, label: rack}]
  namespaces: [vision]
  description: pictures
  subpools: [{name: a, quota: 24}, {name: b, quota: "30%"}]
- name: batch
  quota: {h100: {gpu: {nominal: 8, borrowing_limit: 8}}, b200: 4}
flavors:
- {name: h100, node_labels: {kind: h100}}
- {name: b200, node_labels: {kind: b200}, taints: [{key: new, value: x, effect: NoExecute}], allow: [hostNetwork]}
resource_names: {gpu: nvidia.com/gpu}
roles: [{user: alice, role: user, pool: vision}, {user: root, role: admin}]
"""


def test_a_file_is_read_with_every_field() -> None:
    big = {"gpu": 8, "cpu": 96_000, "memory": TI}

    def node(name: str, rack: str, slot: str) -> Node:
        return Node(name, big, "h100", {"kind": "h100", "rack": rack, "slot": slot})

    def pool(name: str, gpus: int, cpu: int, **parent: Any) -> Pool:
        return Pool(
            name,
            {H100: Quota(gpus), FlavorResource("h100", "cpu"): Quota(cpu)},
            cohort="research",
            weight=3,
            queueing=Queueing.STRICT_FIFO,
            grace_s=5.0,
            flavors=("h100",),
            topology_keys=(TopologyKey("zone", "topology.kubernetes.io/zone"), TopologyKey("rack", "rack")),
            default_platform="h100",
            default_exit_actions=(("RESCHEDULE", 137, 137), ("RESCHEDULE", 143, 143)),
            description="pictures",
            **parent,
        )

    assert read_cluster(FULL) == ClusterSpec(
        backend_name="lab",
        backend_type="simulated",
        speed=60.0,
        nodes=(
            node("n08", "r2", "1"),
            node("n09", "r2", "2"),
            node("n10", "r2", "1"),
            node("n11", "r2", "2"),
            Node("spare", {"gpu": 4, "cpu": 1500}, "b200", {"kind": "b200"}, (Taint("new"),), ready=False),
        ),
        flavors=(
            Flavor("h100", {"kind": "h100"}, position=0),
            Flavor("b200", {"kind": "b200"}, (Taint("new", "x", "NoExecute"),), ("hostNetwork",), position=1),
        ),
        cohorts=(Cohort("research", "org", {H100: Quota(16, None, 8)}, weight=2),),
        pools=(
            pool("vision", 64, 10_000),
            pool("vision--a", 24, 3750, parent="vision", subpool_name="a"),
            pool("vision--b", 19, 2968, parent="vision", subpool_name="b"),
            Pool("batch", {H100: Quota(8, 8), B200: Quota(4)}),
        ),
        resource_names={"gpu": "nvidia.com/gpu"},
        roles=(("alice", Grant(RoleKind.POOL_USER, "vision")), ("root", Grant(RoleKind.ADMIN))),
    )


def test_a_short_file_has_one_flavor_that_matches_all() -> None:
    text = 'nodes: [{name: "n{0..1}", resources: {gpu: 4}}]\npools: [{name: a, quota: 8}]\n'
    assert read_cluster(text) == ClusterSpec(
        nodes=(Node("n0", {"gpu": 4}), Node("n1", {"gpu": 4})), pools=(Pool("a", {GPU: Quota(8)}),)
    )


def test_ten_thousand_nodes_are_one_line() -> None:
    text = 'nodes: [{name: "n{00000..09999}", resources: {gpu: 8}, labels: {rack: "r{n//40}"}}]'
    nodes = read_cluster(text).nodes
    assert (len(nodes), nodes[-1]) == (10_000, Node("n09999", {"gpu": 8}, labels={"rack": "r249"}))


def test_a_resource_that_a_node_has_can_have_a_quota() -> None:
    text = "nodes: [{name: a, resources: {gpu: 1, fpga: 2}}]\npools: [{name: p, quota: {fpga: 2}}]"
    assert read_cluster(text).pools[0].quotas == {FlavorResource("default", "fpga"): Quota(2)}


@pytest.mark.parametrize(
    ("value", "quotas"),
    [
        (64, {GPU: Quota(64)}),
        ("64", {GPU: Quota(64)}),
        ({"gpu": 64}, {GPU: Quota(64)}),
        ({"gpu": {"nominal": 64, "borrowing_limit": None}}, {GPU: Quota(64)}),
        ({"default": {"gpu": {"nominal": 8, "borrowing_limit": 0, "lending_limit": 2}}}, {GPU: Quota(8, 0, 2)}),
        ({"default": 8}, {GPU: Quota(8)}),
        ({"memory": "1Ti", "cpu": "500m"}, {FlavorResource("default", "memory"): Quota(TI), FlavorResource("default", "cpu"): Quota(500)}),
        ({}, {}),
    ],
)  # fmt: skip
def test_a_quota_has_short_and_full_forms(value: Any, quotas: dict[FlavorResource, Quota]) -> None:
    assert read_cluster(_of_kinds(value, ["default"])).pools[0].quotas == quotas


def test_a_key_that_is_a_flavor_and_a_resource_is_the_flavor() -> None:
    quotas = read_cluster(_of_kinds({"gpu": {"gpu": 3}}, ["gpu"])).pools[0].quotas
    assert quotas == {FlavorResource("gpu", "gpu"): Quota(3)}


def test_with_several_flavors_each_is_named() -> None:
    assert read_cluster(_of_kinds("h100=8, b200=4", KINDS)).pools[0].quotas == {H100: Quota(8), B200: Quota(4)}
    assert read_cluster(_of_kinds("h100=8", KINDS)).pools[0].quotas == {H100: Quota(8)}
    form = "quota: there are 2 flavors, h100, b200. Give an amount for each: h100=8,b200=8, or in full {h100: {gpu: 8}, b200: {gpu: 8}}"
    for value in (64, "64"):
        assert [each[2] for each in problems(read_cluster, _of_kinds(value, KINDS))] == [form]


def _of_kinds(quota: Any, flavors: list[str]) -> str:
    """A cluster file with *flavors* and one pool with *quota*."""
    kinds = [{"name": each, "node_labels": {"kind": each}} for each in flavors]
    return json.dumps({"flavors": kinds, "pools": [{"name": "p", "quota": quota}]})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-8, "quota: -8 is negative. Use at least 0"),
        (1.5, "quota: expected a whole number, got 1.5"),
        (True, "quota: expected a whole number, got true"),
        ("many", "quota: 'many' is not a number of GPUs. Use for example 64, or h100=8,b200=4."),
        ("b200=4", "quota: unknown flavor 'b200'. Use h100"),
        ("h100=4,h100=5", "quota: 'h100=4,h100=5' names h100 twice"),
        ({"gpus": 8}, "gpus: 'gpus' is neither a resource nor a flavor. Did you mean 'gpu'?"),
        ({"h10": {"gpu": 8}}, "h10: unknown flavor 'h10'. Did you mean 'h100'?"),
        ({"gpu": {"nominal": -1}}, "nominal: '-1' is negative: amounts of gpu must be at least 0"),
        ({"gpu": 0.5}, "gpu: '0.5' is not a whole number of GPUs"),
        ({"gpu": {"max": 1}}, "a quota has no field 'max'. Use one of nominal, borrowing_limit, lending_limit"),
    ],
)
def test_an_invalid_quota_is_refused_with_a_valid_form(value: Any, message: str) -> None:
    assert (None, None, message) in problems(lambda _: amounts(("h100",), quota=value), "")


def test_amounts_are_read_before_their_owner_is_known() -> None:
    """What has no flavor stays so: only the state knows whether there is one."""
    cpu, plain = FlavorResource("b200", "cpu"), FlavorResource(ONLY, "gpu")
    text = "h100=8, b200/cpu=500m,b200=none,memory=1Ti"
    assert {each.key: each.value for each in amounts(quota=text)} == {
        H100: 8, cpu: 500, B200: None, FlavorResource(ONLY, "memory"): TI
    }  # fmt: skip
    assert amounts(quota="64") == amounts(quota=64) == (Amount(plain, "nominal", 64),)
    assert amounts(lending_limit=None) == (Amount(plain, "lending_limit", None),)
    assert amounts(quota={"h100": {"gpu": {"nominal": 8, "borrowing_limit": 2}}}) == (
        Amount(H100, "nominal", 8), Amount(H100, "borrowing_limit", 2), Amount(H100, "lending_limit", None)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("xpu=8", "unknown flavor 'xpu'. Use one of h100, b200"),
        ("h100/disk=8", "'disk' is neither a resource nor a flavor. Use one of gpu, cpu, memory, storage, h100, b200"),
        ("h100=8,h100/gpu=4", "'h100=8,h100/gpu=4' names h100/gpu twice"),
        ("h100=8,4", "'h100=8,4' names gpu with and without its flavor"),
        ("h100/cpu=-1", "'-1' is negative: amounts of cpu must be at least 0"),
        ("h100=1.5", "'h100=1.5' is not a number of GPUs. Use for example 64, or h100=8,b200=4."),
        ("h100/memory=1e400", f"'1e400' does not fit in 64 bits: amounts of memory must be at most {2**63 - 1}"),
        ("h100=9223372036854775808", f"'{2**63}' does not fit in 64 bits: amounts of gpu must be at most {2**63 - 1}"),
        (-1, "-1 is negative. Use at least 0"),
    ],
)  # fmt: skip
def test_an_invalid_amount_is_refused_with_its_position(text: str | int, message: str) -> None:
    limit = problems(lambda _: amounts(lending_limit=text), "")
    assert limit == [(None, None, f"lending_limit: {message}")]


def test_file_without_flavors_uses_the_existing_ones() -> None:
    there = (Flavor("h100", {"gpu": "h100"}), Flavor("b200", {"gpu": "b200"}))
    text = "nodes: [{name: n, resources: {gpu: 8}, labels: {gpu: b200}}]\npools: [{name: a, quota: {b200: 4}}]"
    spec = read_cluster(text, there=there)
    assert (spec.flavors, spec.nodes[0].flavor, dict(spec.pools[0].quotas)) == (there, "b200", {B200: Quota(4)})
    assert read_cluster("flavors: [{name: x}]", there=there).flavors == (Flavor("x"),)
