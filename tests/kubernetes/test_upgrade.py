"""The servers of the chart, leader and standby on PostgreSQL, are replaced under load by those of a later release with other
tables, and nothing is lost."""

import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import httpx2
from sqlalchemy import create_engine

from tests.failover.load import load
from tests.failover.servers import Server
from tests.failover.test_failover import some_more
from tests.kubernetes.faults import gang
from tests.kubernetes.kubelet import Kubelet, kubelet
from tests.kubernetes.next_release import NEXT, take_back, write_next_release
from tests.kubernetes.test_chart import CHART, helm, sets
from tests.kubernetes.world import OURS, World
from tests.patience import PATIENCE_S
from tests.stores import store_url

CLUSTER = "nodes: [{name: n0, resources: {gpu: 8}}]\n"
SLOW_S = 120
"""Servers start one after the other, each twice: as its init container, and as itself."""
VALUES = {"database.secretName": "database", "cluster": {"pools": [{"name": "team", "quota": 8}]}}


def test_an_upgrade_of_leader_and_standby_that_changes_the_tables_under_load_loses_nothing(
    world: World, tmp_path: Path
) -> None:
    """W2."""
    write_next_release(tmp_path / "next")
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    world.nodes(tmp_path / "cluster.yaml")
    with store_url("postgresql", tmp_path, tables=False) as url, kubelet(world, tmp_path, world.namespace, url) as here:
        metadata = {"name": "database", "namespace": world.namespace}
        world.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"url": url}})
        release(world, "install", VALUES)
        world.plane.until(lambda: len(here.look()) == 2, "two servers run", timeout_s=SLOW_S)
        here.images["next"] = tmp_path / "next"
        first, old = here.names, [*here.servers]
        token = here.said.strip()
        before = gang_of_two(here, token)
        with load(here, token) as running:
            some_more(running)
            release(world, "upgrade", VALUES | {"image.tag": "next"})
            world.plane.until(
                lambda: len(names := here.look()) == 2 and not names & first, "both are replaced", timeout_s=SLOW_S
            )
            some_more(running)
            assert before.items() <= uids(world).items(), "what ran before still runs"
            check_migrated_first(url, old, here.servers)
        running.check(others=1)
        release(world, "uninstall")
        world.plane.until(lambda: not here.look(), "the servers are gone", timeout_s=SLOW_S)
        assert before.items() <= uids(world).items()
        take_back(url)
        here.check_log()


def release(world: World, verb: str, values: dict[str, Any] | None = None) -> None:
    chart: tuple[str | Path, ...] = () if values is None else (CHART, "--set-json", *sets(values))
    where = ("--kubeconfig", world.plane.kubeconfig, "--namespace", world.namespace)
    helm(verb, world.namespace, *chart, *where)


def check_migrated_first(url: str, old: Collection[Server], new: Collection[Server]) -> None:
    """The tables of the old servers stayed as they were until the new leader had changed them, which then stored its first revision."""
    engine = create_engine(url)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one() == NEXT
        ((epoch, revision),) = connection.exec_driver_sql("SELECT epoch, revision FROM migrated").all()
        leads = connection.exec_driver_sql("SELECT epoch FROM meta").scalar_one()
    engine.dispose()
    assert epoch <= leads
    assert max(stored_by(old)) <= revision < min(stored_by(new))


def stored_by(servers: Collection[Server]) -> set[int]:
    """The revisions that they wrote to their logs."""
    return {int(found) for each in servers for found in re.findall(r"event=committed revision=(\d+)", each.errors())}


def gang_of_two(here: Kubelet, token: str) -> dict[str, str]:
    """A gang that runs; its pods."""
    answer = httpx2.post(
        f"{here.leader().url}/api/pool/team/workflow",
        json={"file": json.dumps(gang("first", 2))},
        headers={"Authorization": f"Bearer {token}"},
        timeout=PATIENCE_S,
    )
    assert answer.status_code == 200, answer.text
    prefix = f"{answer.json()['name']}/"

    def found() -> dict[str, str] | None:
        mine = {key: uid for key, uid in uids(here.world).items() if key.startswith(prefix)}
        return mine if len(mine) == 2 else None

    return here.world.plane.until(found, "the gang runs", timeout_s=SLOW_S)


def uids(world: World) -> dict[str, str]:
    """Key → uid of the pods that run."""
    found = world.api.listed("v1", "Pod", world.namespace, labelSelector=OURS)
    running = [each["metadata"] for each in found if each["status"]["phase"] == "Running"]
    return {each["annotations"]["runrig/key"]: each["uid"] for each in running}
