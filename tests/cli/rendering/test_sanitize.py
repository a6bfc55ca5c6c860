"""Nothing that a server or a file says can move the cursor, colour a line or hide text."""

import json

import pytest

from runrig.cli.rendering import sanitize
from tests.cli.canned_server import answered, entry, page, refused


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;never ended", "0;never ended"),
        ("a\x9b2Jb", "ab"),
        ("a\x1b(0b\x1bc", "ab"),
        ("bell\x07 back\x08 null\x00 del\x7f", "bell back null del"),
        ("abc\u202edcba\u2066x\u200f", "abcdcbax"),
        ("50%\r100%\r\ndone", "50%\n100%\ndone"),
        ("half \ud83d", "half "),
        ("tab\tand\nline é 模型 👍", "tab\tand\nline é 模型 👍"),
    ],
)
def test_text_block_keeps_only_newlines_and_tabs(said: str, shown: str) -> None:
    assert sanitize.block(said) == shown


def test_a_cell_is_one_line() -> None:
    assert sanitize.line("a\nb\tc\r\nd") == "a b c d"
    assert sanitize.line(None) == "-"


def test_json_escapes_control_characters() -> None:
    value = {"name": "\x1b[31m\x9b\u202e\x7f é"}
    text = sanitize.as_json(value)
    assert json.loads(text) == value
    assert text.replace("\n", "").isascii()
    assert text.replace("\n", "").isprintable()


def test_names_from_a_server_have_no_control_characters_in_tables() -> None:
    answer = page(entry("tra\x1b[2Jin-1", submitted_by="a\nb"))
    done = answered({"GET /api/v1/workflows": answer}, "workflow", "list")
    assert "train-1" in done.out
    assert "a b" in done.out
    assert "\x1b" not in done.out


def test_messages_from_a_server_have_no_control_characters() -> None:
    done = answered(
        {"GET /api/v1/workflows/x/why": (404, refused("no \x1b]0;x\x07workflow", "NOTFOUND"))}, "workflow", "why", "x"
    )
    assert (done.code, done.err) == (2, "Error: no workflow\n")
