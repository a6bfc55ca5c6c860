"""What the page and the notebook show does what they say, on a real server."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.worlds.command_line import Up, up, written

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
TRAIN = """\
workflow:
  name: train
  tasks:
  - name: main
    image: ubuntu:24.04
    command: [sh, -c, "echo epochs {{ epochs }}"]
  resources:
    default: {gpu: {{ gpus }}}
default-values: {epochs: 1, gpus: 1}
"""


@contextmanager
def at_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Up]:
    """A server of this machine that `Client()` finds, and train.yaml in the current folder."""
    written(folder, TRAIN, "train.yaml")
    monkeypatch.chdir(folder)
    for name in ("RUNRIG_SERVER", "RUNRIG_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RUNRIG_DATA", str(folder / "data"))
    with up(folder / "data", "--gpus", "2") as server:
        yield server


def run(programs: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What each of *programs*, which share their names, prints."""
    names: dict[str, object] = {}
    said = []
    for program in programs:
        exec(compile(program, "an example", "exec"), names)
        said.append(capsys.readouterr().out)
    return said


def test_page_does_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs/client.md").read_text(encoding="utf-8")
    with at_home(tmp_path, monkeypatch):
        followed, listed, edited, failed, swept, streamed = run(
            re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE), capsys
        )
    assert followed.startswith("train-1 ")
    assert followed.endswith("epochs 3\nCOMPLETED\n")
    assert (listed, edited) == ("0 of 2 GPUs\n", "")
    refused, *problems = failed.splitlines()
    assert refused.startswith("P3 train needs 64 GPUs")
    assert problems == [
        "1 11 a workflow needs tasks. Add tasks: [{name: NAME, image: IMAGE, command: [...]}], or groups",
        "1 21 a workflow has no field 'taks'. Did you mean 'tasks'?",
    ]
    assert (swept, streamed) == ("['COMPLETED', 'COMPLETED', 'COMPLETED']\n", "train-1\n")


def test_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    notebook = json.loads((ROOT / "examples/client.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    with at_home(tmp_path, monkeypatch):
        me, _, why, ended, pool = run(cells, capsys)
    assert me == "root may submit to default\n"
    assert why.startswith("sweep-3 ")
    assert [line.split()[:2] for line in ended.splitlines()] == [
        [rate, "COMPLETED"] for rate in ("0.1", "0.01", "0.001")
    ]
    assert pool == "0 of 2 GPUs ['root']\n"
