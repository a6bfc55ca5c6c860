"""A control plane of our own: ``python -m e2e.harness CLUSTER_FILE`` starts one, says how to reach it, and ends with Ctrl-C.

etcd, kube-apiserver, two controllers (garbage, namespaces), KWOK instead of kubelets, and something that binds: KAI Scheduler where
it is to be had, else kube-scheduler under KAI's name, which binds pod by pod and knows nothing of gangs.
All on loopback, on free ports.  Logs stay in the folder of the run; the last runs are kept.
"""

import argparse
import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO, TypeVar

import httpx2
import yaml

from e2e import programs
from e2e.api import Api, Object, Refusal, until
from e2e.objects import node_object
from e2e.processes import Process, free_ports, quiet_port
from runrig.domain.nodes import Node
from runrig.spec.cluster import read_cluster

DATA = Path(__file__).parent / "data"
SCHEDULER = "kai-scheduler"
"""What pods of ours name in `schedulerName`."""
NOBODY = 9
"""A port of every pod on which nobody listens."""
SERVER = 8700
"""The port of the server's pod, which is `ControlPlane.server_port` of `SERVERS`."""
SERVERS = "127.0.0.2"
"""Apart from 127.0.0.1, where `kubectl port-forward` then has the same port: the name of a server includes its port."""
_RUNS_KEPT = 5
_START_S = 90

T = TypeVar("T")


@dataclass
class ControlPlane:
    """A running one.  *kai*: KAI itself binds, with its own definitions of its kinds."""

    folder: Path
    kai: bool
    url: str
    api: Api
    kubeconfig: Path
    kubelet_port: int
    """Where KWOK serves logs, for all nodes."""
    server_port: int
    """Where a server listens that pods reach on port `SERVER`."""
    processes: dict[str, Process] = field(default_factory=dict)

    @property
    def pod_log(self) -> Path:
        """What all containers have said; lines as a container runtime writes them: time, stream, F, text."""
        return self.folder / "state" / "pod.log"

    @property
    def pod_kubeconfig(self) -> Path:
        """The login of programs that are run in pods, if a test writes one."""
        return self.folder / "state" / "pod.kubeconfig"

    @property
    def scheduler(self) -> Process:
        """What places pods: KAI's scheduler, or what stands in for it."""
        return self.processes["kai-scheduler" if self.kai else "kube-scheduler"]

    def run(self, name: str, program: str, *arguments: str | Path, **environment: str) -> Process:
        """One more, which is to run until the end."""
        env = {"KUBECONFIG": str(self.kubeconfig), **environment}
        process = Process(name, [programs.need(program), *arguments], self.folder / "logs" / f"{name}.log", env)
        process.start()
        self.processes[name] = process
        return process

    def until(self, found: Callable[[], T | None], what: str, *, timeout_s: float = 30) -> T:
        """As `api.until`, and at once wrong if a program dies."""

        def look() -> T | None:
            for process in self.processes.values():
                process.check()
            return found()

        return until(look, what, timeout_s=timeout_s)

    def ready(self) -> bool:
        """The API server answers, and all that it starts with is done."""
        try:
            return bool(self.api.call("GET", "/readyz") == "ok")
        except (httpx2.TransportError, Refusal, FileNotFoundError):
            return False

    def add_nodes(self, nodes: Sequence[Node]) -> None:
        """Adds the nodes of a cluster file; returns when all are ready."""
        for node in nodes:
            self.api.create(node_object(node, self.kubelet_port))
        names = {node.name for node in nodes}
        self.until(lambda: names <= self._ready_nodes(), f"{len(names)} nodes are ready")

    def _ready_nodes(self) -> set[str]:
        return {
            node["metadata"]["name"]
            for node in self.api.listed("v1", "Node")
            if any(
                each["type"] == "Ready" and each["status"] == "True" for each in node["status"].get("conditions", ())
            )
        }

    def stop(self) -> None:
        """Stops everything, the last started first."""
        for process in reversed(self.processes.values()):
            process.stop()
        self.api.close()


@contextmanager
def control_plane(*, root: Path | None = None) -> Iterator[ControlPlane]:
    """One that is ready to be used, and without a node.  Raises `programs.Missing`, `processes.Died`, TimeoutError."""
    with _folder(root or programs.cache() / "runs") as folder:
        plane = _prepared(folder)
        try:
            _start(plane)
            yield plane
        finally:
            plane.stop()


# ---------------------------------------------------------------- folders


@contextmanager
def _folder(root: Path) -> Iterator[Path]:
    """A fresh one below *root*, with `state`, which goes at the end, and `logs`, which stay."""
    root.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        with programs.alone(
            root.with_suffix(".lock")
        ):  # else another run could sweep this one before it holds its lock
            _sweep(root)
            folder = root / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{secrets.token_hex(2)}"
            (folder / "state").mkdir(parents=True, mode=0o700)
            (folder / "logs").mkdir()
            held.enter_context(_locked(folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder / "state", ignore_errors=True)


def _sweep(root: Path) -> None:
    """Removes what a killed run left, and all but the last runs. A live run holds its lock."""
    for age, folder in enumerate(sorted(root.iterdir(), reverse=True)):
        try:
            with _locked(folder):
                shutil.rmtree(folder / "state", ignore_errors=True)
                if age >= _RUNS_KEPT:
                    shutil.rmtree(folder)
        except OSError:  # it is running, or processes of a killed run still write there
            continue


@contextmanager
def _locked(folder: Path) -> Iterator[TextIO]:
    """Raises BlockingIOError if another run has it."""
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield file


# ---------------------------------------------------------------- start


def _prepared(folder: Path) -> ControlPlane:
    """Keys, a token and a kubeconfig; nothing runs yet."""
    state, token = folder / "state", secrets.token_urlsafe(24)
    port, kubelet_port = free_ports(2)
    server_port = quiet_port()
    url = f"https://127.0.0.1:{port}"
    (state / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')
    key = state / "accounts.key"
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    certificate = _certificate(state)
    kubeconfig = state / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(_kubeconfig(url, token, certificate)))
    return ControlPlane(
        folder, programs.kai(), url, Api(url, token, certificate), kubeconfig, kubelet_port, server_port
    )


def _certificate(state: Path) -> Path:
    """Its own, so that it is there before the server is, and the same after a restart."""
    place = state / "server.crt"
    names = "subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:kubernetes.default.svc"
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=runrig-e2e"]
    files = ["-keyout", str(state / "server.key"), "-out", str(place)]
    uses = "keyUsage=critical,digitalSignature,keyEncipherment,keyCertSign"
    subprocess.run([*request, "-addext", names, "-addext", uses, *files], check=True, capture_output=True)
    return place


def _kubeconfig(url: str, token: str, certificate: Path) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "e2e", "cluster": {"server": url, "certificate-authority": str(certificate)}}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "admin"}}],
        "current-context": "e2e",
    }


def _start(plane: ControlPlane) -> None:
    _start_server(plane)
    kinds = programs.kai_kinds() if plane.kai else [DATA / "kinds.yaml"]
    declared = [each for path in kinds for each in yaml.safe_load_all(path.read_text())]
    for each in declared:
        plane.api.apply(each)
    plane.until(lambda: all(_established(plane.api, each) for each in declared), "KAI's kinds are served")
    names = ("garbage-collector", "namespace", "deployment", "replicaset")
    controllers = f"--controllers={','.join(f'{name}-controller' for name in names)}"
    common = (f"--kubeconfig={plane.kubeconfig}", "--leader-elect=false", "--secure-port=0")
    plane.run("kube-controller-manager", "kube-controller-manager", *common, controllers)
    _start_kubelets(plane)
    _start_kai(plane) if plane.kai else _start_stand_in(plane)


def _start_server(plane: ControlPlane) -> None:
    """etcd and the API server.  Without its own limits on requests: it shall be slow only where it is slow."""
    state, port = plane.folder / "state", plane.url.rpartition(":")[2]
    clients, peers = (f"http://127.0.0.1:{each}" for each in free_ports(2))
    where = (f"--listen-client-urls={clients}", f"--advertise-client-urls={clients}", f"--listen-peer-urls={peers}")
    itself = (f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}")
    plane.run("etcd", "etcd", f"--data-dir={state / 'etcd'}", "--unsafe-no-fsync", *where, *itself)
    arguments = {
        "etcd-servers": clients,
        "bind-address": "127.0.0.1",
        # Without these two it looks for a default route, which a machine without network lacks.
        "advertise-address": "127.0.0.1",
        "endpoint-reconciler-type": "none",
        "secure-port": port,
        "cert-dir": state / "certs",
        "tls-cert-file": state / "server.crt",
        "tls-private-key-file": state / "server.key",
        "token-auth-file": state / "tokens.csv",
        "authorization-mode": "RBAC",
        "allow-privileged": "true",
        "service-cluster-ip-range": "10.0.0.0/24",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": state / "accounts.key",
        "service-account-signing-key-file": state / "accounts.key",
        # No controller here creates service accounts, releases deleted claims, or removes the taint of a ready node.
        "disable-admission-plugins": "ServiceAccount,StorageObjectInUseProtection,TaintNodesByCondition",
        "enable-priority-and-fairness": "false",
        "max-requests-inflight": "0",
        "max-mutating-requests-inflight": "0",
        "vmodule": "conn=4",  # so that its log shows when a client has sent everything
    }
    plane.run("kube-apiserver", "kube-apiserver", *(f"--{name}={value}" for name, value in arguments.items()))
    plane.until(plane.ready, "the API server is ready", timeout_s=_START_S)


def _start_kubelets(plane: ControlPlane) -> None:
    """KWOK for all of them.  Every container of every pod has said what is in the file `pod_log`.  What is run in one runs on this
    machine, and every port of a pod sends back what it is sent; on port `NOBODY` nobody listens, and `SERVER` is a server's."""
    plane.pod_log.touch()
    plays = {
        "ClusterLogs": {"logs": [{"logsFile": str(plane.pod_log), "follow": False}]},
        "ClusterExec": {"execs": [{"local": {"workDir": str(plane.folder)}}]},
        "ClusterPortForward": {
            "forwards": [
                {"command": ["cat"]},
                {"ports": [NOBODY], "target": {"address": "127.0.0.1", "port": NOBODY}},
                {"ports": [SERVER], "target": {"address": SERVERS, "port": plane.server_port}},
            ]
        },
    }
    about = {"apiVersion": "kwok.x-k8s.io/v1alpha1", "metadata": {"name": "all"}}
    place = plane.folder / "state" / "kubelet.yaml"
    place.write_text(yaml.safe_dump_all([about | {"kind": kind, "spec": spec} for kind, spec in plays.items()]))
    server = (
        f"--server-address=127.0.0.1:{plane.kubelet_port}",
        "--node-ip=127.0.0.1",
        f"--node-port={plane.kubelet_port}",
    )
    configs = (f"--config={DATA / 'stages.yaml'}", f"--config={place}")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    in_pods = {"PATH": path, "KUBECONFIG": str(plane.pod_kubeconfig)}
    arguments = (f"--kubeconfig={plane.kubeconfig}", "--manage-all-nodes=true", *server, *configs)
    plane.run("kwok", "kwok", *arguments, **in_pods)


def _start_kai(plane: ControlPlane) -> None:
    """Its kubeconfig comes by the environment: the scheduler has no flag for it.

    Without its podgroupcontroller, which listens on port 8080 whatever it is told, so that only one could run on a machine.
    """
    metrics, debug = free_ports(2)
    asked = (
        "--default-staleness-grace-period=-1s",
        "--update-pod-eviction-condition=true",
    )  # as docs/kubernetes.md says
    ports = (f"--listen-address=127.0.0.1:{metrics}", f"--plugin-server-port={debug}")
    plane.run("kai-scheduler", "kai-scheduler", "--schedule-period=200ms", "--leader-elect=false", *asked, *ports)
    off = ("--metrics-bind-address=0", "--health-probe-bind-address=0", "--leader-elect=false")
    plane.run("kai-binder", "kai-binder", *off)


def _start_stand_in(plane: ControlPlane) -> None:
    """kube-scheduler under KAI's name: binds what is pinned to a node; gangs and topologies mean nothing to it."""
    settings = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(plane.kubeconfig), "qps": 500, "burst": 1000},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": SCHEDULER}],
    }
    place = plane.folder / "state" / "kube-scheduler.yaml"
    place.write_text(yaml.safe_dump(settings))
    plane.run("kube-scheduler", "kube-scheduler", f"--config={place}", "--secure-port=0")


def _established(api: Api, each: Object) -> bool:
    found = api.read(each)
    conditions = found.get("status", {}).get("conditions") or () if found else ()
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)


# ---------------------------------------------------------------- by hand


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m e2e.harness", description="A Kubernetes control plane on loopback."
    )
    parser.add_argument("cluster", type=Path, help="cluster file; its nodes are made")
    asked = parser.parse_args()
    if not asked.cluster.is_file():
        parser.error(f"{asked.cluster} is not a file")
    nodes = read_cluster(asked.cluster.read_text()).nodes
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with control_plane() as plane:
            plane.add_nodes(nodes)
            binds = "KAI Scheduler" if plane.kai else "kube-scheduler under KAI's name"
            print(f"{plane.url}, {len(nodes)} nodes; {binds} binds")
            print(f"export KUBECONFIG={plane.kubeconfig}\nlogs: {plane.folder / 'logs'}\nCtrl-C ends it", flush=True)
            while True:
                for process in plane.processes.values():
                    process.check()
                time.sleep(1)
    except KeyboardInterrupt:
        return 0
    except programs.Missing as missing:
        print(missing, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
