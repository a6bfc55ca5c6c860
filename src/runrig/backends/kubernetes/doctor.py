"""Finds everything that a cluster lacks for runrig, and the commands that fix it. Changes nothing."""

import itertools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from runrig.backends.kubernetes import kinds, rights
from runrig.backends.kubernetes.answers import ApiRefusal
from runrig.backends.kubernetes.cluster import Cluster
from runrig.backends.kubernetes.drift import Crew
from runrig.backends.kubernetes.names import NODE_POOL, SCHEDULER, Object, condition, finished
from runrig.domain.findings import Finding, Verdict
from runrig.domain.quantities import counted

OLDEST, OLDEST_KAI = (1, 33), (0, 13)
MOST_APART_S = 10.0
"""Seconds between the clocks of the cluster and this machine: deadlines of pods compare their times."""

INSTALL_KAI = (
    "helm upgrade --install kai-scheduler oci://ghcr.io/kai-scheduler/kai-scheduler/kai-scheduler "
    "--namespace kai-scheduler --create-namespace --version v0.17.0"
)
_PLUGIN = (
    "helm upgrade --install nvdp nvidia-device-plugin --repo https://nvidia.github.io/k8s-device-plugin "
    "--namespace nvidia-device-plugin --create-namespace"
)
_NAMED = 3
"""How many nodes a message names."""
_NUMBERS = re.compile(r"v?(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class Uses:
    """The names that the cluster file uses. *gpu*: the resource name of GPUs. *keys*: node labels of topology keys → what uses them.
    *flavors*: name → the labels of its nodes.
    """

    gpu: str = "nvidia.com/gpu"
    keys: Mapping[str, str] = field(default_factory=dict)
    flavors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def examine(cluster: Cluster, namespace: str, uses: Uses) -> tuple[Finding, ...]:
    """Returns all findings, in a fixed order. Raises Unavailable if the API server does not respond or accept the login."""
    return tuple(
        itertools.chain(
            _server(cluster),
            _clock(cluster),
            _kinds(cluster),
            _rights(cluster, namespace),
            _kai(cluster),
            _nodes(cluster, uses),
        )
    )


# ---------------------------------------------------------------- the API server


def _server(cluster: Cluster) -> Iterator[Finding]:
    version = cluster.version()
    if (found := _numbers(version)) is not None and found < OLDEST:
        words = f"Kubernetes {version} is too old: runrig needs 1.33 or later"
        yield _problem("api-server", words, "kubeadm upgrade plan")
    else:
        yield _good("api-server", f"Kubernetes {version} at {cluster.url}, as {cluster.account()}")


def _clock(cluster: Cluster) -> Iterator[Finding]:
    before = time.time()
    told = cluster.clock()
    after = time.time()
    ahead = told + 1 - before if told + 1 < before else max(0.0, told - after)  # The API server sends whole seconds.
    if abs(ahead) > MOST_APART_S:
        way = "ahead of" if ahead > 0 else "behind"
        words = f"The clock of the API server is {abs(ahead):.0f} s {way} this machine's; at most {MOST_APART_S:.0f} s are allowed"
        yield _problem("clock", words, "timedatectl set-ntp true")
    else:
        yield _good("clock", f"The clocks of the API server and this machine are less than {MOST_APART_S:.0f} s apart")


def _kinds(cluster: Cluster) -> Iterator[Finding]:
    missing = cluster.kinds_missing()
    for kind in missing:
        yield _problem("kinds", f"The cluster does not serve {kind}, a kind of KAI Scheduler", INSTALL_KAI)
    if not missing:
        yield _good("kinds", "The cluster serves the kinds of KAI Scheduler")


# ---------------------------------------------------------------- rights


def _rights(cluster: Cluster, namespace: str) -> Iterator[Finding]:
    lacks = missing_rights(cluster, namespace)
    for right, verbs in lacks.items():
        where = f"in namespace {namespace}" if right.inside else "in the whole cluster"
        words = f"The account cannot {_any_of(verbs)} {right.name} {where}: {right.without}"
        file = rights.SESSIONS if right.sessions else rights.MANIFEST
        verdict = Verdict.OPTIONAL if right.optional else Verdict.PROBLEM
        yield Finding("rights", verdict, words, f"kubectl apply -f {file}")
    if not lacks:
        words = f"The account has all rights that runrig needs, in namespace {namespace} and in the cluster"
        yield _good("rights", words)


def missing_rights(cluster: Cluster, namespace: str) -> dict[rights.Right, tuple[str, ...]]:
    """Returns right → its missing verbs, in the order of `RIGHTS`; complete rights are left out."""
    asked = [(right, verb) for right in rights.RIGHTS for verb in right.verbs]
    answers = dict[tuple[rights.Right, str], bool]()

    def ask(right: rights.Right, verb: str) -> None:
        where = namespace if right.inside else None
        answers[right, verb] = cluster.may(verb, right.group, right.resource, where)

    crew = Crew()
    try:
        refused = crew.run_all([partial(ask, *each) for each in asked])
    finally:
        crew.close()
    if refused:
        raise refused[0]
    lacks = {right: tuple(verb for verb in right.verbs if not answers[right, verb]) for right in rights.RIGHTS}
    return {right: verbs for right, verbs in lacks.items() if verbs}


# ---------------------------------------------------------------- KAI Scheduler


def _kai(cluster: Cluster) -> Iterator[Finding]:
    try:
        pods = cluster.list(kinds.POD).objects
    except ApiRefusal:
        words = "KAI Scheduler could not be checked, because the account cannot list pods"
        yield Finding("kai", Verdict.UNKNOWN, words)
        return
    kai = [(pod, each) for pod in pods if _alive(pod) for each in pod["spec"]["containers"] if _is_kai(each)]
    found = [(pod, each) for pod, each in kai if _binds_tasks(each)]
    if not found:
        for_others = f"KAI Scheduler does not run as {SCHEDULER} for nodes without the label {NODE_POOL}"
        words = for_others if kai else "No pod runs KAI Scheduler"
        yield _problem("kai", f"{words}: tasks do not start", INSTALL_KAI)
        return
    pod, container = next((each for each in found if _ready(each[0])), found[0])
    version = container.get("image", "").rpartition(":")[2]
    if (numbers := _numbers(version)) is None:
        words = f"The version of KAI Scheduler is unknown: its image is {container.get('image')}"
        yield Finding("kai", Verdict.UNKNOWN, words)
    elif numbers < OLDEST_KAI:
        yield _problem("kai", f"KAI Scheduler {version} is too old: runrig needs v0.13 or later", INSTALL_KAI)
    else:
        yield _good("kai", f"KAI Scheduler {version} is installed")
    if not _ready(pod):
        about = pod["metadata"]
        words = f"Pod {about['name']} of KAI Scheduler is not ready: tasks do not start"
        command = f"kubectl describe pod {about['name']} --namespace {about['namespace']}"
        yield _problem("kai", words, command)
    yield from _flags_of(container)


def _is_kai(container: Object) -> bool:
    image = container.get("image", "").partition("@")[0]
    return "scheduler" in image.rpartition("/")[2] and "kai" in image


def _binds_tasks(container: Object) -> bool:
    flags = _flags(container)
    return flags.get("scheduler-name", SCHEDULER) == SCHEDULER and not flags.get("partition-label-value")


def _flags(container: Object) -> dict[str, str]:
    """Returns its flags, as `--name=value` or `--name` for true. KAI's operator writes no others."""
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    pairs = (word.lstrip("-").partition("=") for word in words if word.startswith("-"))
    return {name: value if equals else "true" for name, equals, value in pairs}


_FLAGS: Mapping[str, tuple[str, Callable[[str], bool], str, Verdict]] = {
    "default-staleness-grace-period": (
        "-1s",
        lambda value: value.startswith("-"),
        "KAI ends a gang when one of its pods has ended",
        Verdict.PROBLEM,
    ),
    "full-hierarchy-fairness": (
        "true",
        lambda value: value in ("", "true", "1", "t"),
        "KAI ignores the minimum runtime of the root queue and may evict LOW work",
        Verdict.PROBLEM,
    ),
    "update-pod-eviction-condition": (
        "true",
        lambda value: value in ("true", "1", "t"),
        "an eviction by KAI is recognized only by its event",
        Verdict.OPTIONAL,
    ),
}
"""Flag → the value that runrig needs, whether a value ("": the default) is as good, what happens otherwise, and how bad that is."""


def _flags_of(container: Object) -> Iterator[Finding]:
    flags = _flags(container)
    for name, (needed, good, otherwise, verdict) in _FLAGS.items():
        value = flags.get(name, "")
        if good(value.lower()):
            yield _good("kai-flags", f"KAI Scheduler runs with --{name}={value or needed}")
        else:
            command = (
                "kubectl patch schedulingshard default --type merge "
                f'-p \'{{"spec": {{"args": {{"{name}": "{needed}"}}}}}}\''
            )
            runs = f"with --{name}={value}" if value else f"without --{name}={needed}"
            yield Finding("kai-flags", verdict, f"KAI Scheduler runs {runs}: {otherwise}", command)


# ---------------------------------------------------------------- nodes


def _nodes(cluster: Cluster, uses: Uses) -> Iterator[Finding]:
    try:
        nodes = cluster.list(kinds.NODE).objects
    except ApiRefusal:
        yield Finding("nodes", Verdict.UNKNOWN, "Nodes could not be checked, because the account cannot list them")
        return
    with_gpus = [each for each in nodes if each.get("status", {}).get("allocatable", {}).get(uses.gpu, "0") != "0"]
    if not with_gpus:
        words = f"No node reports {uses.gpu}: no GPU plugin runs, or it finds no GPU"
        yield _problem("gpus", words, _PLUGIN)
        return
    yield _good("gpus", f"{counted(len(with_gpus), 'node reports', 'nodes report')} {uses.gpu} (of {len(nodes):,})")
    yield from _labels(with_gpus, uses)


def _labels(nodes: Iterable[Object], uses: Uses) -> Iterator[Finding]:
    """Yields findings about labels of *nodes*, which have GPUs."""
    labels = {each["metadata"]["name"]: each["metadata"].get("labels") or {} for each in nodes}
    for label, used_by in uses.keys.items():
        bare = [name for name in sorted(labels) if label not in labels[name]]
        command = f"kubectl label node {bare[0]} {label}=VALUE" if bare else ""
        if len(bare) == len(labels):
            yield _problem("labels", f"No node with GPUs has the label {label} of {used_by}", command)
        elif bare:
            words = f"{_names(bare)} without the label {label} of {used_by} cannot run gangs that require it"
            yield Finding("labels", Verdict.OPTIONAL, words, command)
        else:
            yield _good("labels", f"All nodes with GPUs have the label {label} of {used_by}")
    for flavor, needed in uses.flavors.items():
        if needed and not any(needed.items() <= each.items() for each in labels.values()):
            text = " ".join(f"{name}={value}" for name, value in sorted(needed.items()))
            words = f"No node with GPUs has the labels of flavor {flavor}: {text}"
            yield _problem("labels", words, f"kubectl label node NODE {text}")


# ---------------------------------------------------------------- words


def _good(about: str, words: str) -> Finding:
    return Finding(about, Verdict.OK, words)


def _problem(about: str, words: str, command: str) -> Finding:
    return Finding(about, Verdict.PROBLEM, words, command)


def _alive(pod: Object) -> bool:
    return not finished(pod) and "deletionTimestamp" not in pod["metadata"]


def _ready(pod: Object) -> bool:
    return condition(pod, "Ready").get("status") == "True"


def _any_of(verbs: tuple[str, ...]) -> str:
    return " or ".join([", ".join(verbs[:-1]), verbs[-1]] if verbs[1:] else verbs)


def _numbers(version: str) -> tuple[int, int] | None:
    found = _NUMBERS.match(version)
    return None if found is None else (int(found[1]), int(found[2]))


def _names(nodes: list[str]) -> str:
    shown = ", ".join(nodes[:_NAMED])
    return f"Node{'s' * (len(nodes) > 1)} {shown}" + (
        f" and {counted(len(nodes) - _NAMED, 'other')}" if len(nodes) > _NAMED else ""
    )
