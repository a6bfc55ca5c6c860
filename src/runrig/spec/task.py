"""One task of a workflow file."""

import base64
import binascii
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass

from runrig.domain.workflows import USUAL_RETRIES, ExitAction, ExitRule, FileSpec, TaskSpec
from runrig.spec.credentials import read_credentials
from runrig.spec.fields import Field, Fields, closest, repeated
from runrig.spec.nodes import ALLOWABLE
from runrig.spec.resources import Resource, check_slices_of_task
from runrig.spec.values import parse_duration, parse_exit_codes

LONGEST_NAME = 64
MOST_PODS_OF_TASK = 10_000
LONGEST_REGEX = 1_000
MOST_RETRIES = 100
DEFAULT_RESOURCE = "default"
ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,255}")

ARRAY_HINT = 'it belongs to a group, as in groups: [{name: runs, array: {indices: "0-9"}, tasks: [...]}]'
_NAME = re.compile(r"[a-zA-Z]([a-zA-Z0-9_-]*[a-zA-Z0-9])?")
_RESERVED = "osmo-ctrl"
_REFUSED = {
    "outputs": "outputs to a URL are not supported yet. Write to {{output}}, and read it in another task with inputs.",
    "checkpoint": "checkpoints are not supported yet. Omit it.",
    "downloadType": "is not supported yet. Omit it.",
    "cacheSize": "is not supported yet. Omit it.",
    "kpis": "are not supported yet. Omit them.",
}
_TASK = (
    *(
        "name",
        "image",
        "command",
        "args",
        "lead",
        "environment",
        "files",
        "resource",
        "inputs",
        "exitActions",
        "retries",
    ),
    "credentials",
    *("count", "minCount", "duration", *ALLOWABLE, *_REFUSED),
)
_IN_RESOURCES = "set it under workflow, as resources: {default: {gpu: 1}}. A task uses default, or the entry named by resource: NAME."
_HINTS = {
    "resources": "it belongs under workflow. Use resource: NAME here.",
    **dict.fromkeys(("gpu", "gpus", "cpu", "cpus", "memory", "storage", "platform"), _IN_RESOURCES),
    **dict.fromkeys(
        ("pool", "priority", "labels", "timeout"), "it applies to the whole workflow. Set it under workflow."
    ),
    "env": "use environment: {NAME: VALUE}",
    "array": ARRAY_HINT,
}
_EXIT_ACTIONS = {action.value: action for action in ExitAction}


@dataclass(frozen=True, slots=True)
class DraftTask:
    """A task with its positions in the file. If the file has errors, *spec* may contain placeholders that stay in the parser."""

    spec: TaskSpec
    field: Field
    inputs: tuple[Field, ...] = ()
    """The `task:` of each input."""


def name_of(fields: Fields, what: str) -> str:
    """Returns the `name` of a workflow, group or task; "" if it is not valid."""
    field = fields.need("name", f"name: my-{what}")
    rule = "must be letters, digits, '-' and '_', start with a letter, and end with a letter or digit"
    name = field.matching(_NAME, rule, LONGEST_NAME) or ""
    if what == "task" and normalised(name) == _RESERVED:
        field.wrong(f"{name!r} is reserved. Choose another name.")
    return name


def normalised(name: str) -> str:
    """Returns a form of *name* that is equal for names that Kubernetes cannot distinguish."""
    return name.lower().replace("_", "-")


def read_task(field: Field, resources: Mapping[str, Resource]) -> DraftTask | None:
    """Returns the task; None only if *field* is not a mapping."""
    fields = field.fields("a task", _TASK, _HINTS)
    if not fields:
        return None
    fields.refuse(_REFUSED)
    name = name_of(fields, "task")
    image = _reference(fields.need("image", "image: ubuntu:24.04"))
    resource = _resource(fields, resources)
    count, min_count = _counts(fields, name)
    check_slices_of_task(fields, resource.topology)
    inputs = _inputs(fields)
    files = _files(fields)
    retries = fields["retries"].whole(0, MOST_RETRIES)
    spec = TaskSpec(
        name=name,
        image=image,
        command=_command(fields),
        args=tuple(_argument(item) for item in fields["args"].items()),
        lead=fields["lead"].flag(False),
        environment={key: _variable(key, item) for key, item in fields["environment"].entries()},
        files=files,
        requests=resource.requests,
        platform=resource.platform,
        inputs=tuple(item.text() or "" for item in inputs),
        exit_rules=exit_rules(fields["exitActions"]),
        retries=USUAL_RETRIES if retries is None else retries,
        count=count,
        min_count=min_count,
        duration_s=fields["duration"].parsed(parse_duration),
        allow=_allow(fields),
        topology=resource.topology,
        credentials=read_credentials(fields, ENVIRONMENT_NAME, files),
    )
    return DraftTask(spec, field, inputs)


def _reference(field: Field) -> str:
    image = field.text()
    if image is not None and (not image or image != "".join(image.split())):
        field.wrong(f"{image!r} is not an image reference. Use one without spaces, such as ubuntu:24.04.")
    return image or ""


def _resource(fields: Fields, resources: Mapping[str, Resource]) -> Resource:
    field = fields["resource"]
    name = field.text() if field else DEFAULT_RESOURCE
    if name is None or name in resources:
        return resources.get(name or "", Resource())
    if field:
        field.wrong(f"{name!r} is not in resources. {closest(name, resources)}")
    else:
        fields.field.wrong(f"sets no resource, and resources has no {DEFAULT_RESOURCE!r}. {closest('', resources)}")
    return Resource()


def _counts(fields: Fields, name: str) -> tuple[int | None, int | None]:
    count = fields["count"].whole(1, MOST_PODS_OF_TASK)
    minimum = fields["minCount"].whole(1, MOST_PODS_OF_TASK)
    given = fields["minCount"]
    if not fields["count"]:
        given.wrong("requires count: count is the number of pods, minCount the minimum to start with")
    elif count is not None and minimum is not None and minimum > count:
        given.wrong(f"{minimum} is more than count ({count})")
    if count is not None and len(last := f"{name}-{count - 1}") > LONGEST_NAME:
        fields.field.wrong(
            f"the name of its last pod, {last!r}, would be too long ({len(last)} characters, maximum {LONGEST_NAME})"
        )
    return count, minimum


def _command(fields: Fields) -> tuple[str, ...]:
    field = fields.need("command", 'command: ["sh", "-c"]')
    if isinstance(field.node.value, str):
        field.wrong(f"expected a list, got {field.shown()}. Write one word per item, such as [sh, -c].")
        return ()
    items = field.items()
    words = tuple(_argument(item) for item in items)
    if field.node.value == () or (words and not words[0] and items[0].node.value == ""):
        field.wrong("is empty. Name the program to run.")
    return words


def _argument(field: Field) -> str:
    """Returns a word of a command: text, or a number as written."""
    value = field.node.value
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return field.node.text
    field.expected("text", ". Put it in quotes." if isinstance(value, bool) else "")
    return ""


def _variable(name: str, field: Field) -> str:
    """Returns the value of an environment variable; numbers, true and false as written."""
    if not ENVIRONMENT_NAME.fullmatch(name):
        field.wrong(f"{name!r} is not a variable name. Use letters, digits and '_', and do not start with a digit.")
    if isinstance(field.node.value, str | int | float):
        return field.node.text
    hint = '. Use "" for an empty value.' if field.node.value is None else ""
    field.wrong(f"expected text, got {field.shown()}{hint}")
    return ""


def _inputs(fields: Fields) -> tuple[Field, ...]:
    inputs = []
    for item in fields["inputs"].items():
        inner = item.fields("an input", ("task", "url", "regex"))
        inner.refuse({"url": "inputs from a URL are not supported yet. Name a task of this workflow."})
        _check_regex(inner["regex"])
        task = inner["task"] if "url" in inner.entries else inner.need("task", "task: NAME")
        if ":" in (task.text() or ""):
            task.wrong(f"{task.shown()}: inputs from another workflow are not supported yet")
        elif task:
            inputs.append(task)
    repeated([(item.node.text, item) for item in inputs], "the input")
    return tuple(inputs)


def _check_regex(field: Field) -> None:
    pattern = field.text() or ""
    if len(pattern) > LONGEST_REGEX:
        field.wrong(f"is too long ({len(pattern)} characters, maximum {LONGEST_REGEX})")
        return
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError, Warning) as error:
        field.wrong(f"{field.shown()} is not a regular expression: {error}")


def exit_rules(field: Field) -> tuple[ExitRule, ...]:
    """Returns a map action → exit codes as rules, in the order of the file."""
    rules: list[ExitRule] = []
    for key, item in field.entries():
        action = _EXIT_ACTIONS.get(key.upper())
        if action is None:
            item.wrong(f"unknown exit action {key!r}. {closest(key.upper(), _EXIT_ACTIONS)}")
            continue
        rules.extend(ExitRule(action, first, last) for first, last in item.parsed(parse_exit_codes) or ())
    return tuple(rules)


def _allow(fields: Fields) -> tuple[str, ...]:
    flags = [name for name in ALLOWABLE[:2] if fields[name].flag(False)]
    mounts = [item.text() for item in fields["volumeMounts"].items()]
    return (*flags, "volumeMounts") if mounts else tuple(flags)


# ---------------------------------------------------------------- files


def _files(fields: Fields) -> tuple[FileSpec, ...]:
    hints = {"localpath": "the server cannot read files of your machine. Use contents."}
    files, paths = [], []
    for item in fields["files"].items():
        inner = item.fields("a file", ("path", "contents", "base64"), hints)
        path = inner.need("path", "path: /tmp/run.sh")
        contents = inner["contents"] if "localpath" in inner.entries else inner.need("contents", "contents: |")
        encoded = inner["base64"].flag(False)
        text = contents.checked(_base64_problem) if encoded else contents.text()
        where = _path(path)
        if where is not None:
            paths.append((where, path))
            files.append(FileSpec(where, text or "", encoded))
    repeated(paths, "the file")
    _check_nesting(paths)
    return tuple(files)


def _path(field: Field) -> str | None:
    """Returns the normalised absolute path."""
    path = field.text()
    if path is None:
        return None
    problem = None
    if not path:
        problem = "is empty. Use an absolute path, such as /tmp/run.sh."
    elif "\0" in path:
        problem = "contains a NUL character, which paths cannot have"
    elif not path.startswith("/"):
        problem = f"{path!r} is relative. Use an absolute path, such as /tmp/{posixpath.basename(path) or 'run.sh'}"
    elif ".." in path.split("/"):
        problem = f"{path!r} contains '..', but files must stay in their task's folder. Use a path without it."
    elif path.endswith(("/", "/.")):
        problem = f"{path!r} is a folder. Use the path of a file in it."
    elif len(path.encode()) > 1024 or any(len(part.encode()) > 255 for part in path.split("/")):
        problem = f"is too long ({len(path.encode())} bytes; maximum 1024, and 255 between two '/')"
    if problem:
        field.wrong(problem)
        return None
    return "/" + posixpath.normpath(path).lstrip("/")


def _base64_problem(text: str) -> str | None:
    try:
        base64.b64decode("".join(text.split()), validate=True)
        return None
    except (binascii.Error, ValueError) as error:
        return f"is not base64: {str(error).lower()}. Omit base64 if it is plain text."


def _check_nesting(paths: list[tuple[str, Field]]) -> None:
    known = {path for path, _ in paths}
    for path, field in paths:
        parent = posixpath.dirname(path)
        while parent != "/":
            if parent in known:
                field.wrong(f"{path!r} is inside {parent!r}, which is a file")
                break
            parent = posixpath.dirname(parent)
