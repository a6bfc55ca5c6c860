"""A rendered workflow file → WorkflowSpec, or all its errors (osmo.md 3.1-3.4, interfaces.md section 3)."""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence

from runrig.domain.after import MOST_AFTER, After, parse_after
from runrig.domain.code import is_id
from runrig.domain.errors import InvalidInput
from runrig.domain.gangs import Priority
from runrig.domain.workflows import GroupSpec, WorkflowSpec
from runrig.spec import arrays, graph, labels
from runrig.spec.fields import Field, Fields, read_file
from runrig.spec.graph import DraftGroup
from runrig.spec.resources import Resource, check_slices_of_group, read_resources
from runrig.spec.task import ARRAY_HINT, DEFAULT_RESOURCE, ENVIRONMENT_NAME, DraftTask, name_of, read_task
from runrig.spec.values import parse_duration

VERSION = 2
MOST_TASKS = 1_000
MOST_PODS = 10_000

_FILE = ("version", "workflow", "resources", "default-values")
_WORKFLOW = (
    "name",
    "labels",
    "pool",
    "backend",
    "priority",
    "tasks",
    "groups",
    "resources",
    "timeout",
    "code",
    "after",
)
_GROUP = ("name", "barrier", "ignoreNonleadStatus", "tasks", "array")
_TIMEOUT = ("exec_timeout", "queue_timeout")
_HINTS = {"array": ARRAY_HINT}
_PRIORITIES = {priority.value: priority for priority in Priority}


def spec_hash(*parts: str | WorkflowSpec) -> str:
    """Returns the key of a specification: SHA-256 in hex of its text, and of its values if they contain more."""
    text = "\0".join(part if isinstance(part, str) else repr(part) for part in parts)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def read_workflow(text: str, given: arrays.Given = arrays.NO_ARRAY) -> WorkflowSpec:
    """Returns the workflow in *text*, groups after those they depend on. Raises InvalidInput with all errors.

    *given*: an array that the file does not have.
    """

    def read(fields: Fields) -> WorkflowSpec:
        _check_version(fields["version"])
        return _workflow(fields.need("workflow", "workflow: {name: NAME, tasks: [...]}"), fields["resources"], given)

    hints = dict.fromkeys(("name", "tasks", "groups", "timeout"), "it belongs under workflow:, indented by two spaces")
    return read_file(text, "workflow file", _FILE, read, hints)


def parse_environment(items: Sequence[str]) -> dict[str, str]:
    """Returns the variables of ``--set-env K=V``, split at the first ``=``. Raises InvalidInput."""
    environment = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not ENVIRONMENT_NAME.fullmatch(name) or "\0" in value:
            raise InvalidInput.one(f"{name!r:.80} does not set a variable. Use --set-env NAME=VALUE")
        environment[name] = value
    return environment


def with_environment(spec: WorkflowSpec, env: Mapping[str, str]) -> WorkflowSpec:
    """Returns *spec* with *env* in every task, overriding the file."""
    if not env:
        return spec
    return spec.with_tasks(lambda task: dataclasses.replace(task, environment={**task.environment, **env}))


def _check_version(version: Field) -> None:
    if version and version.node.text != str(VERSION):
        version.wrong(f"{version.shown()} is not supported. Use version: {VERSION}, or omit it.")


def _workflow(field: Field, outer_resources: Field, given: arrays.Given) -> WorkflowSpec:
    fields = field.fields("a workflow", _WORKFLOW, _HINTS)
    fields["pool"].text()
    fields["backend"].text()
    name = name_of(fields, "workflow")
    exec_timeout_s, queue_timeout_s = _timeouts(fields)
    resources = _resources(fields, outer_resources)
    groups = _groups(fields, resources, given)
    array = next((group.array for group in groups if group.array), None)
    return WorkflowSpec(
        name,
        graph.ordered(groups) if array is None else (),
        _labels(fields),
        fields["priority"].choice(_PRIORITIES),
        exec_timeout_s,
        queue_timeout_s,
        code=_code(fields["code"]),
        after=_after(fields),
        array=array,
    )


def _code(field: Field) -> str | None:
    id = field.node.text
    if not field or is_id(id):
        return id or None
    field.wrong(f"{field.shown()} is not the id of sent code: 64 hexadecimal digits, as `runrig run --print` shows it.")
    return None


def _after(fields: Fields) -> tuple[After, ...]:
    found = [item.parsed(parse_after) for item in fields["after"].items()]
    read = tuple(dict.fromkeys(each for each in found if each is not None))
    if len(read) > MOST_AFTER:
        fields["after"].wrong(f"too many workflows ({len(read)}, maximum {MOST_AFTER})")
    return read


def _timeouts(fields: Fields) -> tuple[float | None, float | None]:
    """Returns (exec, queue), in seconds."""
    if not fields["timeout"]:
        return None, None
    inner = fields["timeout"].fields("timeout", _TIMEOUT)
    values = []
    for name in _TIMEOUT:
        seconds = inner[name].parsed(parse_duration)
        if seconds == 0:
            inner[name].wrong("a limit of 0 would stop everything immediately. Omit it for the default.")
        values.append(seconds)
    return values[0], values[1]


def _resources(fields: Fields, outer: Field) -> Mapping[str, Resource]:
    inner = fields["resources"]
    if inner:
        outer.wrong("is defined here and under workflow. Keep one of them.")
    return read_resources(inner or outer) or {DEFAULT_RESOURCE: Resource()}


def _labels(fields: Fields) -> Mapping[str, str]:
    entries = fields["labels"].entries()
    if too_many := labels.number_problem(len(entries)):
        fields["labels"].wrong(too_many)
    read = {}
    for key, field in entries:
        if problem := labels.key_problem(key):
            field.wrong(problem)
        read[key] = field.checked(labels.value_problem) or ""
    return read


# ---------------------------------------------------------------- groups


def _groups(fields: Fields, resources: Mapping[str, Resource], option: arrays.Given) -> tuple[DraftGroup, ...]:
    tasks, groups = fields["tasks"], fields["groups"]
    if tasks:
        groups.wrong("a workflow has tasks or groups, not both. Move the tasks into groups.")
    if groups:
        drafts = tuple(draft for item in groups.items() if (draft := _group(item, resources)))
    elif tasks:
        drafts = tuple(_lone_group(task) for task in _tasks(tasks, resources))
    else:
        fields.need("tasks", "tasks: [{name: NAME, image: IMAGE, command: [...]}], or groups")
        return ()
    given = groups or tasks
    if given.node.value == ():
        given.wrong("is empty. A workflow needs at least one task.")
    drafts = tuple(map(option.into, drafts))
    if not _too_large(fields.field, drafts):
        graph.check(drafts)
        arrays.check(drafts, MOST_PODS)
    return drafts


def _tasks(field: Field, resources: Mapping[str, Resource]) -> tuple[DraftTask, ...]:
    return tuple(draft for item in field.items() if (draft := read_task(item, resources)))


def _lone_group(task: DraftTask) -> DraftGroup:
    if _equals(task):
        spec = GroupSpec(f"{task.spec.name}-group", (task.spec,), ignore_nonlead_status=False)
        return DraftGroup(spec, task.field, (task,), named=False)
    lead = dataclasses.replace(task, spec=dataclasses.replace(task.spec, lead=True))
    return DraftGroup(GroupSpec(f"{task.spec.name}-group", (lead.spec,)), task.field, (lead,), named=False)


def _equals(task: DraftTask) -> bool:
    """Returns True for a lone task with a count that is not marked as lead: its pods are equal, and each must succeed."""
    return task.spec.count is not None and not task.spec.lead


def _group(field: Field, resources: Mapping[str, Resource]) -> DraftGroup | None:
    fields = field.fields("a group", _GROUP)
    if not fields:
        return None
    name = name_of(fields, "group")
    found = fields.need("tasks", "tasks: [{name: NAME, image: IMAGE, command: [...]}]")
    if found.node.value == ():
        found.wrong("is empty. A group needs at least one task.")
    tasks = _tasks(found, resources)
    check_slices_of_group([(task.spec, task.field) for task in tasks])
    equals = len(tasks) == 1 and _equals(tasks[0])
    ignore = fields["ignoreNonleadStatus"].flag(not equals)
    if not equals or ignore:
        tasks = _with_lead(field, tasks)
    barrier = fields["barrier"].flag(True)
    spec = GroupSpec(name, tuple(task.spec for task in tasks), barrier=barrier, ignore_nonlead_status=ignore)
    given = fields["array"]
    return DraftGroup(spec, field, tasks, named=True, array=arrays.read_array(given, spec), array_field=given or None)


def _with_lead(group: Field, tasks: tuple[DraftTask, ...]) -> tuple[DraftTask, ...]:
    """Returns *tasks* with exactly one lead; a single task leads itself."""
    if len(tasks) == 1:
        return (dataclasses.replace(tasks[0], spec=dataclasses.replace(tasks[0].spec, lead=True)),)
    leads = [task for task in tasks if task.spec.lead]
    if tasks and not leads:
        group.wrong("it has no lead task. Set lead: true in the task whose end ends the group.")
    for task in leads[1:]:
        task.field.wrong(
            f"{task.spec.name!r} and {leads[0].spec.name!r} are both leads. Keep lead: true in one of them."
        )
    return tasks


def _too_large(field: Field, groups: tuple[DraftGroup, ...]) -> bool:
    """Reports more tasks or pods than a workflow can have."""
    specs = [task.spec for group in groups for task in group.tasks]
    pods = sum(spec.pods for spec in specs)
    if len(specs) > MOST_TASKS:
        field.wrong(f"too many tasks ({len(specs):,}, maximum {MOST_TASKS:,}). Use count to run many pods of a task")
    elif pods > MOST_PODS:
        field.wrong(f"too many pods ({pods:,}, maximum {MOST_PODS:,})")
    return len(specs) > MOST_TASKS or pods > MOST_PODS
