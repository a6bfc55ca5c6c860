"""What followers cost: each of them is told everything, of a real server."""

import pytest
from bench.section import MET, MISSED
from bench.store import FILE

from bench import followers

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("path", [followers.EVENTS, followers.PAGES])
def test_cost_of_followers_is_shown_next_to_that_of_a_submission(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followers, "RESTS_S", 0.3)
    row = followers._row("waiting", path, FILE, runs=1, each=20, followers=5)
    assert (row["work"], row["followers"]) == ("waiting", f"5 of {path}")
    assert min(float(row["without"]), float(row["with"])) > 0
    assert row["is"] in (MET[0], MISSED[0])
