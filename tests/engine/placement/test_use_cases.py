"""The four use cases of the specification, from the files to the domains of the pods (topology-aware-scheduling.md)."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from runrig.domain.gangs import Requirement
from runrig.domain.plan import PutNode
from runrig.domain.reasons import Code, Reason
from runrig.domain.workflows import WorkflowSpec
from runrig.engine.explain.why import why
from runrig.spec.cluster import read_cluster
from runrig.spec.workflow import read_workflow
from tests.replaying import replayed
from tests.worlds.engine import NORMAL, World
from tests.worlds.service import desk

FOLDER = Path(__file__).parents[3] / "examples" / "topology"
CLIQUE = "nvidia.com/gpu-clique"
ZONE, SPINE, RACK = (f"topology.kubernetes.io/{name}" for name in ("zone", "spine", "rack"))

Domains = dict[str, set[str]]
EITHER = pytest.mark.parametrize("mixed", [False, True], ids=["as written", "by turns"])


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
        return why(self.state, self.id).groups[0].reasons


def by_turns(spec: WorkflowSpec) -> WorkflowSpec:
    (group,) = spec.groups
    tasks = sorted(group.tasks, key=lambda task: task.name.partition("-")[2])
    return replace(spec, groups=(replace(group, tasks=tuple(tasks)),))


def apart(domains: Mapping[str, set[str]]) -> bool:
    """Each copy in one domain, no two of them in the same."""
    return all(len(each) == 1 for each in domains.values()) and len(set.union(*domains.values())) == len(domains)


def test_four_shards_go_to_one_rack() -> None:
    """T1: use case 1; each shard uses a whole node."""
    case = UseCase("01-single-rack", "01-cluster")
    assert case.starts
    assert apart(case.domains(CLIQUE))
    assert len(set(case.nodes().values())) == 4


@pytest.mark.parametrize(("cordoned", "clique"), [("node2", "b"), ("node7", "a")])
def test_four_shards_go_to_the_rack_with_four_nodes(cordoned: str, clique: str) -> None:
    """T1."""
    case = UseCase("01-single-rack", "01-cluster", cordoned)
    assert case.domains(CLIQUE) == {"model1": {clique}}


@EITHER
def test_each_copy_of_the_model_goes_to_one_rack(mixed: bool) -> None:
    """T1: use case 2; a rack has room for one copy."""
    case = UseCase("02-two-racks", "02-cluster", mixed=mixed)
    assert case.starts
    assert apart(case.domains(CLIQUE))


@EITHER
def test_both_copies_go_to_the_zone_with_two_racks(mixed: bool) -> None:
    """T1: use case 3; zone b has one."""
    case = UseCase("03-one-zone", "03-cluster", mixed=mixed)
    assert case.starts
    assert case.domains(ZONE) == {"model1": {"a"}, "model2": {"a"}}
    assert apart(case.domains(CLIQUE))


@EITHER
def test_best_effort_finds_a_rack_for_each_copy_and_one_spine_for_both(mixed: bool) -> None:
    """T2: use case 4."""
    case = UseCase("04-best-effort", "04-cluster", mixed=mixed)
    assert case.starts
    assert apart(case.domains(RACK))
    assert case.domains(SPINE) == {"model1": {"a"}, "model2": {"a"}}


@EITHER
def test_best_effort_starts_under_two_spines_if_no_spine_has_room_for_both(mixed: bool) -> None:
    """T2."""
    case = UseCase("04-best-effort", "04-cluster-apart", mixed=mixed)
    assert case.starts
    assert apart(case.domains(RACK))
    assert apart(case.domains(SPINE))


# ---------------------------------------------------------------- gangs that do not fit


def test_shards_wait_while_no_rack_has_four_nodes_and_name_the_level() -> None:
    """T1."""
    case = UseCase("01-single-rack", "01-cluster", "node1", "node8")
    assert case.decided == []
    assert case.reasons() == (replace(case.reasons()[0], code=Code.NO_DOMAIN_FITS, where="gpu-clique", have=3, need=4),)
    case.cordon("node1", ready=True)
    assert case.cycle() == ["admit single-rack"]
    assert case.domains(CLIQUE) == {"model1": {"a"}}


def test_copies_wait_while_each_has_a_rack_but_no_zone_has_both() -> None:
    """T1: racks b and c are free, in different zones; zone a lacks a node of rack a."""
    case = UseCase("03-one-zone", "03-cluster", "node1")
    assert case.decided == []
    (reason,) = case.reasons()
    assert (reason.code, reason.law, reason.where, reason.have, reason.need) == (
        Code.NO_DOMAIN_FITS,
        "T1",
        "zone",
        7,
        8,
    )
    case.cordon("node1", ready=True)
    assert case.cycle() == ["admit one-zone"]


def test_best_effort_does_not_wait_for_preferences() -> None:
    """T2: one copy gets its rack. If racks were required, the other would wait forever; here it starts in two."""
    cluster = read_cluster((FOLDER / "04-cluster.yaml").read_text())
    (pool,) = cluster.pools
    nodes = {
        node.name: replace(node, labels={SPINE: "a", RACK: "3"}) if node.name == "node8" else node
        for node in cluster.nodes
    }
    world = World({pool.name: pool}, nodes, cluster.cohorts, cluster.flavors)
    spec = read_workflow((FOLDER / "04-best-effort.yaml").read_text())
    id = world.submit(spec.name, pool.name, NORMAL, spec=spec)
    assert world.cycle() == ["admit best-effort"]
    racks: Domains = {}
    for task in world.state.current_tasks((id, "training")):
        racks.setdefault(task.name.partition("-")[0], set()).add(nodes[task.node or ""].labels[RACK])
    assert sorted(len(each) for each in racks.values()) == [1, 2]


# ---------------------------------------------------------------- after a restart of the server


def test_a_restarted_server_places_the_next_gang_next_to_the_stored_ones(tmp_path: Path) -> None:
    """T1, W2: the rows contain requirements, slices and placements, and the log gives the same."""
    text = (FOLDER / "01-cluster.yaml").read_text()
    nodes = read_cluster(text).nodes
    clique = {node.name: node.labels[CLIQUE] for node in nodes}
    found: list[set[str]] = []
    for start in range(3):
        with desk(tmp_path, nodes=nodes, cluster=None if start else text) as it:
            id = it.submit("single", "research", text=(FOLDER / "01-single-rack.yaml").read_text())
            it.later(0)
            rows = it.store.load()
            assert replayed(it.store).rows() == rows
            (gang,) = (row for row in rows.gangs if row.gang.workflow == id)
            assert [each.topology for each in gang.gang.pod_sets] == [(Requirement("gpu-clique"),)] * 4
            found.append({clique[share.node] for each in gang.placement for share in each.shares})
    assert found == [{"a"}, {"b"}, set()]
