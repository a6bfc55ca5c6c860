"""Task groups in a line each, through `runrig workflow render`, and what comes out, as short."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.worlds.command_line import Done, runrig

DATA = Path(__file__).parent / "topology_data"
Case = Mapping[str, Any]


def workflow(tasks: Mapping[str, Sequence[str]], counts: Mapping[str, int] | None = None) -> str:
    """One group.  *tasks*: name → KEY/GROUP of each requirement, with :N if it has slices, and ? where it is preferred."""
    resources = {name: {"topology": [_requirement(each) for each in asked]} for name, asked in tasks.items()}
    written = [
        {"name": name, "image": "i", "command": ["run"], "resource": name, "lead": number == 0}
        | ({"count": counts[name]} if counts and name in counts else {})
        for number, name in enumerate(tasks)
    ]
    groups = [{"name": "g", "tasks": written}]
    return json.dumps({"workflow": {"name": "w", "resources": resources, "groups": groups}})


def _requirement(text: str) -> dict[str, str | int]:
    named, _, size = text.rstrip("?").partition(":")
    key, _, group = named.partition("/")
    kind = {"requirementType": "preferred"} if text.endswith("?") else {}
    return {"key": key, "group": group, **kind, **({"sliceSize": int(size)} if size else {})}


def cluster(keys: Mapping[str, str]) -> str:
    listed = [{"key": key, "label": label} for key, label in keys.items()]
    return json.dumps({"pools": [{"name": "p", "quota": 8, "topology_keys": listed}]})


def rendered(folder: Path, text: str, cluster_text: str, *options: str) -> Done:
    (folder / "wf.yaml").write_text(text)
    (folder / "cluster.yaml").write_text(cluster_text)
    return runrig("workflow", "render", f"{folder}/wf.yaml", "--cluster", f"{folder}/cluster.yaml", *options)


def documents(done: Done) -> list[dict[str, Any]]:
    assert (done.code, done.err) == (0, ""), done.err
    return list(yaml.safe_load_all(done.out))


def outlined(objects: Sequence[dict[str, Any]], topology: str) -> dict[str, Any]:
    """The one pod group of *objects*, in the words of the data; every constraint must name *topology*."""
    (group,) = (each for each in objects if each["kind"] == "PodGroup")
    pods = [each["metadata"] for each in objects if each["kind"] == "Pod"]
    label = "kai.scheduler/subgroup-name"
    found = dict(_levels(group["spec"], topology))
    if "minMember" in group["spec"]:
        found["pods"] = group["spec"]["minMember"]
    of = {each["labels"]["runrig/task"]: each["labels"][label] for each in pods if label in each["labels"]}
    subgroups = {
        each["name"]: dict(_levels(each, topology)) | _shape(each) for each in group["spec"].get("subGroups", ())
    }
    assert {each["annotations"]["pod-group-name"] for each in pods} == {group["metadata"]["name"]}
    return found | ({"of": of, "subgroups": subgroups} if subgroups or of else {})


def _levels(spec: Mapping[str, Any], topology: str) -> Iterator[tuple[str, str]]:
    constraint = spec.get("topologyConstraint", {"topology": topology})
    assert constraint["topology"] == topology
    for field in ("required", "preferred"):
        if f"{field}TopologyLevel" in constraint:
            yield field, constraint[f"{field}TopologyLevel"]


def _shape(subgroup: Mapping[str, Any]) -> dict[str, Any]:
    names = {"parent": "parent", "minMember": "pods"}
    return {names[field]: subgroup[field] for field in names if field in subgroup}
