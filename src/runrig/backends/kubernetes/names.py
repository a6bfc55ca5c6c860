"""Names in a cluster: objects, labels, annotations, hosts.

Pure. A name is derived from its object and never changes, so it can be found again after any crash.
"""

import re
import uuid
from typing import Any

from runrig.domain.gangs import Priority
from runrig.domain.pools import SUBPOOL_DELIMITER
from runrig.domain.workflows import TaskKey

Object = dict[str, Any]
"""A Kubernetes object, like its YAML."""

MANAGED = {"app.kubernetes.io/managed-by": "runrig"}

CLAIM = "runrig-claim"
"""Config map with the owner of a namespace."""
SCHEDULER = "kai-scheduler"
CONTAINER = "main"
FINALIZER = "runrig/kept"
"""On placed pods, so that deleted ones stay readable until their end and log are recorded."""

GANG, TASK, RETRY, EPOCH = "runrig/gang", "runrig/task", "runrig/retry", "runrig/epoch"
POOL, WORKFLOW, WORKFLOW_UUID, GROUP = "runrig/pool", "runrig/workflow", "runrig/workflow-uuid", "runrig/group"
NAMESPACE = "runrig/namespace"
"""On cluster-wide objects: namespace of the runrig that owns them."""
QUEUES = ("kai.scheduler/queue", "runai/queue")
SUBGROUP = "kai.scheduler/subgroup-name"
NODE_POOL = "kai.scheduler/node-pool"
"""Marks nodes of another KAI scheduler; runrig's uses nodes without this label."""

KEY, GANG_ID, USER, HOSTS = "runrig/key", "runrig/gang-id", "runrig/user", "runrig/hosts"
"""Annotations for values that do not fit in a label."""
POD_GROUP = "pod-group-name"
STARTED = "kai.scheduler/last-start-timestamp"
"""Annotation of a pod group: when the gang started. Without it, KAI does not apply the minimum runtimes of a queue to the gang."""

LONGEST_LABEL = 63
SHARED_LEAF = f"{SUBPOOL_DELIMITER}-shared"
"""Suffix of a pool's queue: the leaf for its own submissions. No subpool's name begins with `-`."""

_RESERVED = ("kai.scheduler/", "runai/", "runrig/", "osmo.namespace")
_IDS = uuid.UUID("3f6c2a52-0f0e-5d53-9a4e-7a8c1e0b6d11")
_HASH_DIGITS = 16
_NOT_IN_A_HOST = re.compile(r"[^a-z0-9]+")
_NOT_IN_A_LABEL = re.compile(r"[^A-Za-z0-9_.-]+")


# ---------------------------------------------------------------- cluster-wide


def root_queue(namespace: str) -> str:
    return f"osmo-default-{namespace}"


def pool_queue(namespace: str, pool: str) -> str:
    return f"osmo-pool-{namespace}-{pool}"


def leaf_queue(namespace: str, pool: str) -> str:
    """Returns the queue that pod groups use: a subpool's own, else the hidden one below the pool's."""
    queue = pool_queue(namespace, pool)
    return queue if SUBPOOL_DELIMITER in pool else queue + SHARED_LEAF


def topology_name(namespace: str, top_pool: str) -> str:
    return f"{pool_queue(namespace, top_pool)}-topology"


def priority_class(priority: Priority) -> str:
    return f"osmo-{priority.value.lower()}"


# ---------------------------------------------------------------- of a gang
# Its pod group is named by uuid, because KAI knows pod groups of all namespaces by name alone.


def service_name(gang: str) -> str:
    """*gang*: the uuid. A service's name must begin with a letter."""
    return f"g-{gang}"


def secret_name(gang: str, number: int) -> str:
    return f"{gang}-{number}"


def code_name(gang: str) -> str:
    return f"{gang}-code"


def credential_name(gang: str, number: int) -> str:
    return f"{gang}-credential-{number}"


def pull_name(gang: str) -> str:
    return f"{gang}-pull"


def pod_name(gang: str, task: str, retry_id: int) -> str:
    """Never reused. Starts with the name of the task, for readability."""
    return _hashed(task, f"{gang}/{task}/{retry_id}")


def hostname(task: str) -> str:
    """The same for all attempts of a pod; unique within a gang."""
    plain = _plain(task, LONGEST_LABEL)
    return plain if plain == task else _hashed(task, task)


def host(namespace: str, gang: str, task: str) -> str:
    """Returns the host name with which pods of a gang reach each other."""
    return f"{hostname(task)}.{service_name(gang)}.{namespace}.svc"


def _hashed(name: str, whole: str) -> str:
    digits = uuid.uuid5(_IDS, whole).hex[:_HASH_DIGITS]
    return f"{_plain(name, LONGEST_LABEL - _HASH_DIGITS - 1)}-{digits}"


def _plain(name: str, longest: int) -> str:
    return _NOT_IN_A_HOST.sub("-", name.lower()).strip("-")[:longest].rstrip("-") or "pod"


# ---------------------------------------------------------------- reading


def label_value(text: str) -> str:
    """Returns *text*, truncated to fit in a label."""
    return _NOT_IN_A_LABEL.sub("_", text).lstrip("-_.")[:LONGEST_LABEL].rstrip("-_.")


def is_users(label: str) -> bool:
    """Returns True for labels that users can set, because KAI and other controllers ignore them."""
    return not label.startswith(_RESERVED)


def wanted_id(each: Object) -> tuple[str, str, str]:
    """Returns (kind, namespace, name); namespace "" for cluster-wide objects."""
    metadata = each["metadata"]
    return each["kind"], metadata.get("namespace", ""), metadata["name"]


def label(each: Object, name: str) -> str:
    """Returns "" for a missing one, as `annotation`."""
    return str((each["metadata"].get("labels") or {}).get(name, ""))


def annotation(each: Object, name: str) -> str:
    return str((each["metadata"].get("annotations") or {}).get(name, ""))


def condition(each: Object, kind: str) -> Object:
    """Returns the condition *kind* in the status; empty if there is none."""
    conditions = each.get("status", {}).get("conditions") or ()
    return next((dict(found) for found in conditions if found["type"] == kind), {})


def finished(pod: Object) -> bool:
    """Whether all its containers have ended for good."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def number(text: str | None) -> int:
    """Returns 0 for what is not a number."""
    return int(text) if text is not None and text.isdecimal() else 0


def epoch_of(each: Object) -> int:
    """Returns the term of the leader that created the object; 0 if it has none."""
    return number(label(each, EPOCH))


def key_of(pod: Object) -> TaskKey | None:
    """Returns the attempt of *pod*; None if its annotation is missing or damaged."""
    workflow, *rest = annotation(pod, KEY).split("/")
    if len(rest) != 2 or not (workflow and rest[0] and rest[1].isdecimal()):
        return None
    return TaskKey(workflow, rest[0], int(rest[1]))
