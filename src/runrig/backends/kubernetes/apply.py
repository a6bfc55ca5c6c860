"""Brings the cluster to the desired state: creates, repairs and removes objects in an order that never starts half a
gang.

Level-triggered: repeating it changes nothing, even after a server stopped in the middle.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, TypeVar

from runrig.backends.kubernetes import names, objects, status
from runrig.backends.kubernetes.answers import ApiRefusal, unless
from runrig.backends.kubernetes.cluster import Cluster
from runrig.backends.kubernetes.cluster_view import ClusterView
from runrig.backends.kubernetes.drift import Crew, matches
from runrig.backends.kubernetes.names import Object
from runrig.backends.kubernetes.wanted import Wanted
from runrig.domain.errors import RunrigError, Unavailable
from runrig.domain.workflows import TaskKey
from runrig.ports.backend import Launch

T = TypeVar("T")

_OURS_TO_SAY = ("labels", "annotations")
_FEW = 100

_log = logging.getLogger(__name__)


class RefusedCalls:
    """Calls that the API server refused in the last round, to be retried.

    *begun*: gangs with a pod that has run. *gangs*: id → message of the refusal; "" stands for objects that all gangs
    need. *refused*: gangs that were accepted in part at most and have not begun (rule T7). *said*: all refusals.
    """

    def __init__(self, begun: Collection[str] = ()) -> None:
        self.begun = begun
        self.gangs: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.said: dict[str, None] = {}

    def note(self, gang: str, refusal: ApiRefusal) -> None:
        self.gangs[gang] = str(refusal)
        if refusal.over_quota and gang not in self.begun:
            self.refused[gang] = str(refusal)


class Maker:
    """*leads*: whether this server still leads, by a clock that runs during sleep.

    *let_go*: removes a finished pod in the background.
    """

    def __init__(
        self,
        cluster: Cluster,
        view: ClusterView,
        crew: Crew,
        leads: Callable[[], bool],
        let_go: Callable[[Object], None],
    ) -> None:
        self._cluster = cluster
        self._view = view
        self._crew = crew
        self._leads = leads
        self._let_go = let_go
        self._right: dict[tuple[str, str, str], tuple[str, Object]] = {}
        """Objects last found correct: their version, and the desired object."""
        self._kept = 0
        self.held = RefusedCalls()
        """Refusals of the last round."""

    def carry_out(self, wanted: Wanted, made: set[TaskKey]) -> None:
        """*made*: attempts that have had a pod; new ones are added.

        Does as much as possible. Raises Unavailable if the API server did not answer; refusals are in `held`.
        """
        trouble: list[Unavailable] = []
        desired = wanted.desired
        held = RefusedCalls({desired.run[key].gang for key in desired.running if key in desired.run})
        steps: tuple[Callable[[], None], ...] = (
            lambda: self._cluster_wide(wanted, held),
            lambda: self._stop(wanted, held),
            lambda: self._gangs(wanted, made, held),
            lambda: self._protect(held),
            lambda: self._finish(wanted),
            lambda: self._prune(wanted, held),
        )
        for step in steps:
            try:
                step()
            except Unavailable as error:
                trouble.append(error)
        for words in held.said.keys() - self.held.said.keys():
            _log.warning("event=refused error=%r", words)
        self.held = held
        self._forget()
        if trouble:
            raise trouble[0]

    def _all(self, calls: Sequence[Callable[[], object]], held: RefusedCalls) -> tuple[ApiRefusal, ...]:
        refused = self._crew.run_all(calls)
        held.said |= dict.fromkeys(map(str, refused))
        return refused

    def _forget(self) -> None:
        """Drops objects that no longer exist, at intervals."""
        if len(self._right) > 2 * self._kept + _FEW:
            self._right = {id: right for id, right in self._right.items() if self._view.has(id)}
            self._kept = len(self._right)

    # ------------------------------------------------------------ queues, topologies, priority classes

    def _cluster_wide(self, wanted: Wanted, held: RefusedCalls) -> None:
        """Applies cluster-wide objects, parents before children. Without a pool there are none yet."""
        if not wanted.desired.pools:
            return
        made = objects.cluster_objects(wanted.desired.pools, wanted.settings.namespace)
        for _, alike in groupby(made, key=_stage):
            for refused in self._all([partial(self._put, each) for each in alike], held):
                held.note("", refused)

    def _put(self, each: Object) -> None:
        """Creates *each*, or updates it to match."""
        there = self._view.there(each)
        if there is not None and self._is_right(each, there):
            return
        known = self._right.get(names.wanted_id(each))
        if known is not None and known[1] == each:
            _log.warning("event=drift object=%s/%s", each["kind"], each["metadata"]["name"])
        if there is not None and each["kind"] == "Topology" and there["spec"] != each["spec"]:
            self._remove(there)  # Levels are immutable, so the Topology is deleted and created again.
        self._view.note(self._as_leader(lambda: self._cluster.apply(each)))

    def _is_right(self, each: Object, there: Object) -> bool:
        id, version = names.wanted_id(each), there["metadata"]["resourceVersion"]
        if self._right.get(id) == (version, each):
            return True
        if not matches(each, there):
            return False
        self._right[id] = version, each
        return True

    # ------------------------------------------------------------ gangs

    def _stop(self, wanted: Wanted, held: RefusedCalls) -> None:
        """Deletes pods with their grace period. An ended pod stays until the engine has seen its end."""
        calls = []
        for launch in wanted.desired.stop.values():
            pod = self._view.ours.get(wanted.pod_name(launch))
            if pod is not None and not names.finished(pod) and not _ends_within(pod, launch.grace_s):
                calls.append(partial(self._delete, pod, launch.grace_s))
        self._all(calls, held)

    def _delete(self, pod: Object, grace_s: float) -> None:
        self._as_leader(lambda: self._cluster.delete(pod, uid=pod["metadata"]["uid"], grace_s=max(1.0, grace_s)))

    def _gangs(self, wanted: Wanted, made: set[TaskKey], held: RefusedCalls) -> None:
        """Creates the objects that a gang needs, then its pods: KAI starts none before all exist."""
        running: dict[str, list[Launch]] = defaultdict(list)
        for launch in wanted.desired.run.values():
            running[launch.gang].append(launch)
        missing = self._missing(wanted, made)
        self._all(list(self._mended(wanted)), held)
        there: dict[str, set[str]] = defaultdict(set)
        for pod in self._view.ours.values():
            there[names.label(pod, names.GANG)].add(names.label(pod, names.SUBGROUP))
        ready: set[str] = set()
        gangs = [
            partial(self._gang, wanted, id, launches, there, missing.get(id, ()), ready, held)
            for id, launches in sorted(running.items())
        ]
        try:
            self._all(gangs, held)
        finally:
            pods = [
                partial(self._pod, wanted, launch, made, held)
                for id, launches in missing.items()
                if id in ready
                for launch in launches
            ]
            self._all(pods, held)

    def _missing(self, wanted: Wanted, made: set[TaskKey]) -> Mapping[str, list[Launch]]:
        """Returns gang → attempts that have never had a pod."""
        found: dict[str, list[Launch]] = defaultdict(list)
        ours = self._view.ours
        for key, launch in wanted.desired.run.items():
            if wanted.pod_name(launch) in ours:
                made.add(key)
            elif key not in made and key not in wanted.desired.running and key not in wanted.impossible:
                found[launch.gang].append(launch)
        return found

    def _mended(self, wanted: Wanted) -> Iterator[Callable[[], None]]:
        """Yields calls that repair pods changed by others since the last round."""
        for launch in wanted.desired.run.values():
            pod = self._view.ours.get(wanted.pod_name(launch))
            if pod is None or "deletionTimestamp" in pod["metadata"]:
                continue
            id, version = names.wanted_id(pod), pod["metadata"]["resourceVersion"]
            if self._right.get(id, ("",))[0] == version:
                continue
            try:
                made = wanted.gang(launch.gang).pods.pod(launch)
            except ValueError:  # Created by another version of runrig: left as it is.
                continue
            patch = _mending(made["metadata"], pod["metadata"])
            if patch:
                _log.warning("event=drift object=Pod/%s", pod["metadata"]["name"])
                yield partial(self._mend, pod, patch)
            else:
                self._right[id] = version, {}

    def _mend(self, pod: Object, patch: Object) -> None:
        self._view.note(self._as_leader(lambda: self._cluster.patch(pod, {"metadata": patch})))

    def _gang(
        self,
        wanted: Wanted,
        id: str,
        launches: Iterable[Launch],
        there: Mapping[str, Collection[str]],
        missing: Iterable[Launch],
        ready: set[str],
        held: RefusedCalls,
    ) -> None:
        """Creates all objects of a gang except its pods. Records the message if the cluster rejects the gang."""
        try:
            for each in wanted.gang(id).objects(launches, there.get(wanted.desired.gangs[id].uuid, ())):
                self._put(each)
        except (ValueError, ApiRefusal) as error:
            if isinstance(error, ApiRefusal) and not error.final:
                held.note(id, error)
                raise
            wanted.impossible |= {launch.key: str(error) for launch in missing}
        except RunrigError:
            raise
        except Exception as error:  # noqa: BLE001 - one gang must not block the others
            _log.exception("event=gang_not_created gang=%s", id)
            wanted.impossible |= {launch.key: f"runrig could not create its objects: {error!r}" for launch in missing}
        else:
            ready.add(id)

    def _pod(self, wanted: Wanted, launch: Launch, made: set[TaskKey], held: RefusedCalls) -> None:
        try:
            pod = wanted.gang(launch.gang).pods.pod(launch)
            answered = self._as_leader(lambda: self._cluster.create(pod)) or self._cluster.get(pod)
        except (ValueError, ApiRefusal) as error:
            if isinstance(error, ApiRefusal) and not error.final:
                held.note(launch.gang, error)
                raise
            wanted.impossible[launch.key] = str(error)
            return
        made.add(launch.key)
        self._view.note(answered)

    def _protect(self, held: RefusedCalls) -> None:
        """Adds the missing start time of gangs with a pod on a node, because KAI evicts a gang without it.

        KAI adds it too, but only when it starts the gang itself, and loses it when it dies or its patch is rejected.
        """
        bare = [each for each in self._view.all_of("PodGroup") if not names.annotation(each, names.STARTED)]
        if not bare:
            return
        since: dict[str, str] = {}
        for pod in self._view.ours.values():
            if status.bound(pod) and not status.over(pod):
                created, gang = pod["metadata"]["creationTimestamp"], names.label(pod, names.GANG)
                since[gang] = min(created, since.get(gang, created))
        started = [(each, since[name]) for each in bare if (name := each["metadata"]["name"]) in since]
        self._all([partial(self._note_start, each, when) for each, when in started], held)

    def _note_start(self, group: Object, when: str) -> None:
        """Merges, because a field that is applied would be repaired whenever KAI writes its own time."""
        version = group["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version, "annotations": {names.STARTED: when}}}
        with unless(404, 409):  # The group was deleted or changed: the next round tries again.
            self._view.note(self._as_leader(lambda: self._cluster.patch(group, patch)))

    # ------------------------------------------------------------ finished objects

    def _finish(self, wanted: Wanted) -> None:
        """Removes pods that are no longer needed, except those created by a later leader."""
        run, stop = wanted.desired.run, wanted.desired.stop
        kept = {wanted.pod_name(launch) for launch in (*run.values(), *stop.values())}
        for name, pod in self._view.ours.items():
            if name not in kept and names.epoch_of(pod) <= (wanted.settings.epoch or 0):
                self._let_go(pod)

    def _prune(self, wanted: Wanted, held: RefusedCalls) -> None:
        """Removes objects of gangs without pods, and queues and topologies of deleted pools."""
        gangs = {gang.uuid for gang in wanted.desired.gangs.values()}
        gangs |= {names.label(pod, names.GANG) for pod in self._view.ours.values()}
        term = wanted.settings.epoch or 0
        gone = [
            each
            for each in self._view.all_of("PodGroup", "Secret", "Service")
            if names.label(each, names.GANG) not in gangs and names.epoch_of(each) <= term
        ]
        if wanted.desired.pools:
            gone += self._pools_that_went(wanted)
        self._all([partial(self._remove, each) for each in gone], held)

    def _pools_that_went(self, wanted: Wanted) -> Iterator[Object]:
        """Yields queues without a pod group or child queue. The webhook requires that, and KAI treats a child without
        its parent as deleted.
        """
        made = objects.cluster_objects(wanted.desired.pools, wanted.settings.namespace)
        kept = {names.wanted_id(each) for each in made}
        kept |= {("Queue", "", group["spec"].get("queue", "")) for group in self._view.all_of("PodGroup")}
        kept |= {("Queue", "", queue["spec"].get("parentQueue", "")) for queue in self._view.all_of("Queue")}
        for each in self._view.all_of("Topology", "Queue"):
            ours = each["metadata"]["labels"].get(names.NAMESPACE) == wanted.settings.namespace
            if ours and names.wanted_id(each) not in kept and not each.get("status", {}).get("childQueues"):
                yield each

    def _remove(self, each: Object) -> None:
        self._as_leader(lambda: self._cluster.delete(each, uid=each["metadata"]["uid"]))

    def _as_leader(self, call: Callable[[], T]) -> T:
        """Runs *call* while this server leads."""
        if not self._leads():
            # After a sleep another server may lead, and its changes would look like drift or missing objects.
            raise Unavailable("this server is no longer the leader, so it changes nothing")
        return call()


def _stage(each: Object) -> tuple[int, int]:
    """Returns the order of creation: priority classes, then queues from the root down, then topologies."""
    if each["kind"] == "Queue":
        parent = each["spec"].get("parentQueue")
        return 1, 0 if parent is None else 1 if parent.startswith("osmo-default-") else 2
    return (0, 0) if each["kind"] == "PriorityClass" else (2, 0)


def _mending(wanted: Object, there: Object) -> Object:
    """Returns the part of *wanted* that is missing or different in *there*, ignoring the epoch."""
    patch: Object = {}
    for part in _OURS_TO_SAY:
        has = there.get(part) or {}
        lacks = {
            name: value
            for name, value in wanted.get(part, {}).items()
            if has.get(name) != value and (name != names.EPOCH or name not in has)
        }
        patch |= {part: lacks} if lacks else {}
    if names.FINALIZER not in (there.get("finalizers") or ()):
        patch["finalizers"] = [*(there.get("finalizers") or ()), names.FINALIZER]
    return patch


def _ends_within(pod: Object, grace_s: float) -> bool:
    """Whether it is already being deleted with at most *grace_s*."""
    meta: Mapping[str, Any] = pod["metadata"]
    return "deletionTimestamp" in meta and float(meta.get("deletionGracePeriodSeconds") or 0) <= max(1.0, grace_s)
