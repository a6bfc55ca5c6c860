"""Relations between the tasks of a workflow: names, inputs, tokens and the order of groups (rule W1)."""

import dataclasses
import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from runrig.domain.quantities import few
from runrig.domain.tokens import tokens_in
from runrig.domain.workflows import Array, GroupSpec, TaskSpec
from runrig.spec.cycles import cycles
from runrig.spec.fields import Field, closest
from runrig.spec.task import DraftTask, normalised


@dataclass(frozen=True, slots=True)
class DraftGroup:
    """*spec* has no upstream yet. *named* False: created for a task outside groups. *array_field* None: it is not an array."""

    spec: GroupSpec
    field: Field
    tasks: tuple[DraftTask, ...]
    named: bool
    array: Array | None = None
    array_field: Field | None = None


def check(groups: Sequence[DraftGroup]) -> None:
    """Reports conflicting names, invalid or cyclic inputs, and tokens without a value."""
    _check_names(groups)
    home = _homes(groups)
    for group in groups:
        for task in group.tasks:
            _check_inputs(group, task, home)
            _check_tokens(group, task)
    _check_cycles(groups, home)


def ordered(groups: Sequence[DraftGroup]) -> tuple[GroupSpec, ...]:
    """Returns the groups with their upstream, in dependency order, otherwise in file order. Omits groups in a cycle."""
    edges = _upstream(groups, _homes(groups))
    return tuple(
        dataclasses.replace(groups[index].spec, upstream=tuple(groups[other].spec.name for other in edges[index]))
        for index in _order(edges)
    )


def _order(edges: Sequence[Sequence[int]]) -> Iterator[int]:
    """Yields the indices, each after those in its edges, otherwise in order. Omits cycles. O(n log n + edges)."""
    waiting = [len(before) for before in edges]
    after: list[list[int]] = [[] for _ in edges]
    for index, before in enumerate(edges):
        for other in before:
            after[other].append(index)
    ready = [index for index, count in enumerate(waiting) if not count]
    while ready:
        index = heapq.heappop(ready)
        yield index
        for other in after[index]:
            waiting[other] -= 1
            if not waiting[other]:
                heapq.heappush(ready, other)


def _homes(groups: Sequence[DraftGroup]) -> Mapping[str, int]:
    """Returns task → index of its group."""
    return {task.spec.name: index for index, group in enumerate(groups) for task in group.tasks if task.spec.name}


def _upstream(groups: Sequence[DraftGroup], home: Mapping[str, int]) -> list[list[int]]:
    """Returns for each group the indices of the groups it reads from, in the order of the file."""
    return [
        sorted({home[name] for task in group.tasks for name in task.spec.inputs if name in home} - {index})
        for index, group in enumerate(groups)
    ]


# ---------------------------------------------------------------- names


def _check_names(groups: Sequence[DraftGroup]) -> None:
    """Reports conflicts: tasks, pods and groups share one namespace, which ignores case and treats ``_`` like ``-``."""
    taken: dict[str, tuple[str, str, Field]] = {}
    told: set[str] = set()
    for what, name, field in _names(groups):
        key = normalised(name)
        if key not in taken:
            taken[key] = what, name, field
        elif field.path not in told:  # The group and the pods of a task contain its name, so they conflict too.
            told.add(field.path)
            first, exact, before = taken[key]
            alike = "" if name == exact else ", as Kubernetes sees it"
            place = before.node.place
            twice = f"is defined twice; first on line {place.line}" if place else "is defined twice"
            same = twice if what == first else f"has the same name as {first.rstrip(',')}{alike}"
            field.wrong(f"{what} {same}. Choose another name.")


def _names(groups: Sequence[DraftGroup]) -> Iterator[tuple[str, str, Field]]:
    """Yields (description, name, field) of everything with a name."""
    for group in groups:
        if group.spec.name and group.named:
            yield f"group {group.spec.name!r}", group.spec.name, group.field
        for task in group.tasks:
            if task.spec.name:
                yield f"task {task.spec.name!r}", task.spec.name, task.field
    for group in groups:
        if not group.named and group.tasks[0].spec.name:
            lone = group.tasks[0].spec.name
            yield f"{group.spec.name!r}, the group of task {lone!r},", group.spec.name, group.field
        for draft in group.tasks:
            for index in range(draft.spec.count or 0):
                pod = draft.spec.pod_name(index)
                yield f"{pod!r}, a pod of task {draft.spec.name!r},", pod, draft.field


# ---------------------------------------------------------------- inputs


def _check_inputs(group: DraftGroup, task: DraftTask, home: Mapping[str, int]) -> None:
    companions = {other.spec.name for other in group.tasks}
    for field, name in zip(task.inputs, task.spec.inputs, strict=True):
        if not name:
            continue
        if name == task.spec.name:
            field.wrong(f"{name!r} reads its own output. Omit it.")
        elif name in companions:
            field.wrong(f"{name!r} is in the same group, whose tasks start together. Move it to an earlier group.")
        elif name not in home:
            field.wrong(f"unknown task {name!r}. {closest(name, home)}")


def _check_cycles(groups: Sequence[DraftGroup], home: Mapping[str, int]) -> None:
    """Reports each cycle of groups once, at the input that closes it."""
    edges = _upstream(groups, home)
    stuck = set(range(len(groups))).difference(_order(edges))
    for cycle in cycles({group: next(other for other in edges[group] if other in stuck) for group in sorted(stuck)}):
        first, second = groups[cycle[0]], groups[cycle[1]]
        names = " → ".join(groups[index].spec.name for index in (*cycle, cycle[0]))
        _closing_input(first, second).wrong(f"groups depend on each other in a cycle: {names}")


def _closing_input(group: DraftGroup, upstream: DraftGroup) -> Field:
    names = {task.spec.name for task in upstream.tasks}
    return next(
        field
        for task in group.tasks
        for field, name in zip(task.inputs, task.spec.inputs, strict=True)
        if name in names
    )


# ---------------------------------------------------------------- tokens


def _check_tokens(group: DraftGroup, task: DraftTask) -> None:
    for token in sorted(_tokens(task.spec)):
        kind, _, name = token.partition(":")
        if kind == "host":
            _check_host(group, task, name)
        elif kind.startswith("array"):
            _check_array_token(group, task, token, name)
        elif kind == "input":
            inputs = task.spec.inputs
            if name not in inputs and not 0 <= _index(name) < len(inputs):
                known = f"its inputs are {few(inputs)}" if inputs else "it has no inputs"
                task.field.wrong(f"{{{{{token}}}}} is not an input of task {task.spec.name!r}: {known}")


def _check_array_token(group: DraftGroup, task: DraftTask, token: str, name: str) -> None:
    if group.array_field is None:
        task.field.wrong(f"{{{{{token}}}}} has no value, because group {group.spec.name!r} has no array")
    elif (
        name and group.array is not None and name not in (known := group.array.values[0] if group.array.values else {})
    ):
        names = f"its values are {few(list(known))}" if known else "it has indices, but no values"
        task.field.wrong(f"{{{{{token}}}}} is not a value of the array: {names}")


def _tokens(spec: TaskSpec) -> set[str]:
    texts = [*spec.command, *spec.args, *spec.environment.values()]
    texts += [file.contents for file in spec.files if not file.base64]
    return {token for text in texts for token in tokens_in(text)}


def _check_host(group: DraftGroup, task: DraftTask, name: str) -> None:
    """Reports a ``host:`` that is neither a task of the group nor a pod that exists even at the minimum count."""
    by_name = {other.spec.name: other.spec for other in group.tasks}
    if name in by_name:
        return
    spec_name, _, number = name.rpartition("-")
    spec = by_name.get(spec_name)
    if spec is not None and spec.count is not None and (index := _index(number)) >= 0:
        sure = spec.count if spec.min_count is None else spec.min_count
        if index < sure:
            return
        why = f"only pods 0 to {sure - 1} of task {spec_name!r} always run"
    else:
        why = f"its group has {few(list(by_name))}"
    task.field.wrong(f"{{{{host:{name}}}}} is not a pod that task {task.spec.name!r} can reach: {why}")


def _index(text: str) -> int:
    """Returns *text* as a number; -1 if it is not in canonical form."""
    return int(text) if text.isdigit() and len(text) < 10 and text == str(int(text)) else -1
