"""Two servers at one revision say the same of why and of what would be if, byte for byte, whatever the seed of their hashes."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.api.client import api
from tests.worlds.crowded import NODES, Names, use
from tests.worlds.told import answered, questions

pytestmark = pytest.mark.slow

SEEDS = (4, 11)


def _worlds(folder: Path) -> tuple[list[Path], str]:
    """Folders of servers that have stopped, and what they said before."""
    found, said = [], []
    for seed in SEEDS:
        here = folder / str(seed)
        here.mkdir()
        with api(here, nodes=NODES, cluster=None) as it:
            use(it.desk, random.Random(seed), Names())
            said += [f"revision {it.desk.revision}"]
            for asked in questions(it):
                said += [*map(str, asked), answered(it, asked)]
            (here / "time").write_text(str(it.desk.time[0]))
        found.append(here)
    return found, "\n".join(said) + "\n"


def test_answers_do_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    worlds, said = _worlds(tmp_path)
    running = []
    for number in ("1", "4242"):
        copies = [str(shutil.copytree(each, tmp_path / number / each.name)) for each in worlds]
        command = [sys.executable, "-m", "tests.worlds.told", *copies]
        environment = {**os.environ, "PYTHONHASHSEED": number}
        running.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    first, second = (each.communicate()[0] for each in running)
    assert [each.returncode for each in running] == [0, 0]
    assert first == second
    assert first == said, "a server that has restarted says what it said before"
    lists = ("would_start", "tried", "blockers", "preempted", "starts", "waits", "exposed", "loses", "never", "drains")
    assert [name for name in lists if f'"{name}":[{{' not in said] == []
    verdicts = ("STARTS", "STARTS_AFTER_STOPS", "WAITS")
    assert [each for each in verdicts if f'"verdict":{{"verdict":"{each}"' not in said] == []
