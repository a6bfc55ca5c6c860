"""Every table of the command line as it was read and found good: on terminals of three widths and in a pipe, with long names.

``python -m tests.cli.golden.world`` takes the pictures anew; read the difference before it is kept.
"""

import re
from collections.abc import Iterator

import pytest

from tests.cli.golden.world import HERE, WIDTHS, World, picture, pictures, tables, world

_UNBROKEN = re.compile(r"[a-z]+(?:-[a-z0-9]+)+")


@pytest.fixture(scope="module")
def there() -> Iterator[World]:
    with world() as it:
        yield it


@pytest.mark.parametrize("name", tables())
def test_tables_look_as_in_the_golden_files(there: World, name: str) -> None:
    assert pictures(there, tables()[name]) == (HERE / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", tables())
def test_table_shows_no_name_that_the_json_does_not_have(there: World, name: str) -> None:
    """A name that is cut or folded would be one."""
    known = set(_UNBROKEN.findall(there.runrig(*tables()[name], "-t", "json").out)) | {"over-committed"}
    for width in WIDTHS:
        assert set(_UNBROKEN.findall(there.runrig(*tables()[name], width=width).out)) <= known


def test_every_picture_is_of_a_table() -> None:
    assert sorted(each.stem for each in HERE.glob("*.txt")) == sorted(tables())


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_is_wider_than_the_terminal(there: World, width: int) -> None:
    widest = {name: max(map(len, picture(there, args, width).splitlines())) for name, args in tables().items()}
    assert {name: columns for name, columns in widest.items() if columns > width} == {}
