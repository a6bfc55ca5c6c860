"""Two servers on one PostgreSQL and one cluster: the old leader sleeps in the middle of its work, another takes over, the old one wakes."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
import yaml

from e2e.api import Object
from tests.failover.servers import Server
from tests.kubernetes.comparing import agree, its_log
from tests.kubernetes.faults import CLUSTER, Load, end, gang, pods_come, submit, witness
from tests.kubernetes.runrigs import Rig, rig
from tests.kubernetes.wire import gate
from tests.kubernetes.world import OURS, World
from tests.stores import store_url

EPOCH = "runrig/epoch"
ON_THE_WIRE = 8
"""Calls that a server makes at once."""
_PARTS = (("scheduling.run.ai/v2alpha2", "PodGroup"), ("v1", "Service"), ("v1", "Secret"))


class Two:
    """*here* asks whom it is told to; at first the leader."""

    def __init__(self, here: Rig) -> None:
        self.here = here
        assert here.server is not None
        self.old = here.server
        file = here.folder / "serve2.yaml"
        file.write_text(yaml.safe_dump(yaml.safe_load(here.file.read_text()) | {"log_file": "serve2.log"}))
        file.chmod(0o600)
        self.new = Server(["serve", "--config", str(file)], here.folder / "serve2.log")
        self.new.wait_until_up()

    def take_over(self) -> None:
        """The other one leads from now on, and is asked."""
        here = self.here
        here.until(lambda: self.new.ready, "the other server leads", timeout_s=20)
        assert here._http is not None
        here._http.close()
        here._http = httpx2.Client(base_url=self.new.url, headers={"Authorization": f"Bearer {here.token}"}, timeout=60)
        here.server, here.log = self.new, here.folder / "serve2.log"

    def wake_the_old_one(self) -> None:
        """Returns when it knows."""
        self.old.send(signal.SIGCONT)
        self.here.until(
            lambda: "another server is the leader" in str(self.old.says("/readyz")[1]), "it knows", timeout_s=60
        )

    def close(self) -> None:
        for each in (self.old, self.new):
            each.send(signal.SIGCONT)
            each.end()


@contextmanager
def two(world: World, folder: Path) -> Iterator[Two]:
    with store_url("postgresql", folder) as url, rig(world, folder, CLUSTER, more=f"database: {str(url)!r}\n") as here:
        found = Two(here)
        try:
            yield found
        finally:
            found.close()


def uids(here: Rig) -> dict[tuple[str, str], str]:
    """Returns the uids of all that belongs to gangs, pods included."""
    parts: dict[tuple[str, str], str] = {}
    for version, kind in (*_PARTS, ("v1", "Pod")):
        for each in here.world.api.listed(version, kind, here.world.namespace, labelSelector=OURS):
            parts[kind, each["metadata"]["name"]] = each["metadata"]["uid"]
    return parts


def epochs(pods: dict[str, Object]) -> set[str]:
    return {pod["metadata"]["labels"][EPOCH] for pod in pods.values()}


def test_old_leader_does_not_touch_objects_of_the_new_one(world: World, tmp_path: Path) -> None:
    with two(world, tmp_path) as both, witness(both.here) as seen:
        here = both.here
        before = submit(here, gang("before", 3))
        here.runs(before)
        both.old.stop()
        both.take_over()
        after = submit(here, gang("after", 6))
        here.runs(after)
        agree(here)
        (older,), (newer,) = epochs(here.pods(before)), epochs(here.pods(after))
        assert int(older) < int(newer)
        there = uids(here)
        both.wake_the_old_one()
        agree(here)
        assert uids(here) == there
        assert "event=drift" not in its_log(here)
        seen.check_nothing_was_made_twice()
        Load(here, 0).finish()
        agree(here)


@pytest.mark.parametrize("ended", [False, True])
def test_leader_sleeps_while_creating_a_gang(world: World, tmp_path: Path, ended: bool) -> None:
    """*ended*: the gang is over when it wakes.  What was on the wire then is made again; no more than that, and it goes again."""
    with two(world, tmp_path) as both, witness(both.here) as seen:
        here = both.here
        with gate(world, 4):
            since = here.now()
            id = submit(here, gang("big", 32))
            pods_come(here, since, 4)
            both.old.stop()
            assert len(here.pods()) < 32, "it came too late to be in the middle"
        both.take_over()
        assert len(here.runs(id)) == 32
        after = submit(here, gang("after", 6))
        here.runs(after)
        if ended:
            end(here, here.pods(id)[f"{id}/main-0/0"])
            here.wait(id, "COMPLETED")
        agree(here)
        there = uids(here)
        both.wake_the_old_one()
        agree(here)
        assert uids(here) == there
        assert len(seen.made_twice()) <= (ON_THE_WIRE if ended else 0)
        Load(here, 0).finish()
        agree(here)


def test_leader_sleeps_while_stopping_a_gang(world: World, tmp_path: Path) -> None:
    with two(world, tmp_path) as both, witness(both.here) as seen:
        here = both.here
        id = submit(here, gang("big", 32))
        here.runs(id)
        here.post(f"/api/workflow/{id}/cancel")
        here.until(lambda: len(here.pods()) < 32, "the first pods are gone")
        both.old.stop()
        both.take_over()
        here.wait(id, "FAILED_CANCELED")
        after = submit(here, gang("after", 32))
        here.runs(after)
        agree(here)
        there = uids(here)
        both.wake_the_old_one()
        agree(here)
        assert uids(here) == there
        seen.check_nothing_was_made_twice()
