"""The state of an attempt, read from its pod: whether it runs, how it ended, and why it has not started.

Pure. The exit codes are those of osmo (docs/kubernetes.md has the table). They differ because an attempt has ended only when no
process of the task runs, since others get its GPUs then.

- A pod that is preempted, evicted or deleted runs until its container has stopped; only then does it get that code.
- The task is the container `main`. Sidecars do not keep it running or change its code, unless `main` never ended.
- Deleting or evicting a pod behind runrig's back ends the task, even if it exits with 0 on SIGTERM. A task that had ended
  before keeps its code.
- A pod is *evicted* by the condition `DisruptionTarget`. The kubelet does not set it if the pod exceeded a limit of its own.
- A task that never began has none of the user's exit codes. It gets 3003 if the program cannot be started, 3001 if the node
  rejects the pod, and 3005 if the node does not start it in time.
"""

from collections.abc import Callable, Iterator
from datetime import datetime

from runrig.backends.kubernetes import names
from runrig.backends.kubernetes.names import CONTAINER, Object, key_of
from runrig.domain.observed import Phase, TaskFact
from runrig.domain.workflows import ExitCode

STOPPED = 143
"""128 + SIGTERM: exit code of a task that was asked to stop."""

START_TIMEOUT_S = 1800.0
CONFIG_ERROR_S = 600.0
LOST_SIGHT_S = 1800.0
"""Seconds a kubelet has to recover from a failed setup or from lost contact."""

LAST_DELETE_S = 5.0
"""Maximum seconds between the end of a deleted pod and its removal by the kubelet."""

FORCED_S = 10.0
"""Seconds a kubelet has to stop a pod that was deleted by force."""

_PULL_BACKOFF, _PULL_ERROR, _CONFIG_ERROR, _CRASHES, _LOST_SIGHT, _OTHER_WAIT = 301, 302, 303, 304, 305, 999
_INIT_OFFSET, _LAST_INIT = 255, 300
_WAITS = {
    "ImagePullBackOff": _PULL_BACKOFF,
    **dict.fromkeys(("ErrImagePull", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"), _PULL_ERROR),
    **dict.fromkeys(("RegistryUnavailable", "SignatureValidationFailed"), _PULL_ERROR),
    "CreateContainerConfigError": _CONFIG_ERROR,
    "CrashLoopBackOff": _CRASHES,
    "ContainerStatusUnknown": _LOST_SIGHT,
}
_PATIENCE_S = {_CONFIG_ERROR: CONFIG_ERROR_S, _LOST_SIGHT: LOST_SIGHT_S}
_SIGNS_OF_FAILURE = ("Failed", "BackOff", "Error")
_CANNOT_START = ("StartError", "ContainerCannotRun")
_PREEMPTED, _NODE_GONE, _NOT_TAKEN = "PreemptionByScheduler", "DeletionByPodGC", ("Unschedulable", "BindingError")
_PLAIN = ("Error", "Completed")
"""Reasons that add nothing to the exit code."""
_LONGEST = 500

_End = tuple[int, str]


def fact_of(pod: Object, now: float, *, stopping: bool = False, start_timeout_s: float = START_TIMEOUT_S) -> TaskFact:
    """*now*: seconds since the epoch. *stopping*: runrig asked it to stop. *start_timeout_s*: how long a pod with a node can take."""
    if over(pod) or given_up(pod, now):
        by_itself = stopping and _ended_by_itself(pod)
        return TaskFact(Phase.ENDED, *_end(pod, now, stopping=stopping), by_itself, _evicted(pod))
    if _started(pod):
        return TaskFact(Phase.RUNNING)
    stuck = _stuck(pod, now) or (None if stopping else _late(pod, now, start_timeout_s))
    return TaskFact(Phase.STARTING) if stuck is None else TaskFact(Phase.ENDED, *stuck)


def with_last_words(pod: Object, words: Callable[[str], str]) -> Object:
    """Returns *pod* with *words* as the termination message of its containers."""
    told = pod.get("status", {})
    kinds = [kind for kind in ("initContainerStatuses", "containerStatuses") if told.get(kind)]
    return pod | {"status": told | {kind: [_with_last_words(each, words) for each in told[kind]] for kind in kinds}}


def _with_last_words(container: Object, words: Callable[[str], str]) -> Object:
    ended = (container.get("state") or {}).get("terminated") or {}
    if not ended.get("message"):
        return container
    return container | {"state": {"terminated": ended | {"message": words(ended["message"])}}}


def over(pod: Object) -> bool:
    """Whether nothing of the task runs or will run. A pod on a node ends when its kubelet reports it, even if
    it was deleted.
    """
    if names.finished(pod) or _terminated(pod):
        return True
    return "deletionTimestamp" in pod["metadata"] and not bound(pod)


def given_up(pod: Object, now: float) -> bool:
    """Whether it was deleted by force and a live kubelet would have reported its end.

    Then only runrig's finalizer keeps it. runrig itself gives a running pod at least one second.
    """
    meta = pod["metadata"]
    by_force = "deletionTimestamp" in meta and meta.get("deletionGracePeriodSeconds") == 0
    return by_force and now - time_of(meta["deletionTimestamp"]) >= FORCED_S


def bound(pod: Object) -> bool:
    """Whether it has a node."""
    return bool(pod["spec"].get("nodeName"))


def refusal(pod: Object) -> str | None:
    """Returns why the scheduler did not place it; None without a reason or if the pod has a node."""
    condition = names.condition(pod, "PodScheduled")
    if bound(pod) or condition.get("status") != "False" or condition.get("reason") not in _NOT_TAKEN:
        return None
    return _sentence(condition.get("message")) or condition["reason"]


def refusal_of_group(pod_group: Object, since: float) -> str | None:
    """Returns why KAI does not place it; None without a reason.

    *since*: seconds since the epoch. Older messages are about other pods; KAI (v0.13 to v0.16) does not remove them.
    """
    conditions = pod_group.get("status", {}).get("schedulingConditions") or ()
    said = [condition for condition in conditions if condition.get("type") == "UnschedulableOnNodePool"]
    said = [each for each in said if each.get("status", "True") == "True"]
    said = [each for each in said if not (when := each.get("lastTransitionTime")) or time_of(when) >= since]
    if not said:
        return None
    reasons = said[-1].get("reasons") or ()
    whole = said[-1].get("message") or "; ".join(reason["message"] for reason in reasons if reason.get("message"))
    return _sentence(whole) or said[-1].get("reason") or "UnschedulableOnNodePool"


def made_at(pod: Object) -> float:
    """Returns when it was created, in whole seconds since the epoch."""
    return time_of(pod["metadata"]["creationTimestamp"])


def says(pod: Object) -> str | None:
    """Returns the cluster's reason why it has not started; None if it has started or ended, or without a reason."""
    if over(pod) or _started(pod):
        return None
    key = key_of(pod)
    task = pod["metadata"]["name"] if key is None else key.task
    if not bound(pod):
        words = _sentence(names.condition(pod, "PodScheduled").get("message") or _unbound(pod))
        return f"{task} has not been placed: {words}" if words else None
    node = pod["spec"]["nodeName"]
    waiting = [state["waiting"] for _, state in _states(pod) if state.get("waiting", {}).get("reason")]
    if not waiting:
        return f"{task} is placed on {node}, which has not started it yet"
    worst = next((each for each in waiting if _wait_code(each)), waiting[-1])
    words = _sentence(worst.get("message"))
    return f"{task} is starting on {node}: {worst['reason']}" + (f", {words}" if words else "")


def _unbound(pod: Object) -> str | None:
    """Returns the message of KAI's binder, which keeps retrying."""
    condition = names.condition(pod, "PodBound")
    return condition.get("message") if condition.get("status") == "False" else None


# ---------------------------------------------------------------- whether


def _started(pod: Object) -> bool:
    return "running" in _main(pod) or pod.get("status", {}).get("phase") == "Running"


def _stuck(pod: Object, now: float) -> _End | None:
    """Returns a problem that will not go away by itself, or None."""
    found = []
    for container, state in _states(pod):
        waiting = state.get("waiting", {})
        code = _wait_code(waiting)
        if code and (over(pod) or now - _waits_since(pod, now) >= _PATIENCE_S.get(code, 0.0)):
            found.append((code, _wait_message(container, code, waiting)))
    return max(found, default=None)


def _late(pod: Object, now: float, timeout_s: float) -> _End | None:
    """Returns the end of a pod that has had its node for too long. Uses the cluster's clock, so a restart of runrig
    does not matter.
    """
    scheduled = names.condition(pod, "PodScheduled")
    began = scheduled.get("lastTransitionTime") if scheduled.get("status") == "True" else None
    since = began or pod.get("status", {}).get("startTime")
    if not bound(pod) or since is None or now - time_of(since) < timeout_s:
        return None
    return ExitCode.START_TIMEOUT, _said(f"not started within {timeout_s:g} s of placement", says(pod))


def _wait_code(waiting: Object) -> int | None:
    """Returns the exit code of a wait that is a failure, else None."""
    reason = waiting.get("reason", "")
    if reason in _WAITS:
        return _WAITS[reason]
    return _OTHER_WAIT if any(sign in reason for sign in _SIGNS_OF_FAILURE) else None


def _wait_message(container: Object, code: int, waiting: Object) -> str:
    image = container.get("image", "its image")
    what = f"cannot pull image {image}" if code in (_PULL_BACKOFF, _PULL_ERROR) else "its container cannot start"
    return _said(f"{what} ({waiting['reason']})", waiting.get("message"))


def _waits_since(pod: Object, now: float) -> float:
    ready = names.condition(pod, "Ready")
    known = (ready.get("lastTransitionTime"), pod.get("status", {}).get("startTime"))
    times = (*known, pod["metadata"].get("creationTimestamp"))
    return next((time_of(each) for each in times if each), now)


# ---------------------------------------------------------------- how


def _end(pod: Object, now: float, *, stopping: bool) -> _End:
    return (
        _taken_away(pod)
        or _out_of_memory(pod)
        or _deleted(pod, stopping=stopping)
        or (None if _terminated(pod) else _stuck(pod, now))
        or _own_end(pod)
    )


def _taken_away(pod: Object) -> _End | None:
    """Returns the end of a pod removed by a scheduler, a kubelet or a controller; None for others."""
    status = pod.get("status", {})
    disruption = _disruption(pod)
    reason, words = disruption.get("reason", ""), disruption.get("message")
    if reason == _PREEMPTED:
        return ExitCode.PREEMPTED, preempted(words)
    if status.get("reason") == "Evicted":
        return ExitCode.EVICTED, _said("evicted by its node", status.get("message"))
    if status.get("reason") in _CANNOT_START:
        return ExitCode.START_ERROR, _said("could not be started", status.get("message"))
    if disruption:
        return ExitCode.BACKEND_ERROR, _said(f"removed by the cluster ({reason or 'DisruptionTarget'})", words)
    return None


def _evicted(pod: Object) -> bool:
    """Whether the cluster removed it for a reason that is not its own; False if its node is gone (rule T1)."""
    return bool(_disruption(pod).get("reason", _NODE_GONE) != _NODE_GONE)


def preempted(words: str | None) -> str:
    """Returns the message of a pod that the cluster's scheduler evicted with *words*."""
    return _said("preempted by the cluster's own scheduler", words)


def _disruption(pod: Object) -> Object:
    """Returns the condition for the removal; empty if there is none, or if the task had ended before."""
    for each in pod.get("status", {}).get("conditions") or ():
        told = each["type"] == "DisruptionTarget" or each.get("reason") == _PREEMPTED
        since = each.get("lastTransitionTime")
        if told and each.get("status") == "True" and not (since and _ended_before(pod, time_of(since))):
            return dict(each)
    return {}


def _out_of_memory(pod: Object) -> _End | None:
    for container, state in _states(pod):
        ended, main = state.get("terminated", {}), container["name"] == CONTAINER
        if ended.get("reason") == "OOMKilled" and (main or not _terminated(pod)):
            words = _said("killed: it exceeded its memory limit (OOMKilled)", ended.get("message"))
            return ExitCode.EVICTED, words if main else f"container {container['name']}: {words}"
    return None


def _deleted(pod: Object, *, stopping: bool) -> _End | None:
    metadata = pod["metadata"]
    if "deletionTimestamp" not in metadata:
        return None
    ran = any(
        state.get("terminated", {}).get("reason") not in (None, "ContainerStatusUnknown") for _, state in _states(pod)
    )
    silent = not ran and not over(pod) and _started(pod)
    if stopping:
        words = "its pod was deleted by force; its node did not confirm the end"
        return None if ran else (STOPPED, words if silent else "stopped before it started")
    if _ended_before(pod, _asked_to_stop(metadata)):
        return None
    if silent:
        return (
            ExitCode.BACKEND_ERROR,
            "its pod was deleted by force, not by runrig; its node did not confirm the end",
        )
    if not ran:
        return ExitCode.BACKEND_ERROR, "its pod was deleted before it started, not by runrig"
    return ExitCode.BACKEND_ERROR, f"its pod was deleted while running, not by runrig (exit code {_own_end(pod)[0]})"


def _ended_by_itself(pod: Object) -> bool:
    """Whether its command certainly ended before it was asked to stop."""
    if not _terminated(pod) or _main(pod)["terminated"].get("reason") == "ContainerStatusUnknown" or _taken_away(pod):
        return False
    metadata = pod["metadata"]
    return "deletionTimestamp" not in metadata or _ended_before(pod, _asked_to_stop(metadata))


def _asked_to_stop(metadata: Object) -> float:
    """Returns the deletion time in seconds since the epoch, or an earlier time: the API server adds the grace period.

    Without a grace period, the kubelet may have deleted the stopped pod, and its time then overwrites the first one.
    """
    return time_of(metadata["deletionTimestamp"]) - float(metadata.get("deletionGracePeriodSeconds") or LAST_DELETE_S)


def _own_end(pod: Object) -> _End:
    """Returns the end from its containers, else from the status of the pod."""
    status = pod.get("status", {})
    ends = {each["name"]: _container_end(each, state) for each, state in _states(pod) if "terminated" in state}
    reason, words = status.get("reason"), status.get("message")
    if CONTAINER in ends:
        code, message = ends[CONTAINER]
    elif status.get("phase") == "Succeeded":
        return 0, ""
    elif ends:
        code, message = max(ends.values())
    elif reason:
        return ExitCode.BACKEND_ERROR, _said(f"its node did not run it ({reason})", words)
    else:
        return ExitCode.UNKNOWN, "failed; the cluster reported no reason"
    return code, message or (_said(f"exit code {code} ({reason})", words) if code and reason else "")


def _container_end(container: Object, state: Object) -> _End:
    """Returns the end of a container; the message is empty if it would add nothing to the exit code."""
    ended = state["terminated"]
    reason, words, code = ended.get("reason") or "Error", ended.get("message"), int(ended["exitCode"])
    if reason in _CANNOT_START:
        return ExitCode.START_ERROR, _said("could not be started", words)
    if reason == "ContainerStatusUnknown":
        return _LOST_SIGHT, _said("its node lost track of it", words)
    if container["init"] and code:
        code = min(_INIT_OFFSET + code, _LAST_INIT)
        return code, _said(f"init container {container['name']} failed with exit code {ended['exitCode']}", words)
    if not code or (reason in _PLAIN and not words):
        return code, ""
    return code, _said(f"exit code {code}" + ("" if reason in _PLAIN else f" ({reason})"), words)


# ---------------------------------------------------------------- reading


def _states(pod: Object) -> Iterator[tuple[Object, Object]]:
    """Yields (container, state), init containers first, without sidecars, which can end at any time. Sets *init* in the container."""
    status, spec = pod.get("status", {}), pod["spec"]
    for init, there, told in (
        (True, spec.get("initContainers"), status.get("initContainerStatuses")),
        (False, spec.get("containers"), status.get("containerStatuses")),
    ):
        sidecars = {each["name"] for each in there or () if init and each.get("restartPolicy") == "Always"}
        for each in told or ():
            if each["name"] not in sidecars:
                yield {"name": each["name"], "image": each.get("image"), "init": init}, each.get("state") or {}


def _main(pod: Object) -> Object:
    """Returns the state of the task's container; empty if none is reported."""
    return next((state for container, state in _states(pod) if container["name"] == CONTAINER), {})


def _terminated(pod: Object) -> bool:
    return "terminated" in _main(pod)


def _ended_before(pod: Object, when: float) -> bool:
    """Whether the task's container had ended before *when*, or everything that ran if it never began.

    Times in a cluster are whole seconds: the same second does not count as before.
    """
    ended = [_main(pod)] if _terminated(pod) else [state for _, state in _states(pod) if "terminated" in state]
    ends = [state["terminated"].get("finishedAt") for state in ended]
    return bool(ends) and all(each and time_of(each) < when for each in ends)


def time_of(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _said(what: str, words: str | None) -> str:
    """Returns runrig's sentence, followed by the cluster's message."""
    text = _sentence(words)
    return f"{what}: {text}" if text else what


def _sentence(words: str | None) -> str:
    """Returns *words* on one line, truncated and without a full stop, since more may follow."""
    text = " ".join((words or "").split()).rstrip(" .")
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
