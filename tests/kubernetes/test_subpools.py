"""The life of subpools on a cluster: queues come and go with the numbers of our quota tree, and nothing that runs is disturbed."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from e2e.api import Object
from tests.kubernetes.runrigs import Rig, one_task, rig
from tests.kubernetes.world import EXAMPLES, OURS, World

CLUSTER = """
nodes: [{name: "n{0..2}", resources: {gpu: 48}}]
pools: [{name: team, quota: 100}]
"""
GANG = {"count": 5}
"""Five pods of ten GPUs each."""

Numbers = Mapping[str, tuple[int, int, int]]
"""What stands behind the pool's own queue in a queue's name → quota, limit and weight in GPUs."""


def queues(here: Rig) -> dict[str, Object]:
    found = here.world.api.listed("scheduling.run.ai/v2", "Queue", labelSelector=OURS)
    return {each["metadata"]["name"]: each for each in found}


def numbers(here: Rig) -> Numbers:
    """Returns the numbers of `team` and of all below it."""
    team = f"osmo-pool-{here.world.namespace}-team"
    return {name.removeprefix(team): gpus(each) for name, each in queues(here).items() if name.startswith(team)}


def gpus(queue: Object) -> tuple[int, int, int]:
    of = queue["spec"]["resources"]["gpu"]
    return of["quota"], of["limit"], of["overQuotaWeight"]


def come_to_be(here: Rig, wanted: Mapping[str, int], *, limit: int = -1) -> None:
    """*wanted*: quotas.  *limit*: of the pool itself."""
    whole = {name: (quota, limit if name == "" else -1, 1) for name, quota in wanted.items()}
    with suppress(TimeoutError):
        here.world.plane.until(lambda: numbers(here) == whole, "the queues are as wanted")
    assert numbers(here) == whole


@contextmanager
def undisturbed(here: Rig) -> Iterator[None]:
    """All pods that live now do so at the end: the very same ones, untouched by anybody."""
    before, start = here.uids(), here.now()
    yield
    after = here.uids()
    assert {key: after.get(key) for key in before} == before
    told = [(each.type, each.key) for each in here.history(start) if each.key in before and each.type != "ADDED"]
    assert told == []


def subpool(here: Rig, *command: str) -> str:
    return here.say("pool", "subpool", *command)


def test_queues_of_subpools_are_created_and_removed_while_older_work_of_the_parent_runs(
    world: World, tmp_path: Path
) -> None:
    """S1-S3, R7: the example of subpools.md, cut and put together again."""
    with rig(world, tmp_path, CLUSTER) as here:
        come_to_be(here, {"": 100, "---shared": 100})
        older = here.submit(one_task("older", 10, **GANG), "team")
        assert len(here.runs(older)) == 5
        check_cutting(here)
        wa, wb = here.submit(one_task("wa", 5), "team--a"), here.submit(one_task("wb", 10), "team--b")
        here.runs(wa)
        here.runs(wb)
        assert queue_of(here, wa) == f"osmo-pool-{world.namespace}-team--a"
        assert queue_of(here, older) == f"osmo-pool-{world.namespace}-team---shared"
        check_deleting(here, wb)
        check_end(here, older, wa)
        assert world.events("Evict", "Preempted") == []


def check_cutting(here: Rig) -> None:
    """The parent's own leaf keeps what is admitted there, though less is unallocated."""
    with undisturbed(here):
        subpool(here, "create", "team", "a", "--quota", "30")
        come_to_be(here, {"": 100, "---shared": 70, "--a": 30})
        subpool(here, "create", "team", "b", "--quota", "40%")
        come_to_be(here, {"": 100, "---shared": 50, "--a": 30, "--b": 40})
        subpool(here, "create", "team", "c", "--quota", "20")
        come_to_be(here, {"": 100, "---shared": 50, "--a": 30, "--b": 40, "--c": 20})
        parent = f"osmo-pool-{here.world.namespace}-team"
        assert {each["spec"]["parentQueue"] for name, each in queues(here).items() if "team-" in name} == {parent}
        subpool(here, "update", "team", "a", "--quota", "35")
        come_to_be(here, {"": 100, "---shared": 50, "--a": 35, "--b": 40, "--c": 20})


def check_deleting(here: Rig, wb: str) -> None:
    """One that is empty goes at once, one that drains stays until it has."""
    with undisturbed(here):
        subpool(here, "delete", "team", "c")
        come_to_be(here, {"": 100, "---shared": 50, "--a": 35, "--b": 40})
        uid = queues(here)[f"osmo-pool-{here.world.namespace}-team--b"]["metadata"]["uid"]
        subpool(here, "delete", "team", "b")
        here.until(lambda: draining(here) == "DELETING", "team--b drains")
        left = queues(here)[f"osmo-pool-{here.world.namespace}-team--b"]
        assert (left["metadata"]["uid"], gpus(left)[0] >= 10) == (uid, True)
    here.finish(wb)
    come_to_be(here, {"": 100, "---shared": 65, "--a": 35})
    assert draining(here) == "ARCHIVED"


def check_end(here: Rig, older: str, wa: str) -> None:
    """The name may come back, and the leaf follows what runs in it."""
    with undisturbed(here):
        subpool(here, "create", "team", "b", "--quota", "65")
        come_to_be(here, {"": 100, "---shared": 50, "--a": 35, "--b": 65})
    here.finish(older)
    come_to_be(here, {"": 100, "---shared": 0, "--a": 35, "--b": 65})
    assert here.status(wa) == "RUNNING"


def draining(here: Rig) -> str:
    return str(here.get("/api/configs/pool/team/subpool/b")["subpool_state"])


def queue_of(here: Rig, id: str) -> str:
    """Returns the queue that its pod group and its pods name."""
    (pod, *_) = here.pods(id).values()
    metadata = {"name": pod["metadata"]["annotations"]["pod-group-name"], "namespace": here.world.namespace}
    group = here.world.api.read({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata})
    assert group is not None
    assert {each["metadata"]["labels"]["kai.scheduler/queue"] for each in here.pods(id).values()} == {
        group["spec"]["queue"]
    }
    return str(group["spec"]["queue"])


def test_pool_with_a_new_borrowing_limit_keeps_what_it_already_had(world: World, tmp_path: Path) -> None:
    """Quota and limit never fall below what is admitted, whatever the pool is cut to."""
    text = """
nodes: [{name: n0, resources: {gpu: 16}}]
pools:
  - {name: team, quota: {gpu: {nominal: 8, borrowing_limit: 4}}}
  - {name: other, quota: 8}
"""
    with rig(world, tmp_path, text) as here:
        come_to_be(here, {"": 8, "---shared": 8}, limit=12)
        firm, low = here.submit(one_task("firm", 6), "team"), here.submit(one_task("low", 6), "team", "LOW")
        here.runs(firm)
        here.runs(low)
        with undisturbed(here):
            here.say("pool", "update", "team", "--quota", "2", "--borrowing-limit", "1")
            come_to_be(here, {"": 6, "---shared": 6}, limit=12)
        here.finish(low)
        come_to_be(here, {"": 6, "---shared": 6}, limit=6)
        here.finish(firm)
        come_to_be(here, {"": 2, "---shared": 2}, limit=3)


def test_topology_with_changed_levels_is_recreated_while_pods_run(world: World, tmp_path: Path) -> None:
    """Its levels can never be changed; subpools use that of their parent."""
    with rig(world, tmp_path, EXAMPLES / "03-cluster.yaml") as here:
        clique, zone = "gpu-clique=nvidia.com/gpu-clique", "zone=topology.kubernetes.io/zone"
        here.say("pool", "subpool", "create", "research", "a", "--quota", "16")
        id = here.submit(EXAMPLES / "01-single-rack.yaml", "research--a")
        assert len(here.runs(id)) == 4
        assert topologies(here) == [["topology.kubernetes.io/zone", "nvidia.com/gpu-clique"]]
        with undisturbed(here):
            here.say("pool", "update", "research", "--topology-key", clique)
            here.until(lambda: topologies(here) == [["nvidia.com/gpu-clique"]], "one level is left")
            here.say("pool", "update", "research", "--topology-key", zone, "--topology-key", clique)
            here.until(lambda: len(topologies(here)[0]) == 2, "two levels are back")
        second = here.submit(EXAMPLES / "01-single-rack.yaml", "research")
        assert len(here.runs(second)) == 4


def topologies(here: Rig) -> list[list[str]]:
    """The labels of their levels; one that is being made anew is waited for."""
    found = here.until(
        lambda: here.world.api.listed("kai.scheduler/v1alpha1", "Topology", labelSelector=OURS), "there is a topology"
    )
    return [[level["nodeLabel"] for level in each["spec"]["levels"]] for each in found]


# ---------------------------------------------------------------- two servers


def test_two_servers_share_a_cluster_without_affecting_each_other(world: World, tmp_path: Path) -> None:
    """Their pools have one name, and each leaves alone what the other runs."""
    cluster = "nodes: [{name: n0, resources: {gpu: 4}}]\npools: [{name: team, quota: 4}]\n"
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    other = World(world.plane)
    with rig(world, folders[0], cluster) as first, rig(other, folders[1], cluster, nodes=False) as second:
        come_to_be(second, {"": 4, "---shared": 4})
        one, two = first.submit(one_task("w", 3), "team"), second.submit(one_task("w", 1), "team")
        first.runs(one)
        second.runs(two)
        with undisturbed(first):
            more = second.submit(one_task("more", 2), "team")
            second.until(lambda: "no node has room for its pod" in second.why(more), "it is seen that there is no room")
            second.say("pool", "subpool", "create", "team", "a", "--quota", "1")
            come_to_be(second, {"": 4, "---shared": 3, "--a": 1})
            second.say("pool", "subpool", "delete", "team", "a")
            come_to_be(second, {"": 4, "---shared": 4})
            second.finish(two)
        first.finish(one)
        assert second.runs(more) == {"main": "n0"}
        come_to_be(first, {"": 4, "---shared": 4})
    other.clear()


def test_queue_is_removed_once_it_is_empty_and_delays_nothing_until_then(world: World, tmp_path: Path) -> None:
    """The webhook of KAI's queues refuses to delete one of which its controller has not noted yet that the children are gone."""
    cluster = CLUSTER.replace("quota: 100}", "quota: 100}, {name: gone, quota: 8}")
    with rig(world, tmp_path, cluster) as here:
        gone, leaf = (f"osmo-pool-{world.namespace}-gone{end}" for end in ("", "---shared"))
        queue = here.until(lambda: queues(here).get(gone), "its queue is there")
        world.api.set_status(queue, {"childQueues": [leaf]})
        here.say("pool", "delete", "gone", "--yes")
        here.until(lambda: leaf not in queues(here), "what is below it is gone")
        here.runs(here.submit(one_task("w"), "team"))
        assert here.get("/readyz") == {"status": "ready"}
        assert gone in queues(here)
        world.api.set_status(queue, {"childQueues": []})
        here.until(lambda: gone not in queues(here), "it is gone")
