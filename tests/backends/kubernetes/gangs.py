"""Gangs and launches for the tests of Kubernetes objects, without a server."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runrig.backends.kubernetes.names import Object
from runrig.backends.kubernetes.pods import GangPods, Settings
from runrig.domain.gangs import Priority
from runrig.domain.nodes import Flavor
from runrig.domain.pools import Pool
from runrig.domain.workflows import FileSpec, GroupSpec, TaskKey, TaskSpec, task_uuid
from runrig.engine.placement.constraint_tree import tree_of
from runrig.engine.placement.subgroups import outline_of
from runrig.ports.backend import GangLaunch, Launch

UUID = "0d7a1c52-64bb-5d8e-9a63-2f0f6b1c9d10"
WORKFLOW_UUID = "9b2d6f0e-4a51-5c0b-8f3f-7d2a1c9e5b44"
POOL = Pool("lab")


def task(name: str = "t", *, count: int | None = None, files: Mapping[str, str] | None = None, **more: Any) -> TaskSpec:
    written = tuple(FileSpec(path, contents) for path, contents in (files or {}).items())
    spec = TaskSpec(name, "image:1", ("run",), count=count, files=written)
    return replace(spec, **more)


def gang(*tasks: TaskSpec, pool: Pool = POOL, top: Pool | None = None, **more: Any) -> GangLaunch:
    group = GroupSpec("g", tasks or (task(),))
    above = top or pool
    whole = GangLaunch(
        id="wf-1/g",
        uuid=UUID,
        workflow="wf-1",
        workflow_uuid=WORKFLOW_UUID,
        pool=pool,
        top=above,
        priority=Priority.NORMAL,
        user="ada@example.com",
        group=group,
        outline=outline_of(tree_of(above.topology_keys, group.tasks)),
        labels={},
    )
    return replace(whole, **more)


def settings(*flavors: Flavor, names: Mapping[str, str] | None = None) -> Settings:
    by_name = {flavor.name: flavor for flavor in flavors or (Flavor("default"),)}
    return Settings("jobs", by_name, names or {}, epoch=7)


def pods(*tasks: TaskSpec, **more: Any) -> GangPods:
    return GangPods(gang(*tasks, **more), settings())


def launch(whole: GangLaunch, name: str, **more: Any) -> Launch:
    """The first attempt of the pod *name* of *whole*, on node n1."""
    spec, index = next(
        (spec, index) for spec in whole.group.tasks for index in range(spec.pods) if spec.pod_name(index) == name
    )
    first = Launch(
        key=TaskKey(whole.workflow, name, 0),
        gang=whole.id,
        spec=spec.name,
        flavor="default",
        uuid=task_uuid(whole.workflow_uuid or whole.uuid, name),
        workflow_uuid=whole.workflow_uuid or whole.uuid,
        node="n1",
        gpus=(),
        command=(*spec.command, *spec.args),
        environment=spec.environment,
        files=spec.files,
        inputs=(),
        hosts={},
        index=index,
        count=spec.pods,
        max_count=spec.pods,
        grace_s=30.0,
    )
    return replace(first, **more)


def placed(them: GangPods, name: str, **more: Any) -> Object:
    return them.pod(launch(them.gang, name, **more))


def variables(pod: Object) -> dict[str, str]:
    return {each["name"]: each["value"] for each in pod["spec"]["containers"][0]["env"]}
