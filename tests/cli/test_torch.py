"""`torchrun train.py` with processes of PyTorch itself: a training that fails, is mended, and continues from its checkpoint; and the
pages of the docs about torchrun, where the tests without PyTorch start `launch.py` or leave a block out.

PyTorch is not part of the environment of the tests: `RUNRIG_TORCHRUN=/path/to/torchrun .venv/bin/pytest tests/cli/test_torch.py`.
"""

import os
import re
import sys
from pathlib import Path

import pytest

from tests.worlds.command_line import up
from tests.worlds.typed_page import type_page

DOCS = Path(__file__).parents[2] / "docs"
TORCHRUN = os.environ.get("RUNRIG_TORCHRUN")
TRAIN = """
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, place = dist.get_rank(), os.environ["CHECKPOINT"]
torch.manual_seed(0)
net, first = torch.nn.Linear(4, 1), 0
if os.path.exists(place):
    kept = torch.load(place)
    net.load_state_dict(kept["net"])
    first = kept["step"]
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(first, 20):
    if rank == 0 and step % 10 == 0:
        print("step", step, "of", dist.get_world_size(), "processes")
        torch.save({"net": net.state_dict(), "step": step}, place)
    x = torch.randn(8, 4)
    loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 15:
        torch.load(place)["net"]
dist.barrier()
if rank == 0:
    print("trained" if loss.item() < 0.1 else "not trained", flush=True)
os._exit(0)  # Some releases of PyTorch abort while the threads of gloo end.
"""

pytestmark = [pytest.mark.slow, pytest.mark.skipif(TORCHRUN is None, reason="RUNRIG_TORCHRUN does not name a torchrun")]


def test_a_training_of_two_processes_fails_with_its_traceback_and_continues_from_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert TORCHRUN is not None
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{Path(TORCHRUN).parent}:{os.environ['PATH']}")
    (folder / "train.py").write_text(TRAIN.replace('(place)["net"]', '(place)["optimizer"]'))
    with up(tmp_path / "data", "--gpus", "2") as server:
        monkeypatch.chdir(folder)
        checkpoint = f"CHECKPOINT={tmp_path / 'checkpoint.pt'}"
        failed = server.runrig("run", "--gpus", "2", "-e", checkpoint, "--", "torchrun", "train.py")
        assert (failed.code, failed.out) == (1, "step 0 of 2 processes\nstep 10 of 2 processes\n")
        traceback = failed.err.partition("Traceback")[2]
        assert "KeyError: 'optimizer'" in traceback[:500], "it is the first thing on the screen"
        end, _, again = failed.err.splitlines()[-3:]
        assert end.startswith("train-1    FAILED after ")
        assert end.endswith(": KeyError: 'optimizer' (main, exit code 1)")
        assert again.strip() == "again: runrig restart train-1 --code ."
        why = server.runrig("why", "train-1").out
        assert why.startswith(
            "train-1  FAILED\ntrain-1 is FAILED. Task main failed: KeyError: 'optimizer' (exit code 1)."
        )
        assert "ChildFailedError" not in why
        (folder / "train.py").write_text(TRAIN)
        assert server.runrig("restart", "--failed", "--code", ".").code == 0
        done = server.runrig("attach", "train-2")
        assert (done.code, done.out) == (0, "step 10 of 2 processes\ntrained\n"), done.err


@pytest.mark.parametrize("page", ["tutorial/torchrun.md", "how-to/torchrun.md"])
def test_pages_about_torchrun_show_what_it_prints(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert TORCHRUN is not None
    monkeypatch.setenv("PATH", f"{Path(TORCHRUN).parent}:{os.environ['PATH']}")
    text = (DOCS / page).read_text().partition("## Without PyTorch")[0]
    text = re.sub("<!-- not run: needs PyTorch.*\n", "", text)
    text = text.replace("-- python3 launch.py", "-e OMP_NUM_THREADS=1 -- torchrun")
    (tmp_path / "lab").mkdir()
    assert type_page(text, tmp_path / "lab", Path(sys.executable).parent) == []
