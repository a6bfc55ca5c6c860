"""What the engine decides, as pods: on the nodes it chose, as many as it admitted."""

from pathlib import Path

from runrig.backends.kubernetes.names import Object
from runrig.backends.kubernetes.objects import gang_objects
from runrig.backends.kubernetes.pods import GangPods, Settings
from runrig.domain.gangs import Priority
from runrig.ports.backend import Desired
from tests.backends.kubernetes.gangs import variables
from tests.backends.kubernetes.placed_by_engine import rounds

CLUSTER = """
nodes: [{name: a, resources: {gpu: 2}, labels: {rack: r0}}, {name: b, resources: {gpu: 4}, labels: {rack: r1}}]
pools: [{name: p, quota: 3, topology_keys: [{key: rack, label: rack}]}]
"""
WORKFLOW = """
workflow:
  name: w
  resources: {default: {gpu: 1, topology: [{key: rack, group: all}]}, none: {cpu: 1}}
  groups:
  - name: first
    tasks: [{name: look, image: i, command: [look], resource: none}]
  - name: second
    tasks:
    - {name: crowd, image: i, command: [go], count: 5, minCount: 2, inputs: [{task: look}]}
"""


def test_partially_admitted_gang_has_only_its_admitted_pods(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(WORKFLOW)
    first, second = rounds(tmp_path / "w.yaml", CLUSTER, priority=Priority.NORMAL)
    group, *pods = placed(second)
    assert [each["spec"]["minMember"] for each in (*placed(first)[:1], group)] == [1, 3]
    assert [
        (said["RUNRIG_TASK"], said["RUNRIG_INDEX"], said["RUNRIG_COUNT"], said["RUNRIG_MAX_COUNT"], _node(pod))
        for pod in pods
        for said in [variables(pod)]
    ] == [(f"crowd-{index}", str(index), "3", "5", "b") for index in range(3)]
    assert {variables(pod)["RUNRIG_HOSTS"].count(".svc") for pod in pods} == {3}


def placed(desired: Desired) -> list[Object]:
    """The pod group of its only gang, and the pods."""
    (gang,) = desired.gangs.values()
    them = GangPods(gang, Settings("jobs", desired.flavors, {}, epoch=0))
    return [gang_objects(them)[-1], *(them.pod(launch) for _, launch in sorted(desired.run.items()))]


def _node(pod: Object) -> str:
    needed = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    ((node,),) = (field["values"] for term in needed["nodeSelectorTerms"] for field in term["matchFields"])
    return str(node)
