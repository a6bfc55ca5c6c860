"""From what is wanted to what is: objects made, repaired and taken away, in an order that never lets a half gang start.

Level-triggered: any number of times has the effect of once, also where another life of the server stopped in the middle.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any

from runrig.backends.kubernetes import names, objects
from runrig.backends.kubernetes.applying import Crew, differences
from runrig.backends.kubernetes.cluster import Cluster, Refusal
from runrig.backends.kubernetes.pods import GangPods, Settings
from runrig.backends.kubernetes.seen import Seen
from runrig.domain.errors import RunrigError, Unavailable
from runrig.domain.workflows import TaskKey
from runrig.ports import Desired, Launch

Object = dict[str, Any]

_OURS_TO_SAY = ("labels", "annotations")
_NEVER = (400, 413, 422)
"""Answers that say the same whenever they are asked for again."""
_NO_RIGHT = "cannot "
"""In a 403 that is about the rights of the server, and not about the object."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Wanted:
    """*desired* with the objects of its gangs, made when they are asked for.  *impossible*: attempts that no cluster takes, and why."""

    desired: Desired
    settings: Settings
    impossible: dict[TaskKey, str] = field(default_factory=dict)
    gangs: dict[str, tuple[GangPods, tuple[Object, ...]]] = field(default_factory=dict)
    """By uuid: what its pods are made from, and what is made before them."""

    def after(self, desired: Desired, settings: Settings) -> "Wanted":
        """The next one, with what is still good of this one."""
        uuids = {gang.uuid for gang in desired.gangs.values()} if settings == self.settings else set()
        keys = {*desired.run, *desired.stop}
        return Wanted(
            desired,
            settings,
            {key: why for key, why in self.impossible.items() if key in keys},
            {uuid: made for uuid, made in self.gangs.items() if uuid in uuids},
        )

    def gang(self, id: str) -> tuple[GangPods, tuple[Object, ...]]:
        """Raises ValueError for what no cluster takes."""
        gang = self.desired.gangs[id]
        found = self.gangs.get(gang.uuid)
        if found is None:
            pods = GangPods(gang, self.settings)
            found = self.gangs[gang.uuid] = pods, objects.gang_objects(pods)
        return found

    def pod_name(self, launch: Launch) -> str:
        return names.pod_name(self.desired.gangs[launch.gang].uuid, launch.key.task, launch.key.retry_id)


class Maker:
    """*leads*: whether this server still does, by a clock that went on while it slept.

    *let_go*: takes a pod that is finished business away, in its own time.
    """

    def __init__(
        self,
        cluster: Cluster,
        seen: Seen,
        crew: Crew,
        epoch: int,
        leads: Callable[[], bool],
        let_go: Callable[[Object], None],
    ) -> None:
        self._cluster = cluster
        self._seen = seen
        self._crew = crew
        self._epoch = epoch
        self._leads = leads
        self._let_go = let_go
        self._right: dict[tuple[str, str, str], tuple[str, Object]] = {}
        """Objects that were as they should be: their versions then, and how they should be."""

    def carry_out(self, wanted: Wanted, made: set[TaskKey]) -> None:
        """*made*: attempts whose pods there have been; those made here are added.

        Does all that can be done.  Raises Unavailable if something could not, for now.
        """
        trouble: list[Unavailable] = []
        steps: tuple[Callable[[], None], ...] = (
            lambda: self._cluster_wide(wanted),
            lambda: self._stop(wanted),
            lambda: self._gangs(wanted, made),
            lambda: self._finish(wanted),
            lambda: self._prune(wanted),
        )
        for step in steps:
            try:
                step()
            except Unavailable as error:
                trouble.append(error)
        if trouble:
            raise trouble[0]

    # ------------------------------------------------------------ queues, topologies, priority classes

    def _cluster_wide(self, wanted: Wanted) -> None:
        """Parents before children.  Without a pool nothing is wanted yet."""
        if not wanted.desired.pools:
            return
        made = objects.cluster_objects(wanted.desired.pools, wanted.settings.namespace)
        for _, alike in groupby(made, key=_stage):
            self._crew.run_all([partial(self._put, each) for each in alike])

    def _put(self, each: Object) -> None:
        """Makes *each*, or makes it as it should be."""
        there = self._seen.there(each)
        if there is not None and self._is_right(each, there):
            return
        known = self._right.get(names.wanted_id(each))
        if known is not None and known[1] == each:
            _log.warning("event=drift object=%s/%s", each["kind"], each["metadata"]["name"])
        if there is not None and each["kind"] == "Topology" and there["spec"] != each["spec"]:
            self._cluster.delete(there, uid=there["metadata"]["uid"])  # its levels can only be made anew
        self._seen.note(self._told(lambda: self._cluster.apply(each)))

    def _is_right(self, each: Object, there: Object) -> bool:
        id, version = names.wanted_id(each), there["metadata"]["resourceVersion"]
        if self._right.get(id) == (version, each):
            return True
        if differences(each, there):
            return False
        self._right[id] = version, each
        return True

    # ------------------------------------------------------------ gangs

    def _stop(self, wanted: Wanted) -> None:
        """Told to end, with their grace; whoever has ended stays until the engine has heard it."""
        calls = []
        for launch in wanted.desired.stop.values():
            pod = self._seen.ours.get(wanted.pod_name(launch))
            if pod is not None and _alive(pod) and not _ends_within(pod, launch.grace_s):
                calls.append(partial(self._delete, pod, launch.grace_s))
        self._crew.run_all(calls)

    def _delete(self, pod: Object, grace_s: float) -> None:
        self._told(lambda: self._cluster.delete(pod, uid=pod["metadata"]["uid"], grace_s=max(1.0, grace_s)))

    def _gangs(self, wanted: Wanted, made: set[TaskKey]) -> None:
        """What a gang needs first, then its pods: KAI begins with none before all are there."""
        running = {launch.gang for launch in wanted.desired.run.values()}
        missing = self._missing(wanted, made)
        self._crew.run_all(list(self._mended(wanted)))
        ready: set[str] = set()
        try:
            self._crew.run_all([partial(self._gang, wanted, id, missing.get(id, ()), ready) for id in sorted(running)])
        finally:
            calls = [
                partial(self._pod, wanted, launch, made)
                for id, launches in missing.items()
                if id in ready
                for launch in launches
            ]
            self._crew.run_all(calls)

    def _missing(self, wanted: Wanted, made: set[TaskKey]) -> Mapping[str, list[Launch]]:
        """By gang, attempts that have no pod and never had one."""
        found: dict[str, list[Launch]] = defaultdict(list)
        ours = self._seen.ours
        for key, launch in wanted.desired.run.items():
            if wanted.pod_name(launch) in ours:
                made.add(key)
            elif key not in made and key not in wanted.desired.running and key not in wanted.impossible:
                found[launch.gang].append(launch)
        return found

    def _mended(self, wanted: Wanted) -> Iterator[Callable[[], None]]:
        """What puts right those pods that somebody else has changed since they were looked at last."""
        for launch in wanted.desired.run.values():
            pod = self._seen.ours.get(wanted.pod_name(launch))
            if pod is None or "deletionTimestamp" in pod["metadata"]:
                continue
            id, version = names.wanted_id(pod), pod["metadata"]["resourceVersion"]
            if self._right.get(id, ("",))[0] == version:
                continue
            try:
                made = wanted.gang(launch.gang)[0].pod(launch)
            except ValueError:  # another version of runrig made it: it is left as it is
                continue
            patch = _mending(made["metadata"], pod["metadata"])
            if patch:
                _log.warning("event=drift object=Pod/%s", pod["metadata"]["name"])
                yield partial(self._mend, pod, patch)
            else:
                self._right[id] = version, {}

    def _mend(self, pod: Object, patch: Object) -> None:
        self._seen.note(self._told(lambda: self._cluster.patch(pod, {"metadata": patch})))

    def _gang(self, wanted: Wanted, id: str, missing: Iterable[Launch], ready: set[str]) -> None:
        """All but its pods.  One that no cluster would take is marked, with the words of who said so."""
        try:
            for each in wanted.gang(id)[1]:
                self._put(each)
        except (ValueError, Refusal) as error:
            wanted.impossible |= {launch.key: str(error) for launch in missing}
        except RunrigError:
            raise
        except Exception as error:  # noqa: BLE001 - one gang shall not stop all others
            _log.exception("event=gang_not_made gang=%s", id)
            wanted.impossible |= {launch.key: f"runrig could not make its objects: {error!r}" for launch in missing}
        else:
            ready.add(id)

    def _pod(self, wanted: Wanted, launch: Launch, made: set[TaskKey]) -> None:
        if not self._leads():
            # Who slept here may have been succeeded, and the task may have run and ended since.
            raise Unavailable("this server does not lead any more: it starts nothing")
        try:
            pod = wanted.gang(launch.gang)[0].pod(launch)
            answered = self._told(lambda: self._cluster.create(pod)) or self._cluster.get(pod)
        except (ValueError, Refusal) as error:
            wanted.impossible[launch.key] = str(error)
            return
        made.add(launch.key)
        self._seen.note(answered)

    # ------------------------------------------------------------ what is finished

    def _finish(self, wanted: Wanted) -> None:
        """Pods that nobody wants any more; those that a later server made are not for this one to judge."""
        run, stop = wanted.desired.run, wanted.desired.stop
        kept = {wanted.pod_name(launch) for launch in (*run.values(), *stop.values())}
        for name, pod in self._seen.ours.items():
            if name not in kept and _epoch(pod) <= self._epoch:
                self._let_go(pod)

    def _prune(self, wanted: Wanted) -> None:
        """Objects of gangs that are no more, when their pods are gone too; queues and topologies of pools that are no more."""
        gangs = {gang.uuid for gang in wanted.desired.gangs.values()}
        gangs |= {(pod["metadata"].get("labels") or {}).get(names.GANG, "") for pod in self._seen.ours.values()}
        gone = [
            each
            for each in self._seen.all_of("PodGroup", "Secret", "Service")
            if each["metadata"]["labels"].get(names.GANG, "") not in gangs and _epoch(each) <= self._epoch
        ]
        self._crew.run_all([partial(self._remove, each) for each in gone])
        if wanted.desired.pools:
            for each in self._pools_that_went(wanted):
                self._remove(each)

    def _pools_that_went(self, wanted: Wanted) -> Iterator[Object]:
        """Children before parents; a queue in which a pod group still is stays."""
        made = objects.cluster_objects(wanted.desired.pools, wanted.settings.namespace)
        kept = {names.wanted_id(each) for each in made}
        kept |= {("Queue", "", group["spec"].get("queue", "")) for group in self._seen.all_of("PodGroup")}
        gone = [
            each
            for each in self._seen.all_of("Topology", "Queue")
            if names.wanted_id(each) not in kept
            and each["metadata"]["labels"].get(names.NAMESPACE) == wanted.settings.namespace
        ]
        yield from sorted(gone, key=_stage, reverse=True)

    def _remove(self, each: Object) -> None:
        self._told(lambda: self._cluster.delete(each, uid=each["metadata"]["uid"]))

    def _told(self, call: Callable[[], Any]) -> Any:
        """*call*; a refusal that may be another answer later is Unavailable."""
        try:
            return call()
        except Refusal as error:
            if error.status in _NEVER or (error.status == 403 and _NO_RIGHT not in error.message):
                raise
            raise Unavailable(str(error)) from error


def _stage(each: Object) -> tuple[int, int]:
    """What must be there before others: priority classes, then queues from the root down, then topologies."""
    if each["kind"] == "Queue":
        parent = each["spec"].get("parentQueue")
        return 1, 0 if parent is None else 1 if parent.startswith("osmo-default-") else 2
    return (0, 0) if each["kind"] == "PriorityClass" else (2, 0)


def _mending(wanted: Object, there: Object) -> Object:
    """Of metadata, what is missing or not as it was made; whose epoch it is does not count."""
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


def _alive(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def _ends_within(pod: Object, grace_s: float) -> bool:
    """It was told to already, with no more grace."""
    meta: Mapping[str, Any] = pod["metadata"]
    return "deletionTimestamp" in meta and float(meta.get("deletionGracePeriodSeconds") or 0) <= max(1.0, grace_s)


def _epoch(each: Object) -> int:
    """Of the server that made it."""
    text = str((each["metadata"].get("labels") or {}).get(names.EPOCH, "0"))
    return int(text) if text.isdecimal() else 0
