"""Random systems of imported queues, with small amounts so that workloads compete for everything."""

from dataclasses import dataclass, replace
from fractions import Fraction

from hypothesis import strategies as st

from runrig.domain.kueue import FAIR, Settings, Strategy
from runrig.domain.nodes import Taint
from runrig.domain.pools import Queueing, Quota, Quotas
from runrig.domain.quantities import CPU, PODS, FlavorResource
from runrig.kueue.declared import (
    ClusterQueue,
    Fungibility,
    Granted,
    LabelSelector,
    MatchExpression,
    NodeChoice,
    Policies,
    Policy,
    Preference,
    QueueCohort,
    ResourceFlavor,
    ResourceGroup,
    StopPolicy,
    System,
    Toleration,
    Workload,
    WorkloadPodSet,
)
from tests.kueue.engine.preemption_model import holder_of
from tests.kueue.engine.quota_model import QUEUE, Ledger, Node, Tree

GPU = "nvidia.com/gpu"
FLAVORS = (
    ResourceFlavor("a", {"kind": "a"}),
    ResourceFlavor("b", {"kind": "b"}, taints=(Taint("spot", "yes"),)),
    ResourceFlavor("c", {"zone": "c"}, tolerations=(Toleration("spot"),)),
)
LAYOUTS = (
    *((ResourceGroup((CPU,), ("a",)),),) * 4,
    (ResourceGroup((CPU,), ("a", "b")),),
    (ResourceGroup((CPU, GPU), ("a", "b")),),
    (ResourceGroup((CPU,), ("b", "a")), ResourceGroup((GPU,), ("c",))),
    (ResourceGroup((CPU, PODS), ("a", "b", "c")),),
)
NODES = (
    *(NodeChoice(),) * 8,
    NodeChoice((("kind", "a"),)),
    NodeChoice(tolerations=(Toleration("spot", "Exists"),)),
    NodeChoice(terms=((MatchExpression("kind", "In", ("a", "c")), MatchExpression("other", "Exists")),)),
    NodeChoice(terms=((MatchExpression("kind", "NotIn", ("a",)),), (MatchExpression("zone", "DoesNotExist"),))),
    NodeChoice((("kind", "b"),), tolerations=(Toleration("spot", value="yes", effect="NoSchedule"),)),
)
GATES = (
    "RecomputeAssignmentUponPreemptionTargetsOverlap",
    "SchedulingEquivalenceHashing",
    "FairSharingPreemptWithinNominal",
    "FairSharingPrioritizeNonBorrowing",
    "FlavorFungibilityPreserveScanProgress",
    "PrioritySortingWithinCohort",
    "PartialAdmission",
    "ReclaimablePods",
)


@dataclass(frozen=True, slots=True)
class Bias:
    """Properties that a test wants more or less often. *fair* None: either. *plain*: no node selection and only one pod
    set. *reducing*: pending workloads have a minimum size.
    """

    fair: bool | None = None
    preempting: bool = True
    valid: bool = True
    plain: bool = False
    reducing: bool = False
    most_pending: int = 5
    most_running: int = 10


ANYTHING = Bias()

nominals = st.sampled_from((0, 1, 2, 2, 3, 4, 4, 6))
limits = st.sampled_from((None, None, None, None, None, 0, 1, 2, 4))
weights = st.sampled_from((*(Fraction(1),) * 6, Fraction(0), Fraction(1, 2), Fraction(2), Fraction(3)))
fungibilities = st.one_of(
    st.just(Fungibility()), st.builds(Fungibility, st.booleans(), st.booleans(), st.sampled_from(Preference))
)
policies = st.builds(
    Policies,
    within_queue=st.sampled_from((Policy.NEVER, *(Policy.LOWER,) * 3, *(Policy.LOWER_OR_NEWER,) * 2)),
    reclaim=st.sampled_from((Policy.NEVER, *(Policy.LOWER,) * 2, *(Policy.ANY,) * 4)),
    borrow=st.sampled_from((Policy.NEVER, Policy.LOWER)),
    borrow_max_priority=st.sampled_from((None, None, 0, 1)),
)
selectors = st.sampled_from(
    (
        *(LabelSelector(),) * 9,
        LabelSelector((("team", "x"),)),
        LabelSelector((), (MatchExpression("team", "NotIn", ("x",)),)),
        None,
    )
)
gates: st.SearchStrategy[dict[str, bool]] = st.one_of(
    st.just({}), st.just({}), st.sampled_from(GATES).map(lambda name: {name: False}), st.just({"PriorityBoost": True})
)
strategy_lists = st.sampled_from((FAIR, FAIR, (Strategy.FINAL_SHARE,), (Strategy.INITIAL_SHARE,)))


@st.composite
def quota_maps(draw: st.DrawFn, groups: tuple[ResourceGroup, ...], *, limited: bool, queue: bool) -> Quotas:
    found = {}
    for group in groups:
        for flavor in group.flavors:
            for resource in group.resources:
                nominal = draw(nominals)
                borrowing, lending = (draw(limits), draw(limits)) if limited else (None, None)
                if queue and lending is not None:
                    lending = min(lending, nominal)
                if queue or draw(st.integers(0, 5)):
                    found[FlavorResource(flavor, resource)] = Quota(nominal, borrowing, lending)
    return found


@st.composite
def cohorts(draw: st.DrawFn, groups: tuple[ResourceGroup, ...]) -> tuple[QueueCohort, ...]:
    """Up to five, nested, so that a queue can be five edges deep."""
    made: list[QueueCohort] = []
    for at in range(draw(st.sampled_from((1, 1, 2, 2, 3, 4, 5)))):
        parent = draw(st.sampled_from([*[f"c{at - 1}"] * 3, *(c.name for c in made), None])) if at else None
        holds = draw(st.booleans())
        quotas = draw(quota_maps(groups, limited=parent is not None, queue=False)) if holds else {}
        made.append(QueueCohort(f"c{at}", parent, quotas, draw(weights)))
    if len(made) > 1 and draw(st.integers(0, 15)) == 0:
        made[0] = replace(made[0], parent=made[-1].name)  # a cycle, or a rotation of the same tree
    # A cohort that is only named has no quotas, limits or parent.
    return tuple(made[draw(st.integers(0, 7)) == 0 :])


@st.composite
def queues(draw: st.DrawFn, name: str, homes: list[str], groups: tuple[ResourceGroup, ...], bias: Bias) -> ClusterQueue:
    home = draw(st.sampled_from([*homes * 4, None]))
    if draw(st.integers(0, 5)) == 0:
        groups = tuple(ResourceGroup(g.resources, tuple(reversed(g.flavors))) for g in groups)
    if draw(st.integers(0, 5)) == 0:
        groups = tuple(ResourceGroup(g.resources, g.flavors[: max(1, len(g.flavors) - 1)]) for g in groups)
    plain = Fungibility() if bias.plain else draw(fungibilities)
    return ClusterQueue(
        name,
        groups,
        draw(quota_maps(groups, limited=home is not None, queue=True)),
        home,
        draw(st.sampled_from((Queueing.BEST_EFFORT_FIFO, Queueing.BEST_EFFORT_FIFO, Queueing.STRICT_FIFO))),
        draw(policies) if bias.preempting else Policies(),
        plain,
        draw(weights),
        draw(st.sampled_from((*(StopPolicy.NONE,) * 15, StopPolicy.HOLD))),
        LabelSelector() if bias.plain else draw(selectors),
    )


@st.composite
def pod_sets(draw: st.DrawFn, queue: ClusterQueue, bias: Bias, *, running: bool) -> tuple[WorkloadPodSet, ...]:
    """Running workloads are small, so that many fill a tree."""
    resources = [r for group in queue.groups for r in group.resources if r != PODS]
    made = []
    for name in ("main", "rest")[: 1 if bias.plain else draw(st.sampled_from((1, 1, 1, 2)))]:
        reducing = bias.reducing and not running
        count = draw(st.sampled_from((3, 4, 5, 6) if reducing else (1, 1, 1, 2) if running else (1, 1, 1, 2, 3, 5)))
        least = draw(st.sampled_from((1, 1, 2, 3) if reducing else (None, None, 1, 2)))
        asked = {resource: draw(st.sampled_from((1, 1, 2) if running else (1, 2, 2, 3, 4))) for resource in resources}
        if len(asked) > 1 and draw(st.booleans()):
            asked.pop(draw(st.sampled_from(sorted(asked))))
        nodes = NodeChoice() if bias.plain else draw(st.sampled_from(NODES))
        group = "g" if not bias.plain and draw(st.integers(0, 5)) == 0 else None
        least = least if least is not None and least <= count else None
        spared = 1 if count > 1 and not running and not bias.plain and draw(st.integers(0, 5)) == 0 else 0
        made.append(WorkloadPodSet(name, count, least, tuple(sorted(asked.items())), nodes, group, spared))
    return tuple(made)


@st.composite
def workloads(draw: st.DrawFn, name: str, queue: ClusterQueue, bias: Bias, *, running: bool = False) -> Workload:
    created = float(draw(st.integers(0, 6)))
    priorities = (0, 0, 0, 1, -1) if running else (0, 1, 1, 2)
    return Workload(
        f"ns/{name}",
        queue.name,
        draw(pod_sets(queue, bias, running=running)),
        draw(st.sampled_from(priorities)),
        created_at=created,
        queued_at=created,
        uid=f"{draw(st.integers(0, 3))}-{name}",
        namespace="ns",
        boost=draw(st.sampled_from((0, 0, 0, 2))),
        checks_open=draw(st.integers(0, 7)) == 0,
    )


@st.composite
def granted(draw: st.DrawFn, queue: ClusterQueue, pod_set: WorkloadPodSet) -> Granted:
    asked = {resource: amount * pod_set.count for resource, amount in pod_set.requests}
    flavors = {}
    for group in queue.groups:
        flavor = draw(st.sampled_from((*group.flavors[:1] * 2, *group.flavors)))
        if PODS in group.resources:
            asked[PODS] = pod_set.count
        flavors.update({resource: flavor for resource in group.resources if resource in asked})
    return Granted(pod_set.name, pod_set.count, tuple(sorted(flavors.items())), tuple(sorted(asked.items())))


@st.composite
def systems(draw: st.DrawFn, bias: Bias = ANYTHING) -> System:
    groups = draw(st.sampled_from(LAYOUTS))
    inner = draw(cohorts(groups))
    homes = sorted({c.name for c in inner} | {c.parent for c in inner if c.parent} | {"named"})
    if draw(st.integers(0, 9)):
        homes.remove("named")
    made = [draw(queues(f"q{at}", homes, groups, bias)) for at in range(draw(st.sampled_from((1, 2, 2, 3, 3, 4))))]
    system = System(inner, tuple(made), FLAVORS, namespaces={"ns": {"team": "x"}}, now=10.0)
    running: list[Workload] = []
    ledger = Ledger(Tree(system), {})
    for at in range(draw(st.sampled_from((0, *range(bias.most_running // 2, bias.most_running + 1))))):
        queue = draw(st.sampled_from(made))
        workload = draw(workloads(f"r{at}", queue, bias, running=True))
        grants = tuple(draw(granted(queue, pod_set)) for pod_set in workload.pod_sets)
        workload = replace(workload, granted=grants, reserved_at=float(draw(st.integers(0, 4))))
        amounts = holder_of(workload).amounts
        if ledger.tree.in_cycle(Node(QUEUE, queue.name)):
            continue
        if bias.valid and not ledger.fits(queue.name, amounts):
            continue
        evicted = bias.preempting and draw(st.integers(0, 9)) == 0
        running.append(replace(workload, evicted=evicted))
        ledger = ledger.plus(queue.name, amounts)
    waiting = [
        draw(workloads(f"w{at}", draw(st.sampled_from(made)), bias))
        for at in range(draw(st.integers(1, bias.most_pending)))
    ]
    return replace(system, workloads=(*running, *waiting))


def manager_settings(bias: Bias = ANYTHING) -> st.SearchStrategy[Settings]:
    fair, classical = strategy_lists, st.none()
    strategies = {None: st.one_of(classical, fair), True: fair, False: classical}[bias.fair]
    return st.builds(Settings, strategies, gates)
