"""The pages of the tutorial and the how-to guides are typed as a reader would, and print what they show."""

import sys
from pathlib import Path

import pytest

from tests.worlds.typed_page import blocks, type_page

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    str(path.relative_to(DOCS)): path.read_text()
    for folder in ("tutorial", "how-to")
    for path in sorted((DOCS / folder).glob("*.md"))
}
PROGRAMS = Path(sys.executable).parent


@pytest.mark.parametrize("page", PAGES)
def test_a_reader_who_types_the_page_sees_what_it_shows(page: str, tmp_path: Path) -> None:
    assert type_page(PAGES[page], tmp_path, PROGRAMS) == []


def test_every_block_of_the_tutorial_is_typed() -> None:
    untyped = {page: [each.reason for each in blocks(text) if each.reason] for page, text in PAGES.items()}
    print("blocks that are not typed:", {page: reasons for page, reasons in untyped.items() if reasons})
    assert [page for page, reasons in untyped.items() if reasons and page.startswith("tutorial")] == []


def test_a_page_that_shows_something_else_is_found(tmp_path: Path) -> None:
    page = "```console\n$ echo a\nb\n$ echo c\nc\n$ false\n```\n"
    assert type_page(page, tmp_path, PROGRAMS) == ["$ echo a\na\n(exit code 0)", "$ false\n(exit code 1)"]
