"""A view of the cluster, kept by watches: all pods and nodes, and runrig's other objects."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from runrig.backends.kubernetes import kinds, names
from runrig.backends.kubernetes.cluster import Cluster
from runrig.backends.kubernetes.names import Object
from runrig.backends.kubernetes.nodes import node_of
from runrig.backends.kubernetes.watching import Watch
from runrig.domain.errors import Unavailable
from runrig.domain.nodes import Node

FIRST_LOOK_S = 20.0
LOST_S = 30.0
"""Seconds a watch can lose contact; enough to restart an API server."""


class ClusterView:
    """*changed* is called from other threads after a change."""

    def __init__(self, cluster: Cluster, namespace: str, changed: Callable[[], None]) -> None:
        self._cluster = cluster
        self._namespace = namespace
        inside = {
            kind: {"namespace": namespace, "labels": names.MANAGED}
            for kind in (kinds.POD_GROUP, kinds.SERVICE, kinds.SECRET)
        }
        above = {kind: {"labels": names.MANAGED} for kind in (kinds.QUEUE, kinds.TOPOLOGY, kinds.PRIORITY_CLASS)}
        all_of_them: dict[Any, dict[str, Any]] = {kinds.POD: {}, kinds.NODE: {}, **inside, **above}
        self._watches = {
            kind.name: Watch(cluster, kind, changed=changed, **which) for kind, which in all_of_them.items()
        }
        self._started = False
        self._pods: tuple[int, dict[str, Object], dict[str, list[Object]]] = (-1, {}, {})
        self._nodes: dict[str, tuple[object, Node]] = {}
        self._known: set[str] = set()
        """Uids of runrig's objects, which stay its own even if all marks are removed."""

    def start(self) -> None:
        """Returns once everything has been listed and is current. Raises Unavailable with the API server's message."""
        if not self._started:
            for watch in self._watches.values():
                watch.start()
            self._started = True
        for kind, watch in self._watches.items():
            if not watch.wait_synced(FIRST_LOOK_S):
                raise Unavailable(
                    f"cannot list {kind} objects of {self._cluster.url}: {watch.trouble or 'no response'}"
                )
            if watch.lost_s > LOST_S:
                raise Unavailable(
                    f"lost the watch on {kind} objects of {self._cluster.url}: {watch.trouble or 'no response'}"
                )

    def stop(self) -> None:
        for watch in self._watches.values():
            watch.stop()

    @property
    def generation(self) -> int:
        """Returns a number that grows with each change."""
        return sum(watch.generation for watch in self._watches.values())

    # ------------------------------------------------------------ objects

    def there(self, wanted: Object) -> Object | None:
        """Returns the live object with the kind and name of *wanted*, or None."""
        kind, namespace, name = names.wanted_id(wanted)
        return self._watches[kind].objects().get((namespace, name))

    def has(self, id: tuple[str, str, str]) -> bool:
        """Whether the object with this (kind, namespace, name) exists."""
        kind, *place = id
        return tuple(place) in self._watches[kind].objects()

    def all_of(self, *kinds: str) -> Iterator[Object]:
        """Yields runrig's objects other than pods."""
        for kind in kinds:
            yield from self._watches[kind].objects().values()

    def note(self, answered: Object | None) -> None:
        """Adds the API server's answer to runrig's own change to the view."""
        if answered is not None:
            self._watches[answered["kind"]].put(answered)

    # ------------------------------------------------------------ pods and nodes

    @property
    def ours(self) -> Mapping[str, Object]:
        """Returns runrig's pods by name."""
        return self._sorted_out()[0]

    def _sorted_out(self) -> tuple[Mapping[str, Object], Mapping[str, list[Object]]]:
        """Returns (runrig's pods by name, other pods by node)."""
        watch = self._watches[kinds.POD.name]
        generation = watch.generation
        if self._pods[0] != generation:
            ours: dict[str, Object] = {}
            foreign: dict[str, list[Object]] = defaultdict(list)
            for (namespace, name), pod in watch.objects().items():
                if namespace == self._namespace and (
                    _is_ours(pod["metadata"]) or pod["metadata"]["uid"] in self._known
                ):
                    ours[name] = pod
                elif node := pod.get("spec", {}).get("nodeName"):
                    foreign[node].append(pod)
            self._pods = generation, ours, foreign
            self._known = {pod["metadata"]["uid"] for pod in ours.values()}
        return self._pods[1], self._pods[2]

    def has_node(self, name: str) -> bool:
        return ("", name) in self._watches[kinds.NODE.name].objects()

    def nodes(self, resource_names: Mapping[str, str]) -> tuple[Node, ...]:
        """Returns nodes minus what other pods request. Recomputes a node only if it or one of these pods changes."""
        _, foreign = self._sorted_out()
        found = {}
        for (_, name), each in self._watches[kinds.NODE.name].objects().items():
            on_it = foreign.get(name, [])
            state = (_version(each), tuple(sorted(_version(pod) for pod in on_it)))
            known = self._nodes.get(name)
            if known is None or known[0] != state:
                known = state, node_of(each, on_it, resource_names)
            found[name] = known
        self._nodes = found
        return tuple(node for _, (_, node) in sorted(found.items()))


def _is_ours(metadata: Object) -> bool:
    """Returns True while one of runrig's marks is left."""
    marked = names.MANAGED.items() <= (metadata.get("labels") or {}).items()
    return (
        marked
        or names.FINALIZER in (metadata.get("finalizers") or ())
        or names.KEY in (metadata.get("annotations") or {})
    )


def _version(each: Object) -> tuple[str, str]:
    return each["metadata"]["uid"], each["metadata"]["resourceVersion"]
