"""Whether runrig and its cluster agree, by what each says itself: nothing doubled, nothing lost, no gang half started.

Only what users see is asked of runrig (HTTP), and only what is kept of the API server.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from e2e.api import Object
from runrig.store import SqlStore
from tests.kubernetes.runrigs import Rig, key_of, lives, node_of, pinned_to
from tests.kubernetes.world import OURS
from tests.replaying import replayed

GANG, GANG_ID = "runrig/gang", "runrig/gang-id"
ON_NODES = {"INITIALIZING": "Pending", "RUNNING": "Running"}
"""Status of a task → phase of its pod."""
_WAITS = ("WAITING", "SCHEDULING")
_GPU = "nvidia.com/gpu"


def agree(here: Rig, *, timeout_s: float = 60) -> None:
    """Waits until they do; fails with what differs."""
    last: list[str] = []

    def nothing() -> bool:
        last[:] = differences(here)
        return not last

    try:
        here.world.plane.until(nothing, "runrig and the cluster agree", timeout_s=timeout_s)
    except TimeoutError:
        shown = "\n".join(last)
        raise AssertionError(f"after {timeout_s:g} s they differ:\n{shown}\n{its_log(here)}") from None


def its_log(here: Rig) -> str:
    """What the server wrote last, without our own questions."""
    lines = here.log.read_text()[-200_000:].splitlines()
    return "\n".join([line for line in lines if "event=request" not in line][-40:])


def differences(here: Rig) -> list[str]:
    """Sentences; empty if all is as it should be.  It is meant for a moment at which nothing happens."""
    told, there = Told(here), There(here)
    return [*_pods(told, there), *_gangs(told, there), *_parts(there), *_queues(told, there), *_nodes(there)]


class Told:
    """What runrig says: *groups* are those of workflows that have not ended; attempts go by WORKFLOW/TASK/RETRY."""

    def __init__(self, here: Rig) -> None:
        listed = here.get("/api/workflow", all_users="true", limit="1000")
        assert not listed["more_entries"]
        self.workflows = {each["name"]: each["status"] for each in listed["workflows"]}
        self.groups = {f"{id}/{group['name']}": group for id in self.workflows for group in here.workflow(id)["groups"]}
        self.pools = here.get("/api/pool")["pools"]

    def attempts(self) -> Iterator[tuple[str, Any]]:
        for gang, group in self.groups.items():
            id = gang.partition("/")[0]
            yield from ((f"{id}/{task['name']}/{task['retry_id']}", task) for task in group["tasks"])


class There:
    """What the API server keeps of ours."""

    def __init__(self, here: Rig) -> None:
        self._api, self.namespace = here.world.api, here.world.namespace
        self.pods = self._listed("v1", "Pod")
        self.pod_groups = self._listed("scheduling.run.ai/v2alpha2", "PodGroup")
        self.services = self._listed("v1", "Service")
        self.secrets = self._listed("v1", "Secret")
        self.queues = self._api.listed("scheduling.run.ai/v2", "Queue", labelSelector=OURS)
        self.topologies = self._api.listed("kai.scheduler/v1alpha1", "Topology", labelSelector=OURS)
        self.nodes = self._api.listed("v1", "Node")

    def _listed(self, version: str, kind: str) -> list[Object]:
        return self._api.listed(version, kind, self.namespace, labelSelector=OURS)

    def gangs(self) -> dict[str, list[Object]]:
        """The uuid of a gang → its pods."""
        found: dict[str, list[Object]] = defaultdict(list)
        for pod in self.pods:
            found[pod["metadata"]["labels"].get(GANG, "")].append(pod)
        return found


# ---------------------------------------------------------------- pods


def _pods(told: Told, there: There) -> Iterator[str]:
    counts = Counter(map(key_of, there.pods))
    yield from (f"{key} has {count} pods" for key, count in counts.items() if count > 1)
    pods = {key_of(pod): pod for pod in there.pods}
    attempts = dict(told.attempts())
    for key, task in attempts.items():
        if task["status"] in ON_NODES:
            yield from _pod(key, task, pods.get(key))
    for key, pod in pods.items():
        status = attempts[key]["status"] if key in attempts else "unknown to runrig"
        if status not in ON_NODES:
            yield f"{key} is {status}, and its pod {pod['metadata']['name']} {_state(pod)}"


def _pod(key: str, task: Any, pod: Object | None) -> Iterator[str]:
    if pod is None:
        yield f"{key} is {task['status']}, and has no pod"
        return
    if not lives(pod):
        yield f"{key} is {task['status']}, and its pod {_state(pod)}"
    if (pod["status"]["phase"], pinned_to(pod)) != (ON_NODES[task["status"]], task["node_name"]):
        yield f"{key} is {task['status']} on {task['node_name']}, its pod {pod['status']['phase']} for {pinned_to(pod)}"
    if node_of(pod) not in (None, task["node_name"]):
        yield f"{key} is on {task['node_name']}, and its pod is bound to {node_of(pod)}"


def _state(pod: Object) -> str:
    going = f", told to go at {pod['metadata']['deletionTimestamp']}" if "deletionTimestamp" in pod["metadata"] else ""
    return f"is {pod['status']['phase']} on {node_of(pod)}{going}"


# ---------------------------------------------------------------- gangs


def _gangs(told: Told, there: There) -> Iterator[str]:
    """Whole: each has one pod group, for as many as have not ended, and either all of its tasks have begun or none."""
    uuids: dict[str, set[str]] = defaultdict(set)
    for uuid, pods in there.gangs().items():
        for pod in pods:
            uuids[pod["metadata"]["annotations"][GANG_ID]].add(uuid)
    groups = {each["metadata"]["name"]: each for each in there.pod_groups}
    for id, group in told.groups.items():
        latest = _latest(group["tasks"])
        on_nodes = [name for name, task in latest.items() if task["status"] in ON_NODES]
        waits = [name for name, task in latest.items() if task["status"] in _WAITS]
        if on_nodes and waits:
            yield f"{id} is half started: {on_nodes} are on nodes, {waits} wait"
        if on_nodes and len(uuids[id]) != 1:
            yield f"{id} has {len(uuids[id])} pod groups' worth of pods"
        for uuid in uuids[id] & groups.keys() if on_nodes else ():
            if members(groups[uuid]) != len(on_nodes):
                yield f"the pod group of {id} is for {members(groups[uuid])} pods, and it has {len(on_nodes)}"


def _latest(tasks: list[Any]) -> dict[str, Any]:
    return {task["name"]: task for task in sorted(tasks, key=lambda task: task["retry_id"])}


def members(group: Object) -> int:
    """How many pods it wants to begin with."""
    subgroups = group["spec"].get("subGroups") or ()
    if not subgroups:
        return int(group["spec"]["minMember"])
    inner = {each.get("parent") for each in subgroups}
    return sum(each["minMember"] for each in subgroups if each["name"] not in inner)


def _parts(there: There) -> Iterator[str]:
    """What belongs to a gang is there exactly as long as its pods."""
    gangs = there.gangs()
    many = {uuid for uuid, pods in gangs.items() if len(pods) > 1}
    has_group = {each["metadata"]["name"] for each in there.pod_groups}
    if has_group != gangs.keys():
        yield f"pod groups {sorted(has_group)} for the gangs {sorted(gangs)}"
    for kind, found in (("service", there.services), ("secret", there.secrets)):
        of = {each["metadata"]["labels"].get(GANG, "") for each in found}
        if of - gangs.keys():
            yield f"a {kind} is left of {sorted(of - gangs.keys())}"
    without = many - {each["metadata"]["labels"].get(GANG) for each in there.services}
    if without:
        yield f"no service for {sorted(without)}"


# ---------------------------------------------------------------- queues, nodes


def _queues(told: Told, there: There) -> Iterator[str]:
    """Returns each queue's name and parent, and a topology for each top-level pool that has keys."""
    root = f"osmo-default-{there.namespace}"
    wanted: dict[str, str | None] = {root: None}
    keyed = set()
    for name, pool in told.pools.items():
        queue = f"osmo-pool-{there.namespace}-{name}"
        top, delimiter, _ = name.partition("--")
        wanted[queue] = f"osmo-pool-{there.namespace}-{top}" if delimiter else root
        if not delimiter:
            wanted[f"{queue}---shared"] = queue
        if not delimiter and pool.get("topology_keys"):
            keyed.add(f"{queue}-topology")
    found = {each["metadata"]["name"]: each["spec"].get("parentQueue") or None for each in there.queues}
    if found != wanted:
        yield f"queues {dict(sorted(found.items()))}, and should be {dict(sorted(wanted.items()))}"
    topologies = {each["metadata"]["name"] for each in there.topologies}
    if topologies != keyed:
        yield f"topologies {sorted(topologies)}, and should be {sorted(keyed)}"


def _nodes(there: There) -> Iterator[str]:
    held = Counter[str]()
    for pod in there.pods:
        if lives(pod):
            held[pinned_to(pod)] += gpus_of(pod)
    has = {node["metadata"]["name"]: int(node["status"]["allocatable"].get(_GPU, 0)) for node in there.nodes}
    yield from (f"{gpus} GPUs of {node} are given to pods" for node, gpus in held.items() if gpus > has.get(node, 0))


def gpus_of(pod: Object) -> int:
    return sum(int(each.get("resources", {}).get("limits", {}).get(_GPU, 0)) for each in pod["spec"]["containers"])


# ---------------------------------------------------------------- what was


def check_log(here: Rig) -> None:
    """When the server is no longer running: its log gives its state."""
    store = SqlStore.look(f"sqlite:///{here.folder / 'data' / 'runrig.db'}")
    try:
        assert replayed(store).rows() == store.load()
    finally:
        store.close()
