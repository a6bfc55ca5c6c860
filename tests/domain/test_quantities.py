"""Amounts in the form that people read."""

import pytest

from runrig.domain.quantities import (
    CPU,
    GPU,
    MEMORY,
    amount_in_a_sentence,
    amount_in_words,
    format_quantity,
    rounded_quantity,
)


def test_amounts_in_sentences_have_thousands_separators() -> None:
    """Output for programs does not."""
    assert amount_in_a_sentence(GPU, 1280) == "1,280"
    assert amount_in_words(GPU, -12_800) == "-12,800 GPUs"
    assert amount_in_a_sentence(CPU, 1_280_500) == "1,280.5"
    assert amount_in_words(MEMORY, 64 << 30) == "64Gi memory"
    assert format_quantity(GPU, 1280) == "1280"


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (0, "0"),
        (1023, "1023"),
        (1024, "1Ki"),
        (131981020 * 1024, "125.9Gi"),
        (512 * 1024**3, "512Gi"),
        (3 * 1024**4 // 2, "1.5Ti"),
    ],
)
def test_bytes_in_tables_have_one_decimal(amount: int, shown: str) -> None:
    assert rounded_quantity(MEMORY, amount) == shown
