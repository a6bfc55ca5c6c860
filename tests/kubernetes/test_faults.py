"""Whatever dies or stands still, at whatever moment: afterwards state = cluster.  (Deleted behind our back: `test_behind_our_back`.)"""

import random
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.kubernetes.comparing import agree, check_log
from tests.kubernetes.faults import CLUSTER, Load, begin_again, compact, end, gang, pods_come, runs, submit, witness
from tests.kubernetes.runrigs import Rig, rig, stopped
from tests.kubernetes.wire import gate
from tests.kubernetes.world import World

API, SCHEDULER, KUBELETS = "kube-apiserver", "the scheduler", "kwok"


def fleet(world: World, folder: Path, more: str = "") -> AbstractContextManager[Rig]:
    return rig(world, folder, CLUSTER, more=more)


def all_ends(here: Rig, load: Load | None = None) -> None:
    """Nothing was lost: all that was ever taken comes to its end, and leaves nothing behind."""
    (load or Load(here, 0)).finish()
    agree(here)
    assert here.pods() == {}
    here.kill()
    check_log(here)


# ---------------------------------------------------------------- killed between a commit and its sync


def a_start(here: Rig, _: str) -> Callable[[], bool]:
    id = submit(here, gang("late", 6, 2))
    return lambda: here.workflow(id)["groups"][0]["status"] == "INITIALIZING"


def a_cancel(here: Rig, id: str) -> Callable[[], bool]:
    here.post(f"/api/workflow/{id}/cancel")
    return lambda: "cancelled" in str(here.workflow(id))


def a_preemption(here: Rig, id: str) -> Callable[[], bool]:
    submit(here, gang("urgent", 5, 8), priority="HIGH")
    return lambda: here.workflow(id)["groups"][0]["preemptions"] == 1


def a_pool(here: Rig, _: str) -> Callable[[], bool]:
    here.say("pool", "subpool", "create", "team", "x", "--quota", "8")
    return lambda: "team--x" in here.get("/api/pool")["pools"]


@pytest.mark.parametrize("what", [a_start, a_cancel, a_preemption, a_pool])
def test_killed_between_commit_and_sync(
    world: World, tmp_path: Path, what: Callable[[Rig, str], Callable[[], bool]]
) -> None:
    """W2: the API server stands still: what is decided is committed and not made so; what it was told meanwhile it does later."""
    with fleet(world, tmp_path) as here:
        id = submit(here, gang("low", 4, 8), priority="LOW")
        here.runs(id)
        agree(here)
        with witness(here) as seen:
            with stopped(world.plane.processes[API]):
                here.until(what(here, id), "it is committed")
                here.kill()
            here.start()
            agree(here)
        seen.check_nothing_was_made_twice()
        all_ends(here)


# ---------------------------------------------------------------- in the middle of a gang


@pytest.mark.parametrize("some", [1, 4, 12])
@pytest.mark.parametrize("killed", [True, False])
def test_api_server_hangs_in_the_middle_of_a_gang_of_32(world: World, tmp_path: Path, some: int, killed: bool) -> None:
    """With the server killed meanwhile, and without."""
    with fleet(world, tmp_path) as here, witness(here) as seen:
        with gate(world, some):
            since = here.now()
            id = submit(here, gang("big", 32))
            pods_come(here, since, some)
            with stopped(world.plane.processes[API]):
                if killed:
                    here.kill()
        made = len(here.pods())
        if killed:
            assert made < 32, "it came too late to be in the middle"
            here.start()
        assert len(here.runs(id)) == 32
        agree(here)
        seen.check_nothing_was_made_twice()
        all_ends(here)


def test_killed_in_the_middle_of_stopping_a_gang(world: World, tmp_path: Path) -> None:
    with fleet(world, tmp_path) as here, witness(here) as seen:
        id = submit(here, gang("big", 32))
        here.runs(id)
        here.post(f"/api/workflow/{id}/cancel")
        here.until(lambda: len(here.pods()) < 32, "the first pods are gone")
        here.kill()
        here.start()
        here.wait(id, "FAILED_CANCELED")
        agree(here)
        seen.check_nothing_was_made_twice()
        all_ends(here)


# ---------------------------------------------------------------- killed at random


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_ten_times_at_random_under_load(world: World, tmp_path: Path, seed: int) -> None:
    mix = random.Random(seed)
    with fleet(world, tmp_path) as here, witness(here) as seen:
        load = Load(here, seed)
        for _ in range(10):
            load.steps(mix.randint(3, 12))
            for _ in range(mix.randint(0, 30)):  # a while
                here.world.api.call("GET", "/readyz")
            here.kill()
            if mix.random() < 0.5:
                load.end_some()  # pods end while no server runs
            here.start()
        agree(here)
        all_ends(here, load)
        seen.check_nothing_was_made_twice()


# ---------------------------------------------------------------- the cluster's own programs


@pytest.mark.parametrize("program", [API, SCHEDULER, KUBELETS, "etcd"])
def test_cluster_component_dies_while_gangs_start_and_end(world: World, tmp_path: Path, program: str) -> None:
    name = world.plane.scheduler.name if program == SCHEDULER else program
    with fleet(world, tmp_path) as here:
        load = Load(here, 3)
        for _ in range(3):
            load.steps(8)
            submit(here, gang("more", 4))
            begin_again(world.plane, name)
        load.steps(8)
        agree(here)
        all_ends(here, load)


def test_running_work_does_not_depend_on_the_api_server(world: World, tmp_path: Path) -> None:
    with fleet(world, tmp_path) as here:
        id = submit(here, gang("w", 8))
        here.runs(id)
        before = here.uids()
        late: list[str] = []
        begin_again(world.plane, API, meanwhile=lambda: late.append(submit(here, gang("late", 4))))
        here.runs(late[0])
        agree(here)
        assert {key: uid for key, uid in here.uids().items() if key in before} == before
        assert (len(before), here.status(id), here.attempts(id)) == (
            8,
            "RUNNING",
            [(f"main-{at}", 0, "RUNNING") for at in range(8)],
        )
        all_ends(here)


def test_history_dropped_by_the_api_server_is_listed_again(world: World, tmp_path: Path) -> None:
    """410: the server sleeps, much happens, etcd is compacted and the API server begins anew; what is gone by then is noticed."""
    with fleet(world, tmp_path) as here:
        stays, ends, goes = (submit(here, gang(name, 2)) for name in ("stays", "ends", "goes"))
        for id in (stays, ends, goes):
            here.runs(id)
        assert here.server is not None
        here.server.stop()
        try:
            for pod in here.pods(ends).values():
                end(here, pod)
            for pod in here.pods(goes).values():
                world.api.delete(pod)
            compact(world.plane)
            begin_again(world.plane, API)
        finally:
            here.server.send(signal.SIGCONT)
        here.wait(ends, "COMPLETED")
        here.until(lambda: here.status(goes).startswith("FAILED"), "it is noticed that its pods are gone")
        agree(here)
        assert (here.status(stays), set(here.pods())) == ("RUNNING", {f"{stays}/main-{at}/0" for at in range(2)})
        all_ends_but_failed(here)


def all_ends_but_failed(here: Rig) -> None:
    for pod in here.pods().values():
        if runs(pod):
            end(here, pod)
    agree(here)
    here.until(lambda: here.pods() == {}, "nothing is left")
    here.kill()
    check_log(here)


def test_pods_that_end_unobserved_are_noticed_later(world: World, tmp_path: Path) -> None:
    with fleet(world, tmp_path) as here:
        good, bad = submit(here, gang("good", 4)), submit(here, gang("bad", 4))
        here.runs(good)
        here.runs(bad)
        here.kill()
        for pod in here.pods(good).values():
            end(here, pod)
        for pod in here.pods(bad).values():
            end(here, pod, 7)
        here.start()
        here.wait(good, "COMPLETED")
        here.wait(bad, "FAILED")
        agree(here)
        ends = {task["exit_code"] for task in here.workflow(bad)["groups"][0]["tasks"]}
        assert ends == {7}


def test_sleeping_scheduler_makes_a_gang_wait_and_not_fail(world: World, tmp_path: Path) -> None:
    with fleet(world, tmp_path, more="bind_timeout_s: 1\n") as here:
        with stopped(world.plane.scheduler):
            id = submit(here, gang("w", 3))
            here.until(lambda: len(here.pods(id)) == 3, "its pods are there")
            here.until(lambda: "kai-scheduler" in here.why(id), "why says that nobody binds")
        here.runs(id)
        assert here.attempts(id) == [(f"main-{at}", 0, "RUNNING") for at in range(3)]
        agree(here)
        all_ends(here)
