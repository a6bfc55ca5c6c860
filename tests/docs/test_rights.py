"""The rights that docs/kubernetes.md names are those of deploy/kubernetes/rbac.yaml."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
Rights = set[tuple[str, str, str]]
"""(Role or ClusterRole, resource with its API group, verb)."""


def given() -> Rights:
    objects = yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "rbac.yaml").read_text())
    return {
        (each["kind"], f"{resource}.{group}".rstrip("."), verb)
        for each in objects
        for rule in each.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def documented() -> Rights:
    text = (ROOT / "docs" / "kubernetes.md").read_text()
    rows = re.findall(
        r"^\| (.*?) \| (.*?) \|$", text[text.index("| resources | verbs |") :].partition("\n\n")[0], re.MULTILINE
    )
    found = set()
    for what, verbs in rows[1:]:
        inside = what.startswith("in the namespace: ")
        plain = re.sub(r" \(.*?\)| of all namespaces|`", "", what.removeprefix("in the namespace: "))
        for resource in re.split("[,;] ", plain):
            found |= {("Role" if inside else "ClusterRole", resource, verb) for verb in verbs.split(", ")}
    return found


def test_the_table_and_the_file_give_the_same_rights() -> None:
    assert documented() == given()
