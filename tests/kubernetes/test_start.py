"""The commands of docs/kubernetes-start.md, as they stand there: from a cluster without KAI Scheduler to a gang that runs.

Two things are not here: a registry (`docker`, and `helm` with an address of one, only note what they are asked for), and KAI's
operator, whose part this test takes. The port of the server is another one than 8700.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which

import httpx2
import pytest

from e2e import programs
from e2e.api import Object, Refusal
from e2e.objects import namespace_object
from tests.kubernetes.kubelet import PROGRAMS, Kubelet, kubelet
from tests.kubernetes.test_chart import gone
from tests.kubernetes.test_doctor import kai
from tests.kubernetes.world import OURS, World

ROOT = Path(__file__).parents[2]
SLOW_S = 120
PAGE = ROOT / "docs" / "kubernetes-start.md"
WAITS = "kubectl rollout status deployment/runrig --namespace runrig"
SHARD = {"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard", "metadata": {"name": "default"}}
NODES = 'nodes: [{name: "n{0..1}", resources: {gpu: 1}}]\n'
POSTS = """#!/bin/sh
case "$*" in
build*|push*|*oci://*) echo "$@" >> "$NOTES" ;;
*) exec "$HELM" "$@" ;;
esac
"""


class Reader:
    """Somebody who types the commands. *notes*: what was asked of a registry."""

    def __init__(self, world: World, folder: Path, port: int) -> None:
        self._port = port
        self.notes = folder / "notes"
        programs_of_reader = folder / "bin"
        programs_of_reader.mkdir()
        for name in ("docker", "helm"):
            (programs_of_reader / name).write_text(POSTS)
            (programs_of_reader / name).chmod(0o755)
        kubectl = which("kubectl")
        assert kubectl is not None
        path = os.pathsep.join(map(str, (programs_of_reader, PROGRAMS, Path(kubectl).parent, os.defpath)))
        self._environment = {
            "PATH": path,
            "HOME": str(folder),
            "KUBECONFIG": str(world.plane.kubeconfig),
            "NOTES": str(self.notes),
            "HELM": str(programs.need("helm")),
        }

    def types(self, command: str, stdin: str = "") -> str:
        """What it prints; it succeeds."""
        done = subprocess.run(
            self._line(command),
            input=stdin,
            env=self._environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=SLOW_S,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    @contextmanager
    def leaves_running(self, command: str) -> Iterator["subprocess.Popen[str]"]:
        """Until the end of the block."""
        pipe = subprocess.PIPE
        with subprocess.Popen(
            self._line(command), env=self._environment, cwd=ROOT, stdout=pipe, stderr=subprocess.STDOUT, text=True
        ) as running:
            try:
                yield running
            finally:
                running.terminate()

    def _line(self, command: str) -> list[str]:
        return ["bash", "-c", "exec " + re.sub(r"8700(?=:8700)|(?<=localhost:)8700", str(self._port), command)]


def typed() -> list[str]:
    """The commands of the page."""
    found = re.search(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1].splitlines()


def operated(world: World) -> None:
    """What KAI's operator does with its shard: it runs the scheduler with the flags that it has there."""
    shard = world.api.read(SHARD)
    assert shard is not None
    kai(world, "v0.17.0", *(f"--{name}={value}" for name, value in sorted(shard["spec"]["args"].items())))


def the_pods(world: World) -> list[Object]:
    return world.api.listed("v1", "Pod", world.namespace, labelSelector=OURS)


def end(world: World, pod: Object) -> None:
    """Its kubelet says that it has ended well, unless runrig has stopped and removed it because the other one has ended."""
    state = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    main = {"name": "main", "image": "none", "imageID": "", "ready": False, "restartCount": 0, "state": state}
    ended = {"phase": "Succeeded", "containerStatuses": [main]}
    try:
        world.api.set_status({"apiVersion": "v1", "kind": "Pod", **pod}, ended)
    except Refusal as refusal:
        if refusal.status != 404:
            raise


@pytest.fixture
def start(world: World) -> Iterator[World]:
    """The namespace of the page, which is not there yet, or no longer."""
    here = World(world.plane, "runrig")
    world.plane.until(lambda: world.api.read(namespace_object("runrig")) is None, "it is gone", timeout_s=SLOW_S)
    yield here
    here.clear()


def first_admin(world: World, here: Kubelet) -> None:
    """The log of the init container."""
    lines = "".join(f"2026-01-01T00:00:00.000000000Z stdout F {line}\n" for line in here.said.splitlines())
    world.plane.pod_log.write_text(lines)


@pytest.mark.skipif(which("kubectl") is None, reason="kubectl is not installed")
def test_the_ten_commands_end_with_a_gang_that_runs_and_uninstall_leaves_what_the_page_says(
    world: World, start: World, tmp_path: Path
) -> None:
    (tmp_path / "cluster.yaml").write_text(NODES)
    world.nodes(tmp_path / "cluster.yaml")
    reader = Reader(world, tmp_path, world.plane.server_port)
    build, push, install_kai, set_flags, install, doctor, logs, forward, login, run = typed()
    for command in (build, push, install_kai):
        reader.types(command)
    world.api.apply(SHARD | {"spec": {"args": {}}})
    reader.types(set_flags)
    operated(world)
    reader.types(install)
    with kubelet(start, tmp_path, "runrig", port=world.plane.server_port) as here:
        world.plane.until(here.look, "the server runs", timeout_s=SLOW_S)
        world.plane.until(lambda: here.servers[0].ready, "it is ready", timeout_s=SLOW_S)
        here.account_of_pods(world.plane.pod_kubeconfig)
        assert f"`{WAITS}`" in PAGE.read_text()
        assert "successfully rolled out" in reader.types(WAITS)
        assert "problem" not in reader.types(doctor)
        first_admin(world, here)
        token = reader.types(logs).strip()
        assert token == here.said.strip()
        world.plane.pod_log.write_text("")
        scraped = httpx2.get(
            f"{here.servers[0].url}/metrics", headers={"Host": "10.0.0.7:8700", "Authorization": f"Bearer {token}"}
        )
        assert "\nrunrig_ready 1" in scraped.text, "Prometheus requests it by the address of the pod"
        with reader.leaves_running(forward) as forwarding:
            assert forwarding.stdout is not None
            assert "Forwarding from" in forwarding.stdout.readline()
            reader.types(login, token)
            with reader.leaves_running(run) as running:
                world.plane.until(lambda: phases(start) == ["Running"] * 2, "the gang runs", timeout_s=SLOW_S)
                for pod in the_pods(start):
                    end(start, pod)
                said, _ = running.communicate(timeout=SLOW_S)
                assert running.returncode == 0, said
        reader.types("helm uninstall runrig --namespace runrig")
        world.plane.until(lambda: not here.look(), "the server is gone", timeout_s=SLOW_S)
    expected = [build.removeprefix("docker "), push.removeprefix("docker "), install_kai.removeprefix("helm ")]
    assert reader.notes.read_text().splitlines() == expected
    for version, kind in (("apps/v1", "Deployment"), ("v1", "ConfigMap"), ("v1", "Service"), ("v1", "ServiceAccount")):
        assert gone(start, version, kind, "runrig"), kind
    assert not gone(start, "v1", "PersistentVolumeClaim", "runrig")
    assert not gone(start, "v1", "ConfigMap", "runrig-claim")
    kinds = (("scheduling.run.ai/v2", "Queue"), ("scheduling.k8s.io/v1", "PriorityClass"))
    assert all(world.api.listed(version, kind, labelSelector=OURS) for version, kind in kinds)


def phases(world: World) -> list[str]:
    return [each["status"]["phase"] for each in the_pods(world)]
