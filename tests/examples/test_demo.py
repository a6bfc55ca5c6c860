"""`make demo`, whole."""

import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]

TOLD = """\
Two teams share four GPUs. The server and the processes are real; the reasons
come from `runrig workflow why`.

1  Each team works within its quota of 2 GPUs.
   wf1-1  pool1  NORMAL  runs     It cannot be preempted (priority NORMAL).
   wf2-1  pool1  LOW     runs     It is within its pool's quota; only HIGH and
                                  NORMAL workflows of pool pool1 can preempt it.
   wf4-1  pool2  NORMAL  runs     It cannot be preempted (priority NORMAL).
   GPUs   pool1 ■■   pool2 ■·

2  pool2 has an idle GPU, so a LOW workflow of pool1 borrows it.
   wf3-1  pool1  LOW     runs     Pool pool1 is borrowing 1 GPU, which the
                                  lending pools can reclaim.
   GPUs   pool1 ■■■ (1 borrowed)   pool2 ■ (1 lent)

3  pool2 needs its GPU back: wf3 is preempted; wf2, within its quota, stays.
   wf5-1  pool2  NORMAL  runs     It cannot be preempted (priority NORMAL).
   wf3-1  pool1  LOW     waits    preempted by wf5-1, whose pool reclaimed
                                  borrowed quota (Reclaim, rule R2)
   GPUs   pool1 ■■   pool2 ■■

4  wf4 finishes and frees a GPU: wf3, next in the queue, runs again.
   wf4-1  pool2  NORMAL  is done
   wf3-1  pool1  LOW     runs     Pool pool1 is borrowing 1 GPU, which the
                                  lending pools can reclaim.
   GPUs   pool1 ■■■ (1 borrowed)   pool2 ■ (1 lent)

5  The others finish too.
   wf5-1  pool2  NORMAL  is done
   wf1-1  pool1  NORMAL  is done
   wf2-1  pool1  LOW     is done
   wf3-1  pool1  LOW     is done  in its second attempt
   GPUs   pool1 ··   pool2 ··

Next, start the same server and open its web page:
   .venv/bin/runrig up --gpus 4 --cluster examples/clusters/two-pools.yaml
   README.md continues from there; docs/why.md explains the reasons.
"""


def test_demo_explains_what_happens() -> None:
    command = [sys.executable, "-m", "demo.borrowing"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", TOLD)
