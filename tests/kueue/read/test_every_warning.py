"""Every warning about Kueue manifests, in the words that users see, with a file that provokes it (data/warnings.yaml).

``python -m tests.kueue.read.test_every_warning`` records the words again. Read the difference before you commit it.
"""

import ast
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import yaml

import runrig.kueue.read
from runrig.kueue.read.tree import Value
from tests.worlds.manifests import group, home, manifest, pod, read, workload

TABLE = Path(__file__).parent / "data" / "warnings.yaml"
TABLED: list[dict[str, Any]] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
FLAVORS = tuple(manifest("ResourceFlavor", name) for name in "fg")
BEFORE: dict[str | None, tuple[object, ...]] = {None: (), "home": home(), "flavors": FLAVORS}
"""The documents that come first in the file of a case, by its field ``after``."""

PODS = [{"name": f"p{number}", "count": 1, "template": pod()} for number in range(19)]
JOBS = [{"name": f"w{number}", "template": {"spec": {"template": pod()}}} for number in range(19)]
RESOURCES = {"namespaceSelector": {}, "resourceGroups": [group({"f": {f"r{number}": 1 for number in range(65)}})]}
LABEL = {"labels": {"kueue.x-k8s.io/queue-name": "lq"}}
LONG = [
    (
        ["document 4: spec.podSets: 19 pod sets: Kueue accepts up to 18"],
        (*home(), workload("w", {"podSets": PODS})),
    ),
    (
        ["document 4: spec: 19 pod sets: Kueue accepts up to 18 and rejects this job"],
        (*home(), manifest("JobSet", "j", {"replicatedJobs": JOBS}, "jobset.x-k8s.io/v1alpha2", meta=LABEL)),
    ),
    (
        ["document 3: spec.resourceGroups: 65 resources in one group: Kueue accepts up to 64"],
        (*FLAVORS, manifest("ClusterQueue", "cq", RESOURCES)),
    ),
]
"""Cases that are too long for the table."""


def documents(case: dict[str, Any]) -> tuple[object, ...]:
    return (*BEFORE[case.get("after")], case["manifests"])


CASES = [*((case["warnings"], documents(case)) for case in TABLED), *LONG]


def told(documents: tuple[object, ...]) -> list[str]:
    """The warnings, as `runrig simulate` prints them."""
    return [
        f"document {each.document}: {each.path + ': ' if each.path else ''}{each.message}"
        for each in read(*documents).warnings
    ]


@pytest.mark.parametrize(("warnings", "documents"), CASES, ids=[warnings[0] for warnings, _ in CASES])
def test_each_file_causes_exactly_these_warnings(warnings: list[str], documents: tuple[object, ...]) -> None:
    assert told(documents) == warnings


def _written() -> list[tuple[str, range]]:
    """The file and lines of each call of `Value.warn`; `Report.warn`, which it calls itself, is not one."""
    (folder,) = runrig.kueue.read.__path__
    return [
        (str(file), range(node.lineno, (node.end_lineno or node.lineno) + 1))
        for file in sorted(Path(folder).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "warn"
        and ast.unparse(node.func.value) != "self.report"
    ]


def test_every_warning_about_manifests_is_in_the_table() -> None:
    seen: set[tuple[str, int]] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code is Value.warn.__code__ and frame.f_back is not None:
            seen.add((frame.f_back.f_code.co_filename, frame.f_back.f_lineno))

    sys.setprofile(note)
    try:
        for _, made in CASES:
            read(*made)
    finally:
        sys.setprofile(None)
    written = _written()
    unseen = [(Path(file).name, lines[0]) for file, lines in written if not any((file, at) in seen for at in lines)]
    assert (unseen, len(written) > 100) == ([], True)


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block."""


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def record() -> None:
    cases = [case | {"warnings": told(documents(case))} for case in TABLED]
    TABLE.write_text(yaml.dump(cases, Dumper=_Dumper, sort_keys=False, width=200), encoding="utf-8")


if __name__ == "__main__":
    record()
