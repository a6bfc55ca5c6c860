"""The benchmark of a busy cluster asks all its questions, and the server answers each."""

import pytest
from bench.questions import World

from bench import busy

pytestmark = pytest.mark.slow


def test_every_query_works_on_a_small_busy_cluster() -> None:
    found = busy.rows(1, World(nodes=9, pools=9, running=72, waiting=20), settles_s=0.0)
    assert [(row["what"], row["before"]) for row in found] == list(busy.BEFORE.items())
    assert all(isinstance(row["here"], float) and row["here"] > 0 for row in found)
