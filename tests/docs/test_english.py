"""The prose check of `make lint`: what it reads, what it finds, and when its table is wrong."""

import runpy
from pathlib import Path
from typing import Any

import pytest

ENGLISH = runpy.run_path(str(Path(__file__).parents[2] / ".ci" / "english.py"))
Finding, Limit = ENGLISH["Finding"], ENGLISH["Limit"]
LIMITS = {"docs": Limit(1, 0), "docs/decisions": Limit(0, 1)}
LONG_SENTENCE = " ".join(["word"] * 31)


def found(path: str, *lines: str) -> list[tuple[int, str]]:
    return sorted((each.line, each.kind) for each in ENGLISH["findings"](path, "\n".join(lines) + "\n"))


def verdict(*findings: Any, exceptions: int = 0) -> tuple[str, ...]:
    lines: tuple[str, ...] = ENGLISH["verdict"](LIMITS, list(findings), exceptions)
    return lines


def test_strings_docstrings_and_comments_are_checked_but_not_names() -> None:
    lines = (
        '"""Tasks that are told apart.',
        "",
        'Everything starts at once."""',
        "nobody = 1  # somebody waits",
        'text = f"{nobody} goes on"',
    )
    assert found("src/a.py", *lines) == [(1, "told"), (3, "at-once"), (4, "nobody"), (5, "goes-on")]


def test_code_and_generated_sections_of_markdown_are_left_out() -> None:
    lines = (
        "It shows `nobody` and more.",
        "```",
        "nobody waits here",
        "```",
        "<!-- generated: routes -->",
        "nobody waits here",
        "<!-- end -->",
        "| nobody waits | it goes on |",
    )
    assert found("docs/a.md", *lines) == [(8, "goes-on"), (8, "nobody")]


def test_exceptions_are_left_out() -> None:
    assert found("docs/a.md", "Then nobody waits. <!-- english: ok -->", "Then nobody waits.") == [(2, "nobody")]
    assert found("src/a.py", 'text = "then nobody waits"  # english: ok') == []


@pytest.mark.parametrize(("path", "mark"), [("docs/a.md", ""), ("src/a.py", '"""')])
def test_sentence_of_more_than_thirty_words_is_found_except_in_a_table(path: str, mark: str) -> None:
    short = LONG_SENTENCE.removesuffix(" word")
    lines = (f"{mark}Title", "", f"{short}. Another {short.removesuffix(' word')}.", "", f"| {LONG_SENTENCE} |", "")
    assert found(path, *lines, f"{LONG_SENTENCE}.{mark}") == [(7, "long")]


def test_a_finding_shows_what_to_write_instead() -> None:
    assert str(Finding("docs/a.md", 3, "goes-on", "it goes on")) == (
        "docs/a.md:3: goes-on (continues; keeps running; finishes): it goes on"
    )


def test_counts_that_equal_the_table_pass() -> None:
    allowed = (Finding("docs/a.md", 1, "told", ""), Finding("docs/decisions/0001.md", 1, "long", ""))
    assert verdict(*allowed, exceptions=10) == ()


def test_a_count_above_or_below_its_limit_fails_with_the_way_out() -> None:
    two = (Finding("docs/a.md", 1, "told", ""), Finding("docs/b.md", 1, "told", ""))
    one = Finding("docs/a.md", 1, "long", "")
    assert verdict(*two, one) == (
        "docs: 2 phrases, 1 allowed. Rewrite the new ones; `python .ci/english.py --show docs` lists them.",
        "docs: 1 long sentence, 0 allowed. Rewrite the new ones; `python .ci/english.py --show docs` lists them.",
        "docs/decisions: 0 long sentences, fewer than the 1 in the table. "
        "Run `python .ci/english.py --lower` and commit .ci/english.txt.",
    )


def test_an_eleventh_exception_fails() -> None:
    allowed = (Finding("docs/a.md", 1, "told", ""), Finding("docs/decisions/0001.md", 1, "long", ""))
    assert verdict(*allowed, exceptions=11) == ("11 lines with `english: ok`, 10 allowed. Rewrite some of them.",)


def test_lowering_never_raises_a_limit() -> None:
    two = [Finding("docs/a.md", 1, "told", ""), Finding("docs/b.md", 1, "told", "")]
    assert ENGLISH["lowered"](LIMITS, two) == {"docs": Limit(1, 0), "docs/decisions": Limit(0, 0)}


def test_the_table_reads_back_as_it_was_written() -> None:
    assert ENGLISH["read_table"](ENGLISH["table_text"](LIMITS)) == LIMITS


def test_in_a_merge_conflict_the_larger_limits_count() -> None:
    conflict = "# a\n<<<<<<< HEAD\ndocs  5  2\n=======\ndocs  4  3\n>>>>>>> other\nsrc  1  1\n"
    assert ENGLISH["read_table"](conflict) == {"docs": Limit(5, 3), "src": Limit(1, 1)}
