"""The four use cases of the specification, from the files to the domains of the pods (topology-aware-scheduling.md)."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from runrig.domain.plan import PutNode
from runrig.domain.reasons import Code, Reason
from runrig.domain.workflows import WorkflowSpec
from runrig.engine.explain.why import why
from runrig.spec.cluster import read_cluster
from runrig.spec.workflow import read_workflow
from tests.worlds.engine import NORMAL, World

FOLDER = Path(__file__).parents[3] / "examples" / "topology"
CLIQUE = "nvidia.com/gpu-clique"
ZONE, SPINE, RACK = (f"topology.kubernetes.io/{name}" for name in ("zone", "spine", "rack"))

Domains = dict[str, set[str]]


class UseCase(World):
    """A workflow file submitted to the pool of a cluster file. *cordoned*: nodes that accept no new pods. *mixed*: the
    shards of the copies alternate, so that their order means nothing.
    """

    def __init__(self, workflow: str, cluster: str, *cordoned: str, mixed: bool = False) -> None:
        spec = read_cluster((FOLDER / f"{cluster}.yaml").read_text())
        (pool,) = spec.pools
        super().__init__({pool.name: pool}, {node.name: node for node in spec.nodes}, spec.cohorts, spec.flavors)
        self.cordon(*cordoned)
        self.spec = read_workflow((FOLDER / f"{workflow}.yaml").read_text())
        if mixed:
            self.spec = by_turns(self.spec)
        self.id = self.submit(self.spec.name, pool.name, NORMAL, spec=self.spec)
        self.decided = self.cycle()

    def cordon(self, *names: str, ready: bool = False) -> None:
        self.do(*(PutNode(replace(self.state.nodes[name], ready=ready)) for name in names))

    @property
    def starts(self) -> bool:
        return self.decided == [f"admit {self.spec.name}"]

    def nodes(self) -> dict[str, str]:
        """Task → node."""
        (group,) = self.spec.groups
        return {each.name: each.node or "" for each in self.state.current_tasks((self.id, group.name))}

    def domains(self, label: str) -> Domains:
        """Copy of the model → values of *label* on the nodes of its shards."""
        found: Domains = {}
        for task, node in self.nodes().items():
            found.setdefault(task.partition("-")[0], set()).add(self.state.nodes[node].labels[label])
        return found

    def reasons(self) -> tuple[Reason, ...]:
        return why(self.state, self.id)[0].reasons


def by_turns(spec: WorkflowSpec) -> WorkflowSpec:
    (group,) = spec.groups
    tasks = sorted(group.tasks, key=lambda task: task.name.partition("-")[2])
    return replace(spec, groups=(replace(group, tasks=tuple(tasks)),))


def apart(domains: Mapping[str, set[str]]) -> bool:
    """Each copy in one domain, no two of them in the same."""
    return all(len(each) == 1 for each in domains.values()) and len(set.union(*domains.values())) == len(domains)


APART: Domains = {}
BOTH_IN_A = {"model1": {"a"}, "model2": {"a"}}


@pytest.mark.parametrize("mixed", [False, True], ids=["as written", "by turns"])
@pytest.mark.parametrize(
    ("workflow", "cluster", "expected"),
    [
        ("01-single-rack", "01-cluster", {CLIQUE: APART}),
        ("02-two-racks", "02-cluster", {CLIQUE: APART}),
        ("03-one-zone", "03-cluster", {ZONE: BOTH_IN_A, CLIQUE: APART}),
        ("04-best-effort", "04-cluster", {SPINE: BOTH_IN_A, RACK: APART}),
        ("04-best-effort", "04-cluster-apart", {SPINE: APART, RACK: APART}),
    ],
)
def test_each_copy_of_the_model_goes_where_its_use_case_says(
    workflow: str, cluster: str, expected: dict[str, Domains], mixed: bool
) -> None:
    """T1, T2."""
    case = UseCase(workflow, cluster, mixed=mixed)
    assert case.starts
    for label, domains in expected.items():
        found = case.domains(label)
        assert apart(found) if domains is APART else found == domains


@pytest.mark.parametrize(("cordoned", "clique"), [("node2", "b"), ("node7", "a")])
def test_four_shards_go_to_the_rack_with_four_nodes(cordoned: str, clique: str) -> None:
    """T1."""
    case = UseCase("01-single-rack", "01-cluster", cordoned)
    assert case.domains(CLIQUE) == {"model1": {clique}}


# ---------------------------------------------------------------- gangs that do not fit


def test_shards_wait_while_no_rack_has_four_nodes_and_name_the_level() -> None:
    """T1."""
    case = UseCase("01-single-rack", "01-cluster", "node1", "node8")
    assert case.decided == []
    assert case.reasons() == (replace(case.reasons()[0], code=Code.NO_DOMAIN_FITS, where="gpu-clique", have=3, need=4),)
    case.cordon("node1", ready=True)
    assert case.cycle() == ["admit single-rack"]
    assert case.domains(CLIQUE) == {"model1": {"a"}}


# ---------------------------------------------------------------- after a restart of the server
