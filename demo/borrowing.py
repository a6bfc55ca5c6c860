"""An example of borrowing and reclaiming, with real processes on four simulated GPUs.

pool1 and pool2 have two GPUs each.  wf1 NORMAL and wf2 LOW run in pool1, wf4 NORMAL in pool2; wf3 LOW borrows the GPU that
pool2 leaves idle; wf5 NORMAL in pool2 reclaims it.  Every step is a command that a user could type, and its result is checked;
the reasons come from the server.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

HERE = Path(__file__).parent
ROOT = HERE.parent
CLUSTER = ROOT / "examples" / "clusters" / "two-pools.yaml"
RUNRIG = (str(Path(sys.executable).with_name("runrig")),)
PATIENCE_S = 20

WIDTH = 80
_COLUMNS = "   {id:6} {pool:5}  {priority:6}  {state:7}  "
_COLORS = {"runs": "green", "waits": "yellow", "is done": "blue"}
_STATES = {"RUNNING": "runs", "PENDING": "waits", "COMPLETED": "is done"}
_NEXT = """\
Next, start the same server and open its web page:
   .venv/bin/runrig up --gpus 4 --cluster examples/clusters/two-pools.yaml
   README.md continues from there; docs/why.md explains the reasons."""


class Story:
    """Prints each step and runs its commands against one server.  Stops at the first unexpected result."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "RUNRIG_DATA": str(folder / "data"), "COLUMNS": "140"}
        self.environment.pop("RUNRIG_SERVER", None)
        self.step = 0

    def tell(self, text: str) -> None:
        self.step += 1
        say(f"\n{self.step}  {text}", bold=True)

    def run(self, *words: str) -> str:
        """Returns the output of the command; ends the demo if it fails."""
        done = subprocess.run([*RUNRIG, *words], env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"\n`{shlex.join(('runrig', *words))}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def read(self, *words: str) -> Any:
        return json.loads(self.run(*words, "-t", "json"))

    def submit(self, name: str, pool: str, priority: str) -> str:
        """Submits the example under *name*; returns its id."""
        with progress(f"{name} is submitted to {pool}"):
            answer = self.read(
                *("workflow", "submit", str(HERE / "work-until-told.yaml"), "--set", f"name={name}"),
                *("--set-env", f"UNTIL={self.folder / f'{name}.done'}", "--pool", pool, "--priority", priority),
            )
        return str(answer["name"])

    def becomes(self, workflow: str, status: str, why: str | None = None) -> None:
        """Waits until it has *status*, and prints that with the reason.  *why* None: the answer of `runrig workflow why`."""
        with progress(f"{workflow}: until it {_STATES[status]}"):
            self.run("workflow", "wait", workflow, "--for", status, "--timeout", str(PATIENCE_S))
            found = self.read("workflow", "query", workflow)
            reason = self.why(workflow) if why is None else why
        state = _STATES[status]
        row = _COLUMNS.format(id=workflow, pool=found["pool"], priority=found["priority"], state=state)
        lines = textwrap.wrap(reason, WIDTH - len(row)) or [""]
        say((row.replace(state, click.style(state, fg=_COLORS[state])) + lines[0]).rstrip())
        for line in lines[1:]:
            say(" " * len(row) + line)

    def why(self, workflow: str) -> str:
        sentence = str(self.read("workflow", "why", workflow)["sentence"])
        return sentence.partition(". ")[2]  # without the first sentence, about where it runs

    def preempted(self, workflow: str) -> str:
        """Returns the sentence of the log."""
        events = self.read("workflow", "events", workflow)
        found: list[str] = [each["text"] for each in events if each["kind"] == "Preempt"]
        return found[-1].removeprefix(f"{workflow} was ")

    def let_end(self, workflow: str) -> None:
        """Creates the file for which the process of *workflow* waits, so that it ends."""
        (self.folder / f"{workflow.rpartition('-')[0]}.done").touch()
        self.becomes(workflow, "COMPLETED", self.attempts_told(workflow))

    def attempts(self, workflow: str) -> list[tuple[int, str]]:
        """Returns (attempt, status) of its only task, by attempt."""
        answer = self.read("workflow", "query", workflow)
        return sorted((task["retry_id"], task["status"]) for group in answer["groups"] for task in group["tasks"])

    def attempts_told(self, workflow: str) -> str:
        return "in its second attempt" if len(self.attempts(workflow)) > 1 else ""

    def pools(self, wanted: dict[str, tuple[int, int, int]]) -> None:
        """Draws the GPUs of each pool.  *wanted*: per pool, what HIGH and NORMAL use, what it holds in total, what it borrows."""
        with progress("pools"):
            rows = [each for nodes in self.read("pool", "list")["node_sets"] for each in nodes["pools"]]
        found = {each["name"]: (each["used"], each["total"], each["borrowed"]) for each in rows}
        self.expect("(used, total, borrowed) per pool", found, wanted)
        say("   GPUs   " + "   ".join(_drawn(each) for each in rows))

    def expect(self, what: str, found: object, wanted: object) -> None:
        if found != wanted:
            sys.exit(f"\nUNEXPECTED: {what} is {found!r}, but should be {wanted!r}")


def _drawn(pool: Any) -> str:
    """Returns one mark for each GPU: in use, borrowed or idle."""
    own, borrowed, quota = pool["total"] - pool["borrowed"], pool["borrowed"], pool["quota"]
    idle = quota - own - pool["lent"]
    marks = click.style("■" * own, fg="green") + click.style("■" * borrowed, fg="magenta") + "·" * idle
    notes = [f"{borrowed} borrowed"] * bool(borrowed) + [f"{pool['lent']} lent"] * bool(pool["lent"])
    return f"{pool['name']} {marks}{f' ({notes[0]})' if notes else ''}"


def say(text: str = "", *, bold: bool = False) -> None:
    plain = False if os.environ.get("NO_COLOR") else None
    click.echo(click.style(text, bold=True) if bold else text, color=plain)
    sys.stdout.flush()


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Shows *what* on a terminal while it is in progress."""
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        yield
        return
    sys.stdout.write(f"   … {what}")
    sys.stdout.flush()
    try:
        yield
    finally:
        sys.stdout.write("\r\x1b[K")
        sys.stdout.flush()


def borrow_and_reclaim(story: Story) -> None:
    """From an empty machine to five finished workflows."""
    story.tell("Each team works within its quota of 2 GPUs.")
    wf1, wf2, wf4 = (
        story.submit("wf1", "pool1", "NORMAL"),
        story.submit("wf2", "pool1", "LOW"),
        story.submit("wf4", "pool2", "NORMAL"),
    )
    for workflow in (wf1, wf2, wf4):
        story.becomes(workflow, "RUNNING")
    story.pools({"pool1": (1, 2, 0), "pool2": (1, 1, 0)})

    story.tell("pool2 has an idle GPU, so a LOW workflow of pool1 borrows it.")
    wf3 = story.submit("wf3", "pool1", "LOW")
    story.becomes(wf3, "RUNNING")
    story.pools({"pool1": (1, 3, 1), "pool2": (1, 1, 0)})

    story.tell("pool2 needs its GPU back: wf3 is preempted; wf2, within its quota, stays.")
    wf5 = story.submit("wf5", "pool2", "NORMAL")
    story.becomes(wf5, "RUNNING")
    story.becomes(wf3, "PENDING", story.preempted(wf3))
    story.expect("attempts of wf3", story.attempts(wf3), [(0, "FAILED_PREEMPTED"), (1, "SCHEDULING")])
    story.expect("attempts of wf2", story.attempts(wf2), [(0, "RUNNING")])
    story.pools({"pool1": (1, 2, 0), "pool2": (2, 2, 0)})

    story.tell("wf4 finishes and frees a GPU: wf3, next in the queue, runs again.")
    story.let_end(wf4)
    story.becomes(wf3, "RUNNING")
    story.expect("attempts of wf3", story.attempts(wf3), [(0, "FAILED_PREEMPTED"), (1, "RUNNING")])
    story.pools({"pool1": (1, 3, 1), "pool2": (1, 1, 0)})

    story.tell("The others finish too.")
    for workflow in (wf5, wf1, wf2, wf3):
        story.let_end(workflow)
    story.expect("attempts of wf3", story.attempts(wf3), [(0, "FAILED_PREEMPTED"), (1, "COMPLETED")])
    story.pools({"pool1": (0, 0, 0), "pool2": (0, 0, 0)})


def main() -> None:
    """Starts a server, runs the demo, and stops the server."""
    with tempfile.TemporaryDirectory(prefix="runrig-demo-") as name:
        story = Story(Path(name))
        words = ("up", "--gpus", "4", "--port", "0", "--cluster", str(CLUSTER), "--data", str(story.folder / "data"))
        say(
            "Two teams share four GPUs. The server and the processes are real; the reasons\ncome from `runrig workflow why`."
        )
        with progress("the server starts"):
            with (story.folder / "errors").open("w") as errors:
                server = subprocess.Popen(
                    [*RUNRIG, *words], env=story.environment, stdout=subprocess.PIPE, stderr=errors, text=True
                )
            assert server.stdout is not None
            ready = server.stdout.readline()
        try:
            if not ready:
                said = (story.folder / "errors").read_text()
                sys.exit(f"{said}the server did not start: it ended with exit code {server.wait()}")
            borrow_and_reclaim(story)
        finally:
            for flag in ("wf1", "wf2", "wf3", "wf4", "wf5"):
                (story.folder / f"{flag}.done").touch()
            server.send_signal(signal.SIGTERM)
            server.wait()
    say(f"\n{_NEXT}")


if __name__ == "__main__":
    main()
