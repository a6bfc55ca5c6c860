"""The manifests grant what `runrig doctor` checks, and nothing else."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from runrig.backends.kubernetes.rights import MANIFEST, SESSIONS, rules

ROOT = Path(__file__).parents[3]
Grant = tuple[str, str, str]


def grants(found: Iterable[Mapping[str, Any]]) -> set[Grant]:
    """(API group, resource, verb) of rules."""
    return {
        (group, resource, verb)
        for rule in found
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def granted(text: str) -> dict[str, set[Grant]]:
    """Kind of role → what the roles of a manifest grant."""
    found = [each for each in yaml.safe_load_all(text) if each and each["kind"] in ("Role", "ClusterRole")]
    return {each["kind"]: grants(each["rules"]) for each in found}


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (MANIFEST, {"ClusterRole": grants(rules(inside=False)), "Role": grants(rules(inside=True))}),
        (SESSIONS, {"Role": grants(rules(inside=True, sessions=True))}),
    ],
)
def test_manifest_grants_exactly_the_checked_permissions(file: str, expected: Mapping[str, set[Grant]]) -> None:
    assert granted((ROOT / file).read_text()) == expected
