"""Reads the metadata of an object: kind, name, namespace, times, and conditions; checks names as Kubernetes does."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from runrig.kueue.read.tree import Object, Value

KUEUE = "kueue.x-k8s.io"
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_LONGEST = 253
_CONDITION = (
    "type", "status", "reason", "message", "lastTransitionTime", "observedGeneration", "lastProbeTime", "lastHeartbeatTime",
    "lastUpdateTime",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a status. *at*: its last transition; None if not set."""

    status: bool
    reason: str = ""
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """An object of the files. *namespace*: empty for cluster-wide kinds. *created*: None if not set. *owners*: (kind,
    name).
    """

    group: str
    version: str
    kind: str
    name: str
    namespace: str
    body: Object
    meta: Object
    created: float | None = None
    conditions: Mapping[str, Condition] | None = None

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def spec(self) -> Object:
        return self.body.object("spec")

    @property
    def status(self) -> Object:
        return self.body.object("status")

    @property
    def labels(self) -> dict[str, str]:
        return self.meta.strings("labels")

    @property
    def annotations(self) -> dict[str, str]:
        return self.meta.strings("annotations")

    def condition(self, name: str) -> Condition | None:
        return (self.conditions or {}).get(name)

    def says(self, name: str) -> bool:
        """Whether the condition *name* exists and is True."""
        found = self.condition(name)
        return found is not None and found.status

    def owners(self) -> tuple[tuple[str, str], ...]:
        return tuple((owner.text("kind"), owner.text("name")) for owner in self.meta.objects("ownerReferences"))


def read_head(
    body: Object, group: str, version: str, kind: str, *, namespaced: bool, number: str, named: bool = True
) -> Manifest:
    """Reads metadata and conditions. *number*: appended to a generateName. *named* False: the kind needs no name."""
    meta = body.object("metadata")
    created = meta.get("creationTimestamp")
    return Manifest(
        group,
        version,
        kind,
        _name(body, meta, number) if named else meta.text("name"),
        meta.text("namespace") or "default" if namespaced else "",
        body,
        meta,
        created.time() if created else None,
        _conditions(body.object("status")),
    )


def _name(body: Object, meta: Object, number: str) -> str:
    name, start = meta.get("name"), meta.get("generateName")
    text = name.text() if name else ""
    if name is not None and (text or not isinstance(name.node.value, str)):
        check_name(name, text or "unreadable")
        return text
    if start is not None and start.text():
        made = f"{start.text()}{number}"
        start.warn(f"the cluster would generate this name; {made} is used here")
        return made
    body.at.wrong("metadata.name is missing")
    return ""


def check_name(at: Value, name: str) -> None:
    if len(name) > _LONGEST or not _NAME.fullmatch(name):
        at.warn("invalid name: use up to 253 lower-case letters, digits, '-' and '.'")


def _conditions(status: Object) -> dict[str, Condition]:
    found = {}
    for item in status.objects("conditions", _CONDITION):
        time = item.get("lastTransitionTime")
        found[item.text("type")] = Condition(
            item.text("status") == "True", item.text("reason"), time.time() if time else None
        )
    return found
