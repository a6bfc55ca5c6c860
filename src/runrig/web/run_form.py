"""The form of one command, as of `runrig run`: fields → task."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from runrig.domain.errors import InvalidInput, Problem
from runrig.domain.quantities import whole_number
from runrig.spec.arrays import parse_array
from runrig.spec.one_task import MOST, NO_IMAGE, OneArray, OneTask, looks_secret, name_of, parse_gpus
from runrig.spec.task import ENVIRONMENT_NAME
from runrig.spec.values import parse_duration, parse_size

FIELDS = ("command", "gpus", "nodes", "time", "image", "name", "array", "cpus", "memory", "environment")
DEFAULTS = {"gpus": "1", "nodes": "1"}
_MOST_NODES = 10_000
_OPERATOR = re.compile(r"[();<>|&]+")
_PLACES = {
    "gpu": "gpus",
    "platform": "gpus",
    "cpu": "cpus",
    "count": "nodes",
    "exec_timeout": "time",
    "indices": "array",
    "most": "array",
}
"""Field of a workflow file → field of the form, where the names differ."""


def task_of(fields: Mapping[str, str], image: str | None = None) -> OneTask:
    """*image*: the default one of the pool. Raises InvalidInput with all problems, each at its field."""
    typed = DEFAULTS | {name: fields[name].strip() for name in FIELDS if fields.get(name, "").strip()}
    problems: list[Problem] = []

    def read(name: str, reader: Callable[[str], Any]) -> Any:
        if name not in typed:
            return None
        try:
            return reader(typed[name])
        except ValueError as error:
            problems.append(Problem(str(error), name))
            return None

    command = read("command", _words)
    platform, gpus = read("gpus", parse_gpus) or (None, 1)
    found = {
        "gpus": gpus,
        "platform": platform,
        "nodes": read("nodes", lambda text: _number(text, _MOST_NODES)),
        "cpus": read("cpus", lambda text: _number(text, MOST)),
        "memory": read("memory", _checked(parse_size)),
        "time": read("time", _checked(parse_duration)),
        "array": read("array", _array),
        "environment": read("environment", _environment) or {},
    }
    if "command" not in typed:
        problems.insert(0, Problem("enter a command", "command"))
    if problems or command is None:
        raise InvalidInput(tuple(problems))
    name = typed.get("name") or name_of(command)
    return OneTask(name=name, command=command, image=typed.get("image") or image or NO_IMAGE, **found)


@contextmanager
def at_fields() -> Iterator[None]:
    """Moves problems of the file that was made from the form to the fields that they are about."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(tuple(_at_field(each) for each in error.problems)) from None


def _at_field(problem: Problem) -> Problem:
    last = re.sub(r"\[\d+\]", "", problem.path).rpartition(".")[2]
    place = _PLACES.get(last, last)
    return Problem(problem.message, place if problem.path and place in FIELDS else problem.path)


def _words(text: str) -> list[str]:
    """Splits *text* like a shell. Raises ValueError for what only a shell could do."""
    try:
        words = shlex.split(text)
        parts = shlex.shlex(text, posix=True, punctuation_chars=True)
        parts.whitespace_split = True
        operator = next((part for part in parts if _OPERATOR.fullmatch(part)), None)
    except ValueError as error:
        raise ValueError(f"{error}. Close the quote") from None
    if "\n" in text or operator is not None:
        what = f"{operator} needs" if operator else "several lines need"
        raise ValueError(f"{what} a shell. Write bash -c '...', with the whole line in quotes")
    return words


def _number(text: str, most: int) -> int:
    number = whole_number(text)
    if number is None or not 1 <= number <= most:
        raise ValueError(f"{text!r:.60} is not a number from 1 to {most:,}")
    return number


def _checked(parse: Callable[[str], object]) -> Callable[[str], str]:
    """Returns a reader of text that *parse* accepts, and that is more than nothing."""

    def read(text: str) -> str:
        if not parse(text):
            raise ValueError(f"{text!r:.60} must be more than 0")
        return text

    return read


def _array(text: str) -> OneArray:
    asked = parse_array(text)
    return OneArray(asked.indices, most=asked.most)


def _environment(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, sign, value = line.partition("=")
        if not sign or not ENVIRONMENT_NAME.fullmatch(name):
            raise ValueError(f"invalid line {line!r:.60}. Use one NAME=VALUE per line")
        if looks_secret(name):
            raise ValueError(
                f"{name} looks like a secret, and the workflow file would store its value. Store it with "
                "`runrig credential set`, and name it under credentials: in a workflow file"
            )
        found[name] = value
    return found
