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
from tests.worlds.manifests import read

TABLE = Path(__file__).parent / "data" / "warnings.yaml"
CASES: list[dict[str, Any]] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))


def told(manifests: str) -> list[str]:
    """The warnings, as `runrig simulate` prints them."""
    return [
        f"document {each.document}: {each.path + ': ' if each.path else ''}{each.message}"
        for each in read(manifests).warnings
    ]


@pytest.mark.parametrize("case", CASES, ids=[case["warnings"][0] for case in CASES])
def test_each_file_causes_exactly_these_warnings(case: dict[str, Any]) -> None:
    assert told(case["manifests"]) == case["warnings"]


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
        for case in CASES:
            read(case["manifests"])
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
    cases = [{"warnings": told(case["manifests"]), "manifests": case["manifests"]} for case in CASES]
    TABLE.write_text(yaml.dump(cases, Dumper=_Dumper, sort_keys=False, width=200), encoding="utf-8")


if __name__ == "__main__":
    record()
