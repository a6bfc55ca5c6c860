"""The event log is the truth: applied again from nothing, it gives the state that the tables hold."""

from pathlib import Path

from runrig.domain.gangs import Priority
from tests.end_to_end.server import server
from tests.replaying import replayed
from tests.worlds.service import do

TWO_POOLS = "pools: [{name: pool1, quota: 2}, {name: pool2, quota: 2, subpools: [{name: a, quota: 1}]}]"


def test_the_log_gives_the_current_state_at_every_stage(tmp_path: Path) -> None:
    with server(tmp_path / "data", "simulated", gpus=4, cluster=TWO_POOLS) as here:
        low = [here.submit(f"low{number}", "pool1", Priority.LOW) for number in range(4)]
        for workflow in low:
            here.wait_for(workflow, "RUNNING")
        assert replayed(here.store).rows() == here.store.load()
        firm = here.submit("firm", "pool2--a", Priority.HIGH)
        here.service.settle()
        assert replayed(here.store).rows() == here.store.load()  # one gang is nominated, one is stopping
        here.wait_for(firm, "RUNNING")
        do(here.service, here.service.submissions.cancelling(low[0], user="tester"))
        here.finish(firm)
        here.service.settle()
        assert replayed(here.store).rows() == here.store.load()
        assert here.status(low[0]) == "FAILED_CANCELED"
