"""What the backend is told: launches with everything in them, and what shall stop."""

import builtins
from pathlib import Path

from runrig.domain.gangs import Priority
from runrig.domain.workflows import FileSpec, TaskKey, task_uuid
from runrig.ports.backend import Desired, Launch
from tests.worlds.service import desk, do

CHAIN = """
workflow:
  name: chain
  groups:
  - name: make
    tasks:
    - {name: data, image: any, command: [gen], count: 2, resource: none, duration: 5, lead: true}
  - name: use
    tasks:
    - name: head
      lead: true
      image: any
      command: [train]
      args: ["{{input:data}}"]
      inputs: [{task: data}]
      environment: {MODE: fast}
      files: [{path: /etc/run.cfg, contents: x}]
      resource: one
      duration: 50
    - {name: worker, image: any, command: [help, "{{host:head}}"], count: 3, minCount: 1, resource: one, duration: 50}
  resources:
    none: {cpu: 1}
    one: {gpu: 1}
"""


def test_a_launch_has_inputs_hosts_counts_and_gpus(tmp_path: Path) -> None:
    with desk(tmp_path, cluster="pools: [{name: pool1, quota: 3}]") as it:
        id = it.submit("chain", text=CHAIN)
        it.later(0)
        assert sorted(it.backend.desired.run) == [TaskKey(id, "data-0", 0), TaskKey(id, "data-1", 0)]
        it.later(6)
        uuid = it.store.workflow(id).workflow.uuid
        hosts = {"head": "n0", "worker-0": "n0", "worker-1": "n0"}
        head = Launch(
            key=TaskKey(id, "head", 0),
            gang=f"{id}/use",
            spec="head",
            flavor="default",
            uuid=task_uuid(uuid, "head"),
            workflow_uuid=uuid,
            node="n0",
            gpus=(0,),
            command=("train", "{{input:data}}"),
            environment={"MODE": "fast"},
            files=(FileSpec("/etc/run.cfg", "x"),),
            inputs=(("data", (TaskKey(id, "data-0", 0), TaskKey(id, "data-1", 0))),),
            hosts=hosts,
            index=0,
            count=1,
            max_count=1,
            grace_s=30.0,
            duration_s=50.0,
        )
        workers = {
            TaskKey(id, f"worker-{index}", 0): Launch(
                key=TaskKey(id, f"worker-{index}", 0),
                gang=f"{id}/use",
                spec="worker",
                flavor="default",
                uuid=task_uuid(uuid, f"worker-{index}"),
                workflow_uuid=uuid,
                node="n0",
                gpus=(index + 1,),
                command=("help", "{{host:head}}"),
                environment={},
                files=(),
                inputs=(),
                hosts=hosts,
                index=index,
                count=2,  # partial admission: the quota is 3
                max_count=3,
                grace_s=30.0,
                duration_s=50.0,
            )
            for index in (0, 1)
        }
        assert it.backend.desired == Desired(run={head.key: head, **workers})
        assert (
            len({builtins.id(each.hosts) for each in it.backend.desired.run.values()}) == 1
        )  # not one dict for each of 10,000 pods


def test_tasks_get_the_pod_count_of_each_attempt(tmp_path: Path) -> None:
    """A3: 4 of 4, 2 of 4 after it was preempted, 4 again."""
    file = """
workflow:
  name: wide
  tasks:
  - {name: t, image: any, command: [run], count: 4, minCount: 2, resource: one, duration: 1000}
  resources: {one: {gpu: 1}}
"""
    with desk(tmp_path, cluster="pools: [{name: firm, quota: 4}, {name: low, quota: 0}]") as it:
        id = it.submit("wide", "low", Priority.LOW, text=file)

        def told() -> set[tuple[str, int, int, int, tuple[str, ...]]]:
            run = [launch for key, launch in it.backend.desired.run.items() if key.workflow == id]
            return {(each.key.task, each.index, each.count, each.max_count, tuple(each.hosts)) for each in run}

        four = {(f"t-{at}", at, 4, 4, ("t-0", "t-1", "t-2", "t-3")) for at in range(4)}
        it.later(1)
        assert told() == four
        firm = [it.submit("one", "firm", gpus=2, duration=1000)]
        it.later(1)
        it.later(60)
        assert told() == {(f"t-{at}", at, 2, 4, ("t-0", "t-1")) for at in range(2)}
        firm.append(it.submit("two", "firm", gpus=2, duration=1000))
        it.later(1)
        it.later(60)
        assert told() == set()
        for each in firm:
            do(it.service, it.service.submissions.cancelling(each, user="bob", message=""))
        it.later(1)
        it.later(60)
        assert told() == four


def test_cancelled_workflow_is_stopped_and_then_removed(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        id = it.submit("a")
        it.later(0)
        launch = it.backend.desired.run[TaskKey(id, "main", 0)]
        do(it.service, it.service.submissions.cancelling(id, user="bob", message="enough"))
        it.service.settle()
        assert it.backend.desired == Desired(stop={launch.key: launch})
        it.later(2)
        assert it.backend.desired == Desired()
        workflow = it.store.workflow(id).workflow
        assert (workflow.status.value, workflow.cancelled_by) == ("FAILED_CANCELED", "bob")
