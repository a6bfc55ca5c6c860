"""Wrong decisions that are seeded into the logs of recorded histories."""

import random

import pytest

from runrig.verify.court import Commit
from tests.verify.logs import is_lawful, recorded
from tests.verify.mutants import WAYS

SEVERAL, THOUSAND = 2, 1_000


@pytest.fixture(scope="module")
def logs() -> list[list[Commit]]:
    return [commits for _, commits in recorded()]


def survivors(logs: list[list[Commit]], way: str, wanted: int, seed: int = 0) -> tuple[int, list[str]]:
    """How many mutants were made, and those without a report."""
    chance, made, missed = random.Random(f"{way} {seed}"), 0, []
    for at in chance.choices(range(len(logs)), k=100 * wanted):
        mutant = WAYS[way](chance, logs[at])
        if mutant is not None:
            made += 1
            missed += [f"log {at}"] if is_lawful(mutant) else []
        if made == wanted:
            break
    return made, missed


@pytest.mark.parametrize("way", WAYS)
def test_an_unlawful_decision_is_reported(way: str, logs: list[list[Commit]]) -> None:
    assert survivors(logs, way, SEVERAL) == (SEVERAL, [])


@pytest.mark.slow
def test_each_of_a_thousand_unlawful_decisions_is_reported(logs: list[list[Commit]]) -> None:
    each = -(-THOUSAND // len(WAYS))
    tried = {way: survivors(logs, way, each, seed=1) for way in WAYS}
    assert tried == dict.fromkeys(WAYS, (each, []))


def test_there_are_forty_kinds_of_unlawful_decisions() -> None:
    assert len(WAYS) >= 40
