"""Policies of a cluster that refuse some of our objects: what they refuse fails or stays, and nobody else waits for it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from e2e.api import Object, Refusal
from tests.kubernetes.faults import CLUSTER, gang, submit
from tests.kubernetes.runrigs import Rig, one_task, rig
from tests.kubernetes.world import World, bare_pod

ADMISSION = "admissionregistration.k8s.io/v1"
QUEUES, POD_GROUPS = ("scheduling.run.ai", "v2", "queues"), ("scheduling.run.ai", "v2alpha2", "podgroups")


@contextmanager
def policy(
    world: World, resource: tuple[str, str, str], operation: str, allowed: str, words: str, probe: Object
) -> Iterator[None]:
    """Refuses with *words* what is not *allowed* (CEL), as an admission webhook would: 403.  *probe*: something that it refuses."""
    group, version, plural = resource
    rule = {"apiGroups": [group], "apiVersions": [version], "operations": [operation], "resources": [plural]}
    name = f"no-{plural}-{world.namespace}"
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": allowed, "message": words, "reason": "Forbidden"}],
    }
    objects = [
        {"apiVersion": ADMISSION, "kind": f"ValidatingAdmissionPolicy{kind}", "metadata": {"name": name}, "spec": each}
        for kind, each in (("", spec), ("Binding", {"policyName": name, "validationActions": ["Deny"]}))
    ]
    for each in objects:
        world.api.create(each)
    try:
        world.plane.until(lambda: refuses(world, operation, probe), "the policy counts")
        yield
    finally:
        for each in reversed(objects):
            world.api.delete(each)
        world.plane.until(lambda: not refuses(world, operation, probe), "the policy does not count any more")


def refuses(world: World, operation: str, probe: Object) -> bool:
    try:
        if operation == "CREATE":
            world.api.create(probe, dry_run=True)
        else:
            with suppress(Refusal):
                world.api.create(probe)
            world.api.delete(probe)
    except Refusal as refusal:
        return refusal.status == 403
    return False


def pod_group(world: World) -> Object:
    metadata = {"name": "probe", "namespace": world.namespace, "labels": {"team": "bad"}}
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": {"queue": "q", "minMember": 1},
    }


def test_gang_whose_pod_group_a_policy_refuses_fails_with_its_message(world: World, tmp_path: Path) -> None:
    """Also if these sound like a right that we lack."""
    words = "team bad cannot run here"
    allowed = (
        "!has(object.metadata.labels) || !('team' in object.metadata.labels) || object.metadata.labels['team'] != 'bad'"
    )
    with rig(world, tmp_path, CLUSTER) as here, policy(world, POD_GROUPS, "CREATE", allowed, words, pod_group(world)):
        bad = one_task("bad")
        refused = submit(here, {"workflow": {**bad["workflow"], "labels": {"team": "bad"}}})
        here.runs(submit(here, one_task("good")))
        here.wait(refused, "FAILED")
        (task,) = here.workflow(refused)["groups"][0]["tasks"]
        assert (task["status"], task["exit_code"]) == ("FAILED_START_ERROR", 3003)
        assert words in task["failure_message"], task
        assert is_ready(here)


def test_queue_that_a_policy_protects_stays_and_nothing_waits_for_it(world: World, tmp_path: Path) -> None:
    probe = {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": f"kept-{world.namespace}"},
        "spec": {"resources": {}},
    }
    with rig(world, tmp_path, CLUSTER) as here:
        queue = f"osmo-pool-{world.namespace}-gone"
        here.say("pool", "create", "gone", "--quota", "2")
        here.until(lambda: queue in queues(here), "its queue is there")
        with policy(world, QUEUES, "DELETE", "false", "no queue can be deleted, they cannot come back", probe):
            here.say("pool", "delete", "gone", "--yes")
            here.runs(submit(here, one_task("w")))
            assert is_ready(here)
            assert queue in queues(here)
        here.runs(submit(here, one_task("again")))
        here.until(lambda: queue not in queues(here), "it has gone", timeout_s=90)


def test_foreign_priority_class_with_runrigs_name_is_unchanged_and_used(world: World, tmp_path: Path) -> None:
    """Its value cannot be changed, and only KAI's order within a queue would need ours."""
    theirs = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "osmo-high"},
        "value": 1000,
    }
    world.api.create(theirs)
    try:
        with rig(world, tmp_path, CLUSTER) as here:
            here.runs(submit(here, one_task("w"), priority="HIGH"))
            assert is_ready(here)
            assert "osmo-high" in here.log.read_text(), "it is said"
            kept = world.api.read(theirs)
            assert kept is not None
            assert kept["value"] == 1000
    finally:
        world.api.delete(theirs)


def queues(here: Rig) -> set[str]:
    return {each["metadata"]["name"] for each in here.world.api.listed("scheduling.run.ai/v2", "Queue")}


def is_ready(here: Rig) -> bool:
    return bool(here.get("/readyz") == {"status": "ready"})


# ---------------------------------------------------------------- requests that do not fit


def test_pod_too_large_for_the_cluster_fails_and_delays_nothing_else(world: World, tmp_path: Path) -> None:
    """A file below its limit, whose tokens make more of it than the database behind the API server takes."""
    with rig(world, tmp_path, CLUSTER) as here:
        other = submit(here, one_task("other"))
        here.runs(other)
        large = [submit(here, one_task(f"large-{kb}", args=["{{uuid}}" * 1000] * (kb // 8))) for kb in (360, 480)]
        for each in large:
            here.wait(each, "FAILED")
            (task,) = here.workflow(each)["groups"][0]["tasks"]
            assert (task["status"], task["exit_code"]) == ("FAILED_START_ERROR", 3003)
            assert "larger than" in task["failure_message"] or "too large" in task["failure_message"]
        here.finish(other)
        assert is_ready(here)


def test_gang_that_exceeds_a_namespace_quota_does_not_start_at_all(world: World, tmp_path: Path) -> None:
    """T7: it is taken back whole, says why, and starts when there is room for all of it."""
    with rig(world, tmp_path, CLUSTER) as here:
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "few", "namespace": world.namespace},
            "spec": {"hard": {"pods": "3"}},
        }
        world.api.create(quota)
        world.api.set_status(quota, {"hard": {"pods": "3"}, "used": {"pods": "0"}})
        here.until(lambda: quota_refuses(world), "the quota counts")
        whole = submit(here, gang("whole", 4))
        here.until(lambda: "exceeded quota" in here.why(whole), "it says why")
        here.until(lambda: not here.pods(whole), "nothing of it is left")
        again = {"FAILED_BACKEND_ERROR", "SCHEDULING"}
        here.until(lambda: {status for _, _, status in here.attempts(whole)} == again, "it waits again")
        assert here.status(whole) == "PENDING"
        small = submit(here, gang("small", 2))
        world.api.set_status(quota, {"hard": {"pods": "3"}, "used": {"pods": "0"}})
        here.runs(small)
        world.api.delete(quota)
        here.until(lambda: not quota_refuses(world), "the quota is gone")
        here.finish(small)
        assert len(here.runs(whole)) == 4


def quota_refuses(world: World) -> bool:
    """Four pods at once, one after the other, without making them."""
    probe = bare_pod(world.namespace, "probe")
    try:
        for number in range(4):
            world.api.create(probe | {"metadata": {**probe["metadata"], "name": f"probe-{number}"}})
    except Refusal as refusal:
        return "exceeded quota" in str(refusal)
    finally:
        for number in range(4):
            with suppress(Refusal):
                world.api.delete(probe | {"metadata": {**probe["metadata"], "name": f"probe-{number}"}}, grace_s=0)
    return False
