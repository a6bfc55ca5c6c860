"""What a monitor reads is what is, with few labels, and costs little however many wait."""

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from runrig.domain.gangs import Gang, PodSet, Priority
from runrig.domain.nodes import Flavor, Node
from runrig.domain.plan import PutCohort, PutNode, PutPool, Queue, SetFlavors
from runrig.domain.pools import Cohort, Pool, Quota
from runrig.domain.quantities import CPU, GPU, FlavorResource, requests_of
from runrig.engine.explain.monitor_snapshot import WaitingGangs, monitor_snapshot
from runrig.engine.explain.quota_report import tree_rows
from runrig.engine.nodes.gpu_counts import GpusByState
from runrig.engine.state.state import State
from runrig.service.runtime.metrics import Metrics
from tests.api.client import Api, api
from tests.service.runtime.scrape import Labels, labelled, scraped
from tests.worlds.service import desk, one_task

HIDDEN = ("secret-workflow", "secret-user", "ann")


def read(it: Api) -> Mapping[str, Mapping[Labels, float]]:
    return scraped(it.get("/metrics"))


def test_metrics_show_queues_quotas_and_gpus_of_the_state(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        desk = it.desk
        for number in range(4):
            desk.submit(f"low{number}", priority=Priority.LOW)
        desk.later(0)
        desk.submit("normal")
        desk.submit("firm", pool="pool2", gpus=2, priority=Priority.HIGH)
        desk.submit("more", pool="pool2", gpus=2)
        submitted = desk.time[0]
        desk.service._reconciler.round()
        desk.time[0] += 50
        found = read(it)
        assert found["runrig_queue_gangs"] == {
            labelled(pool="pool1", priority="NORMAL"): 1,
            labelled(pool="pool2", priority="HIGH"): 1,
            labelled(pool="pool2", priority="NORMAL"): 1,
        }
        assert found["runrig_queue_oldest_seconds"] == {
            labelled(pool="pool1", priority="NORMAL"): 52,
            labelled(pool="pool2", priority="HIGH"): 51,
            labelled(pool="pool2", priority="NORMAL"): 50,
        }
        assert submitted + 50 == desk.time[0]
        for name, values in {"nominal": (0, 2, 2), "usage": (4, 4, 0), "headroom": (0, 0, 0)}.items():
            nodes = (("", "root"), ("pool1", "pool"), ("pool2", "pool"))
            assert found[f"runrig_quota_{name}"] == {
                labelled(node=node, kind=kind, flavor="default", resource="gpu"): value
                for (node, kind), value in zip(nodes, values, strict=True)
            }
        assert found["runrig_gpus"] == {
            labelled(flavor="default", state="held"): 4,
            labelled(flavor="default", state="free"): 0,
            labelled(flavor="default", state="not_ready"): 0,
        }
        assert found["runrig_leader"] == found["runrig_ready"] == {(): 1}
        assert found["runrig_revision"] == {(): desk.revision}


def test_decisions_preemptions_and_waits_are_counted(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        before = read(it)
        for number in range(4):
            it.desk.submit(f"low{number}", priority=Priority.LOW)
        it.desk.later(0)
        it.desk.submit("mine", gpus=1, priority=Priority.HIGH)
        it.desk.submit("firm", pool="pool2", gpus=2, priority=Priority.HIGH)
        it.desk.later(0)
        it.desk.later(30)
        found = read(it)
        assert found["runrig_preemptions_total"] == {labelled(law="R1"): 1, labelled(law="R2"): 2}
        kinds = {
            name: found["runrig_actions_total"][labelled(kind=name)]
            for name in ("Submit", "Admit", "Preempt", "Nominate")
        }
        actions = [type(action).__name__ for action in it.desk.actions()]
        assert kinds == {name: actions.count(name) for name in kinds}
        assert kinds["Preempt"] == 3
        waits = found["runrig_wait_seconds_count"]
        assert sum(waits.values()) == kinds["Admit"]
        assert waits[labelled(pool="pool2", priority="HIGH")] == 1
        assert found["runrig_wait_seconds_sum"][labelled(pool="pool2", priority="HIGH")] == pytest.approx(30, abs=1.5)
        commits = found["runrig_commit_seconds_count"][()] - before["runrig_commit_seconds_count"][()]
        assert commits == it.desk.revision - before["runrig_revision"][()]
        assert found["runrig_cycle_seconds_count"][()] > before["runrig_cycle_seconds_count"][()]


def test_requests_are_counted_by_route_and_status_and_not_by_their_content(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.submit(one_task("secret-workflow"))
        for path in ("/api/workflow/secret-workflow-1", "/api/workflow/nobody-1", "/no/such/secret-user", "/metrics"):
            it.http.get(path)
        it.http.request("SECRET-USER", "/metrics")
        it.http.get("/metrics", headers={"Authorization": "Bearer secret-user"})
        it.http.get("/metrics", headers={"Authorization": ""})
        text = it.get("/metrics")
        requests = scraped(text)["runrig_http_requests_total"]
        assert requests == {
            labelled(method="POST", route="/api/pool/{pool}/workflow", status="200"): 1,
            labelled(method="GET", route="/api/workflow/{id}", status="200"): 1,
            labelled(method="GET", route="/api/workflow/{id}", status="404"): 1,
            labelled(method="GET", route="(none)", status="404"): 1,
            labelled(method="GET", route="/metrics", status="200"): 1,
            labelled(method="OTHER", route="/metrics", status="405"): 1,
            labelled(method="GET", route="(none)", status="401"): 2,
        }
        assert scraped(text)["runrig_failed_logins_total"] == {(): 2}
        assert [name for name in HIDDEN if name in text] == []


def test_counters_survive_a_change_of_leader_and_a_standby_has_no_gauges(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        metrics = it.service.metrics
        it.submit("a")
        assert scraped(metrics.text().decode())["runrig_leader"] == {(): 1}
    found = scraped(metrics.text().decode())
    assert found["runrig_leader"] == {(): 0}
    assert found["runrig_actions_total"][labelled(kind="Submit")] == 1
    assert "runrig_revision" not in found


def test_failed_round_is_counted(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        it.service._reconciler._failed(RuntimeError("no"), 0.1)
        found = scraped(it.service.metrics.text().decode())
        assert found["runrig_failed_rounds_total"] == {(): 1}
        assert found["runrig_ready"] == {(): 0}


def test_names_with_quotes_and_backslashes_are_escaped() -> None:
    state = State()
    odd = 'a "b" \\ c\nd'
    state.apply(SetFlavors((Flavor(odd),)), 0)
    metrics = Metrics()
    metrics.attach(lambda: (monitor_snapshot(state, 0.0), True, 0.0))
    assert scraped(metrics.text().decode())["runrig_gpus"][labelled(flavor=odd, state="free")] == 0


# ---------------------------------------------------------------- the figures


def large(nodes: int, queued: int, pools: int) -> State:
    state = State()
    flavors = ("h100", "b200")
    state.apply(SetFlavors(tuple(Flavor(name) for name in flavors)), 0)
    for number in range(nodes):
        has = {GPU: 8, CPU: 96_000}
        state.apply(PutNode(Node(f"n{number:05}", has, flavor=flavors[number % 2], ready=number % 10 != 0)), 0)
    state.apply(PutCohort(Cohort("org", quotas={FlavorResource("h100", GPU): Quota(7, lending_limit=3)})), 0)
    for number in range(pools):
        quotas = {FlavorResource(name, GPU): Quota(100, lending_limit=50) for name in flavors}
        state.apply(PutPool(Pool(f"p{number}", quotas, cohort="org" if number % 2 else None)), 0)
    for number in range(queued):
        pod_set = PodSet("main", 1 + number % 4, requests_of({GPU: 1 + number % 8}))
        gang = Gang(f"w{number}-1/g", f"p{number % pools}", tuple(Priority)[number % 3], float(number), (pod_set,))
        state.ledger.apply(Queue(gang), float(number))
    return state


def test_tree_and_outline_agree() -> None:
    state = large(20, 0, 6)
    shares = {(each.kind, each.node, str(each.key)): each for each in monitor_snapshot(state, 0.0).shares}
    rows = {(row.kind, row.name, key): each for row in tree_rows(state) for key, each in row.balances.items()}
    assert {key: (each.nominal, each.usage, each.headroom) for key, each in shares.items()} == {
        key: (each.nominal, each.total, each.headroom) for key, each in rows.items()
    }


def test_gpus_of_nodes_that_are_down_are_counted_separately() -> None:
    assert monitor_snapshot(large(20, 0, 1), 0.0).gpus == {
        "h100": GpusByState(held=0, free=64, not_ready=16, ready=8),
        "b200": GpusByState(held=0, free=80, not_ready=0, ready=10),
    }


def test_queue_has_a_length_and_the_age_of_its_oldest_gang() -> None:
    found = monitor_snapshot(large(0, 3000, 10), 0.0).waiting
    everybody = [(f"p{number % 10}", tuple(Priority)[number % 3].value, float(number)) for number in range(3000)]
    assert found == {
        key: WaitingGangs(len(times), min(times))
        for key in sorted({each[:2] for each in everybody})
        if (times := [each[2] for each in everybody if each[:2] == key])
    }


def test_a_scrape_of_a_large_cluster_is_quick() -> None:
    """10,000 nodes, 50,000 queued, 100 pools: 8 ms of processor time on the machine of the figure; there is room for slow ones."""
    state = large(10_000, 50_000, 100)
    metrics = Metrics()
    metrics.attach(lambda: (monitor_snapshot(state, 1e6), True, 0.0))
    metrics.text()
    took = []
    for _ in range(5):
        began = time.thread_time()
        metrics.text()
        took.append(time.thread_time() - began)
    assert min(took) < 0.05
