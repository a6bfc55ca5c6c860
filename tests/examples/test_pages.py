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
def test_commands_of_the_page_print_what_it_shows(page: str, tmp_path: Path) -> None:
    assert type_page(PAGES[page], tmp_path, PROGRAMS) == []


def test_every_command_block_runs_or_says_why_not_and_the_whole_tutorial_runs() -> None:
    every = {page: blocks(text) for page, text in PAGES.items()}
    untyped = {page: [each.reason for each in found if each.reason] for page, found in every.items()}
    print("blocks that are not typed:", sum(map(len, untyped.values())), {k: v for k, v in untyped.items() if v})
    assert [page for page, reasons in untyped.items() if reasons and page.startswith("tutorial")] == []
    assert [page for page, found in every.items() if any(e.info == "sh" and not e.reason for e in found)] == []


def test_page_with_wrong_output_is_found(tmp_path: Path) -> None:
    page = "```console\n$ echo a\nb\n$ echo c\nc\n$ false\n```\n"
    assert type_page(page, tmp_path, PROGRAMS) == ["$ echo a\na\n(exit code 0)", "$ false\n(exit code 1)"]
