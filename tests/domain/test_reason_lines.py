"""The lines below a reason, singular and plural."""

import pytest

from runrig.domain.reason_lines import domain_line, part_line
from runrig.domain.reasons import Part


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (domain_line(("r0",), 0, 1, {"gpu": 1}, 0, {}), "r0: its pod does not fit, 1 GPU short"),
        (
            domain_line(("s0", "r0"), 1, 2, {"gpu": 8, "memory": 2**30}, 1, {"gpu": 1}),
            "s0/r0: 1 of 2 pods fits, 8 GPUs and 1Gi memory short, 1 node unavailable, 1 GPU reserved for other gangs",
        ),
        (
            domain_line(("r0",), 3, 4, {}, 2, {"gpu": 4}),
            "r0: 3 of 4 pods fit, enough in total, but spread over too many nodes, 2 nodes unavailable, "
            "4 GPUs reserved for other gangs",
        ),
        (part_line(Part.HOLDS, [("a", 1), ("b", 2)], "gpu"), "in use by a (1 GPU), b (2 GPUs)"),
        (part_line(Part.LENDING_LIMIT, [("a", 1)], "gpu"), "withheld by lending limits: a (1 GPU)"),
        (part_line(Part.DELETING, [("a--old", 4)], "gpu"), "returned when deleted subpools finish: a--old (4 GPUs)"),
        (part_line(Part.PROTECTED, [(None, 8)], "gpu"), "not preemptible, within its own quota: other pools (8 GPUs)"),
    ],
)
def test_lines_contain_their_numbers(line: str, words: str) -> None:
    assert line == words
