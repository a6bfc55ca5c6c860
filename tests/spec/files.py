"""Short ways to write files, and to read what is wrong with them."""

from collections.abc import Callable

import pytest

from runrig.domain.errors import InvalidInput

Wrong = tuple[int | None, int | None, str]


def task(extra: str = "") -> str:
    """A workflow of one task in flow style; *extra* are more of its fields.  They begin in line 4, column 5."""
    return f"workflow:\n  name: w\n  tasks: [{{name: a, image: i, command: [run],\n    {extra}}}]\n"


def groups(*lines: str) -> str:
    """A workflow with *lines*, from line 4 on, as its groups."""
    return "workflow:\n  name: w\n  groups:\n" + "".join(f"  {line}\n" for line in lines)


def problems(read: Callable[[str], object], text: str) -> list[Wrong]:
    """(line, column, message) of everything wrong with *text*."""
    with pytest.raises(InvalidInput) as raised:
        read(text)
    return [(problem.line, problem.column, problem.message) for problem in raised.value.problems]
