"""The pods of a gang.

Pure: equal gangs give equal pods, keys in the same order.
"""

import math
import re
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from runrig.backends import launcher
from runrig.backends.kubernetes import code, kinds, names
from runrig.backends.kubernetes.files import OUTPUT, WORK, GangFiles, Mount, files_of
from runrig.backends.kubernetes.names import MANAGED, Object, label_value
from runrig.backends.kubernetes.registries import needed
from runrig.domain.nodes import Flavor
from runrig.domain.quantities import BYTES, CPU, GPU, MEMORY, STORAGE
from runrig.domain.subgroups import Outline
from runrig.domain.tokens import array_environment, expand, name_in_array
from runrig.domain.workflows import TaskKey, TaskSpec, task_uuid
from runrig.ports.backend import GangLaunch, Launch, Opens, Pulls, no_pulls
from runrig.ports.code import CodeOf

LONGEST_VARIABLE = 128 * 1024
"""Bytes of a variable with its name and final NUL; Linux starts no program with a longer one."""

WHOLE = ""
"""The leaf with all pods of a gang without subgroups."""

_ALONE = "127.0.0.1"
_LAUNCHER = "/runrig/launcher"
"""Folder of a pod with the host file."""
_LONGEST_HOSTFILE = 32 * 1024
"""Characters, for about 400 nodes."""
_CREDENTIAL_MODE = 0o444
"""As files: an image may run its task as any user."""
RESOURCE_NAMES = {GPU: "nvidia.com/gpu", STORAGE: "ephemeral-storage"}
_HUGE_PAGES = "hugepages-"


@dataclass(frozen=True, slots=True)
class Settings:
    """*resource_names*: runrig's name of a resource → the cluster's, if that is not the usual one.

    *epoch*: of the server that creates the pods; None: they are only shown. *opens*: gets credential values; None:
    values are omitted. *pulls*: credentials that pull images. *code_of*: gets code; None: it is omitted. *code_url*: where
    pods fetch their code; None: from a Secret.
    """

    namespace: str
    flavors: Mapping[str, Flavor]
    resource_names: Mapping[str, str]
    epoch: int | None = None
    opens: Opens | None = None
    pulls: Pulls = no_pulls
    code_of: CodeOf | None = None
    code_url: str | None = None


@dataclass(frozen=True, slots=True)
class _Attempt:
    """*flavor* None: several are possible. *node* None: not placed."""

    task: TaskSpec
    index: int
    retry_id: int
    max_count: int
    flavor: Flavor | None
    node: str | None

    @property
    def name(self) -> str:
        return self.task.pod_name(self.index)


class GangPods:
    """The pods of a gang. Shared parts are computed once, on first use.

    Almost everything is derived from the gang, so it does not matter which attempts are still alive.
    """

    def __init__(self, gang: GangLaunch, settings: Settings, *, begun: Callable[[], bool] = lambda: False) -> None:
        """*begun*: some pods have run, so the others must get the same values."""
        self.gang, self.settings, self.begun = gang, settings, begun

    def pod(self, launch: Launch) -> Object:
        """Returns the pod of *launch*, tied to its node.

        Raises ValueError with a message for pods that no cluster accepts: impossible files, unknown resources.
        """
        flavor = self.settings.flavors.get(launch.flavor)
        task = self._task_by_name[launch.spec]
        return self._pod(_Attempt(task, launch.index, launch.key.retry_id, launch.max_count, flavor, launch.node))

    def unplaced(self) -> Iterator[Object]:
        """Yields all pods of the first attempt, without a node and without runrig's finalizer, which would never be
        removed.

        Raises as `pod`.
        """
        for task in self.gang.group.tasks:
            for index in range(task.pods):
                yield self._pod(_Attempt(task, index, 0, task.pods, self._flavor(task), None))

    def leaf(self, task: str, index: int) -> str:
        """Returns the subgroup of a pod, by the name of its task; `WHOLE` without subgroups."""
        subgroups = self.outline.subgroup_of.get(task)
        return WHOLE if subgroups is None else subgroups[index]

    # ------------------------------------------------------------ shared

    @cached_property
    def count(self) -> int:
        return sum(task.pods for task in self.gang.group.tasks)

    @property
    def outline(self) -> Outline:
        """Raises ValueError with a message if the topology keys of its pool have changed and no outline fits them."""
        if isinstance(self.gang.outline, str):
            raise ValueError(self.gang.outline)
        return self.gang.outline

    @cached_property
    def files(self) -> GangFiles:
        return files_of(self.gang.group.tasks, self._values, WORK if self.gang.code is None else code.CODE)

    @cached_property
    def code(self) -> Mapping[str, str]:
        """Returns the data of the Secret with the code of the gang; empty without code. Raises the errors of `CodeOf`."""
        id, code_of = self.gang.code, self.settings.code_of
        return {} if id is None or code_of is None else code.data_of(code_of(self.gang.user, id))

    @cached_property
    def credentials(self) -> Mapping[str, str]:
        """Returns credential → name of its Secret."""
        found = sorted({use.name for task in self.gang.group.tasks for use in task.credentials})
        return {name: names.credential_name(self.gang.uuid, number) for number, name in enumerate(found)}

    @cached_property
    def pulls(self) -> Mapping[str, str]:
        """Returns the user's credentials that pull the gang's images: name → registry, the most recently changed last."""
        return needed(self.settings.pulls(self.gang.user), (task.image for task in self.gang.group.tasks))

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """Returns the workflow's labels, overridden by runrig's."""
        labels = {key: value for key, value in self.gang.labels.items() if names.is_users(key)} | MANAGED
        queue = names.leaf_queue(self.settings.namespace, self.gang.pool.name)
        if len(queue) <= names.LONGEST_LABEL:
            labels |= dict.fromkeys(names.QUEUES, queue)
        labels |= {names.POOL: self.gang.pool.name, names.WORKFLOW: self.gang.workflow}
        if self.gang.workflow_uuid is not None:
            labels[names.WORKFLOW_UUID] = self.gang.workflow_uuid
        labels |= {names.GROUP: self.gang.group.name, names.GANG: self.gang.uuid}
        return {key: label_value(value) for key, value in labels.items()}

    @cached_property
    def annotations(self) -> Mapping[str, str]:
        return {names.GANG_ID: self.gang.id} | ({names.USER: self.gang.user} if self.gang.user else {})

    @cached_property
    def _task_by_name(self) -> Mapping[str, TaskSpec]:
        return {task.name: task for task in self.gang.group.tasks}

    @cached_property
    def _tokens(self) -> dict[str, str]:
        """Returns the token values shared by all pods."""
        values = {"output": OUTPUT, "workflow_id": self.gang.workflow}
        for task in self.gang.group.tasks:
            for index in range(task.pods):
                values[f"host:{name_in_array(task.pod_name(index), task.array)}"] = self._host(task, index)
            if task.pods:  # A task with a count means its first pod.
                values.setdefault(f"host:{name_in_array(task.name, task.array)}", self._host(task, 0))
            values |= task.array
        return values

    @cached_property
    def _hosts(self) -> Mapping[str, str | None]:
        """Returns task → RUNRIG_HOSTS; None if it is too long to start a program with it."""
        found: dict[str, str | None] = {}
        for task in self.gang.group.tasks:
            hosts = ",".join(self._host(task, index) for index in range(task.pods))
            found[task.name] = hosts if len(f"RUNRIG_HOSTS={hosts}") < LONGEST_VARIABLE else None
        return found

    def _host(self, task: TaskSpec, index: int) -> str:
        # A gang of one pod has no service to name it.
        return _ALONE if self.count == 1 else names.host(self.settings.namespace, self.gang.uuid, task.pod_name(index))

    def _values(self, task: TaskSpec, index: int) -> Mapping[str, str]:
        uuid = task_uuid(self.gang.workflow_uuid or self.gang.uuid, task.pod_name(index))
        return ChainMap({"index": str(index), "count": str(task.pods), "uuid": uuid}, self._tokens)

    # ------------------------------------------------------------ a pod

    def _pod(self, attempt: _Attempt) -> Object:
        key = TaskKey(self.gang.workflow, attempt.name, attempt.retry_id)
        metadata: Object = {
            "name": names.pod_name(self.gang.uuid, attempt.name, attempt.retry_id),
            "namespace": self.settings.namespace,
            "annotations": {
                names.POD_GROUP: self.gang.uuid,
                names.KEY: str(key),
                **self.annotations,
                # The pod sees it as a file: its Secrets could not change later.
                **({names.HOSTS: self._hostfile} if self._hostfile else {}),
            },
            "labels": self._pod_labels(attempt),
        }
        if attempt.node is not None:
            metadata["finalizers"] = [names.FINALIZER]
        spec: Object = {
            "schedulerName": names.SCHEDULER,
            "restartPolicy": "Never",
            # With 0 the API server would forget a pod whose processes may still run.
            "terminationGracePeriodSeconds": max(1, math.ceil(self.gang.pool.grace_s)),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "hostname": names.hostname(attempt.name),
        }
        if self.pulls:
            spec["imagePullSecrets"] = [{"name": names.pull_name(self.gang.uuid)}]
        if self.count > 1:
            spec["subdomain"] = names.service_name(self.gang.uuid)
        if "hostNetwork" in attempt.task.allow:
            spec |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
        mounts = self.files.mounts.get(attempt.name, ())
        spec |= _where(attempt)
        container = self._container(attempt, mounts)
        if self.gang.code is not None:
            amounts = {name: amount for name, amount in self._amounts(attempt.task) if name in (CPU, MEMORY)}
            spec["initContainers"] = [code.init_container(attempt.task.image, amounts, self.settings.code_url)]
            spec |= {} if self.settings.code_url is None else {"serviceAccountName": code.ACCOUNT}
        spec |= {"volumes": self._volumes(attempt.task, mounts), "containers": [container]}
        return kinds.POD.made(metadata, spec=spec)

    def _pod_labels(self, attempt: _Attempt) -> Mapping[str, str]:
        labels = {**self.labels, names.TASK: label_value(attempt.name), names.RETRY: str(attempt.retry_id)}
        if self.settings.epoch is not None:
            labels[names.EPOCH] = str(self.settings.epoch)
        leaf = self.leaf(attempt.task.name, attempt.index)
        return labels if leaf == WHOLE else labels | {names.SUBGROUP: leaf}

    def _flavor(self, task: TaskSpec) -> Flavor | None:
        """Returns the only flavor that *task* can get, known before placement; None if there are several."""
        pool, flavors = self.gang.pool, self.settings.flavors
        allowed = pool.flavors or tuple(flavors)
        name = task.platform or pool.default_platform or (allowed[0] if len(allowed) == 1 else None)
        return None if name is None else flavors[name]

    def _volumes(self, task: TaskSpec, mounts: tuple[Mount, ...]) -> list[Object]:
        volumes: list[Object] = [{"name": "output", "emptyDir": {}}]
        if self.gang.code is not None:
            volumes += code.volumes(self.gang.uuid, self.settings.code_url)
        for number in sorted({mount.secret for mount in mounts}):
            mode_by_key = {each.key: each.mode for each in mounts if each.secret == number}
            items = [{"key": key, "path": key, "mode": mode} for key, mode in mode_by_key.items()]
            secret = {"secretName": names.secret_name(self.gang.uuid, number), "items": items}
            volumes.append({"name": f"files-{number}", "secret": secret})
        if self._hostfile:
            item = {"path": "hosts", "fieldRef": {"fieldPath": f"metadata.annotations['{names.HOSTS}']"}}
            volumes.append({"name": "launcher", "downwardAPI": {"items": [item]}})
        for number, use in enumerate(task.credentials):
            if use.path:
                whole = {"secretName": self.credentials[use.name], "defaultMode": _CREDENTIAL_MODE}
                volumes.append({"name": f"credential-{number}", "secret": whole})
        return volumes

    def _container(self, attempt: _Attempt, mounts: tuple[Mount, ...]) -> Object:
        task, values = attempt.task, self._values(attempt.task, attempt.index)
        container: Object = {
            "name": names.CONTAINER,
            "image": task.image,
            "command": [_literal(word, values) for word in task.command],
        }
        if task.args:
            container["args"] = [_literal(word, values) for word in task.args]
        if any(not file.path.startswith("/") for file in task.files):
            container["workingDir"] = WORK
        if self.gang.code is not None:
            container["workingDir"] = code.CODE
        environment = self._for_launchers(attempt)
        environment |= {key: _literal(value, {}) for key, value in array_environment(task.array).items()}
        environment |= {key: _literal(value, values) for key, value in task.environment.items()}
        environment |= launcher.own_variables(
            TaskKey(self.gang.workflow, attempt.name, attempt.retry_id),
            index=attempt.index,
            count=task.pods,
            max_count=attempt.max_count,
        )
        if (hosts := self._hosts[task.name]) is not None:
            environment["RUNRIG_HOSTS"] = hosts
        container["env"] = [{"name": key, "value": value} for key, value in environment.items()]
        container["env"] += [
            {"name": name, "valueFrom": {"secretKeyRef": {"name": self.credentials[use.name], "key": key}}}
            for use in task.credentials
            for name, key in use.variables.items()
            if name not in environment
        ]
        if task.requests:
            amounts = dict(self._amounts(task))
            container["resources"] = {"limits": amounts, "requests": dict(amounts)}
        container["volumeMounts"] = [{"name": "output", "mountPath": OUTPUT}] + [
            {"name": f"files-{mount.secret}", "mountPath": mount.path, "subPath": mount.key, "readOnly": True}
            for mount in mounts
        ]
        if self.gang.code is not None:
            container["volumeMounts"].insert(0, code.mount())  # Mounted before the files inside it.
        container["volumeMounts"] += [
            {"name": f"credential-{number}", "mountPath": use.path, "readOnly": True}
            for number, use in enumerate(task.credentials)
            if use.path
        ]
        if self._hostfile:
            container["volumeMounts"].append({"name": "launcher", "mountPath": _LAUNCHER, "readOnly": True})
        if "privileged" in task.allow:
            container["securityContext"] = {"privileged": True}
        return container

    def _for_launchers(self, attempt: _Attempt) -> dict[str, str]:
        """Only PYTHONUNBUFFERED for a task that shares its group, where its nodes are not the whole gang."""
        output = {"PYTHONUNBUFFERED": "1"}  # Otherwise Python prints its output after a final traceback.
        task = attempt.task
        if len(self.gang.group.tasks) > 1:
            return output
        return output | launcher.variables(
            nodes=task.pods,
            rank=attempt.index,
            gpus=dict(task.requests).get(GPU, 0),
            address=self._host(task, 0),
            port=launcher.KUBERNETES_PORT,
            hostfile=f"{_LAUNCHER}/hosts" if self._hostfile else None,
        )

    @cached_property
    def _hostfile(self) -> str:
        """Returns the host file of a group of one task; "" for others, and if it is too long for every pod to have it."""
        task, *others = self.gang.group.tasks
        hosts = self._hosts[task.name]
        if others or hosts is None:
            return ""
        text = launcher.hostfile_of(hosts.split(","), dict(task.requests).get(GPU, 0))
        return text if len(text) <= _LONGEST_HOSTFILE else ""

    def _amounts(self, task: TaskSpec) -> Iterator[tuple[str, int | str]]:
        for resource, amount in task.requests:
            name = {**RESOURCE_NAMES, **self.settings.resource_names}.get(resource, resource)
            if "/" not in name and name not in (CPU, MEMORY, "ephemeral-storage") and not name.startswith(_HUGE_PAGES):
                raise ValueError(
                    f"task {task.name} requests {resource}, but {name!r} is not a valid Kubernetes resource name. "
                    "Map it to a name with a domain under resource_names, such as example.com/" + name
                )
            yield name, _quantity(resource, amount)


def _where(attempt: _Attempt) -> Object:
    spec: Object = {}
    if attempt.flavor is not None and attempt.flavor.node_labels:
        spec["nodeSelector"] = dict(sorted(attempt.flavor.node_labels.items()))
    if attempt.node is not None:
        # Not nodeName, which would bypass the scheduler.
        here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [attempt.node]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [here]}}
        spec["affinity"] = {"nodeAffinity": required}
    if attempt.flavor is not None and attempt.flavor.taints:
        spec["tolerations"] = [
            {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
            for taint in attempt.flavor.taints
        ]
    return spec


_EXPANDED = re.compile(r"\$(?=[$(])")


def _literal(text: str, values: Mapping[str, str]) -> str:
    """Returns *text* escaped so that Kubernetes leaves `$(NAME)` and `$$` to the program."""
    return _EXPANDED.sub("$$", expand(text, values))


def _quantity(resource: str, amount: int) -> int | str:
    """Returns the exact amount in its shortest form."""
    if resource == CPU:
        return amount // 1000 if amount % 1000 == 0 else f"{amount}m"
    if resource in BYTES:
        for power, unit in ((4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
            if amount and amount % 1024**power == 0:
                return f"{amount // 1024**power}{unit}"
    return amount
