"""What `runrig run` and `attach` say about a workflow, on stderr, and the last output of one that failed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from runrig.cli.rendering import sanitize, times
from runrig.cli.rendering.tables import text_width
from runrig.domain.quantities import counted, few
from runrig.domain.spans import format_duration

Answer = Mapping[str, Any]
_WIDTH = 9
"""Minimum width of the ID, below which further lines begin."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The request of a command. *gpus*: of each node. *time* None: the pool's limit, if it has one. *elements* None: it is not an
    array. *most* None: all elements may run at a time.
    """

    gpus: int
    nodes: int
    priority: str
    pool: str
    time: str | None = None
    elements: int | None = None
    most: int | None = None

    def text(self) -> str:
        each = f"{self.nodes} nodes of {self.gpus}" if self.gpus else f"{self.nodes} nodes"
        total = f"{self.gpus * self.nodes or 'no'} GPU{'' if self.gpus * self.nodes == 1 else 's'}"
        gpus = f"{total} ({each})" if self.nodes > 1 else total
        if self.elements is not None:
            gpus = f"{counted(self.elements, 'element')} of {gpus}"
            gpus += f", at most {self.most} at a time" if self.most is not None else ""
        return ", ".join([gpus, self.priority, f"pool {self.pool}", *([f"at most {self.time}"] if self.time else [])])


def first_lines(id: str, asked: Asked, seen: Answer) -> Iterator[str]:
    """Yields what the workflow asks for, and where it starts or why it waits.

    *seen*: the workflow just after its submission, with its `why` if it waits.
    """
    limit_s = seen["exec_timeout_s"]
    if asked.time is None and limit_s is not None:
        asked = replace(asked, time=format_duration(limit_s))
    nodes = nodes_of(seen)
    name = f"{id:{_WIDTH}}  "
    if nodes:
        yield f"{name}{asked.text()}: starts now on {nodes}"
        return
    yield f"{name}{seen['status']}   {asked.text()}"
    margin = " " * len(name)
    if seen.get("why"):
        yield f"{margin}waits: {seen['why']}"
    yield f"{margin}sooner: runrig why {id}"


def nodes_of(workflow: Answer) -> str:
    """Returns the nodes of the current attempts, up to three by name; "" if it has none."""
    names = sorted({task["node"] for group in workflow["groups"] for task in group["tasks"] if task["node"]})
    return few(names, 3)


def last_lines(workflow: Answer) -> Iterator[str]:
    """Yields how the workflow ended, with the cause if it failed."""
    id, ran = workflow["id"], times.span(workflow["times"]["running_s"])
    name, cause = f"{id:{_WIDTH}}  ", workflow["cause"]
    if workflow["status"] == "COMPLETED":
        yield f"{name}COMPLETED after {ran}"
        return
    if cause_tells(workflow):
        why = f": {described(cause)}"
    else:
        why = f": {workflow['message']}" if workflow["message"] else ""
        why += f"; {cause['task']}: {cause['sentence']}" if cause and workflow.get("array") else ""
    yield f"{name}{workflow['status']} after {ran}{why}"
    again = f"runrig restart {id}"
    if any(group["status"] == "COMPLETED" for group in workflow["groups"]):
        again += " --failed"
    if workflow["code"]:
        again += " --code ."  # Without it, the stored code would run, and fail, again.
    margin, output, again = " " * len(name), f"all output: runrig logs {id}", f"again: {again}"
    if len(line := f"{margin}{output}    {again}") <= text_width():
        yield line
    else:  # A terminal would break a command that users paste.
        yield margin + output
        yield f"{margin}{again}"


def cause_tells(workflow: Answer) -> bool:
    """Whether its cause says why it failed. A time limit or an array has a message that says more."""
    return bool(workflow["cause"]) and workflow["status"] == "FAILED" and not workflow.get("array")


def described(cause: Answer) -> str:
    return f"{cause['sentence']} ({cause['task']}, {cause['ending']})"


def last_output(cause: Answer | None) -> Iterator[str]:
    """Yields the last output of the failed task, below its name; nothing if it wrote nothing."""
    if cause is None or not cause["lines"]:
        return
    attempt = f", attempt {cause['attempt'] + 1}" if cause["attempt"] else ""
    yield ""
    yield f"{cause['task']}{attempt} wrote last:"
    for line in cause["lines"]:
        yield f"  {sanitize.line(line)}".rstrip()
