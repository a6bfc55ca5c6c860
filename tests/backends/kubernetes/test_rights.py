"""The manifests grant what `runrig doctor` checks, and nothing else."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from runrig.backends.kubernetes.rights import MANIFEST, RIGHTS, SESSIONS

ROOT = Path(__file__).parents[3]
Grant = tuple[str, str, str]


def needed(*, inside: bool, sessions: bool = False) -> set[Grant]:
    """What runrig needs from a Role (*inside*) or ClusterRole, without what is for sessions, or only that."""
    found = [right for right in RIGHTS if (right.inside, right.sessions) == (inside, sessions)]
    return {(right.group, right.resource, verb) for right in found for verb in right.verbs}


def granted(text: str) -> dict[str, set[Grant]]:
    """Kind of role → what the roles of a manifest grant."""
    found = [each for each in yaml.safe_load_all(text) if each and each["kind"] in ("Role", "ClusterRole")]
    return {
        each["kind"]: {
            (group, resource, verb)
            for rule in each["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        for each in found
    }


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (MANIFEST, {"ClusterRole": needed(inside=False), "Role": needed(inside=True)}),
        (SESSIONS, {"Role": needed(inside=True, sessions=True)}),
    ],
)
def test_manifest_grants_exactly_the_checked_permissions(file: str, expected: Mapping[str, set[Grant]]) -> None:
    assert granted((ROOT / file).read_text()) == expected
