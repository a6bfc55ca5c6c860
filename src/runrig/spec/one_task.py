"""Options of one command → a workflow file with one task group, which a person can read and continue with."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from runrig.domain.quantities import whole_number
from runrig.domain.tokens import TOKEN
from runrig.spec.arrays import parse_indices
from runrig.spec.overrides import Retry

TASK = "main"
_GROUP = "elements"
NO_IMAGE = "none"
"""An image for backends that ignore it; others refuse it."""

MOST = 1_000_000
"""GPUs, and CPU cores, of a node."""

_LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec")
_MODULES = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch")
_SCRIPT = re.compile(r"\.(py|sh|pl|rb|R|jl|lua|js)$")
_SECRET = re.compile(r"(^|_)(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$|(APIKEY|AUTHTOKEN)$", re.IGNORECASE)
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./@+-]*(:[A-Za-z0-9_./@+-]+)*")
_NO_TEXT = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
_MARKER = re.compile(rf"(?!{TOKEN.pattern})\{{(?=[{{%#])")
_LONGEST_NAME = 48


@dataclass(frozen=True, slots=True)
class OneArray:
    """*indices*: such as ``0-9``; or *values*, one mapping for each element. *most* None: all at a time."""

    indices: str | None = None
    values: Sequence[Mapping[str, str]] = ()
    most: int | None = None
    fail_fast: bool = False

    @property
    def names(self) -> Sequence[str]:
        return list(self.values[0]) if self.values else []

    @property
    def count(self) -> int:
        return len(self.values) if self.indices is None else len(parse_indices(self.indices))


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
    array: OneArray | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    credentials: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    code: str | None = None


def parse_gpus(text: str) -> tuple[str | None, int]:
    """``[TYPE:]N`` → (platform, GPUs). Raises ValueError."""
    platform, colon, digits = text.rpartition(":")
    number = whole_number(digits)
    if number is None or number > MOST or (colon and not platform):
        raise ValueError(f"{text!r:.80} is not a number of GPUs. Use N, or TYPE:N, such as h100:8")
    return platform or None, number


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
    if task.array is None:
        yield "  tasks:"
        yield from _task(task)
    else:
        yield "  groups:"
        yield f"  - name: {_GROUP}"
        yield from _array(task.array)
        yield "    tasks:"
        yield from (f"  {line}" for line in _task(task))


def _array(array: OneArray) -> Iterator[str]:
    yield "    array:"
    if array.indices is not None:
        yield f"      indices: {quoted(array.indices)}"
    if array.values:
        yield "      values:"
        yield from (f"      - {_flow(values)}" for values in array.values)
    if array.most is not None:
        yield f"      most: {array.most}"
    if array.fail_fast:
        yield "      failFast: true"


def _task(task: OneTask) -> Iterator[str]:
    yield f"  - name: {TASK}"
    yield f"    image: {scalar(task.image)}"
    command = task.command if task.array is None else [_with_values(word, task.array.names) for word in task.command]
    yield f"    command: [{', '.join(map(scalar, command))}]"
    if task.nodes > 1:
        yield f"    count: {task.nodes}"
        if task.min_nodes is not None and task.min_nodes < task.nodes:
            yield f"    minCount: {task.min_nodes}"
    if task.retry is not None:
        yield f"    retries: {task.retry.retries}"
        yield f"    exitActions: {{RESCHEDULE: {quoted(task.retry.codes)}}}"
    yield from _map("environment", {name: scalar(value) for name, value in task.environment.items()})
    yield from _map("credentials", {name: _flow(keys) for name, keys in task.credentials.items()})


def _with_values(word: str, names: Sequence[str]) -> str:
    """Returns *word* with ``{{lr}}`` as the token ``{{array:lr}}`` if lr is one of *names*."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: f"{{{{array:{match[1]}}}}}" if match[1] in names else match[0], word)


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


# ---------------------------------------------------------------- from a command line


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
