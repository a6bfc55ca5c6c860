"""A rack that is only preferred and was not to be had: query, events and why say so."""

from pathlib import Path

import pytest

from runrig.domain.nodes import Node
from tests.api.client import Api, api

CLUSTER = """
pools:
- name: team
  quota: 8
  topology_keys: [{key: zone, label: zone}, {key: rack, label: rack}, {key: host, label: kubernetes.io/hostname}]
  subpools: [{name: a, quota: 8}]
"""
NODES = tuple(
    Node(f"n{number}", {"gpu": 2}, labels={"zone": f"z{number // 2}", "rack": f"r{number}"}) for number in range(4)
)


def gang(name: str, pods: int, kind: str = "preferred", level: str = "rack", duration: int = 9000) -> str:
    return f"""
workflow:
  name: {name}
  resources: {{one: {{gpu: 1, topology: [{{key: {level}, requirementType: {kind}}}]}}}}
  tasks:
  - {{name: main, image: any, command: [x], resource: one, count: {pods}, duration: {duration}}}
"""


def told(it: Api, id: str) -> tuple[list[str], list[str], str]:
    """(warnings of query at both doors, lines of events about it, the sentence of why)."""
    warnings = it.get(f"/api/workflow/{id}")["warnings"]
    assert it.get(f"/api/v1/workflows/{id}")["warnings"] == warnings
    lines = [line.split("  ", 1)[1] for line in it.get(f"/api/workflow/{id}/events").splitlines()]
    texts = [each["text"] for each in it.get(f"/api/v1/workflows/{id}/events")["items"]]
    about = [line for line in lines if "split" in line.lower()]
    assert [text for text in texts if "split" in text.lower()] == about
    return warnings, about, it.get(f"/api/v1/workflows/{id}/why")["sentence"]


@pytest.mark.parametrize("pool", ["team", "team--a"])
@pytest.mark.parametrize(
    ("pods", "level", "words"),
    [
        (2, "rack", ""),
        (4, "rack", "split over 2 racks; preferred: 1"),
        (6, "host", "split over 3 hosts; preferred: 1"),
        (4, "zone", ""),
        (8, "zone", "split over 2 zones; preferred: 1"),
    ],
)
def test_unmet_topology_preference_is_reported(tmp_path: Path, pool: str, pods: int, level: str, words: str) -> None:
    with api(tmp_path, cluster=CLUSTER, nodes=NODES) as it:
        it.submit(gang("w", pods, level=level), pool, priority="LOW")
        it.desk.later(1)
        warnings, events, sentence = told(it, "w-1")
        assert warnings == ([f"main-group is {words}"] if words else [])
        assert events == ([f"runrig: group main-group: Split: {words}"] if words else [])
        assert sentence.startswith("w-1 is RUNNING on")
        assert (words in sentence, "preferred" in sentence) == (True, bool(words))


def test_required_levels_and_waiting_workflows_are_not_reported(tmp_path: Path) -> None:
    with api(tmp_path, cluster=CLUSTER, nodes=NODES) as it:
        it.submit(gang("r", 2, "required"), "team", priority="LOW")
        it.submit(gang("waits", 8), "team", priority="LOW")
        it.desk.later(1)
        assert told(it, "r-1")[:2] == ([], [])
        warnings, events, sentence = told(it, "waits-1")
        assert (warnings, events, sentence.startswith("waits-1 is waiting")) == ([], [], True)


def test_unmet_preference_is_still_reported_after_the_workflow_ended(tmp_path: Path) -> None:
    with api(tmp_path, cluster=CLUSTER, nodes=NODES) as it:
        it.submit(gang("w", 4, duration=10), "team", priority="LOW")
        it.desk.later(1)
        before = told(it, "w-1")[:2]
        it.desk.later(100)
        assert told(it, "w-1") == (*before, "w-1 is COMPLETED.")
