"""The kubernetes backend: runrig decides placement, KAI Scheduler binds whole gangs, Kubernetes runs the pods.

All important state is in the cluster: a pod carries the key of its attempt, and runrig's finalizer keeps it until its
end and output are recorded. Memory holds only the watched objects and the desired state.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from runrig.backends.kubernetes import code_tokens, kinds, names, passages, status
from runrig.backends.kubernetes.answers import ApiRefusal
from runrig.backends.kubernetes.apply import Maker
from runrig.backends.kubernetes.cluster import Cluster
from runrig.backends.kubernetes.cluster_view import ClusterView
from runrig.backends.kubernetes.code import LARGEST_ARCHIVE
from runrig.backends.kubernetes.drift import Crew
from runrig.backends.kubernetes.events import ClusterEvents
from runrig.backends.kubernetes.logs import KeptLogs
from runrig.backends.kubernetes.names import Object
from runrig.backends.kubernetes.namespace_claim import NamespaceClaim
from runrig.backends.kubernetes.pods import RESOURCE_NAMES, Settings
from runrig.backends.kubernetes.wanted import Wanted
from runrig.domain.errors import Conflict, NotLoggedIn, RunrigError, Unavailable
from runrig.domain.nodes import Node
from runrig.domain.observed import ClusterEvent, Observation, Phase, TaskFact
from runrig.domain.secrets import masked
from runrig.domain.workflows import ExitCode, TaskKey
from runrig.ports.backend import (
    Backend,
    Desired,
    Launch,
    LogFile,
    Opens,
    Output,
    Passage,
    Program,
    Pulls,
    no_code,
    no_credentials,
    no_pulls,
)
from runrig.ports.code import CodeOf

_LONGEST_WAIT_S = 30.0
"""Some pod states time out; they are noticed within this many seconds."""
_AGAIN_S = 5.0
"""Seconds between retries of refused calls and of missing output."""
_CALM_S = 0.02
"""Seconds to wait for more events of a burst."""
_UNDERTAKERS = 8
_SILENT_NODE_S = 60.0
_EVICT = "Evict"
"""Reason of KAI's event about the pod group of a pod that it evicts."""
_SCHEDULED = "Scheduled"
"""Reason of an event that only names the node."""

_log = logging.getLogger(__name__)


class KubernetesBackend(Backend):
    """*claim*: of *namespace*; pods created by a later leader are left alone. *leads*: whether this server still leads.

    *folder*: for output and events. *bind_timeout_s*: how long the cluster's scheduler can take to place a gang (rule
    T7). *start_timeout_s*: how long a pod with a node can take to start. *code_url*: as in `Settings`. *now*: as the cluster's clock.
    """

    name = "kubernetes"
    fixed_nodes = False
    topology = True
    queues = True
    outputs = False
    datagrams = False

    def __init__(
        self,
        cluster: Cluster,
        folder: Path,
        *,
        namespace: str,
        claim: NamespaceClaim,
        resource_names: Mapping[str, str] | None = None,
        bind_timeout_s: float = 60.0,
        start_timeout_s: float = 1800.0,
        leads: Callable[[], bool] = lambda: True,
        code_url: str | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.largest_code = LARGEST_ARCHIVE if code_url is None else None
        self._code_url = code_url
        self._cluster = cluster
        self._namespace = namespace
        self._now = now
        self._names = {**RESOURCE_NAMES, **(resource_names or {})}
        self._bind_timeout_s = bind_timeout_s
        self._start_timeout_s = start_timeout_s
        self._claim = claim
        self._opens: Opens = no_credentials
        self._pulls: Pulls = no_pulls
        self._code_of: CodeOf = no_code
        self._changed = threading.Event()
        self._view = ClusterView(cluster, namespace, self._changed.set)
        self._crew = Crew()
        self._undertakers = ThreadPoolExecutor(_UNDERTAKERS, thread_name_prefix="undertaker")
        self._going: set[str] = set()
        self._logs = KeptLogs(
            folder,
            lambda pod, follow: cluster.log(namespace, pod, names.CONTAINER, follow=follow, timestamps=True),
        )
        self._events = ClusterEvents(cluster, namespace, self._view, folder)
        self._maker = Maker(cluster, self._view, self._crew, leads, self._let_go)
        self._wanted = Wanted(Desired(), self._settings(Desired()))
        self._made: set[TaskKey] = set()
        self._unbound_since: dict[str, float] = {}
        self._told: tuple[Node, ...] | None = None
        self._carried_out = (-1, 0.0)
        self._buried_again = math.inf

    # ------------------------------------------------------------ the port

    def use_credentials(self, opens: Opens, pulls: Pulls) -> None:
        self._opens, self._pulls = opens, pulls

    def use_code(self, code_of: CodeOf) -> None:
        self._code_of = code_of

    def code_for(self, token: str) -> tuple[str, str]:
        if self._code_url is None:
            raise NotLoggedIn
        name, uid = code_tokens.pod_of(self._cluster, self._namespace, token)
        gangs = self._wanted.desired.gangs
        for launch, pod in self._pods():
            if (pod["metadata"]["name"], pod["metadata"]["uid"]) == (name, uid) and launch.gang in gangs:
                gang = gangs[launch.gang]
                if gang.code is not None:
                    return gang.user, gang.code
        raise NotLoggedIn

    def observe(self) -> Observation:
        """Also repairs changes by others, so that the result matches the desired state. Raises Unavailable."""
        self._begin()
        if self._view.generation != self._carried_out[0] or time.monotonic() >= self._due:
            self._carry_out()
        nodes = self._view.nodes(self._names)
        told, self._told = self._told, nodes
        facts = self._facts(self._now())
        return Observation(facts, None if told == nodes else nodes, self._refused(facts))

    def sync(self, desired: Desired) -> None:
        self._begin()
        self._wanted = self._wanted.after(desired, self._settings(desired))
        self._made = {key for key in self._made if key in desired.run}
        self._carry_out()

    def wait(self, timeout_s: float) -> None:
        due_s = max(0.0, self._due - time.monotonic())
        if self._changed.wait(min(timeout_s, due_s, self._start_timeout_s, self._bind_due_in_s())):
            time.sleep(_CALM_S)
            self._changed.clear()

    def wake(self) -> None:
        self._changed.set()

    def gpu_use(self) -> str:
        return "runrig does not measure it on Kubernetes"

    def says(self, workflow: str) -> tuple[str, ...]:
        found = []
        for launch, pod in self._pods():
            if launch.key.workflow == workflow and (said := status.says(pod) or self._unheard(launch.gang, pod)):
                found.append(said)
        held = self._maker.held.gangs
        found += [words for gang, words in held.items() if gang == "" or gang.partition("/")[0] == workflow]
        return tuple(found)

    def output(self, key: TaskKey) -> Output | None:
        """Kubernetes does not separate stderr: both streams are in one log."""
        pod = next((each for each in self._view.ours.values() if names.key_of(each) == key), None)
        name = None if pod is None else pod["metadata"]["name"]
        path = self._logs.file(key, name, ended=pod is None or status.over(pod))
        return None if path is None else Output(LogFile(str(path.parent), path.name), stamped=True)

    def events(self, workflow: str) -> tuple[ClusterEvent, ...]:
        return self._events.of(workflow)

    async def enter(self, key: TaskKey, program: Program) -> Passage:
        return await passages.enter(self._cluster, self._running(key), names.CONTAINER, program)

    async def connect(self, key: TaskKey, port: int, *, udp: bool = False) -> Passage:  # noqa: ARG002 - always refused
        return await passages.forward(self._cluster, self._running(key), port)

    def _running(self, key: TaskKey) -> Object:
        wanted = self._wanted  # `sync` may replace it in between.
        launch = wanted.desired.run.get(key)
        pod = None if launch is None else self._view.ours.get(wanted.pod_name(launch))
        if pod is None or status.over(pod):
            raise Conflict(f"{key.workflow}/{key.task} has no running pod. See `runrig workflow query {key.workflow}`")
        return pod

    def discard(self, workflow: str) -> None:
        self._events.discard(workflow)
        self._logs.discard(workflow)

    def close(self) -> None:
        self._view.stop()
        self._events.close()
        self._undertakers.shutdown(wait=False, cancel_futures=True)
        self._crew.close()
        self._logs.close()
        self._cluster.close()

    # ------------------------------------------------------------ what is

    def _begin(self) -> None:
        if self._told is None:
            missing = self._cluster.kinds_missing()
            if missing:
                raise Unavailable(
                    f"{self._cluster.url} does not serve {', '.join(missing)}. Install KAI Scheduler v0.13 or later"
                )
            self._claim.hold()
            _log.info("event=cluster url=%s version=%s", self._cluster.url, self._cluster.version())
        self._view.start()
        self._events.start()

    def _pods(self) -> Iterator[tuple[Any, Object]]:
        """Yields the attempts to run that have a pod, with the pod."""
        wanted = self._wanted  # `sync` may replace it in between.
        for launch in wanted.desired.run.values():
            pod = self._view.ours.get(wanted.pod_name(launch))
            if pod is not None:
                yield launch, pod

    def _facts(self, now: float) -> dict[TaskKey, TaskFact]:
        wanted, ours = self._wanted, self._view.ours
        facts = {}
        for key, launch in wanted.desired.run.items():
            pod = ours.get(wanted.pod_name(launch))
            if pod is not None:
                fact = status.fact_of(self._masked(launch, pod), now, start_timeout_s=self._start_timeout_s)
                if fact.exit_code == ExitCode.START_TIMEOUT:
                    fact = self._explained(key, fact)
                elif fact.exit_code == ExitCode.BACKEND_ERROR:
                    fact = self._by_whom(launch, pod, fact)
                facts[key] = fact
            elif key in wanted.impossible:
                facts[key] = TaskFact(Phase.ENDED, ExitCode.START_ERROR, wanted.impossible[key])
            elif key in self._made:
                facts[key] = TaskFact(Phase.ENDED, ExitCode.BACKEND_ERROR, "its pod was deleted by force")
        for key, launch in wanted.desired.stop.items():
            pod = ours.get(wanted.pod_name(launch))
            facts[key] = (
                TaskFact(Phase.ENDED, status.STOPPED)
                if pod is None
                else status.fact_of(self._masked(launch, pod), now, stopping=True)
            )
        return facts

    def _masked(self, launch: Launch, pod: Object) -> Object:
        """Returns *pod* with its task's secrets masked in the termination message; without the message if they are unknown now."""

        def words(said: str) -> str:
            try:
                values = [value for use in launch.credentials for value in self._opens(launch.user, use.name).values()]
            except RunrigError:
                return ""
            return masked([said], values)[0]

        return status.with_last_words(pod, words) if launch.credentials else pod

    def _explained(self, key: TaskKey, fact: TaskFact) -> TaskFact:
        """Adds the pod's last event to *fact*: only there does a kubelet report which image or volume it waits for."""
        said = [each for each in self._events.of(key.workflow) if each.key == key and each.reason != _SCHEDULED]
        return replace(fact, message=f"{fact.message}; {said[-1].reason}: {said[-1].text}") if said else fact

    def _by_whom(self, launch: Launch, pod: Object, fact: TaskFact) -> TaskFact:
        """Returns *fact* of a deleted pod, as a preemption if KAI's scheduler deleted it: without
        `--update-pod-eviction-condition`, only an event that KAI records about the pod group before shows that.
        """
        if "deletionTimestamp" not in pod["metadata"]:
            return fact
        about = {"involvedObject.name": self._wanted.desired.gangs[launch.gang].uuid, "reason": _EVICT}
        try:
            said = self._cluster.list(kinds.EVENT, namespace=self._namespace, fields=about).objects
        except ApiRefusal:  # The account may lack the permission to list events.
            return fact
        words = [each.get("message") or "" for each in said if status.made_at(each) >= status.made_at(pod)]
        return TaskFact(Phase.ENDED, ExitCode.PREEMPTED, status.preempted(words[-1])) if words else fact

    def _refused(self, facts: Mapping[TaskKey, TaskFact]) -> dict[str, str]:
        """Returns gang → refusal, for gangs that the cluster's scheduler did not bind in time."""
        now, unbound = time.monotonic(), dict[str, list[Object]]()
        for launch, pod in self._pods():
            fact = facts.get(launch.key)  # A pod created later has none.
            if fact is not None and fact.phase is Phase.STARTING and not status.bound(pod):
                unbound.setdefault(launch.gang, []).append(pod)
        self._unbound_since = {gang: self._unbound_since.get(gang, now) for gang in unbound}
        late = [gang for gang, since in self._unbound_since.items() if now - since >= self._bind_timeout_s]
        said = ((gang, self._refusal(gang, unbound[gang])) for gang in late)
        return {**self._maker.held.refused} | {gang: words for gang, words in said if words is not None}

    def _refusal(self, gang: str, pods: list[Object]) -> str | None:
        """Returns KAI's message about the gang, if any, else one about a pod."""
        uuid = self._wanted.desired.gangs[gang].uuid
        groups = (each for each in self._view.all_of("PodGroup") if each["metadata"]["name"] == uuid)
        since = min(map(status.made_at, pods))
        of_group = next((status.refusal_of_group(group, since) for group in groups), None)
        return of_group or next((words for pod in pods if (words := status.refusal(pod))), None)

    def _unheard(self, gang: str, pod: Object) -> str | None:
        since = self._unbound_since.get(gang)
        if since is None or status.bound(pod) or time.monotonic() - since < self._bind_timeout_s:
            return None
        return (
            f"no scheduler has handled pod {pod['metadata']['name']} for {time.monotonic() - since:.0f} s. "
            f"Check that {names.SCHEDULER} is running"
        )

    def _bind_due_in_s(self) -> float:
        now = time.monotonic()
        due = (since + self._bind_timeout_s - now for since in self._unbound_since.values())
        return min((each for each in due if each > 0), default=_LONGEST_WAIT_S)

    # ------------------------------------------------------------ the desired state

    @property
    def _due(self) -> float:
        return min(self._carried_out[1], self._buried_again)

    def _settings(self, desired: Desired) -> Settings:
        code = self._code_of, self._code_url
        return Settings(
            self._namespace, desired.flavors, self._names, self._claim.term, self._opens, self._pulls, *code
        )

    def _carry_out(self) -> None:
        generation = self._view.generation
        self._buried_again = math.inf
        self._claim.hold()
        self._maker.carry_out(self._wanted, self._made)
        self._carried_out = generation, time.monotonic() + (_AGAIN_S if self._maker.held.said else _LONGEST_WAIT_S)

    def _let_go(self, pod: Object) -> None:
        """Releases the pod once, in the background, because its output may take a while."""
        uid = pod["metadata"]["uid"]
        if uid not in self._going:
            self._going.add(uid)
            self._undertakers.submit(self._undertake, pod)

    def _undertake(self, pod: Object) -> None:
        meta, buried = pod["metadata"], True
        try:
            buried = self._bury(pod)
        except (ApiRefusal, RunrigError) as error:
            _log.warning("event=pod_not_deleted pod=%s error=%r", meta["name"], str(error))
        except Exception:  # noqa: BLE001 - otherwise the thread would fail silently
            _log.exception("event=pod_not_deleted pod=%s", meta["name"])
        finally:
            self._going.discard(meta["uid"])
        if not buried:
            self._buried_again = time.monotonic() + _AGAIN_S
            self._changed.set()  # wakes `wait`

    def _bury(self, pod: Object) -> bool:
        """Saves its output, kills what is still alive and releases it. Returns False if its output is not complete yet."""
        meta = pod["metadata"]
        if self._alive(pod):
            self._cluster.delete(pod, uid=meta["uid"], grace_s=1)
            return True  # The pod's end triggers another check, which saves its output.
        key = names.key_of(pod)
        if key is not None and status.bound(pod) and not self._logs.keep(key, meta["name"]):
            return False
        self._events.keep()
        self._cluster.delete(pod, uid=meta["uid"], grace_s=0)
        self._cluster.release(pod, names.FINALIZER)
        return True

    def _alive(self, pod: Object) -> bool:
        """Whether any of it runs, unless its node has been silent since the pod should have ended."""
        node = pod["spec"].get("nodeName")
        if names.finished(pod) or node is None or not self._view.has_node(node):
            return False
        now, deleted_at = self._now(), pod["metadata"].get("deletionTimestamp")
        return deleted_at is None or not (
            status.given_up(pod, now) or now >= status.time_of(deleted_at) + _SILENT_NODE_S
        )
