"""Masking of secrets in text."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runrig.domain import secrets
from runrig.domain.secrets import MASK, SHORTEST, masked

PEM = "-----BEGIN KEY-----\nMIIEowIBAAKC\nab\n-----END KEY-----\n"


@pytest.mark.parametrize(
    ("parts", "handed", "shown"),
    [
        (["KeyError: 'hunter22'\n"], ["hunter22"], ["KeyError: '***'\n"]),
        (["nothing of it\n", ""], ["hunter22"], ["nothing of it\n", ""]),
        (["nothing was handed\n"], [], ["nothing was handed\n"]),
        (["a=hunter22 b=swordfish\n", "hunter22hunter22\n"], ["swordfish", "hunter22"], ["a=*** b=***\n", "***\n"]),
        (["hunter22-and-more hunter22\n"], ["hunter22", "hunter22-and-more"], ["*** ***\n"]),
        (["hunter22-and-more\n"], ["22-and", "hunter22-and-more"], ["***\n"]),
        (["hunter22tail\n"], ["hunter22", "22tail"], ["***\n"]),
        (["say bad\n", "wolf\n", "wolf\n"], ["bad\nwolf"], ["say ***\n", "***\n", "***\n"]),
        (["x bad\n", "wolf5 y\n"], ["bad\r\nwolf5\r\n"], ["x ***\n", "*** y\n"]),
        (["[rank1]: a: bad\n", "[rank1]: wolf5\n"], ["bad\nwolf5"], ["[rank1]: a: bad\n", "[rank1]: ***\n"]),
        (["a very long line hunt", "er22 goes on\n"], ["hunter22"], ["a very long line ***", "*** goes on\n"]),
        (["the end: hunter22"], ["hunter22\n"], ["the end: ***"]),
        ([each + "\n" for each in PEM.splitlines()], [PEM], ["***\n"] * 4),
        (["MIIEowIBAAKC\n", "ab\n"], [PEM], ["***\n", "ab\n"]),
        ([f"ValueError: {PEM!r}\n"], [PEM], ["ValueError: '***\\n'\n"]),
        ([json.dumps({"k": 'say "Grüße"'}) + "\n"], ['say "Grüße"'], ['{"k": "***"}\n']),
        ([json.dumps('a\\b\t"ü"', ensure_ascii=False) + "\n"], ['a\\b\t"ü"'], ['"***"\n']),
        (["https://me:p%40ss%2Fword@host/x\n"], ["p@ss/word"], ["https://me:***@host/x\n"]),
        (["a cab in abc, 7\n"], ["abc", "7", "in", ""], ["a cab in abc, 7\n"]),
        (["abcd abc\n"], ["abcd"], ["*** abc\n"]),
        (["a.c+d axccd\n"], ["a.c+d"], ["*** axccd\n"]),
    ],
)
def test_secrets_are_masked_everywhere(parts: list[str], handed: list[str], shown: list[str]) -> None:
    assert masked(parts, handed) == shown


@given(st.text("ab\n", max_size=60), st.lists(st.text("ab\n", max_size=8), max_size=4), st.lists(st.integers(0, 60)))
def test_secrets_and_their_lines_are_masked_and_nothing_else(text: str, handed: list[str], cuts: list[int]) -> None:
    """Whether lines are complete or cut."""
    ends = [at + 1 for at, letter in enumerate(text) if letter == "\n"]
    bounds = sorted({0, len(text), *ends, *(at for at in cuts if at < len(text))})
    parts = [text[begin:end] for begin, end in pairwise(bounds)]
    shown = masked(parts, handed)
    whole = "".join(shown)
    assert len(shown) == len(parts)
    assert whole.count("\n") == text.count("\n")
    sought = [piece.strip() for secret in handed for piece in (secret, *secret.split("\n"))]
    sought = [piece for piece in sought if len(piece) >= SHORTEST]
    assert [piece for piece in sought if piece in whole] == []
    assert (whole == text) is not any(piece in text for piece in sought)
    kept = iter(text)
    assert all(letter in kept for letter in whole.replace(MASK, "")), "what is shown was written, in that order"


def test_text_that_is_too_long_to_search_is_masked_completely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "MOST_WORK", 20)
    assert masked(["some lines\n", "of output\n"], ["hunter22"]) == ["***\n", "***\n"]
    assert masked(["some lines\n", "of output\n"], []) == ["some lines\n", "of output\n"]
