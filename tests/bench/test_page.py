"""The benchmark of the page has a server of its own with tabs that are open, and each goal has its verdict."""

import pytest
from bench.section import MET, MISSED

from bench import page

pytestmark = pytest.mark.slow


def test_tabs_of_a_small_cluster_use_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "TURNS", 1)
    found = {str(row["what"]): row for row in page._tabs(200, 3, 1.0, most=3, each=10)}
    assert list(found) == [
        "no tab: 5 workflows a second",
        "3 streams",
        "3 tabs of /",
        "3 tabs of /: seconds between two refreshes of one",
        "1 tab of /",
        "1 tab of /: seconds between two refreshes of one",
        "no tab, at the end",
        "a submission without tabs: ms of the server's processor",
        "a submission with 3 tabs of /: the same",
    ]
    judged = [row["is"] in (*MET, *MISSED) for row in found.values()]
    assert judged == [False, True, True, False, True, False, False, False, True]
