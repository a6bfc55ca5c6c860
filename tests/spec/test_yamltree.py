"""YAML as text from strangers: what is read, and what is refused before it can do harm."""

import time
from collections.abc import Mapping
from typing import Any

import pytest

from runrig.domain.errors import InvalidInput
from runrig.spec.yamltree import DEEPEST, LARGEST_TEXT, Place, decoded, node_of, plain, read_yaml
from tests.spec.files import problems


def test_scalars_follow_yaml_1_2() -> None:
    text = """
    words: [yes, on, 1:30, 2020-01-01, 0o17, 1_000]
    numbers: [1, -2, 0x1F, 017, 1.5, 1e3, .inf]
    flags: [true, False]
    nothing: [null, ~, ]
    quoted: ["1", 'true', !!str 5]
    """
    assert plain(read_yaml(text).node) == {
        "words": ["yes", "on", "1:30", "2020-01-01", "0o17", "1_000"],
        "numbers": [1, -2, 31, 17, 1.5, 1000.0, float("inf")],
        "flags": [True, False],
        "nothing": [None, None],
        "quoted": ["1", "true", "5"],
    }


def test_every_value_has_its_position_and_original_text() -> None:
    node = read_yaml("a:\n  - x\n  - 1.50\n").node
    assert isinstance(node.value, Mapping)
    entry = node.value["a"]
    assert entry.place == Place(1, 1)
    assert isinstance(entry.node.value, tuple)
    assert [(item.text, item.place) for item in entry.node.value] == [("x", Place(2, 5)), ("1.50", Place(3, 5))]


def test_aliases_and_merge_keys_are_resolved() -> None:
    text = "base: &b {x: 1, y: 2}\none: *b\ntwo: {<<: *b, y: 3}\n"
    assert plain(read_yaml(text).node) == {"base": {"x": 1, "y": 2}, "one": {"x": 1, "y": 2}, "two": {"x": 1, "y": 3}}


BILLION = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

UNREADABLE = [
    ("nothing at all", "", (None, None, "the file is empty")),
    ("only a comment", "# hm\n", (None, None, "the file is empty")),
    (
        "one megabyte",
        "a: " + "x" * 1_000_000,
        (None, None, f"the file is too large (1,000,003 bytes, maximum {LARGEST_TEXT:,})"),
    ),
    ("a bomb", BILLION, (5, 36, "the file has more than 100,000 values once aliases are expanded. Use fewer aliases.")),
    ("too deep", "[" * 5000, (1, DEEPEST + 1, "nested more than 100 levels deep")),
    ("too deep in blocks", "- " * 5000, (1, 2 * DEEPEST + 1, "nested more than 100 levels deep")),
    ("an alias of nothing", "a: *x", (1, 4, "the alias *x has no anchor before it")),
    ("an alias of itself", "a: &x [*x]", (1, 8, "the alias *x is inside its own anchor")),
    (
        "NUL",
        "a: b\n\0",
        (2, 1, "the file has the character U+0000, which is not allowed in YAML. Check that it is a text file."),
    ),
    (
        "half a pair",
        "a: \ud800",
        (1, 4, "the file has the character U+D800, which is not allowed in YAML. Check that it is a text file."),
    ),
    ("a tab", "a:\n\tb: 1", (2, 1, "a tab: YAML is indented with spaces")),
    ("a colon", "a: b: c", (1, 5, "not valid YAML: a second ': ' in one line. Put the text in quotes.")),
    ("an open list", "a: [1,", (2, 1, "not valid YAML: did not find expected node content while parsing a flow node")),
    (
        "two documents",
        "a: 1\n---\nb: 2\n",
        (2, 1, "a second document starts here, but the file is a single document without '---'"),
    ),
]


@pytest.mark.parametrize(("text", "wrong"), [case[1:] for case in UNREADABLE], ids=[case[0] for case in UNREADABLE])
def test_unreadable_text_is_refused_immediately(text: str, wrong: tuple[Any, ...]) -> None:
    started = time.process_time()
    assert problems(read_yaml, text) == [wrong]
    assert time.process_time() - started < 2


REPORTED = [
    ("a key twice", "a: 1\nb: 2\na: 3\n", (3, 1, "the key 'a' is defined twice; first on line 1")),
    ("a number as key", "1: x", (1, 1, "the key '1' is not text. Put it in quotes.")),
    ("a list as key", "? [1]\n: 2", (1, 3, "only text can be a key")),
    ("an unknown tag", "a: !python/name x", (1, 4, "the tag '!python/name' is not supported. Omit it.")),
    ("NUL by escape", 'a: "x\\0"', (1, 4, "the text contains a NUL character, which programs cannot accept")),
    ("a merge of a word", "a: {<<: b}", (1, 9, "'<<' takes a mapping, or a list of mappings")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wrong"), [case[1:] for case in REPORTED], ids=[case[0] for case in REPORTED])
def test_local_problems_are_reported_with_all_others(text: str, wrong: tuple[Any, ...]) -> None:
    assert [(found.line, found.column, found.message) for found in read_yaml(text).problems] == [wrong]


def test_bytes_that_are_not_text_are_refused() -> None:
    assert decoded("größe: 1".encode()) == "größe: 1"
    with pytest.raises(InvalidInput, match="byte 0x89 is not UTF-8"):
        decoded(b"a: 1\n\x89PNG")


def test_json_becomes_a_tree_without_positions() -> None:
    value = {"a": [1, None, True, "x", 1.5], "b": {}}
    assert plain(node_of(value)) == value
