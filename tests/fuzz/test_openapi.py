"""Whatever is sent, the answer is one that the document describes, and never a mistake of the server."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attack.target import Target, up
from tests.fuzz.hammer import hammer, operations, requests_of

EXAMPLES = 8
SOAK_S = 600.0
OPERATIONS = operations()


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with up(tmp_path_factory.mktemp("fuzzed")) as it:
        yield it


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_response_matches_the_document(target: Target, name: str) -> None:
    hammer(target, OPERATIONS[name], examples=EXAMPLES)
    assert list(requests_of(target)) == []
    assert target.process.poll() is None


@pytest.mark.soak
def test_every_response_of_ten_minutes_matches_the_document(tmp_path: Path) -> None:
    end, start = time.monotonic() + SOAK_S, 0
    with up(tmp_path) as target:
        while time.monotonic() < end:
            start += 1
            for operation in OPERATIONS.values():
                if time.monotonic() < end:
                    hammer(target, operation, examples=50, start=start)
        assert start > 1, "there was no time to ask everything once"
        assert list(requests_of(target)) == []
        assert target.process.poll() is None
