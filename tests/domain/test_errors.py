"""Messages quote what is wrong, however long it is, and stay short."""

from collections.abc import Callable

import pytest

from runrig.domain.errors import InvalidInput, NotFound, Problem, RunrigError, shortened

LONG = "x" * 5_000


@pytest.mark.parametrize("message", ["pool 'p' not found", f"folder {'/y' * 250} cannot be read", "a b " * 400])
def test_usual_messages_stay_as_they_are(message: str) -> None:
    assert (shortened(message), Problem(message).message, str(NotFound(message))) == (message,) * 3


@pytest.mark.parametrize("error", [NotFound, InvalidInput.one])
def test_long_values_lose_their_middle(error: Callable[[str], RunrigError]) -> None:
    found = error(f"unknown pool '{LONG}'. List pools with `runrig pool list`")
    assert found.message == f"unknown pool '{'x' * 247}...{'x' * 246}'. List pools with `runrig pool list`"
    assert str(found) == found.message


def test_problem_with_many_words_keeps_its_beginning_and_its_end() -> None:
    found = Problem(f"name: '{'a b ' * 5_000}' must be one word").message
    assert len(found) < 2_000
    assert found.startswith("name: 'a b a b")
    assert found.endswith("a b ' must be one word")
