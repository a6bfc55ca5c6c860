"""What the cluster needs of the pools: the tree of queues, topologies, priority classes."""

from runrig.backends.kubernetes.names import Object, wanted_id
from runrig.backends.kubernetes.objects import cluster_objects
from runrig.domain.pools import Pool, TopologyKey
from runrig.ports.backend import PoolQueues, QueueQuota

KEYS = (TopologyKey("zone", "example.com/zone"), TopologyKey("rack", "example.com/rack"))
LAB, SIM = Pool("lab", topology_keys=KEYS), Pool("sim")
SUB = Pool("lab--a", parent="lab", subpool_name="a", topology_keys=KEYS)


def queue(name: str, parent: str | None, display: str, numbers: tuple[int, int, int]) -> Object:
    quota, limit, weight = numbers
    endless = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    above = {} if parent is None else {"parentQueue": parent}
    never = {"preemptMinRuntime": "87600h", "reclaimMinRuntime": "87600h"} if parent is None else {}
    gpu = {"quota": quota, "limit": limit, "overQuotaWeight": weight}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "runrig", "runrig/namespace": "jobs"}},
        "spec": {
            "displayName": display,
            **never,
            **above,
            "resources": {"gpu": gpu, "cpu": endless, "memory": endless},
        },
    }


def test_every_pool_has_queues_parents_first_and_top_level_ones_a_topology() -> None:
    pools = (
        PoolQueues(LAB, QueueQuota(8, 12, 3), QueueQuota(5, None, 3)),
        PoolQueues(SIM, QueueQuota(0, None, 1), QueueQuota(0, None, 1)),
        PoolQueues(SUB, None, QueueQuota(3, None, 2)),
    )
    classes, rest = cluster_objects(pools, "jobs")[:3], cluster_objects(pools, "jobs")[3:]
    assert [(each["metadata"]["name"], each["value"]) for each in classes] == [
        ("osmo-high", 125),
        ("osmo-normal", 100),
        ("osmo-low", 50),
    ]
    root, lab, sim = "osmo-default-jobs", "osmo-pool-jobs-lab", "osmo-pool-jobs-sim"
    assert rest == (
        queue(root, None, root, (-1, -1, 1)),
        queue(lab, root, "lab", (8, 12, 3)),
        queue(f"{lab}---shared", lab, "lab", (5, -1, 3)),
        queue(sim, root, "sim", (0, -1, 1)),
        queue(f"{sim}---shared", sim, "sim", (0, -1, 1)),
        queue(f"{lab}--a", lab, "lab--a", (3, -1, 2)),
        {
            "apiVersion": "kai.scheduler/v1alpha1",
            "kind": "Topology",
            "metadata": {
                "name": f"{lab}-topology",
                "labels": {"app.kubernetes.io/managed-by": "runrig", "runrig/namespace": "jobs"},
            },
            "spec": {"levels": [{"nodeLabel": "example.com/zone"}, {"nodeLabel": "example.com/rack"}]},
        },
    )


def test_without_pools_only_the_root_exists() -> None:
    assert [wanted_id(each) for each in cluster_objects((), "jobs")] == [
        ("PriorityClass", "", "osmo-high"),
        ("PriorityClass", "", "osmo-normal"),
        ("PriorityClass", "", "osmo-low"),
        ("Queue", "", "osmo-default-jobs"),
    ]
