"""Law W2, the whole of it, with a real server and real processes: ``kill -9`` at random moments, and nothing is lost or doubled."""

from pathlib import Path

import pytest

from tests.worlds.lawful import judge
from tests.worlds.sums import check_sums_in

from .campaign import Campaign


def _survives(folder: Path, *, kills: int, seed: int) -> None:
    campaign = Campaign(folder, seed)
    try:
        with campaign.up() as client:
            campaign.submit_until_killed(client)
        while campaign.kills < kills:
            if campaign.wants_to_die_young():
                campaign.die_young()
                continue
            with campaign.up() as client:
                campaign.check(client)
                campaign.submit_until_killed(client)
        with campaign.up() as client:
            campaign.check(client)
            campaign.drain(client)
        campaign.server.terminate()
        assert campaign.server.processes() == []
        judge(campaign.server.data / "runrig.db")
        check_sums_in(campaign.server.data / "runrig.db")
        assert "round_failed" not in campaign.server.log()
    finally:
        campaign.server.kill()


def test_server_killed_five_times_loses_nothing_and_runs_nothing_twice(tmp_path: Path) -> None:
    """W2."""
    _survives(tmp_path, kills=5, seed=1)


@pytest.mark.soak
def test_server_killed_fifty_times_loses_nothing_and_runs_nothing_twice(tmp_path: Path) -> None:
    """W2."""
    _survives(tmp_path, kills=50, seed=2)
