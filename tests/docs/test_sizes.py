"""Code, README and changelog stay short: the sizes that CONTRIBUTING requires."""

import ast

from tests.docs.test_docs import CODE, PAGES, ROOT, parsed

LONGEST_FILE = 400
LONGEST_README = 120
LONGEST_RELEASE = 120
"""Lines of one release in the changelog."""
LONGEST_FUNCTION_P90 = 20


def test_no_file_is_longer_than_400_lines() -> None:
    lengths = {str(file.relative_to(ROOT)): len(file.read_text(encoding="utf-8").splitlines()) for file in CODE}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE} == {}


def test_nine_functions_in_ten_have_at_most_20_lines() -> None:
    lengths = sorted(
        node.end_lineno - node.lineno + 1
        for file in CODE
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None
    )
    assert lengths[len(lengths) * 9 // 10] <= LONGEST_FUNCTION_P90


def test_the_readme_has_at_most_120_lines() -> None:
    assert len(PAGES["README.md"].splitlines()) <= LONGEST_README


def test_each_release_in_the_changelog_has_at_most_120_lines() -> None:
    _, *releases = PAGES["CHANGELOG.md"].split("\n## ")
    lengths = {release.partition("\n")[0]: len(release.splitlines()) for release in releases}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_RELEASE} == {}
    assert "[Unreleased]" in lengths
