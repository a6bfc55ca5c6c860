"""Every table of the command line as it was read and found good: on terminals of three widths and in a pipe, with long names.

``python -m tests.cli.golden.world`` takes the pictures anew; read the difference before it is kept.
"""

import re
from collections.abc import Iterator

import pytest

from tests.cli.golden.world import HERE, WIDTHS, World, pictures, tables, world
from tests.worlds.command_line import lines

_UNBROKEN = re.compile(r"[a-z]+(?:-[a-z0-9]+)+")


@pytest.fixture(scope="module")
def there() -> Iterator[World]:
    with world() as it:
        yield it


@pytest.mark.parametrize("name", tables())
def test_a_table_looks_as_it_did(there: World, name: str) -> None:
    assert pictures(there, tables()[name]) == (HERE / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", tables())
def test_no_width_shows_a_name_that_the_json_does_not_have(there: World, name: str) -> None:
    """A name that is cut or folded would be one."""
    known = set(_UNBROKEN.findall(there.runrig(*tables()[name], "-t", "json").out)) | {"over-committed"}
    for width in WIDTHS:
        assert set(_UNBROKEN.findall(there.runrig(*tables()[name], width=width).out)) <= known


def test_every_picture_is_of_a_table() -> None:
    assert sorted(each.stem for each in HERE.glob("*.txt")) == sorted(tables())


def test_lists_of_workflows_fit_a_terminal_of_80_columns(there: World) -> None:
    assert max(map(len, lines(there.runrig("workflow", "list", "--all", width=80).out))) <= 80
