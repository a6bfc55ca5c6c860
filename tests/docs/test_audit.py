"""`make audit` never passes in silence; what is installed in production is what uv.lock says."""

import datetime
import json
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
AUDIT = runpy.run_path(str(ROOT / ".ci" / "audit.py"))
TODAY = datetime.date(2026, 11, 22)
FINE = {"name": "fine", "version": "1", "vulns": []}
SKIPPED = {"name": "odd", "skip_reason": "Dependency not found on PyPI"}
HOLED = {"name": "holed", "version": "2", "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["3"]}]}
HOLE = (
    "holed 2 has PYSEC-1, repaired in 3: `uv lock --upgrade-package` takes the repair, or .ci/audit.py says until when and why "
    "it does not concern us"
)


def audited(*packages: Any, **more: Any) -> tuple[int, tuple[str, ...]]:
    code, lines = AUDIT["verdict"](json.dumps({"dependencies": packages}), "", TODAY, **more)
    return code, lines


@pytest.mark.parametrize(
    ("packages", "expected"),
    [
        ((FINE,), (0, ("no advisory about any of the 1 packages of uv.lock",))),
        ((FINE, HOLED), (1, (HOLE,))),
        ((SKIPPED,), (0, ("NOT AUDITED: PyPI told nothing about any of the 1 packages of uv.lock",))),
        ((SKIPPED, FINE), (1, ("PyPI told nothing about odd: see why, before anybody installs it",))),
    ],
)
def test_audit_fails_for_known_problems_and_reports_unknown_ones(packages: Any, expected: Any) -> None:
    assert audited(*packages) == expected


def test_audit_without_a_network_says_so() -> None:
    expected = (0, ("NOT AUDITED: PyPI cannot be asked for advisories", "no route"))
    assert AUDIT["verdict"]("", "Traceback\nno route\n", TODAY) == expected


@pytest.mark.parametrize(
    ("id", "days", "code"), [("PYSEC-1", 0, 0), ("CVE-1", 1, 0), ("CVE-1", -1, 1), ("CVE-2", 1, 1)]
)
def test_advisory_is_ignored_until_its_date(id: str, days: int, code: int) -> None:
    ignored = AUDIT["Ignored"](id, TODAY + datetime.timedelta(days), "we do not parse such files")
    assert audited(HOLED, ignored=(ignored,))[0] == code


def test_production_installs_what_the_lock_file_says() -> None:
    """`make docs` writes it."""
    export = "export --quiet --frozen --extra postgresql --extra kubernetes --no-emit-project --no-header --no-annotate"
    done = subprocess.run([ROOT / ".uv/bin/uv", *export.split()], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (ROOT / "deploy" / "requirements.txt").read_text() == done.stdout
