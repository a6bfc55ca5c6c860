"""The rights that docs/kubernetes.md names are those of the files in deploy/kubernetes."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
Rights = set[tuple[str, str, str]]
"""(Role or ClusterRole, resource with its API group, verb)."""


def given() -> Rights:
    files = sorted((ROOT / "deploy" / "kubernetes").glob("rbac*.yaml"))
    objects = [each for file in files for each in yaml.safe_load_all(file.read_text())]
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
        r"^\| (.*?) \| (.*?) \|(?: .* \|)?$",
        text[text.index("| resources | verbs |") :].partition("\n\n")[0],
        re.MULTILINE,
    )
    found = set()
    for what, verbs in rows[1:]:
        inside = what.startswith("in the namespace: ")
        plain = re.sub(r" \(.*?\)| of all namespaces|`", "", what.removeprefix("in the namespace: "))
        for resource in re.split("[,;] ", plain):
            found |= {("Role" if inside else "ClusterRole", resource, verb) for verb in verbs.split(", ")}
    return found


def test_table_and_files_give_the_same_permissions() -> None:
    assert documented() == given()
