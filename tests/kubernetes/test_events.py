"""What the scheduler and kubelets note on a real API server, in `workflow events`, and what of it is still there later."""

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from e2e.api import Object, path_of
from tests.kubernetes.rights import as_account
from tests.kubernetes.runrigs import Rig, one_task, rig
from tests.kubernetes.world import World

CLUSTER = "nodes: [{name: n0, resources: {gpu: 2}}]\npools: [{name: pool, quota: 2}]\n"
_NUMBERS = itertools.count(1)


def note(here: Rig, about: Object, reason: str, message: str, **more: Any) -> Object:
    """As a kubelet writes it."""
    meta = about["metadata"]
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{meta['name']}.{next(_NUMBERS)}", "namespace": here.world.namespace},
        "involvedObject": {
            "kind": about["kind"],
            "name": meta["name"],
            "namespace": meta["namespace"],
            "uid": meta["uid"],
        },
        "reason": reason,
        "message": message,
        "source": {"component": "kubelet", "host": "n0"},
        "firstTimestamp": _now(),
        "lastTimestamp": _now(),
        "count": 1,
        "type": "Normal",
    }
    return here.world.api.create(event | more)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def again(here: Rig, event: Object, count: int) -> None:
    patch = "application/merge-patch+json"
    here.world.api.call("PATCH", path_of(event), {"count": count, "lastTimestamp": _now()}, kind=patch)


def noted(here: Rig, id: str) -> list[str]:
    """What programs of the cluster said, in order."""
    events = here.get(f"/api/v1/workflows/{id}/events", limit="1000")["items"]
    return [each["text"] for each in events if each["revision"] is None]


def tells(here: Rig, id: str, words: Sequence[str]) -> None:
    """The kubelet's, in this order, after a while."""
    expected = [f"kubelet: {each}" for each in words]
    said: list[str] = []

    def all_there() -> bool:
        said[:] = [each for each in noted(here, id) if each.startswith("kubelet: ")]
        return said == expected

    try:
        here.world.plane.until(all_there, "the events are told", timeout_s=20)
    except TimeoutError:
        assert said == expected


def forget(here: Rig) -> None:
    """The API server does so after an hour."""
    for event in here.world.api.listed("v1", "Event", here.world.namespace):
        here.world.api.delete(event | {"apiVersion": "v1", "kind": "Event"})


def group_of(here: Rig, pod: Object) -> Object:
    name = pod["metadata"]["labels"]["runrig/gang"]
    kind = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup"}
    found = here.world.api.read(kind | {"metadata": {"name": name, "namespace": here.world.namespace}})
    assert found is not None
    return found


# ---------------------------------------------------------------- reported and stored


def test_scheduler_and_kubelet_events_are_kept_long_after_the_pod(world: World, tmp_path: Path) -> None:
    """A restart, an API server that forgets, a pod that goes: what was noted stays, once."""
    with rig(world, tmp_path, CLUSTER) as here:
        id = here.submit(one_task("train"), "pool")
        here.runs(id)
        key = f"{id}/main/0"
        pod = here.pods()[key]
        name = f"{world.namespace}/{pod['metadata']['name']}"
        by = "kai-scheduler: task main (attempt 0): Scheduled: Successfully assigned "
        scheduled = (f"{by}{name} to n0", f"{by}pod {name} to node n0 at node-pool default")  # as KAI says it
        here.until(lambda: any(each in noted(here, id) for each in scheduled), "it was scheduled")

        pulling = note(here, pod, "Pulling", 'Pulling image "train:1"')
        note(here, group_of(here, pod), "Odd", "of the gang")
        words = ['task main (attempt 0): Pulling image "train:1"', "group main-group: Odd: of the gang"]
        tells(here, id, words)
        again(here, pulling, 7)
        words = [words[1], f"{words[0]} (x7)"]
        tells(here, id, words)
        whole = noted(here, id)

        here.restart()
        tells(here, id, words)
        forget(here)
        assert noted(here, id) == whole

        note(here, pod, "Killing", "Stopping container main")
        here.finish(id)
        here.until(lambda: not here.pods(), "the pod has gone")
        note(here, pod, "Late", "after all")
        words += ["task main (attempt 0): Killing: Stopping container main", "task main (attempt 0): Late: after all"]
        tells(here, id, words)
        forget(here)
        here.restart()
        tells(here, id, words)
        printed = here.say("workflow", "events", id)
        assert [printed.count(each) for each in words] == [1] * len(words)
        assert printed.index("admitted on n0") < printed.index("Scheduled") < printed.index("Late: after all")


def test_events_recorded_while_runrig_was_away_are_shown(world: World, tmp_path: Path) -> None:
    with rig(world, tmp_path, CLUSTER) as here:
        id = here.submit(one_task("train"), "pool")
        here.runs(id)
        here.kill()
        pod = here.pods()[f"{id}/main/0"]
        note(here, pod, "FailedMount", "no such volume", count=3)
        here.ends(f"{id}/main/0", 3)
        here.start()
        here.wait(id, "FAILED")
        tells(here, id, ["task main (attempt 0): FailedMount: no such volume (x3)"])


def test_attempts_and_workflows_have_their_own_events(world: World, tmp_path: Path) -> None:
    """And a pod of somebody else in the namespace is nobody's."""
    with rig(world, tmp_path, CLUSTER) as here:
        ids = [here.submit(one_task(name), "pool") for name in ("a", "b")]
        for id in ids:
            here.runs(id)
            note(here, here.pods()[f"{id}/main/0"], "Odd", id)
        foreign = {"kind": "Pod", "metadata": {"name": "other", "namespace": world.namespace, "uid": "1"}}
        note(here, foreign, "Odd", "not ours")
        for id in ids:
            tells(here, id, [f"task main (attempt 0): Odd: {id}"])
        files = sorted((here.folder / "data" / "logs").rglob(".events"))
        assert [file.parent.name for file in files] == ids


# ---------------------------------------------------------------- without permission


def test_without_permission_to_see_events_everything_else_works(world: World, tmp_path: Path) -> None:
    as_account(world, tmp_path, without=["events"])
    with rig(world, tmp_path, CLUSTER) as here:
        id = here.submit(one_task("train"), "pool")
        here.runs(id)
        note(here, here.pods()[f"{id}/main/0"], "Odd", "unheard")
        here.finish(id)
        here.until(lambda: not here.pods(), "the pod has gone")
        assert noted(here, id) == []
        warned = [line for line in here.log.read_text().splitlines() if "level=WARNING" in line]
        assert ["event=watch_lost kind=events" in line and "403" in line for line in warned] == [True], warned
