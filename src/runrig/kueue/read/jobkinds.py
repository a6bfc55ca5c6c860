"""The table of job kinds, with the pod sets of each.

Most kinds have pod templates at fixed paths, each with fields that multiply into its count (`Place`). Functions handle
what a controller adds, such as a sidecar or a submitter, and kinds that contain other kinds.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from runrig.kueue.read.parts import JOB_FIELDS, Beside, Part, Parts, Place, at_places, below, parts_at
from runrig.kueue.read.ray import CLUSTER_FIELDS, ray_cluster, ray_job
from runrig.kueue.read.spark import FIELDS, spark_pods
from runrig.kueue.read.tree import Object, Value
from runrig.spec.yamltree import Node

MAIN, LEADER, WORKER = "main", "leader", "worker"
CLUSTER_RUNTIME, RUNTIME = "ClusterTrainingRuntime", "TrainingRuntime"
TRAINER = "trainer.kubeflow.org"

_NODE = "node"
_JOB_SET = (
    "replicatedJobs", "suspend", "network", "successPolicy", "failurePolicy", "startupPolicy", "coordinator",
    "ttlSecondsAfterFinished", "volumeClaimPolicies", "managedBy",
)  # fmt: skip
_REPLICATED = ("name", "replicas", "template", "groupName", "dependsOn")
_STEP = f"{TRAINER}/trainjob-ancestor-step"
_OF_RUNTIMES = "ignored: changes to the templates of the runtime are not simulated"


@dataclass(frozen=True, slots=True)
class JobKind:
    """A kind of job.

    *parts*: returns the pod sets of a spec. *known*: fields of the spec that are read or do not affect its resources.
    *unsupported*: field → warning, for fields that would affect them. *ended*: conditions of a finished job.
    *phase*: a path in the status; *over*: its values for a finished job.
    *copies*: the field with its number of workloads; empty: one. *priority_class*: path to a class that overrides those
    of its templates.
    """

    group: str
    versions: tuple[str, ...]
    parts: Parts
    known: tuple[str, ...]
    unsupported: Mapping[str, str] = field(default_factory=dict)
    ended: tuple[str, ...] = ()
    phase: str = ""
    over: tuple[str, ...] = ()
    copies: str = ""
    priority_class: str = ""


# ---------------------------------------------------------------- leader and workers


def _leader_worker_set(spec: Object, _beside: Beside) -> list[Part]:
    """The pod sets of one group. Without a template of its own, the leader is one of the workers."""
    group = spec.object("leaderWorkerTemplate")
    group.only(("size", "leaderTemplate", "workerTemplate", "restartPolicy", "resizePolicy", "subGroupPolicy"))
    size = group.whole("size", 1)
    if not group.has("leaderTemplate"):
        return [Part(MAIN, size, group, "workerTemplate")]
    return [Part(LEADER, 1, group, "leaderTemplate"), Part(WORKER, max(0, size - 1), group, "workerTemplate")]


# ---------------------------------------------------------------- kinds in other kinds


_COMPONENT = ("template", "podSets", "declaredPodSets", "podSetInfos", "annotations")


def _app_wrapper(spec: Object, beside: Beside) -> list[Part]:
    """The pod sets that each component declares; otherwise those that its kind implies."""
    found: list[Part] = []
    for component in spec.objects("components", _COMPONENT):
        declared = component.get("podSets") or component.get("declaredPodSets")
        template = component.object("template")
        if declared is not None and declared.items():
            found += [part for item in declared.items() if (part := _declared(template, item.object())) is not None]
        else:
            found += _inferred(template, beside)
    return found


def _declared(template: Object, pod_set: Object) -> Part | None:
    """The pod set that a component declares; None, with a warning, if its path does not lead to a template."""
    pod_set.only(("replicas", "path", "annotations"))
    at: Value | None = template.at
    steps = pod_set.need("path").replace("[", ".[").split(".")
    for step in steps[1:-1]:
        at = _step(at, step)
    holder = at.object() if at is not None and isinstance(at.node.value, Mapping) else None
    if len(steps) == 1 and steps[0] == "template":
        return Part("", pod_set.whole("replicas", 1), template, "")
    if steps[0] != "template" or holder is None or not holder.has(steps[-1]):
        pod_set.at.warn("no template at this path: this pod set is ignored")
        return None
    return Part("", pod_set.whole("replicas", 1), holder, steps[-1])


def _step(at: Value | None, step: str) -> Value | None:
    if at is None:
        return None
    if step.startswith("["):
        items = at.items() if isinstance(at.node.value, tuple) else ()
        index = step[1:-1]
        return items[int(index)] if index.isdigit() and len(index) < 6 and int(index) < len(items) else None
    return at.object().get(step) if isinstance(at.node.value, Mapping) else None


def _inferred(template: Object, beside: Beside) -> Sequence[Part]:
    """The pod sets of a component whose kind AppWrapper knows."""
    inner = _INNER.get(template.text("kind"))
    return () if inner is None else inner(template, beside)


_INNER: Mapping[str, Parts] = {
    "Pod": lambda template, _beside: [Part("", 1, template, "")],
    "Job": at_places(Place("spec", "", job=".")),
    "JobSet": at_places(Place("spec.replicatedJobs", "", "template.spec.template", ("replicas",), "template.spec")),
    "PyTorchJob": at_places(
        *(Place(f"spec.pytorchReplicaSpecs.{role}", "", times=("replicas",)) for role in ("Master", "Worker"))
    ),
    "RayCluster": at_places(Place("spec.headGroupSpec", ""), Place("spec.workerGroupSpecs", "", times=("replicas",))),
    "RayJob": at_places(
        Place("spec.rayClusterSpec.headGroupSpec", ""),
        Place("spec.rayClusterSpec.workerGroupSpecs", "", times=("replicas",)),
    ),
    "Deployment": at_places(Place("spec", "", times=("replicas",))),
    "StatefulSet": at_places(Place("spec", "", times=("replicas",))),
}


def _train_job(spec: Object, beside: Beside) -> Sequence[Part]:
    """The jobs of the runtime, with the number of nodes and the resources that the TrainJob sets for its trainer."""
    ref = spec.object("runtimeRef").only(("apiGroup", "kind", "name"))
    shared = ref.text("kind", CLUSTER_RUNTIME) == CLUSTER_RUNTIME
    runtime = beside.runtimes.get(("" if shared else beside.namespace, ref.text("name")))
    if runtime is None:
        ref.at.warn(f"this runtime is not in this file: the job has no pods. Add {CLUSTER_RUNTIME}s to the file")
        return ()
    return list(_trained(spec.object("trainer"), runtime))


def _trained(trainer: Object, runtime: Object) -> Iterator[Part]:
    trainer.only(("image", "command", "args", "env", "numNodes", "resourcesPerNode", "numProcPerNode"))
    trainer.object("resourcesPerNode").only(("requests", "limits"))
    runtime.only(("mlPolicy", "podGroupPolicy", "template"))
    policy = runtime.object("mlPolicy").only(("numNodes", "torch", "mpi", "jax", "plainML", "xgboost", "flux"))
    mpi = policy.get("mpi")
    nodes = trainer.whole("numNodes", policy.whole("numNodes", 1))
    with_launcher = mpi is not None and mpi.object().flag("runLauncherAsNode", False)
    jobs = below(runtime, "template.spec").only(_JOB_SET)
    for job in jobs.objects("replicatedJobs", _REPLICATED):
        name, template = job.text("name"), below(job, "template")
        trains = template.object("metadata").object("labels").text(_STEP) == "trainer"
        inner = template.object("spec").only(JOB_FIELDS)
        if trains or (with_launcher and name == _NODE):
            inner = _with_resources(inner, trainer.object("resourcesPerNode"))
        if mpi is not None:
            count = max(nodes - with_launcher, 1) if name == _NODE else 1 if trains else inner.whole("parallelism", 1)
        else:
            count = nodes if trains else inner.whole("parallelism", 1)
        yield Part(name.lower(), count * (1 if trains else job.whole("replicas", 1)), inner)


def _with_resources(inner: Object, per_node: Object) -> Object:
    """*inner*, the spec of a Job, with the requests and limits *per_node* in its container ``node``."""
    template = inner.object("template")
    spec = template.object("spec")
    containers = []
    for container in spec.objects("containers"):
        resources = container.object("resources")
        for kind in ("requests", "limits") if container.text("name") == _NODE else ():
            found = resources.object(kind)
            for name, at in per_node.object(kind).pairs():
                found = found.having(name, at.node)
            resources = resources.having(kind, found.at.node)
        containers.append(container.having("resources", resources.at.node).at.node)
    spec = spec.having("containers", Node(tuple(containers)))
    return inner.having("template", template.having("spec", spec.at.node).at.node)


# ---------------------------------------------------------------- the table

_REPLICA = ("replicas", "template", "restartPolicy")
_STOPS = ("Succeeded", "Failed")


def _training(field_name: str, *roles: str) -> JobKind:
    """A kind of the training operator: a map of replicas by role."""
    places = [Place(f"{field_name}.{role}", role, times=("replicas",), known=_REPLICA) for role in roles]

    def parts(spec: Object, _beside: Beside) -> list[Part]:
        spec.object(field_name).only(roles)
        return [part for place in places for part in parts_at(spec, place)]

    known = (field_name, "runPolicy", "nprocPerNode", "successPolicy", "enableDynamicWorker")
    elastic = {"elasticPolicy": "elastic jobs are not simulated: the number of replicas stays as declared"}
    return JobKind(
        "kubeflow.org",
        ("v1",),
        parts,
        known,
        elastic,
        _STOPS,
        priority_class="runPolicy.schedulingPolicy.priorityClass",
    )


JOB_KINDS: Mapping[str, JobKind] = {
    "AppWrapper": JobKind(
        "workload.codeflare.dev", ("v1beta2",), _app_wrapper, ("components", "suspend", "managedBy"), phase="phase", over=_STOPS
    ),
    "Deployment": JobKind(
        "apps",
        ("v1",),
        at_places(Place("", MAIN)),
        ("replicas", "template", "selector", "strategy", "minReadySeconds", "revisionHistoryLimit", "paused",
         "progressDeadlineSeconds"),
        copies="replicas",
    ),
    "JAXJob": _training("jaxReplicaSpecs", "Worker"),
    "JobSet": JobKind(
        "jobset.x-k8s.io",
        ("v1alpha2",),
        at_places(Place("replicatedJobs", ".name", "template.spec.template", ("replicas",), "template.spec", _REPLICATED)),
        _JOB_SET,
        ended=("Completed", "Failed"),
    ),
    "LeaderWorkerSet": JobKind(
        "leaderworkerset.x-k8s.io",
        ("v1",),
        _leader_worker_set,
        ("replicas", "leaderWorkerTemplate", "rolloutStrategy", "startupPolicy", "networkConfig"),
        copies="replicas",
    ),
    "PaddleJob": _training("paddleReplicaSpecs", "Master", "Worker"),
    "PyTorchJob": _training("pytorchReplicaSpecs", "Master", "Worker"),
    "RayCluster": JobKind(
        "ray.io", ("v1",), ray_cluster, CLUSTER_FIELDS
    ),
    "RayJob": JobKind(
        "ray.io",
        ("v1",),
        ray_job,
        ("rayClusterSpec", "clusterSelector", "submissionMode", "submitterPodTemplate", "submitterConfig", "entrypoint",
         "entrypointNumCpus", "entrypointNumGpus", "entrypointMemory", "entrypointResources", "jobId", "metadata", "runtimeEnvYAML",
         "shutdownAfterJobFinishes", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit", "suspend",
         "deletionPolicy", "deletionStrategy", "waitingTtlSeconds", "preRunningDeadlineSeconds", "managedBy"),
        phase="jobDeploymentStatus",
        over=("Complete", "Failed"),
    ),
    "RayService": JobKind(
        "ray.io",
        ("v1",),
        lambda spec, beside: ray_cluster(spec.object("rayClusterConfig"), beside),
        ("rayClusterConfig", "serveConfigV2", "serveService", "serviceUnhealthySecondThreshold", "excludeHeadPodFromServeSvc",
         "deploymentUnhealthySecondThreshold", "rayClusterDeletionDelaySeconds", "suspend", "managedBy"),
        {"upgradeStrategy": "upgrades are not simulated: the service has one cluster"},
    ),
    "SparkApplication": JobKind(
        "sparkoperator.k8s.io",
        ("v1beta2",),
        spark_pods,
        FIELDS,
        phase="applicationState.state",
        over=("COMPLETED", "FAILED", "SUBMISSION_FAILED"),
    ),
    "StatefulSet": JobKind(
        "apps",
        ("v1",),
        at_places(Place("", MAIN, times=("replicas",))),
        ("replicas", "template", "selector", "serviceName", "podManagementPolicy", "updateStrategy", "revisionHistoryLimit",
         "volumeClaimTemplates", "minReadySeconds", "persistentVolumeClaimRetentionPolicy", "ordinals"),
    ),
    "TFJob": _training("tfReplicaSpecs", "Chief", "Master", "PS", "Worker", "Evaluator"),
    "TrainJob": JobKind(
        TRAINER,
        ("v1alpha1",),
        _train_job,
        ("runtimeRef", "trainer", "initializer", "labels", "annotations", "suspend", "activeDeadlineSeconds", "managedBy"),
        dict.fromkeys(("podTemplateOverrides", "podSpecOverrides", "runtimePatches"), _OF_RUNTIMES),
        ("Complete", "Failed"),
    ),
    "XGBoostJob": _training("xgbReplicaSpecs", "Master", "Worker"),
}  # fmt: skip
"""All kinds except Job and MPIJob, which `batch` reads because they may start with fewer pods."""
