"""`make demo`, whole."""

import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]

TOLD = """\
Two teams share four GPUs. Server and processes are real, and the reasons are
what `runrig workflow why` answers.

1  Each team works within its quota of 2 GPUs.
   wf1-1  pool1  NORMAL  runs     NORMAL is never preempted
   wf2-1  pool1  LOW     runs     LOW within its pool's quota: only HIGH and
                                  NORMAL of its own pool can preempt it
   wf4-1  pool2  NORMAL  runs     NORMAL is never preempted
   GPUs   pool1 ■■   pool2 ■·

2  pool1 wants more, and pool2 leaves a GPU idle: LOW work may borrow it.
   wf3-1  pool1  LOW     runs     pool pool1 borrows 1 GPU: RECLAIM may take it
                                  back
   GPUs   pool1 ■■■ (1 borrowed)   pool2 ■ (1 lent)

3  pool2 asks for its own: wf3 has to go, wf2 stays, as it is within the quota.
   wf5-1  pool2  NORMAL  runs     NORMAL is never preempted
   wf3-1  pool1  LOW     waits    was preempted by wf5-1, whose pool takes back
                                  what was borrowed (law R2)
   GPUs   pool1 ■■   pool2 ■■

4  wf4 ends, a GPU is idle again: wf3, which kept its place, is back.
   wf4-1  pool2  NORMAL  is done
   wf3-1  pool1  LOW     runs     pool pool1 borrows 1 GPU: RECLAIM may take it
                                  back
   GPUs   pool1 ■■■ (1 borrowed)   pool2 ■ (1 lent)

5  The rest ends too.
   wf5-1  pool2  NORMAL  is done
   wf1-1  pool1  NORMAL  is done
   wf2-1  pool1  LOW     is done
   wf3-1  pool1  LOW     is done  in its second attempt
   GPUs   pool1 ··   pool2 ··

What to try next: the same server, to play with, and its page in a browser
   .venv/bin/runrig up --gpus 4 --cluster examples/clusters/two-pools.yaml
   README.md goes on from there; docs/why.md: what a workflow that waits can tell
"""


def test_the_demo_tells_what_happens_and_why() -> None:
    command = [sys.executable, "-m", "demo.borrowing"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", TOLD)
