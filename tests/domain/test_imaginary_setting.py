"""A pool setting needs only a row in `domain/settings.py`, a field and a migration; then every interface has it. Here four kinds: text, a
number with a limit, a choice, a duration.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runrig.store.schema import HEAD

ROOT = Path(__file__).parents[2]
FIELDS = """
    motto: str = ""
    pets: int | None = None
    mood: Mood = Mood.CALM
    nap_s: float | None = None
"""
WORDS = """
class Mood(Word):
    CALM = "CALM"
    BUSY = "BUSY"
"""
ROWS = """
    Setting("motto", Text("text"), "What it lives by", see="laws.md"),
    Setting("pets", Number("a whole number from 1 to 9", "N", int, least=1, most=9), "Its pets", removable=True),
    Setting("mood", Choice("CALM or BUSY", "CALM|BUSY", of=Mood), "Its mood"),
    Setting("nap_s", Duration("duration", "DURATION"), "Its sleep", as_asked="nap", reference="nap", removable=True),
"""
EDITS = {
    "domain/pools.py": [('    description: str = ""\n', FIELDS), ("MOST_WEIGHT = 1_000_000\n", WORDS)],
    "domain/settings.py": [
        ('    Setting("description", Text("text"), "Purpose of the pool"),\n', ROWS),
        ('NOTHING = "none"\n', "\nfrom runrig.domain.pools import Mood\n"),
    ],
    "store/schema/cluster.py": [("_DEFAULTS: Mapping[str, str] = {}\n", '_DEFAULTS = {"motto": "", "mood": "CALM"}\n')],
}
"""File → (a line, the lines that go below it)."""
MIGRATION = f'''"""Imaginary settings."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import PROSE, WHOLE, WORD

revision = "9999"
down_revision = "{HEAD}"


def upgrade() -> None:
    with op.batch_alter_table("pools") as pools:
        pools.add_column(sa.Column("motto", PROSE, nullable=False, server_default=""))
        pools.add_column(sa.Column("pets", WHOLE))
        pools.add_column(sa.Column("mood", WORD, nullable=False, server_default="CALM"))
        pools.add_column(sa.Column("nap_s", sa.Double()))
'''
"""That is four files, its rule not counted."""


@pytest.mark.slow
def test_a_new_setting_appears_in_every_interface(tmp_path: Path) -> None:
    package = tmp_path / "src/runrig"
    shutil.copytree(ROOT / "src/runrig", package, ignore=shutil.ignore_patterns("__pycache__"))
    for file, edits in EDITS.items():
        for above, lines in edits:
            _edit(package / file, above, above + lines.removeprefix("\n"))
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
    now = ["Motto care", "Pets 4", "Mood CALM", "Nap 4m"]
    at = "2027-01-15 08:00:00 ann"
    assert json.loads(done.stdout) == {
        "cluster file": ["share", 1, "BUSY", 60.0],
        "export": ["motto: share", "pets: 1", "mood: BUSY", 'nap: "1m"'],
        "API": ["ask", 2, "CALM", 120.0],
        "OSMO door": ["wait", 3, "BUSY", 180.0],
        "options and change list": ["pool a: motto wait → care, pets 3 → 4, mood BUSY → CALM, nap 3m → 4m", *now],
        "refused": [
            422,
            [
                "pets: 10 is too large (maximum 9)",
                "mood: expected one of CALM, BUSY, got text 'SAD'",
                "nap: 'soon' is not a duration. Use one number with a unit of d, h, m, s, ms, us (90m, not 1h30m), or PT1H30M.",
            ],
        ],
        "show": now,
        "history": [
            f"{at} a changed motto wait → care, pets 3 → 4, mood BUSY → CALM, nap 3m → 4m",
            f"{at} a changed motto ask → wait, pets 2 → 3, mood CALM → BUSY, nap 2m → 3m",
            f"{at} a changed motto share → ask, pets 1 → 2, mood BUSY → CALM, nap 1m → 2m",
            f"{at} (apply) a created quota gpu 4, motto share, pets 1, mood BUSY, nap 1m",
        ],
        "form": ["rest", 5, "BUSY", 300.0],
        "docs": [
            "| `motto` | text | none | What it lives by ([motto](laws.md)) |",
            "| `pets` | a whole number from 1 to 9 | none | Its pets |",
            "| `mood` | CALM or BUSY | CALM | Its mood |",
            "| `nap` | duration | none | Its sleep |",
        ],
        "stored": ["rest", 5, "BUSY", 300.0],
    }


def _edit(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1, file
    file.write_text(text.replace(old, new), encoding="utf-8")
