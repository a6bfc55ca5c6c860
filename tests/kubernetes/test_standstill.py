"""The cluster is away: users hear that nothing is decided, since when, and why; anybody hears that the server cannot work."""

from pathlib import Path

from e2e.api import until
from runrig.service.runtime.leadership import UNREACHABLE
from tests.kubernetes.faults import CLUSTER, begin_again, gang, submit
from tests.kubernetes.runrigs import Rig, rig
from tests.kubernetes.world import World

STILL = " No decisions since "


def test_why_and_readyz_report_that_the_api_server_is_unreachable(world: World, tmp_path: Path) -> None:
    body = {"message": f"this server cannot answer: {UNREACHABLE}", "error_code": "UNAVAILABLE", "details": {}}
    with rig(world, tmp_path, CLUSTER) as here:
        server = here.server
        assert server is not None
        told: list[object] = []
        begin_again(world.plane, "kube-apiserver", meanwhile=lambda: told.extend(_told(here)))
        id, since, ready = told
        assert f" UTC: the API server {world.plane.url} does not respond: " in str(since)
        assert ready == (503, body)
        here.runs(str(id))
        here.until(lambda: server.ready, "it works again")
        assert STILL not in here.why(str(id))
        assert "Traceback" not in server.log()


def _told(here: Rig) -> tuple[str, str, object]:
    """A workflow that was submitted meanwhile, what `why` says of it at last, and what /readyz says."""
    assert here.server is not None
    id, why = submit(here, gang("late", 2)), ""
    try:
        why = until(lambda: here.why(id).partition(STILL)[2], "why says that nothing is decided")
    except TimeoutError:
        why = here.why(id)
    return id, why, here.server.says("/readyz")
