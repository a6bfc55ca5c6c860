"""Arrays: a task group that runs once for each index or set of values (rule W4)."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from runrig.domain.errors import InvalidInput
from runrig.domain.quantities import whole_number
from runrig.domain.workflows import MOST_ELEMENTS, Array, GroupSpec
from runrig.spec.fields import Field
from runrig.spec.graph import DraftGroup
from runrig.spec.task import LONGEST_NAME, normalised

LARGEST_INDEX = 999_999

_ARRAY = ("indices", "values", "most", "failFast")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_OWN = ("array_index", "array_count")


class Asked(NamedTuple):
    """The value of ``--array 0-9%3``. *most* None: all at a time."""

    indices: str
    most: int | None


def parse_array(text: str) -> Asked:
    """Returns the value of ``0-9`` or ``0-9%3``. Raises ValueError."""
    indices, percent, most = text.partition("%")
    parse_indices(indices)
    number = whole_number(most)
    if percent and (number is None or not 1 <= number <= MOST_ELEMENTS):
        raise ValueError(f"%{most:.80} is not a number of elements from 1 to {MOST_ELEMENTS}. Use for example 0-9%3.")
    return Asked(indices, number)


def parse_indices(text: str) -> tuple[int, ...]:
    """Returns the indices of ``0-9``, ``1,3,5-7`` or ``0-15:4`` in increasing order. Raises ValueError."""
    found: dict[int, None] = {}
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"{text!r:.80} is not a list of indices. Use for example 0-9, 1,3,5-7 or 0-15:4.")
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last < first:
            raise ValueError(f"the range {part.strip()} is reversed. Use {last}-{first}")
        if step == 0:
            raise ValueError(f"the range {part.strip()} has a step of 0. Use at least 1.")
        if last > LARGEST_INDEX:
            raise ValueError(f"index {last} is too large (maximum {LARGEST_INDEX})")
        indices = range(first, last + 1, step)
        if len(found) + len(indices) > MOST_ELEMENTS:
            raise ValueError(f"too many elements ({len(found) + len(indices):,}, maximum {MOST_ELEMENTS:,})")
        for index in indices:
            if index in found:
                raise ValueError(f"index {index} occurs twice. Omit one.")
            found[index] = None
    return tuple(sorted(found))


def parse_sweep(text: str) -> tuple[str, tuple[str, ...]]:
    """Returns the name and values of ``lr=0.1,0.01``. Raises ValueError."""
    name, equals, listed = text.partition("=")
    values = tuple(listed.split(","))
    if not equals or "" in values:
        raise ValueError(f"{text!r:.80} is not NAME=VALUE,VALUE. Use for example lr=0.1,0.01.")
    if problem := _name_problem(name):
        raise ValueError(problem)
    if len(set(values)) < len(values):
        twice = next(value for value in values if values.count(value) > 1)
        raise ValueError(f"{name} has the value {twice!r:.80} twice. Omit one.")
    return name, values


def combinations(sweeps: Sequence[tuple[str, tuple[str, ...]]]) -> tuple[Mapping[str, str], ...]:
    """Returns every combination of the values of *sweeps*, the last name varying fastest. Raises ValueError."""
    names = [name for name, _ in sweeps]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice} is given twice. List its values together, as in {twice}=A,B.")
    number = 1
    for _, values in sweeps:
        number *= len(values)
        if number > MOST_ELEMENTS:
            raise ValueError(f"too many combinations (at least {number:,}, maximum {MOST_ELEMENTS:,})")
    product = itertools.product(*(values for _, values in sweeps))
    return tuple(dict(zip(names, values, strict=True)) for values in product)


def _name_problem(name: str) -> str | None:
    if not _NAME.fullmatch(name):
        return f"{name!r:.80} is not a name for values. Use letters, digits and '_', and do not start with a digit."
    if name.upper().startswith("RUNRIG_") or name in _OWN:
        return f"{name!r} is reserved. Choose another name."
    return None


# ---------------------------------------------------------------- options of a submission


class Given(NamedTuple):
    """The values of ``--array``, ``--sweep`` and ``--most``."""

    array: str | None = None
    sweep: tuple[str, ...] = ()
    most: int | None = None

    def of(self, group: GroupSpec) -> Array:
        """Returns the array of *group*. Raises ValueError."""
        if self.array is not None and self.sweep:
            raise ValueError("--array and --sweep exclude each other. Use one of them.")
        if self.array is None:
            if not self.sweep:
                raise ValueError("--most requires --array or --sweep")
            values = combinations([parse_sweep(each) for each in self.sweep])
            return Array(group, tuple(range(len(values))), len(values), values, self.most)
        indices, most = parse_array(self.array)
        if most is not None and self.most is not None:
            raise ValueError(f"--array {self.array} and --most {self.most} both set a limit. Use one of them.")
        found = parse_indices(indices)
        return Array(group, found, len(found), most=most or self.most)

    def into(self, draft: DraftGroup) -> DraftGroup:
        """Returns *draft* with the array."""
        if not any(self):
            return draft
        if draft.array_field is not None:
            draft.array_field.wrong("is already in the file. Submit it without --array, --sweep and --most.")
            return draft
        try:
            return replace(draft, array=self.of(draft.spec), array_field=draft.field)
        except ValueError as error:
            raise InvalidInput.one(str(error), "array") from None


NO_ARRAY = Given()


# ---------------------------------------------------------------- in a file


def read_array(field: Field, group: GroupSpec) -> Array | None:
    """Returns the array of *group* with the indices or values in *field*; None if it is not valid."""
    fields = field.fields("an array", _ARRAY)
    if not fields:
        return None
    indices, values = fields["indices"], fields["values"]
    most = fields["most"].whole(1, MOST_ELEMENTS)
    fail_fast = fields["failFast"].flag(False)
    if bool(indices) == bool(values):
        field.wrong('has either indices, such as indices: "0-9", or values, such as values: [{lr: 0.1}, {lr: 0.01}].')
        return None
    found = _values(values)
    numbers = indices.parsed(parse_indices) if indices else tuple(range(len(found)))
    return Array(group, numbers, len(numbers), found, most, fail_fast) if numbers else None


def _values(field: Field) -> tuple[Mapping[str, str], ...]:
    items = field.items()
    if len(items) > MOST_ELEMENTS:
        field.wrong(f"too many elements ({len(items):,}, maximum {MOST_ELEMENTS:,})")
        return ()
    if field.node.value == ():
        field.wrong("is empty. An array needs at least one element.")
    found: list[Mapping[str, str]] = []
    first_with: dict[tuple[tuple[str, str], ...], int] = {}
    for index, item in enumerate(items):
        values = {name: _value(name, value) for name, value in item.entries()}
        if found and values.keys() != found[0].keys():
            item.wrong(
                f"sets {_named(values)}, but the first element sets {_named(found[0])}. Set the same names in all."
            )
        elif (first := first_with.setdefault(tuple(sorted(values.items())), index)) != index:
            item.wrong(f"has the same values as element {first}. Omit one.")
        found.append(values)
    return tuple(found)


def _value(name: str, field: Field) -> str:
    if problem := _name_problem(name):
        field.wrong(problem)
    if isinstance(field.node.value, str | int | float):
        if "\0" in field.node.text:
            field.wrong("contains a NUL character. Remove it.")
        return field.node.text
    field.wrong(f"expected text or a number, got {field.shown()}")
    return ""


def _named(values: Mapping[str, str]) -> str:
    return ", ".join(sorted(values)) or "nothing"


# ---------------------------------------------------------------- with the rest of a workflow


def check(groups: Sequence[DraftGroup], most_pods: int) -> None:
    """Reports arrays next to other groups, with too many pods, or with names that conflict or are too long."""
    for group in groups:
        if (array := group.array) is None or group.array_field is None:
            continue
        if len(groups) > 1:
            group.array_field.wrong(
                "an array must be the only group of its workflow. Put the other groups into a workflow of their own, "
                "and use after: to run one after the other."
            )
        pods = len(array.indices) * sum(task.pods for task in array.group.tasks)
        if pods > most_pods:
            group.array_field.wrong(f"too many pods in all elements ({pods:,}, maximum {most_pods:,})")
            continue
        names = list(_names(array))
        if too_long := next((name for name in names if len(name) > LONGEST_NAME), None):
            group.array_field.wrong(
                f"the name of the pod {too_long!r} would be too long ({len(too_long)} characters, maximum {LONGEST_NAME})"
            )
        elif len({normalised(name) for name in names}) < len(names):
            group.array_field.wrong("pods of different tasks and elements would have the same name. Rename a task.")


def _names(array: Array) -> Iterator[str]:
    for index in array.indices:
        for task in array.element(index).tasks:
            yield from map(task.pod_name, range(task.pods))
            if task.count is not None:
                yield task.name
