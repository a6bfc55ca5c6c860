"""KAI leaves a running gang alone only while the start time on its pod group exists, so runrig adds it whenever it is missing."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from e2e.api import Object
from e2e.harness import SCHEDULER
from tests.kubernetes.faults import patch
from tests.kubernetes.runrigs import Rig, begun_anew, node_of, one_task, rig
from tests.kubernetes.test_events import note
from tests.kubernetes.world import OURS, World, bare_pod

CLUSTER = "nodes: [{name: n0, resources: {gpu: 16}}]\npools: [{name: pool, quota: 16}]\n"
STARTED = "kai.scheduler/last-start-timestamp"
GROUP = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup"}


def group_of(here: Rig) -> Object | None:
    """The pod group of the only gang."""
    found = here.world.api.listed(GROUP["apiVersion"], GROUP["kind"], here.world.namespace, labelSelector=OURS)
    return found[0] | GROUP if found else None


def started(here: Rig) -> str | None:
    group = group_of(here)
    when: str | None = ((group or {}).get("metadata", {}).get("annotations") or {}).get(STARTED)
    return when


def deleted(here: Rig) -> None:
    """Somebody deletes the pod group; the repair creates another one, which KAI never starts."""
    before = here.until(lambda: group_of(here) if started(here) else None, "its start is noted")
    here.world.api.delete(before)
    uid = before["metadata"]["uid"]
    here.until(lambda: (now := group_of(here)) and now["metadata"]["uid"] != uid, "another one is there")


def lost(here: Rig) -> None:
    """The annotation is gone, as if the API server had rejected KAI's patch."""
    before = here.until(lambda: group_of(here) if started(here) else None, "its start is noted")
    patch(here, before, {"metadata": {"annotations": {STARTED: None}}})


@pytest.mark.parametrize("lose", [deleted, lost])
def test_running_gang_gets_its_start_time_back(world: World, tmp_path: Path, lose: Callable[[Rig], None]) -> None:
    with rig(world, tmp_path, CLUSTER) as here:
        id = here.submit(one_task("w", count=16), "pool", "LOW")
        here.runs(id)
        lose(here)
        check_protected(here, id)


def test_gang_has_its_start_time_even_if_its_scheduler_died_while_binding(world: World, tmp_path: Path) -> None:
    with rig(world, tmp_path, CLUSTER) as here:
        id = here.submit(one_task("w", count=16), "pool", "LOW")
        here.until(lambda: any(node_of(pod) for pod in here.pods(id).values()), "the first pod has a node")
        with begun_anew(world.plane.scheduler):
            here.until(lambda: started(here), "its start is noted while nobody schedules")
        here.runs(id)
        check_protected(here, id)


def check_protected(here: Rig, id: str) -> None:
    """With KAI, work of the same pool and a higher priority asks for the node, is refused, and evicts nobody."""
    uids = here.uids()
    when = here.until(lambda: started(here), "its start is noted")
    created = [pod["metadata"]["creationTimestamp"] for pod in here.pods(id).values()]
    assert datetime.fromisoformat(when) >= min(map(datetime.fromisoformat, created))
    if here.world.plane.kai:
        rival = wants_the_node(here)
        here.until(lambda: refused(here, rival), "KAI has refused it")
        assert here.world.events("Evict", "Preempted") == []
    assert (here.uids(), here.status(id)) == (uids, "RUNNING")


def wants_the_node(here: Rig) -> Object:
    """A pod of priority NORMAL in the queue of the gang."""
    namespace, queue = here.world.namespace, f"osmo-pool-{here.world.namespace}-pool---shared"
    spec = {"queue": queue, "priorityClassName": "osmo-normal", "minMember": 1, "preemptibility": "non-preemptible"}
    here.world.api.create(GROUP | {"metadata": {"name": "rival", "namespace": namespace}, "spec": spec})
    pod = bare_pod(namespace, "rival", annotations={"pod-group-name": "rival"})
    pod["metadata"]["labels"] = {"kai.scheduler/queue": queue}
    pod["spec"] |= {"priorityClassName": "osmo-normal", "schedulerName": SCHEDULER}
    return here.world.api.create(pod)


def refused(here: Rig, pod: Object) -> bool:
    now = here.world.api.read(pod | {"apiVersion": "v1", "kind": "Pod"}) or {}
    conditions = now.get("status", {}).get("conditions") or ()
    return any((each["type"], each["status"]) == ("PodScheduled", "False") for each in conditions)


def test_work_evicted_by_kai_is_requeued_even_if_only_an_event_says_so(world: World, tmp_path: Path) -> None:
    """R6, T7: KAI without --update-pod-eviction-condition deletes a pod as anybody would."""
    words = "Preempted by another workload"
    with rig(world, tmp_path, CLUSTER) as here:
        id = here.submit(one_task("w"), "pool", "LOW")
        here.runs(id)
        pod = here.pods()[f"{id}/main/0"]
        note(here, here.until(lambda: group_of(here), "its pod group"), "Evict", words)
        world.api.delete(pod)
        here.until(lambda: len(here.attempts(id)) == 2, "it is queued again")
        (first, _) = here.workflow(id)["groups"][0]["tasks"]
        assert (first["status"], first["exit_code"]) == ("FAILED_PREEMPTED", 3006)
        assert words in here.events(id)
