"""Runs the pods of the chart as a kubelet would: their commands, environment, files and account, as processes of this machine."""

import base64
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from e2e.api import Object, path_of
from e2e.harness import SERVER, SERVERS
from tests.failover.servers import Server, Site
from tests.kubernetes.rights import kubeconfig_of
from tests.kubernetes.world import World

PROGRAMS = Path(sys.executable).parent
NODE = "n0"


class Kubelet(Site):
    """*servers*: those that run now. *said*: what their init containers printed. *port*: where they listen; 0: each on a free one.
    *images*: tag → the folder with the code of that image; all others have the code of the tests.

    The controllers of the cluster create and delete the pods. There are no containers: a path where a volume would be is replaced
    by the folder that has its files, and the API server is known by a kubeconfig.
    """

    def __init__(self, world: World, folder: Path, release: str, database: str, port: int = 0) -> None:
        self.world, self.folder, self.database, self.servers = world, folder, database, []
        self.said = ""
        self.images: dict[str, Path] = {}
        self._release, self._port = release, port
        self._running: dict[str, Server] = {}

    @property
    def names(self) -> set[str]:
        return {*self._running}

    def look(self) -> set[str]:
        """Starts what is new, stops what was deleted; the names of the pods that run."""
        found = {pod["metadata"]["name"]: pod for pod in self._pods() if "deletionTimestamp" not in pod["metadata"]}
        for name in sorted(found.keys() - self.names):
            self._running[name] = self._start(found[name])
            self.servers.append(self._running[name])
        gone = [self._running.pop(name) for name in sorted(self.names - found.keys())]
        for server in gone:
            server.send(signal.SIGTERM)
        self.servers[:] = [self._running[name] for name in sorted(self._running)]
        for server in gone:
            assert server.wait() == 0, server.errors()
            server.end()
        return self.names

    def _pods(self) -> list[Object]:
        of_release = f"app.kubernetes.io/instance={self._release}"
        found = self.world.api.listed("v1", "Pod", self.world.namespace, labelSelector=of_release)
        return [{"apiVersion": "v1", "kind": "Pod", **pod} for pod in found]

    def _start(self, pod: Object) -> Server:
        name = pod["metadata"]["name"]
        self._bind(pod)
        folder = self.folder / name
        places = {
            each["mountPath"]: self._volume(folder, pod, each["name"])
            for each in pod["spec"]["containers"][0]["volumeMounts"]
        }
        self._write_files(pod, places)
        for container in pod["spec"].get("initContainers", ()):
            command = [self._moved(word, places) for word in container["command"]]
            environment = self._environment(pod, container, places)
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            self.said += done.stdout
        (container,) = pod["spec"]["containers"]
        program, *arguments = [self._moved(word, places) for word in container["command"]]
        assert program == "runrig"
        server = Server(arguments, folder / "serve.log", self._environment(pod, container, places))
        server.wait_until_up()
        return server

    def _bind(self, pod: Object) -> None:
        named = {"name": pod["metadata"]["name"], "namespace": self.world.namespace}
        target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": named, "target": target}
        self.world.api.call("POST", f"{path_of(pod)}/binding", binding)
        self.world.plane.until(lambda: self._phase(pod) == "Running", "the cluster takes it for running")

    def _phase(self, pod: Object) -> str | None:
        found = self.world.api.read(pod)
        return None if found is None else str(found["status"]["phase"])

    def _volume(self, folder: Path, pod: Object, name: str) -> Path:
        """Where it is here; a claim outlives its pod."""
        (volume,) = (each for each in pod["spec"]["volumes"] if each["name"] == name)
        claim = volume.get("persistentVolumeClaim")
        place = self.folder / "claims" / claim["claimName"] if claim else folder / name
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        return place

    def _write_files(self, pod: Object, places: Mapping[str, Path]) -> None:
        for volume in pod["spec"]["volumes"]:
            if "configMap" in volume:
                for file, text in self._read("ConfigMap", volume["configMap"]["name"])["data"].items():
                    (places["/etc/runrig"] / file).write_text(self._moved(text, places))

    def _environment(self, pod: Object, container: Object, places: Mapping[str, Path]) -> dict[str, str]:
        """No more than an image and the pod would set."""
        account = self.folder / f"{pod['metadata']['name']}.kubeconfig"
        if not account.exists():
            kubeconfig_of(self.world, pod["spec"]["serviceAccountName"], account)
        found = {
            "PATH": f"{PROGRAMS}{os.pathsep}{os.defpath}",
            "KUBECONFIG": str(account),
            "TMPDIR": str(places["/tmp"]),
        }
        if code := self.images.get(container["image"].rpartition(":")[2]):
            found["PYTHONPATH"] = str(code)
        for each in container.get("env", ()):
            key = each["valueFrom"]["secretKeyRef"]
            found[each["name"]] = base64.b64decode(self._read("Secret", key["name"])["data"][key["key"]]).decode()
        return found

    def account_of_pods(self, place: Path) -> None:
        """Commands in a pod use the account of the pod: writes its kubeconfig to *place*."""
        (pod,) = self._pods()
        kubeconfig_of(self.world, pod["spec"]["serviceAccountName"], place)

    def _read(self, kind: str, name: str) -> Object:
        metadata = {"name": name, "namespace": self.world.namespace}
        found = self.world.api.read({"apiVersion": "v1", "kind": kind, "metadata": metadata})
        assert found is not None, f"the pod would not start: no {kind} {name}"
        return found

    def _moved(self, text: str, places: Mapping[str, Path]) -> str:
        for path in ("/etc/runrig", "/var/lib/runrig"):
            text = text.replace(path, str(places[path]))
        return text.replace(f"0.0.0.0:{SERVER}", f"{SERVERS}:{self._port}")

    def close(self) -> None:
        super().close()
        self._running.clear()


@contextmanager
def kubelet(world: World, folder: Path, release: str, database: str = "", port: int = 0) -> Iterator[Kubelet]:
    found = Kubelet(world, folder, release, database, port)
    try:
        yield found
    finally:
        found.close()
