"""The rights that runrig needs in a cluster: the one list behind `runrig doctor`, the manifests, the chart and the docs.

Pure.
"""

from typing import NamedTuple

MANIFEST, SESSIONS = "deploy/kubernetes/rbac.yaml", "deploy/kubernetes/rbac-sessions.yaml"
_CHANGED = ("get", "list", "watch", "create", "patch", "delete")


class Right(NamedTuple):
    """*verbs* on *resource* (such as `pods/log`) of the API group *group* ("" for core).

    *inside*: in runrig's namespace, else in the whole cluster. *without*: what does not work if a verb is missing. *optional*:
    everything else works then. *sessions*: users enter tasks with it.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    inside: bool
    without: str
    optional: bool = False
    sessions: bool = False

    @property
    def name(self) -> str:
        """The resource with its API group, as kubectl writes it."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


RIGHTS = (
    Right("", "nodes", ("list", "watch"), False, "nothing is decided"),
    Right("", "pods", ("list", "watch"), False, "nothing is decided"),
    Right("", "namespaces", ("get", "create"), False, "a missing namespace is not created", optional=True),
    Right("scheduling.run.ai", "queues", _CHANGED, False, "pools get no queues, so nothing starts"),
    Right("kai.scheduler", "topologies", _CHANGED, False, "pools with topology keys get no topology"),
    Right("scheduling.k8s.io", "priorityclasses", ("list", "watch", "create", "patch"), False, "nothing starts"),
    Right(
        "authentication.k8s.io",
        "tokenreviews",
        ("create",),
        False,
        "pods cannot fetch large code from `code_url`",
        optional=True,
    ),
    Right("", "pods", ("get", "create", "patch", "delete"), True, "tasks do not start or stop"),
    Right("", "services", _CHANGED, True, "gangs of several pods do not start, or leave their Services behind"),
    Right("", "secrets", _CHANGED, True, "gangs with files or credentials do not start, or leave their Secrets behind"),
    Right("scheduling.run.ai", "podgroups", _CHANGED, True, "gangs do not start, or leave their PodGroups behind"),
    Right("", "configmaps", ("get", "create", "patch"), True, "the namespace cannot be claimed, so nothing is decided"),
    Right("", "pods/log", ("get",), True, "tasks have no output", optional=True),
    Right("", "events", ("list", "watch"), True, "workflows do not list the events of the cluster", optional=True),
    Right("", "pods/exec", ("get", "create"), True, "`exec` and `rsync` are refused", optional=True, sessions=True),
    Right("", "pods/portforward", ("get", "create"), True, "`port-forward` is refused", optional=True, sessions=True),
)
