"""A pool setting needs only a row in `domain/settings.py`, a field and a migration; then every interface has it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runrig.store.schema import HEAD

ROOT = Path(__file__).parents[2]
EDITS = {
    "domain/pools.py": ('    description: str = ""\n', '    motto: str = ""\n'),
    "domain/settings.py": (
        '    Setting("description", Text("text"), "Purpose of the pool"),\n',
        '    Setting("motto", Text("text"), "What it lives by", see="laws.md"),\n',
    ),
}
"""File → a line, and the line that goes below it."""
MIGRATION = f'''"""An imaginary setting."""

import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{HEAD}"


def upgrade() -> None:
    with op.batch_alter_table("pools") as pools:
        pools.add_column(sa.Column("motto", sa.Text(), nullable=False, server_default=""))
    with op.batch_alter_table("pools") as pools:
        pools.alter_column("motto", server_default=None)
'''
"""That is three files, its rule not counted."""


@pytest.mark.slow
def test_a_new_setting_appears_in_every_interface(tmp_path: Path) -> None:
    package = tmp_path / "src/runrig"
    shutil.copytree(ROOT / "src/runrig", package, ignore=shutil.ignore_patterns("__pycache__"))
    for file, (above, line) in EDITS.items():
        _edit(package / file, above, above + line)
    (package / "store/migrations/versions/r9999_imaginary.py").write_text(MIGRATION, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "tests.domain.imaginary_setting"],
        cwd=ROOT,
        env=os.environ | {"TZ": "UTC", "PYTHONPATH": f"{tmp_path / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    at = "2027-01-15 08:00:00 ann"
    assert json.loads(done.stdout) == {
        "cluster file": "share",
        "export": ["motto: share"],
        "API": "ask",
        "OSMO door": "wait",
        "option and change list": ["pool a: motto wait → care", "Motto care"],
        "show": ["Motto care"],
        "history": [
            f"{at} a changed motto wait → care",
            f"{at} a changed motto ask → wait",
            f"{at} a changed motto share → ask",
            f"{at} (apply) a created quota gpu 4, motto share",
        ],
        "form": "rest",
        "docs": ["| `motto` | text | none | What it lives by ([motto](laws.md)) |"],
        "stored": "rest",
    }


def _edit(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1, file
    file.write_text(text.replace(old, new), encoding="utf-8")
