"""A field that could change the outcome and is not read is warned of: wherever a reader looks, it knows every field there is."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from runrig.spec.kueue import read_manifests
from tests.spec.kueue.test_properties import EVERYTHING
from tests.worlds.manifests import read, warnings, workload

KINDS = Path(__file__).parents[2] / "service" / "simulate" / "data" / "job_kinds.yaml"
SCENARIOS: list[list[dict[str, Any]]] = [[each] for each in EVERYTHING] + [
    sample["objects"] for sample in yaml.load(KINDS.read_text(), yaml.CSafeLoader)
]

NAMES_ANYTHING = {
    "labels", "annotations", "matchLabels", "nodeSelector", "nodeLabels", "requests", "limits", "overhead", "allocatable", "podFixed",
    "flavors", "resourceUsage",
}  # fmt: skip
"""Mappings whose keys are names that somebody chose."""
WITHOUT_BEARING = {
    "metadata", "ownerReferences", "selector", "network", "rayStartParams", "torch", "runPolicy", "lifecycle", "ports",
}  # fmt: skip
"""What is known to change nothing, and is not looked into."""
NOT_OURS = {"Pod", "List", "AppWrapper"}
"""Of these only parts are for us: a pod that runs takes room, a list holds objects, a component may be of any kind."""


def mappings(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The paths of all mappings in which a field that nobody knows could change something."""
    if isinstance(value, dict):
        yield path
        for key, each in value.items():
            if key not in NAMES_ANYTHING | WITHOUT_BEARING:
                yield from mappings(each, (*path, key))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from mappings(each, (*path, at))


def with_a_field(value: Any, path: tuple[str | int, ...]) -> Any:
    changed = copy.deepcopy(value)
    at = changed
    for key in path:
        at = at[key]
    at["fieldOfTomorrow"] = 1
    return changed


def warned(documents: list[dict[str, Any]]) -> set[str]:
    return {each.path for each in read_manifests("\n".join(json.dumps(each) for each in documents), "a.json").warnings}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario[-1]["kind"])
def test_a_field_that_nobody_knows_is_warned_of_wherever_it_stands(scenario: list[dict[str, Any]]) -> None:
    silent = []
    for at, document in enumerate(scenario):
        if document["kind"] in NOT_OURS:
            continue
        for path in mappings(document):
            changed = [*scenario[:at], with_a_field(document, path), *scenario[at + 1 :]]
            if not any(found.endswith("fieldOfTomorrow") for found in warned(changed)):
                silent.append(".".join(str(each) for each in path))
    assert silent == []


def test_marks_of_the_queue_system_in_a_template_are_warned_of_too() -> None:
    made = workload()
    made["spec"]["podSets"][0]["template"]["metadata"] = {
        "annotations": {"kueue.x-k8s.io/podset-from-tomorrow": "1", "example.com/note": "2"}
    }
    path = "spec.podSets[0].template.metadata.annotations.kueue.x-k8s.io/podset-from-tomorrow"
    assert (1, path, "not supported: not read") in warnings(made)
    assert len(read(made).warnings) == 2
