"""The borrowing and reclaiming example of scheduling.md, with real processes on four stand-in GPUs.

pool1 and pool2 have two GPUs each.  wf1 NORMAL and wf2 LOW run in pool1, wf4 NORMAL in pool2; wf3 LOW borrows the GPU that
pool2 leaves idle; wf5 NORMAL in pool2 takes it back.  Every step is a command that a user could type, and is checked.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CLUSTER = HERE.parent / "examples" / "clusters" / "two-pools.yaml"
RUNRIG = (str(Path(sys.executable).with_name("runrig")),)
PATIENCE_S = 20


class Story:
    """Tells each step, types its commands against one server, and stops at the first that is not as it should be."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "RUNRIG_DATA": str(folder / "data"), "COLUMNS": "140"}
        self.environment.pop("RUNRIG_SERVER", None)
        self.step = 0

    def tell(self, text: str) -> None:
        self.step += 1
        print(f"\n--- {self.step}. {text}", flush=True)

    def run(self, *words: str) -> str:
        """What the command prints; ends the story if it fails."""
        done = subprocess.run([*RUNRIG, *words], env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"\n`runrig {' '.join(words)}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def show(self, *words: str) -> str:
        """Types the command and shows what it prints."""
        print(f"\n$ runrig {' '.join(words)}")
        output = self.run(*words)
        print(output.rstrip(), flush=True)
        return output

    def read(self, *words: str) -> Any:
        return json.loads(self.run(*words, "-t", "json"))

    def submit(self, name: str, pool: str, priority: str) -> str:
        """Submits the example under *name*; returns its id."""
        until = self.folder / f"{name}.done"
        print(
            f"\n$ runrig workflow submit demo/work-until-told.yaml --set name={name} --pool {pool} --priority {priority}"
        )
        answer = self.read(
            *("workflow", "submit", str(HERE / "work-until-told.yaml"), "--set", f"name={name}"),
            *("--set-env", f"UNTIL={until}", "--pool", pool, "--priority", priority),
        )
        print(f"submitted as {answer['name']}")
        return str(answer["name"])

    def wait(self, workflow: str, status: str) -> None:
        self.run("workflow", "wait", workflow, "--for", status, "--timeout", str(PATIENCE_S))
        print(f"{workflow} is {status}")

    def let_end(self, workflow: str) -> None:
        """The process of *workflow* finds its file and ends by itself."""
        (self.folder / f"{workflow.rpartition('-')[0]}.done").touch()
        self.wait(workflow, "COMPLETED")

    def attempts(self, workflow: str) -> list[tuple[int, str]]:
        """(attempt, status) of the one task, first attempt first."""
        answer = self.read("workflow", "query", workflow)
        return sorted((task["retry_id"], task["status"]) for group in answer["groups"] for task in group["tasks"])

    def pools(self) -> dict[str, tuple[int, int, int]]:
        """Per pool: used by HIGH and NORMAL, held in total, borrowed."""
        self.show("pool", "list", "--wide")
        sets = self.read("pool", "list")["node_sets"]
        return {
            each["name"]: (each["used"], each["total"], each["borrowed"]) for nodes in sets for each in nodes["pools"]
        }

    def expect(self, what: str, found: object, wanted: object) -> None:
        if found != wanted:
            sys.exit(f"\nNOT AS IT SHOULD BE: {what} is {found!r}, and should be {wanted!r}")
        print(f"  checked: {what}: {found}")


def borrow_and_reclaim(story: Story) -> None:
    """From an empty machine to five finished workflows."""
    story.tell("wf1 NORMAL and wf2 LOW start in pool1, wf4 NORMAL in pool2")
    wf1, wf2, wf4 = (
        story.submit("wf1", "pool1", "NORMAL"),
        story.submit("wf2", "pool1", "LOW"),
        story.submit("wf4", "pool2", "NORMAL"),
    )
    for workflow in (wf1, wf2, wf4):
        story.wait(workflow, "RUNNING")
    story.expect("(used, total, borrowed) per pool", story.pools(), {"pool1": (1, 2, 0), "pool2": (1, 1, 0)})
    story.show("workflow", "why", wf2)

    story.tell("wf3 LOW comes to pool1, which has reached its quota: it borrows the GPU that pool2 leaves idle")
    wf3 = story.submit("wf3", "pool1", "LOW")
    story.wait(wf3, "RUNNING")
    story.expect("(used, total, borrowed) per pool", story.pools(), {"pool1": (1, 3, 1), "pool2": (1, 1, 0)})
    story.show("workflow", "why", wf3)

    story.tell(
        "wf5 NORMAL comes to pool2, which takes its GPU back: wf3 is preempted, wf2 is not (pool1 is within its quota again)"
    )
    wf5 = story.submit("wf5", "pool2", "NORMAL")
    story.wait(wf5, "RUNNING")
    story.wait(wf3, "PENDING")
    story.expect("(used, total, borrowed) per pool", story.pools(), {"pool1": (1, 2, 0), "pool2": (2, 2, 0)})
    story.expect("attempts of wf3", story.attempts(wf3), [(0, "FAILED_PREEMPTED"), (1, "SCHEDULING")])
    story.expect("attempts of wf2", story.attempts(wf2), [(0, "RUNNING")])
    story.show("workflow", "why", wf3)

    story.tell("wf4 ends: a GPU is idle, wf3 borrows again, as its second attempt")
    story.let_end(wf4)
    story.wait(wf3, "RUNNING")
    story.expect("attempts of wf3", story.attempts(wf3), [(0, "FAILED_PREEMPTED"), (1, "RUNNING")])
    story.pools()
    story.show("workflow", "why", wf3)

    story.tell("the rest ends too")
    for workflow in (wf3, wf5, wf1, wf2):
        story.let_end(workflow)
    story.expect("attempts of wf3", story.attempts(wf3), [(0, "FAILED_PREEMPTED"), (1, "COMPLETED")])
    story.show("workflow", "list")
    story.show("workflow", "events", wf3)
    story.expect("(used, total, borrowed) per pool", story.pools(), {"pool1": (0, 0, 0), "pool2": (0, 0, 0)})


def main() -> None:
    """Starts a server of its own, tells the story, takes the server down again."""
    with tempfile.TemporaryDirectory(prefix="runrig-demo-") as name:
        story = Story(Path(name))
        words = ("up", "--gpus", "4", "--port", "0", "--cluster", str(CLUSTER), "--data", str(story.folder / "data"))
        print(f"$ runrig {' '.join(words)}", flush=True)
        server = subprocess.Popen([*RUNRIG, *words], env=story.environment, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            ready = server.stdout.readline()
            if not ready:
                sys.exit(f"the server did not start: it ended with {server.wait()}")
            print(ready.rstrip(), flush=True)
            borrow_and_reclaim(story)
        finally:
            for flag in ("wf1", "wf2", "wf3", "wf4", "wf5"):
                (story.folder / f"{flag}.done").touch()
            server.send_signal(signal.SIGTERM)
            server.wait()
    print("\nAs promised: borrowed while idle, taken back when asked for, queued again, completed.")


if __name__ == "__main__":
    main()
