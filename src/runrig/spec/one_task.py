"""Options of one command → a workflow file with one task group, which a person can read and continue with."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from runrig.domain.tokens import TOKEN
from runrig.spec.overrides import Retry

TASK = "main"
NO_IMAGE = "none"
"""An image for backends that ignore it; others refuse it."""

_LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec")
_MODULES = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch")
_SCRIPT = re.compile(r"\.(py|sh|pl|rb|R|jl|lua|js)$")
_SECRET = re.compile(r"(^|_)(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$|(APIKEY|AUTHTOKEN)$", re.IGNORECASE)
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./@+-]*(:[A-Za-z0-9_./@+-]+)*")
_NO_TEXT = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
_MARKER = re.compile(rf"(?!{TOKEN.pattern})\{{(?=[{{%#])")
_LONGEST_NAME = 48


@dataclass(frozen=True, slots=True)
class OneTask:
    """*gpus*, *cpus* and *memory*: of each node; None: not set. *min_nodes* None: all of *nodes*. *required*, *preferred*:
    topology keys of the pool. *time*: its time limit. *credentials*: name → variable → key. *code*: ID of the files to
    start in; None: none.
    """

    name: str
    command: Sequence[str]
    image: str = NO_IMAGE
    gpus: int = 1
    platform: str | None = None
    nodes: int = 1
    min_nodes: int | None = None
    cpus: int | None = None
    memory: str | None = None
    required: Sequence[str] = ()
    preferred: Sequence[str] = ()
    priority: str | None = None
    time: str | None = None
    retry: Retry | None = None
    after: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    credentials: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    code: str | None = None


def file_of(task: OneTask) -> str:
    """Returns the workflow file of *task*. It has no template markers, so braces in a command reach the task."""
    return "\n".join(_lines(task)) + "\n"


def _lines(task: OneTask) -> Iterator[str]:
    yield "workflow:"
    yield f"  name: {scalar(task.name)}"
    if task.priority:
        yield f"  priority: {task.priority}"
    if task.time:
        yield f"  timeout: {{exec_timeout: {scalar(task.time)}}}"
    if task.code:
        yield f"  code: {scalar(task.code)}"
    if task.after:
        yield f"  after: [{', '.join(map(scalar, task.after))}]"
    if task.labels:
        yield f"  labels: {_flow(task.labels)}"
    if resources := list(_resources(task)):
        yield "  resources:"
        yield "    default:"
        yield from resources
    yield "  tasks:"
    yield f"  - name: {TASK}"
    yield f"    image: {scalar(task.image)}"
    yield f"    command: [{', '.join(map(scalar, task.command))}]"
    if task.nodes > 1:
        yield f"    count: {task.nodes}"
        if task.min_nodes is not None and task.min_nodes < task.nodes:
            yield f"    minCount: {task.min_nodes}"
    if task.retry is not None:
        yield f"    retries: {task.retry.retries}"
        yield f"    exitActions: {{RESCHEDULE: {quoted(task.retry.codes)}}}"
    yield from _map("environment", {name: scalar(value) for name, value in task.environment.items()})
    yield from _map("credentials", {name: _flow(keys) for name, keys in task.credentials.items()})


def _resources(task: OneTask) -> Iterator[str]:
    asked = {"gpu": task.gpus or None, "platform": task.platform, "cpu": task.cpus, "memory": task.memory}
    for name, amount in asked.items():
        if amount is not None:
            yield f"      {name}: {scalar(amount) if isinstance(amount, str) else amount}"
    levels = [*((key, "required") for key in task.required), *((key, "preferred") for key in task.preferred)]
    if levels:
        yield "      topology:"
        yield from (f"      - {{key: {scalar(key)}, requirementType: {kind}}}" for key, kind in levels)


def _map(name: str, entries: Mapping[str, str]) -> Iterator[str]:
    if entries:
        yield f"    {name}:"
        yield from (f"      {scalar(key)}: {value}" for key, value in entries.items())


def _flow(entries: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{scalar(key)}: {scalar(value)}" for key, value in entries.items()) + "}"


def scalar(text: str) -> str:
    """Returns *text* as a YAML scalar in one line: plain if YAML reads it back as the same text, else in double quotes."""
    return text if _PLAIN.fullmatch(text) and text.lower() not in _NO_TEXT else quoted(text)


def quoted(text: str) -> str:
    """Returns *text* as a one-line ASCII YAML scalar in double quotes, with template markers escaped. Tokens stay."""
    short = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}
    escaped = "".join(short.get(c) or (c if " " <= c <= "~" else f"\\U{ord(c):08x}") for c in text)
    return '"' + _MARKER.sub(r"\\x7b", escaped) + '"'


# ---------------------------------------------------------------- what a command line tells


def name_of(command: Sequence[str]) -> str:
    """Returns a name for a workflow that runs *command*: of its script or module (train.py → train), else of its program."""
    words = [word for word in command[1:] if not word.startswith("-")]
    script = next((word for word in command if _SCRIPT.search(word) and "\n" not in word and " " not in word), None)
    module = command[command.index("-m") + 1] if "-m" in command[:-1] else None
    if module is not None and module not in _MODULES:
        script = script or module.replace(".__main__", "").rpartition(".")[2]
    elif script is None and command[0] in _LAUNCHERS and words:
        script = words[-1]
    stem = _SCRIPT.sub("", PurePosixPath(script or command[0]).name)
    letters = re.sub(r"[^a-zA-Z0-9_-]+", "-", stem)[:_LONGEST_NAME].strip("-_")
    return re.sub(r"^[^a-zA-Z]+", "", letters) or "run"


def starts_once_per_node(command: Sequence[str]) -> bool:
    """Returns True unless *command* is a launcher, which starts the processes of each node itself."""
    launches = PurePosixPath(command[0]).name in _LAUNCHERS or any(word in _MODULES for word in command)
    return not launches and not any(re.search(rf"\b({'|'.join(_LAUNCHERS)})\b", word) for word in command[1:])


def looks_secret(name: str) -> bool:
    """Returns True for a variable such as WANDB_API_KEY, whose value should not be in a workflow file."""
    return _SECRET.search(name) is not None
