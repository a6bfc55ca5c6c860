"""Sentences on a terminal are broken between words."""

from contextlib import redirect_stderr

import pytest

from runrig.cli.rendering.output import warn
from tests.cli.canned_server import at, refused, serving
from tests.worlds.command_line import Terminal, lines

LONG = "pool vision has " + "no room left for so much work " * 6
PROBLEMS = "  wf.yaml:3:5: " + "an unknown word that nobody knows " * 4


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("text", [LONG, PROBLEMS, f"{'x' * 300} y", f"{LONG}\n{PROBLEMS}"])
def test_warning_is_wrapped_between_words(width: int, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    screen = Terminal()
    with redirect_stderr(screen):
        warn(text)
    told = lines(screen.getvalue())
    assert " ".join(told).split() == text.split()
    assert [line for line in told if len(line) > width and " " in line.strip()] == []
    indented = [part.startswith("  ") for part in text.split("\n")]
    assert {line.startswith("  ") for line in told} == set(indented)


def test_error_is_not_wrapped_when_piped() -> None:
    with serving({"GET /api/v1/workflows/w": (400, refused(LONG.strip(), "RESOURCE"))}) as server:
        assert at(server, "workflow", "query", "w").err == f"Error: {LONG.strip()}\n"
