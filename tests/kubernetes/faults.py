"""Ways to make things go wrong at a chosen moment: programs that stand still, die, are deleted behind our back, or come too late."""

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import httpx2

from e2e.api import Object, Refusal, path_of
from e2e.harness import ControlPlane
from tests.kubernetes.runrigs import Rig, Seen, node_of, watched
from tests.patience import PATIENCE_S

CLUSTER = """
nodes:
  - {name: "a{0..3}", resources: {gpu: 8}, labels: {rack: a}}
  - {name: "b{0..3}", resources: {gpu: 8}, labels: {rack: b}}
pools:
  - {name: team, quota: 40, topology_keys: [{key: rack, label: rack}]}
  - {name: sim, quota: 24}
"""
_MERGE = "application/merge-patch+json"


def gang(name: str, pods: int, gpus: int = 1, **task: Any) -> Mapping[str, Any]:
    """A workflow of one group, of *pods* equal pods `main-0` ...; with a file, so that there is a secret."""
    main = {"name": "main", "image": "train:1", "command": ["train"], "count": pods, "lead": True}
    main |= {"files": [{"path": "/config", "contents": "x"}], **task}
    groups = [{"name": "g", "tasks": [main]}]
    return {"workflow": {"name": name, "resources": {"default": {"gpu": gpus}}, "groups": groups}}


def submit(here: Rig, file: Mapping[str, Any], pool: str = "team", priority: str = "NORMAL") -> str:
    """The id.  By HTTP, which takes no process of its own."""
    body = {"file": json.dumps(file), "set_variables": [], "set_string_variables": []}
    return str(here.post(f"/api/pool/{pool}/workflow", body, priority=priority)["name"])


# ---------------------------------------------------------------- programs


def begin_again(plane: ControlPlane, name: str, *, meanwhile: Callable[[], object] = lambda: None) -> None:
    """The program dies, and is started again.

    A kubelet repeats what the API server could not take.  KWOK repeats it only where nothing listens or the server asks for it:
    a connection that breaks, or an API server without etcd, leaves a pod as it was for good.  So KWOK looks at all pods anew.
    """
    plane.processes[name].kill()
    meanwhile()
    plane.processes[name].start()
    if name in ("kube-apiserver", "etcd"):
        plane.until(plane.ready, "the API server is ready again", timeout_s=60)
        plane.processes["kwok"].kill()
        plane.processes["kwok"].start()


def compact(plane: ControlPlane) -> None:
    """etcd forgets all but what is so now."""
    flag = "--listen-client-urls="
    command = plane.processes["etcd"]._command
    url = next(each.removeprefix(flag) for each in command if each.startswith(flag))
    with httpx2.Client(base_url=url, timeout=10) as etcd:
        now = etcd.post("/v3/kv/range", json={"key": "AA=="}).json()["header"]["revision"]
        answer = etcd.post("/v3/kv/compaction", json={"revision": now, "physical": True})
        assert answer.status_code == 200, answer.text


# ---------------------------------------------------------------- changes made by others


def take_by_force(here: Rig, pod: Object) -> None:
    """Finalizers and grace count for nothing."""
    whole = pod | {"apiVersion": "v1", "kind": "Pod"}
    here.world.api.call("PATCH", path_of(whole), {"metadata": {"finalizers": None}}, kind=_MERGE)
    try:
        here.world.api.delete(whole, grace_s=0)
    except Refusal as refusal:
        if refusal.status != 404:
            raise


def patch(here: Rig, each: Object, what: Object) -> None:
    here.world.api.call("PATCH", path_of(each), what, kind=_MERGE)


# ---------------------------------------------------------------- load


class Load:
    """Work that comes and ends at random.  *sent*: ids of what was taken."""

    def __init__(self, here: Rig, seed: int) -> None:
        self._here, self._mix = here, random.Random(seed)
        self.sent: list[str] = []

    def steps(self, count: int) -> None:
        for _ in range(count):
            self._step()

    def _step(self) -> None:
        kind = self._mix.choice(("submit", "submit", "end", "end", "cancel"))
        if kind == "submit":
            self._submit()
        elif kind == "end":
            self.end_some(at_most=3)
        elif self.sent and self._mix.random() < 0.5:
            self._cancel(self._mix.choice(self.sent))

    def _submit(self) -> None:
        pods, gpus = self._mix.choice(((1, 1), (1, 8), (2, 4), (4, 2), (8, 1), (5, 8)))
        pool = "team" if pods * gpus > 24 else self._mix.choice(("team", "sim"))
        priority = self._mix.choice(("HIGH", "NORMAL", "LOW", "LOW"))
        self.sent.append(submit(self._here, gang(f"w{len(self.sent)}", pods, gpus), pool, priority))

    def _cancel(self, id: str) -> None:
        with suppress(AssertionError):  # it may just have ended
            self._here.post(f"/api/workflow/{id}/cancel")

    def end_some(self, at_most: int | None = None) -> None:
        """Pods that run end well."""
        running = [pod for pod in self._here.pods().values() if runs(pod)]
        self._mix.shuffle(running)
        for pod in running[:at_most]:
            end(self._here, pod)

    def finish(self) -> None:
        """Everything ends: what somebody cancelled so, and all else well."""
        here = self._here

        def done() -> bool:
            self.end_some()
            return all(status not in ("PENDING", "RUNNING") for status in self.statuses().values())

        here.until(done, "all work has ended", timeout_s=120)
        ends = self.statuses()
        cancelled = {id for id, status in ends.items() if status == "FAILED_CANCELED"}
        assert {here.workflow(id)["cancelled_by"] for id in cancelled} <= {"ann"}
        assert {status for id, status in ends.items() if id not in cancelled} <= {"COMPLETED"}, ends

    def statuses(self) -> dict[str, str]:
        listed = self._here.get("/api/workflow", all_users="true", limit="1000")["workflows"]
        found = {each["name"]: each["status"] for each in listed}
        assert set(self.sent) <= set(found), f"lost: {set(self.sent) - set(found)}"
        return found


def end(here: Rig, pod: Object, code: int = 0) -> None:
    """Its only container ends with *code*, unless it is gone by now."""
    reason = "Completed" if code == 0 else "Error"
    container = {"name": pod["spec"]["containers"][0]["name"], "image": "none", "imageID": "", "ready": False}
    ended = container | {"restartCount": 0, "state": {"terminated": {"exitCode": code, "reason": reason}}}
    phase = "Succeeded" if code == 0 else "Failed"
    try:
        here.world.api.set_status(pod, {"phase": phase, "containerStatuses": [ended]})
    except Refusal as refusal:
        if refusal.status != 404:
            raise


def runs(pod: Object) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] == "Running" and bool(node_of(pod))


class Witness:
    """Sees all that happens to pods of the namespace, as long as the API server lives."""

    def __init__(self, here: Rig) -> None:
        self._here, self._since = here, here.now()
        self.seen: list[Seen] = []
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._enough.is_set():
            with suppress(httpx2.TransportError):  # it is unavailable for a while
                for each in watched(self._here.world, self._since, timeout_s=1):
                    self.seen.append(each)
                    self._since = each.pod["metadata"]["resourceVersion"]

    def done(self) -> None:
        self._enough.set()
        self._thread.join()

    def made_twice(self) -> dict[str, int]:
        """Attempts that have had more than one pod, one after the other too."""
        self.done()
        made = Counter(each.key for each in self.seen if each.type == "ADDED")
        return {key: count for key, count in made.items() if count > 1}

    def check_nothing_was_made_twice(self) -> None:
        twice = self.made_twice()
        assert twice == {}, f"made more than once: {twice}"


@contextmanager
def witness(here: Rig) -> Iterator[Witness]:
    found = Witness(here)
    try:
        yield found
    finally:
        found.done()


def pods_come(here: Rig, since: str, count: int) -> list[str]:
    """Returns at the moment in which there are *count* pods; their names."""
    names = []
    for each in watched(here.world, since, timeout_s=int(PATIENCE_S)):
        if each.type == "ADDED":
            names.append(each.pod["metadata"]["name"])
            if len(names) == count:
                return names
    raise AssertionError(f"{len(names)} pods came, not {count}; {json.dumps(names)}")
