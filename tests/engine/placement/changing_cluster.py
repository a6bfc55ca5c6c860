"""A cluster that changes while gangs start and end, with its own accounts: they decide what is allowed, independently
of the engine. Every decision is checked against them before it is applied, and a ledger built from them must decide the
same.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from runrig.domain.gangs import Gang, Placement, PodSet, Priority
from runrig.domain.nodes import Flavor, Node
from runrig.domain.plan import Admit, Decision, Nominate, Preempt, Queue, Release, Stop, Withdraw
from runrig.domain.pools import TopologyKey
from runrig.domain.workflows import Status
from runrig.engine.ledger.fit import find_place
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.scheduling.admission import decide
from tests.engine.placement.engine_answers import POOL, ledger_without_gangs
from tests.engine.placement.problem import Problem
from tests.engine.placement.solver import solve
from tests.engine.placement.yardstick import faults


@dataclass(slots=True)
class Standing:
    """A gang that uses nodes or, with targets, waits until *targets* have stopped."""

    placement: Placement
    at: float
    stopping: bool = False
    targets: tuple[str, ...] | None = None

    @property
    def is_there(self) -> bool:
        return self.targets is None


@dataclass
class ChangingCluster:
    keys: tuple[TopologyKey, ...]
    flavors: tuple[Flavor, ...]
    nodes: dict[str, Node] = field(default_factory=dict)
    gangs: dict[str, Gang] = field(default_factory=dict)
    standing: dict[str, Standing] = field(default_factory=dict)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.ledger = self._declared()

    def _declared(self) -> Ledger:
        return ledger_without_gangs(self.flavors, (node for _, node in sorted(self.nodes.items())), self.keys)

    # ------------------------------------------------------------ steps

    def submit(self, priority: Priority, pod_sets: tuple[PodSet, ...]) -> None:
        self.now += 1
        gang = Gang(f"w{len(self.gangs)}-{self.now:g}/g", POOL, priority, self.now, pod_sets)
        self.gangs[gang.id] = gang
        self.ledger.apply(Queue(gang), self.now)

    def put(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.ledger.put_node(node)

    def drop(self, name: str) -> None:
        """The node is removed; its gangs stop, and are there until `end` is called."""
        del self.nodes[name]
        self.ledger.drop_node(name)
        for gang, standing in sorted(self.standing.items()):
            if standing.is_there and not standing.stopping and name in _nodes_of(standing.placement):
                standing.stopping = True
                self.ledger.apply(Stop(gang, Status.FAILED), self.now)

    def end(self, gang: str) -> None:
        """The pods of the gang have stopped."""
        self.standing.pop(gang, None)
        del self.gangs[gang]
        self.ledger.apply(Release(gang), self.now)
        for each in self.standing.values():
            if each.targets is not None:
                each.targets = tuple(name for name in each.targets if name != gang)

    def cycle(self) -> list[Decision]:
        """One cycle with every decision checked; a newly built ledger must decide the same."""
        self.now += 1
        expected = _drawn(self._anew(), self.now)
        decisions = []
        for decision in _decisions(self.ledger):
            self._note(decision)
            self.ledger.apply(decision, self.now)
            decisions.append(decision)
        assert decisions == expected, "a ledger that grew decides otherwise than one built anew"
        self._nobody_waits_in_vain()
        return decisions

    def probe(self, pod_sets: tuple[PodSet, ...]) -> None:
        """Counts kept over time give such a gang the same placement as new counts."""
        gang = Gang("probe-1/g", POOL, Priority.NORMAL, self.now, pod_sets)
        counts = tuple(each.count for each in pod_sets)
        answers = []
        for ledger in (self.ledger, self._anew()):
            ledger.apply(Queue(gang), self.now)
            answers.append(find_place(ledger, ledger.entries[gang.id], counts))
            ledger.apply(Release(gang.id), self.now)
        assert answers[0] == answers[1], "a ledger that grew finds another place than one built anew"

    # ------------------------------------------------------------ the books

    def _note(self, decision: Decision) -> None:
        match decision:
            case Admit(gang, placement):
                held = self.standing.pop(gang, None)
                # Work that is stopping to free nodes for others still uses them.
                there = [name for name, each in self.standing.items() if each.is_there]
                self._must_fit(gang, placement, there, with_gpus=True)
                if held is None:
                    self._must_fit(gang, placement, self._spoken_for(()))
                self.standing[gang] = Standing(placement, self.now)
            case Nominate(gang, placement, targets):
                self._must_fit(gang, placement, self._spoken_for(targets))
                self._nobody_stops_in_vain(gang, placement, targets)
                self.standing[gang] = Standing(placement, self.now, targets=targets)
            case Withdraw(gang):
                del self.standing[gang]
            case Preempt(gang, _, _):
                assert self.gangs[gang].priority.preemptible, f"{gang} is not preemptible"
                self.standing[gang].stopping = True

    def _spoken_for(self, targets: Iterable[str]) -> list[str]:
        """Gangs whose nodes are reserved if *targets* stop too: all except those that others wait for."""
        awaited = {*targets, *(name for each in self.standing.values() for name in each.targets or ())}
        return [name for name in self.standing if name not in awaited]

    def _must_fit(self, gang: str, placement: Placement, beside: Sequence[str], *, with_gpus: bool = False) -> None:
        counts = tuple(each.count for each in placement)
        taken: dict[str, set[int]] = {name: set() for name in self.nodes}
        for name in beside if with_gpus else ():
            for each in self.standing[name].placement:
                for share in each.shares:
                    taken.setdefault(share.node, set()).update(share.gpus)
        found = faults(self.problem(gang, counts, beside), placement, taken)
        assert not found, f"{gang} does not fit: {found}"

    def problem(self, gang: str, counts: tuple[int, ...] | None, beside: Iterable[str]) -> Problem:
        """The problem of placing *gang* with *counts* pods, while the other gangs, *beside*, use what they have."""
        held: dict[str, Counter[str]] = {}
        for name in beside:
            for each, pod_set in zip(self.standing[name].placement, self.gangs[name].pod_sets, strict=True):
                for share in each.shares:
                    amounts = {resource: amount * share.count for resource, amount in pod_set.requests}
                    held.setdefault(share.node, Counter()).update(amounts)
        pod_sets = self.gangs[gang].pod_sets
        return Problem(tuple(self.nodes.values()), pod_sets, self.keys, held, self.flavors, counts)

    def _anew(self) -> Ledger:
        """A ledger with the same content."""
        ledger = self._declared()
        for _, gang in sorted(self.gangs.items()):
            ledger.apply(Queue(gang), gang.submitted_at)
        for name, each in sorted(self.standing.items()):
            if each.is_there:
                ledger.apply(Admit(name, each.placement), each.at)
            if each.stopping:
                ledger.apply(Stop(name, Status.FAILED), each.at)
        for name, each in sorted(self.standing.items()):
            if each.targets is not None:
                ledger.apply(Nominate(name, each.placement, each.targets), each.at)
        return ledger

    def _nobody_stops_in_vain(self, gang: str, placement: Placement, targets: Sequence[str]) -> None:
        """Checks that every target is needed, wherever the gang then goes (rule R3)."""
        counts = tuple(each.count for each in placement)
        for target in targets:
            if not self.standing[target].stopping:
                beside = self._spoken_for(name for name in targets if name != target)
                place = solve(self.problem(gang, counts, beside), [each.flavor for each in placement])
                assert place is None, f"{target} stops for {gang}, which has a place beside it"

    def _nobody_waits_in_vain(self) -> None:
        """Checks that, once nothing is stopping, no waiting gang has a placement, not even where preemptible work could
        be removed.
        """
        if any(each.stopping or each.targets is not None for each in self.standing.values()):
            return
        for name, gang in self.gangs.items():
            if name not in self.standing:
                firm = not gang.priority.preemptible
                beside = [other for other in self.standing if not (firm and self.gangs[other].priority.preemptible)]
                least = tuple(each.count if each.min_count is None else each.min_count for each in gang.pod_sets)
                assert solve(self.problem(name, least, beside)) is None, f"{name} waits, and has a place"


def _decisions(ledger: Ledger) -> Iterator[Decision]:
    return (each for each in decide(ledger) if each is not None)


def _drawn(ledger: Ledger, now: float) -> list[Decision]:
    decisions = []
    for decision in _decisions(ledger):
        ledger.apply(decision, now)
        decisions.append(decision)
    return decisions


def _nodes_of(placement: Placement) -> set[str]:
    return {share.node for each in placement for share in each.shares}
