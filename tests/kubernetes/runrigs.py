"""`runrig serve` as a process on the control plane of the tests.  Tests do what a user can do, and read the truth from the API server."""

import json
import os
import signal
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import psutil
import pytest
import yaml

from e2e.api import Object, Refusal, path_of
from e2e.processes import Process
from tests.failover.servers import Server
from tests.kubernetes.world import OURS, World, bare_pod
from tests.patience import PATIENCE_S, until
from tests.worlds.command_line import Done, runrig

KEY = "runrig/key"
"""Annotation of a pod: WORKFLOW/TASK/RETRY."""
FOREIGN = "default"
"""The namespace of pods that are somebody else's."""
_MERGE = "application/merge-patch+json"
_LAST_WORDS = 4000
_POLL_S = 2
"""How long the server is asked to wait for something, before we look at the programs again."""

_KNOWN: dict[str, dict[str, bytes]] = {}
"""The token of an administrator, and the files of a database that knows it."""

T = TypeVar("T")


@dataclass(frozen=True)
class Seen:
    """What a watch told: ADDED, MODIFIED or DELETED, and the pod as it was then."""

    type: str
    pod: Object

    @property
    def key(self) -> str:
        return key_of(self.pod)

    @property
    def ended(self) -> bool:
        """Nothing of it runs any more."""
        return self.type == "DELETED" or self.pod["status"]["phase"] in ("Succeeded", "Failed")


class Away(AssertionError):
    """The server does not lead."""


class Rig:
    """A server with its folder, its address and the token of an administrator.  *world*: whose nodes and namespace it has."""

    def __init__(
        self, world: World, folder: Path, cluster: str, more: str, of_backend: Mapping[str, str] | None = None
    ) -> None:
        self.world, self.folder = world, folder
        self.file = folder / "serve.yaml"
        self.log = folder / "serve.log"
        (folder / "cluster.yaml").write_text(cluster)
        backend = {"type": "kubernetes", "kubeconfig": str(world.plane.kubeconfig), "namespace": world.namespace}
        backend |= of_backend or {}
        settings = {"data": "data", "listen": "127.0.0.1:0", "cluster": "cluster.yaml", "log_file": self.log.name}
        self.file.write_text(yaml.safe_dump(settings | {"backend": backend}) + more)
        self.file.chmod(0o600)
        self.arguments = ["serve", "--config", str(self.file)]
        self.token = self._init_admin() if "database:" in more else self._known_admin()
        self.server: Server | None = None
        self._http: httpx2.Client | None = None

    # ------------------------------------------------------------ the process

    def _init_admin(self) -> str:
        made = runrig(*self.arguments, "--init-admin", "ann")
        assert made.code == 0, made.err
        return made.out.strip()

    def _known_admin(self) -> str:
        """The same, who was made once for all tests: the file of a database is quickly copied."""
        if not _KNOWN:
            token = self._init_admin()
            _KNOWN[token] = {path.name: path.read_bytes() for path in (self.folder / "data").iterdir()}
            return token
        ((token, files),) = _KNOWN.items()
        (self.folder / "data").mkdir(mode=0o700)
        for name, content in files.items():
            (self.folder / "data" / name).write_bytes(content)
            (self.folder / "data" / name).chmod(0o600)
        return token

    def start(self) -> None:
        """Returns when it takes orders.  It may be started again after `kill`."""
        self.server = Server(self.arguments, self.log)
        self.server.wait_until_up()
        bearer = {"Authorization": f"Bearer {self.token}"}
        self._http = httpx2.Client(base_url=self.server.url, headers=bearer, timeout=60)
        self.until(lambda: self.server is not None and self.server.ready, "runrig is ready")

    def kill(self) -> None:
        """-9."""
        if self._http is not None:
            self._http.close()
            self._http = None
        if self.server is not None:
            self.server.end()
            self.server = None

    @property
    def pid(self) -> int:
        assert self.server is not None, "the server does not run"
        return self.server._process.pid

    def restart(self) -> None:
        self.kill()
        self.start()

    def close(self) -> None:
        """The server and all pods are gone, whatever holds them."""
        self.kill()
        for namespace, labels in ((self.world.namespace, OURS), (FOREIGN, self._mark)):
            self._clear(namespace, labels)

    def _clear(self, namespace: str, labels: str) -> None:
        def pods() -> list[Object]:
            return self.world.api.listed("v1", "Pod", namespace, labelSelector=labels)

        for pod in pods():
            _remove(self.world, pod)
        self.world.plane.until(lambda: not pods(), "no pod is left")

    # ------------------------------------------------------------ actions of a user

    def cli(self, *args: str, stdin: str = "") -> Done:
        assert self.server is not None, "the server does not run"
        return runrig(*args, env={"RUNRIG_SERVER": self.server.url, "RUNRIG_TOKEN": self.token}, stdin=stdin)

    def say(self, *args: str, stdin: str = "") -> str:
        """What a command prints that succeeds."""
        done = self.cli(*args, stdin=stdin)
        assert done.code == 0, (args, done)
        return done.out

    def submit(self, file: Path | Mapping[str, Any], pool: str, priority: str | None = None) -> str:
        """The id.  *file*: a path, or what `one_task` makes."""
        text = file.read_text() if isinstance(file, Path) else json.dumps(file)
        options = ("--pool", pool, *(("--priority", priority) if priority else ()))
        return str(json.loads(self.say("workflow", "submit", "-", "-t", "json", *options, stdin=text))["name"])

    def get(self, path: str, **query: str) -> Any:
        """JSON of the HTTP API, or text."""
        return self._call("GET", path, params=query)

    def post(self, path: str, body: object = None, **query: str) -> Any:
        return self._call("POST", path, params=query, json=body)

    def _call(self, method: str, path: str, **what: Any) -> Any:
        assert self._http is not None, "the server does not run"
        answer = self._http.request(method, path, **what)
        if answer.status_code == 503:
            raise Away(answer.text)
        assert answer.status_code == 200, (answer.status_code, answer.text)
        return answer.json() if "json" in answer.headers["content-type"] else answer.text

    def workflow(self, id: str) -> Any:
        """With all attempts of its tasks."""
        return self.get(f"/api/workflow/{id}", verbose="true")

    def status(self, id: str) -> str:
        return str(self.workflow(id)["status"])

    def attempts(self, id: str) -> list[tuple[str, int, str]]:
        """(task, attempt, status) of all attempts of all tasks, in the order of names."""
        tasks = [task for group in self.workflow(id)["groups"] for task in group["tasks"]]
        return sorted((task["name"], task["retry_id"], task["status"]) for task in tasks)

    def why(self, id: str) -> str:
        """As it is printed, but on one line: sentences are broken at 80 columns."""
        return " ".join(self.say("workflow", "why", id).split())

    def events(self, id: str) -> str:
        return str(self.get(f"/api/workflow/{id}/events"))

    # ------------------------------------------------------------ the present state

    def until(self, found: Callable[[], T | None], what: str, *, timeout_s: float = 60) -> T:
        """As that of the control plane; a failure shows what the server wrote last, and its pods.

        A server that slept for longer than its lease answers nothing until it leads again.
        """

        def looked() -> T | None:
            with suppress(Away):
                return found()
            return None

        try:
            return self.world.plane.until(looked, what, timeout_s=timeout_s)
        except TimeoutError as late:
            log = self._last_words()
            pods = {key: (node_of(pod), pod["status"]["phase"]) for key, pod in self.pods().items()}
            pytest.fail(f"{late}\npods: {pods}\nthe end of its log:\n{log}", pytrace=False)

    def _last_words(self) -> str:
        """Returns the end of its log, without the requests that went well: those are ours."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return "\n".join(line for line in lines if " status=200 " not in line)[-_LAST_WORDS:]

    def wait(self, id: str, status: str, *, timeout_s: float = 60) -> None:
        query = {"for": status, "timeout": str(_POLL_S)}
        self.until(
            lambda: self.get(f"/api/v1/workflows/{id}/wait", **query)["status"] == status,
            f"{id} is {status}",
            timeout_s=timeout_s,
        )

    def pods(self, workflow: str | None = None) -> dict[str, Object]:
        """Key → its pod as it is now, those on their way out too."""
        found = self.world.api.listed("v1", "Pod", self.world.namespace, labelSelector=OURS)
        pods = {key_of(each): each | {"apiVersion": "v1", "kind": "Pod"} for each in found}
        assert len(pods) == len(found), f"an attempt has two pods: {[each['metadata']['name'] for each in found]}"
        return {key: pods[key] for key in sorted(pods) if workflow in (None, key.partition("/")[0])}

    def nodes(self, workflow: str) -> dict[str, str | None]:
        """Task → the node that its pod is bound to; pods that have ended or are on their way out are left out."""
        return {key.split("/")[1]: node_of(pod) for key, pod in self.pods(workflow).items() if lives(pod)}

    def uids(self) -> dict[str, str]:
        """Key → what tells its pod from any other, of pods that live."""
        return {key: pod["metadata"]["uid"] for key, pod in self.pods().items() if lives(pod)}

    def runs(self, id: str, *, timeout_s: float = 60) -> dict[str, str | None]:
        """Waits until the workflow runs, with all its tasks whose turn it is; task → node."""
        self.wait(id, "RUNNING", timeout_s=timeout_s)
        self.until(lambda: not self._starting(id), f"all tasks of {id} run", timeout_s=timeout_s)
        return self.nodes(id)

    def _starting(self, id: str) -> list[str]:
        return [task for task, _, status in self.attempts(id) if status in ("SCHEDULING", "INITIALIZING")]

    def ends(self, key: str, code: int = 0) -> None:
        """Its only container ends with *code*, as a kubelet would say it."""
        reason = "Completed" if code == 0 else "Error"
        self.set_status(key, {"phase": "Succeeded" if code == 0 else "Failed"}, exitCode=code, reason=reason)

    def set_status(self, key: str, status: Mapping[str, Any], **terminated: Any) -> None:
        """*terminated*: of its only container, if that has ended."""
        state = {"terminated": terminated} if terminated else None
        self._set(key, status, state)

    def set_waiting(self, key: str, **why: str) -> None:
        """Its kubelet has it, and its only container does not start.  *why*: reason and message."""
        self._set(key, {"phase": "Pending", "startTime": "2026-01-01T00:00:00Z"}, {"waiting": why})

    def _set(self, key: str, status: Mapping[str, Any], container: Mapping[str, Any] | None) -> None:
        pod = self.pods()[key]
        name = pod["spec"]["containers"][0]["name"]
        of = {"name": name, "image": "none", "imageID": "", "ready": False, "restartCount": 0, "state": container}
        self.world.api.set_status(pod, dict(status) | {"containerStatuses": [of] if container else []})

    def annotate(self, pod: Object, texts: Mapping[str, str]) -> None:
        """As somebody else would, behind our back."""
        self.world.api.call("PATCH", path_of(pod), {"metadata": {"annotations": dict(texts)}}, kind=_MERGE)

    def finish(self, id: str) -> None:
        """All tasks of the workflow end well, but those that runrig stops first because the lead of their gang has ended."""
        for key in [key for key, pod in self.pods(id).items() if lives(pod)]:
            try:
                self.ends(key)
            except (KeyError, Refusal) as gone:
                if isinstance(gone, Refusal) and gone.status != 404:
                    raise
        self.wait(id, "COMPLETED")

    # ------------------------------------------------------------ other users of the cluster

    @property
    def _mark(self) -> str:
        return f"e2e.runrig/of={self.world.namespace}"

    def foreign_pod(self, node: str, gpus: int) -> None:
        """Somebody else's pod that is on *node* at once, and asks nobody."""
        self.create_foreign(bare_pod(FOREIGN, "taken", gpus=gpus), node)

    def create_foreign(self, pod: Object, node: str) -> None:
        """The same of a pod that is given; one for a node."""
        metadata = {"name": self._foreign_name(node), "namespace": FOREIGN, "labels": dict([self._mark.split("=")])}
        spec = pod["spec"] | {"nodeName": node, "schedulerName": "default-scheduler"}
        self.world.api.create(pod | {"metadata": metadata, "spec": spec})

    def clear_foreign(self, node: str) -> None:
        """It goes, if there is one."""
        _remove(self.world, {"metadata": {"name": self._foreign_name(node), "namespace": FOREIGN}})

    def _foreign_name(self, node: str) -> str:
        return f"foreign-{node}-{self.world.namespace}"

    # ------------------------------------------------------------ the past

    def now(self) -> str:
        """The resource version at which `history` may begin."""
        where = path_of(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": self.world.namespace}}, named=False
        )
        return str(self.world.api.call("GET", where)["metadata"]["resourceVersion"])

    def history(self, since: str) -> list[Seen]:
        """What happened to pods of ours behind the resource version *since*, in the order in which it did."""
        last = bare_pod(self.world.namespace, f"until-{self.now()}")
        last["spec"]["schedulerName"] = "nobody"
        self.world.api.create(last)
        found = []
        for each in watched(self.world, since, timeout_s=int(PATIENCE_S)):
            if each.pod["metadata"]["name"] == last["metadata"]["name"]:
                break
            found += [each] if KEY in annotations(each.pod) else []
        else:
            raise AssertionError("the watch ended too early")
        _remove(self.world, last)
        return found

    def created(self, since: str) -> list[str]:
        """Keys, in the order in which their pods came."""
        return [each.key for each in self.history(since) if each.type == "ADDED"]


@contextmanager
def rig(
    world: World,
    folder: Path,
    cluster: Path | str,
    *,
    more: str = "",
    nodes: bool = True,
    of_backend: Mapping[str, str] | None = None,
) -> Iterator[Rig]:
    """A server that runs, on the nodes of *cluster*, a file or its text, of which it knows only the rest.

    *more*: lines of its own file.  *nodes*: they are to be made.  *of_backend*: more fields of its backend.
    """
    text = cluster.read_text() if isinstance(cluster, Path) else cluster
    whole = folder / "whole.yaml"
    whole.write_text(text)
    if nodes:
        world.nodes(whole)
    known = {name: part for name, part in yaml.safe_load(text).items() if name not in ("backend", "nodes")}
    found = Rig(world, folder, yaml.safe_dump(known), more, of_backend)
    try:
        found.start()
        yield found
    finally:
        found.close()


@contextmanager
def stopped(process: Process | Rig) -> Iterator[None]:
    """It stands still meanwhile."""
    pid = process.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def begun_anew(process: Process) -> Iterator[None]:
    """It stands still meanwhile, and then knows nothing but what it finds."""
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        process.kill()
        process.start()


def one_task(name: str, gpus: int = 1, **task: Any) -> Mapping[str, Any]:
    """A workflow of a single task `main`."""
    main = {"name": "main", "image": "train:1", "command": ["train"], **task}
    return {"workflow": {"name": name, "resources": {"default": {"gpu": gpus}}, "tasks": [main]}}


def watched(world: World, since: str, *, timeout_s: int) -> Iterator[Seen]:
    """All pods of the namespace: what happened behind *since*, and what happens until the time is up."""
    kubeconfig = yaml.safe_load(world.plane.kubeconfig.read_text())
    token = kubeconfig["users"][0]["user"]["token"]
    trusted = ssl.create_default_context(cafile=kubeconfig["clusters"][0]["cluster"]["certificate-authority"])
    query = {"watch": "1", "resourceVersion": since, "timeoutSeconds": str(timeout_s)}
    headers = {"Authorization": f"Bearer {token}"}
    with (
        httpx2.Client(base_url=world.plane.url, headers=headers, verify=trusted, timeout=timeout_s + 10) as http,
        http.stream("GET", f"/api/v1/namespaces/{world.namespace}/pods", params=query) as answer,
    ):
        for line in answer.iter_lines():
            told = json.loads(line)
            assert told["type"] != "ERROR", told
            yield Seen(told["type"], told["object"])


def annotations(pod: Object) -> Mapping[str, str]:
    found: dict[str, str] = pod["metadata"].get("annotations", {})
    return found


def key_of(pod: Object) -> str:
    return annotations(pod)[KEY]


def node_of(pod: Object) -> str | None:
    name: str | None = pod["spec"].get("nodeName")
    return name


def pinned_to(pod: Object) -> str:
    """The node that it may go to alone, bound or not."""
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    assert [(each["key"], each["operator"]) for each in term["matchFields"]] == [("metadata.name", "In")]
    (node,) = term["matchFields"][0]["values"]
    return str(node)


def lives(pod: Object) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] in ("Pending", "Running")


def _remove(world: World, pod: Object) -> None:
    whole = pod | {"apiVersion": "v1", "kind": "Pod"}
    try:
        world.api.call("PATCH", path_of(whole), {"metadata": {"finalizers": None}}, kind=_MERGE)
        world.api.delete(whole, grace_s=0)
    except Refusal as refusal:
        if refusal.status != 404:
            raise
