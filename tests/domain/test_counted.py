"""Sentences with a number, in singular and plural."""

from collections.abc import Callable

import pytest

from runrig.domain.budgets import reached_in_words
from runrig.domain.errors import InvalidInput, Problem
from runrig.domain.limits import Limits
from runrig.domain.quantities import CPU, GPU, amount_in_words, amount_of_flavor, counted
from runrig.domain.reasons import Code, Reason
from runrig.spec.fields import raise_if_any
from runrig.verify.verify import Numbers


def _more_problems(number: int) -> str:
    with pytest.raises(InvalidInput) as caught:
        raise_if_any([Problem("unknown field")] * (number + 1), 1)
    return caught.value.problems[-1].message


FAMILIES: dict[str, tuple[Callable[[int], str], str, str]] = {
    "a noun": (lambda n: counted(n, "workflow"), "1 workflow", "1,200 workflows"),
    "an irregular plural": (lambda n: counted(n, "retry", "retries"), "1 retry", "1,200 retries"),
    "a noun with its verb": (lambda n: counted(n, "node is", "nodes are"), "1 node is", "1,200 nodes are"),
    "GPUs": (lambda n: amount_in_words(GPU, n), "1 GPU", "1,200 GPUs"),
    "GPUs of a flavor": (lambda n: amount_of_flavor("h100/gpu", n, named=True), "1 h100 GPU", "1,200 h100 GPUs"),
    "CPU cores": (lambda n: amount_in_words(CPU, 1000 * n), "1 CPU core", "1,200 CPU cores"),
    "problems": (_more_problems, "and 1 more problem", "and 1,200 more problems"),
    "a limit of GPUs": (lambda n: str(Limits(n, user="ann")), "1 GPU at the same time", "1,200 GPUs at the same time"),
    "a limit of workflows": (
        lambda n: str(Limits(waiting=n, user="ann")),
        "1 workflow waiting",
        "1,200 workflows waiting",
    ),
    "a limit of one workflow": (
        lambda n: str(Limits(gpus_per_workflow=n, user="ann")),
        "1 GPU in one workflow",
        "1,200 GPUs in one workflow",
    ),
    "a budget": (lambda n: str(Limits(budget=n, user="ann")), "1 GPU-hour a month", "1,200 GPU-hours a month"),
    "a reached budget": (
        lambda n: reached_in_words("", "ann", n, None, low=False),
        "the budget of ann is reached: none of its 1 GPU-hour is left this month",
        "the budget of ann is reached: none of its 1,200 GPU-hours are left this month",
    ),
    "a reached limit": (
        lambda n: Reason(Code.USER_LIMIT, "W6", "vision", "gpu", have=n, own=n).headline,
        "limit of its user: 1 of 1 GPU in use in vision",
        "limit of its user: 1,200 of 1,200 GPUs in use in vision",
    ),
    "the totals of verify": (
        lambda n: Numbers(n, n, 0, 0.0, 0.0, 1).text(0),
        "1 decision of 0.0 seconds, 0 unlawful, 0 not proven; 1 rest",
        "1,200 decisions of 0.0 seconds, 0 unlawful, 0 not proven; 1,200 rests",
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_nouns_agree_with_their_numbers(family: str) -> None:
    sentence, one, several = FAMILIES[family]
    assert [sentence(1), sentence(1200)] == [one, several]
