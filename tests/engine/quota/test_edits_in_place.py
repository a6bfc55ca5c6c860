"""Trees edited while gangs start and end equal newly built trees (rules Q1, Q3, Q5, Q6, Q8, P2)."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runrig.domain.gangs import Assignment, Gang, GangState, PodSet, Priority
from runrig.domain.nodes import Flavor, Node
from runrig.domain.plan import Admit, Nominate, Queue, Release, Stop, Withdraw
from runrig.domain.pools import Cohort, Pool, PoolState, Quota, Quotas
from runrig.domain.quantities import CPU, GPU, FlavorResource, of_one_pod, requests_of
from runrig.domain.workflows import Status
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.quota.pool_tree import QuotaTree
from runrig.engine.quota.quota_node import CHARGED, REAL, add
from tests.exploring import tries
from tests.properties.ledgers import tree_portrait

pytestmark = pytest.mark.explored

KEYS = (FlavorResource("a", GPU), FlavorResource("a", CPU), FlavorResource("b", GPU))
COHORTS = ("c0", "c1", "c2", "c3")
POOLS = ("p0", "p1", "p2")
LETTERS = ("s", "t")


def empty() -> Ledger:
    ledger = Ledger(place=False)
    ledger.set_flavors([Flavor("a"), Flavor("b", position=1)])
    for name in POOLS:
        ledger.put_pool(Pool(name, {KEYS[0]: Quota(2), KEYS[1]: Quota(8)}))
    return ledger


def anew(ledger: Ledger) -> QuotaTree:
    """A new tree of what *ledger* has declared, with all usage."""
    twin = Ledger(place=False)
    twin.set_flavors(ledger.flavors.values())
    for cohort in ledger.cohorts.values():
        twin.put_cohort(cohort)
    for pool in ledger.pools.values():
        twin.put_pool(pool)
    for room in ledger.nodes.by_name.values():
        twin.put_node(room.node)
    for entry in ledger.entries.values():
        twin.apply(Queue(entry.gang), 0)
        request = twin.request_of(entry, entry.placement)
        assert entry.request == request, entry.gang.id
        leaf = (twin.tree.firm if entry.bucket.firm else twin.tree.low)[entry.gang.pool]
        for layer, counts in ((CHARGED, entry.charged), (REAL, entry.held)):
            if counts:
                add(leaf, request, layer)
    return twin.tree


# ---------------------------------------------------------------- random histories


amounts = st.integers(0, 6)
limits = st.none() | st.none() | st.integers(0, 6)
quota_maps = st.dictionaries(st.sampled_from(KEYS), st.builds(Quota, amounts, limits, limits), max_size=3)
small = st.builds(Quota, amounts)
weights = st.sampled_from((1, 1, 1, 1, 3))


class History:
    """One ledger, and what may happen to it next."""

    def __init__(self) -> None:
        self.ledger = empty()
        self.names = 0

    def step(self, draw: st.DrawFn) -> None:
        declared = ("cohort", "cohort", "drop", "pool", "pool", "pool", "part", "archive", "node")
        work = ("gang", "gang", "gang", "gang", "go", "trial")
        getattr(self, draw(st.sampled_from((*declared, *work))))(draw)

    def cohort(self, draw: st.DrawFn) -> None:
        name = draw(st.sampled_from(COHORTS))
        parent = draw(st.none() | st.sampled_from(COHORTS))
        before = self.ledger.cohorts.get(name, Cohort(name))
        changes = draw(st.sampled_from(("numbers", "parent", "weight")))
        if changes == "numbers":
            self.ledger.put_cohort(replace(before, quotas=draw(quota_maps)))
        elif changes == "parent":
            self.ledger.put_cohort(replace(before, parent=parent))
        else:
            self.ledger.put_cohort(replace(before, weight=draw(weights)))

    def drop(self, draw: st.DrawFn) -> None:
        if self.ledger.cohorts:
            self.ledger.drop_cohort(draw(st.sampled_from(sorted(self.ledger.cohorts))))

    def pool(self, draw: st.DrawFn) -> None:
        before = self.ledger.pools[draw(st.sampled_from(POOLS))]
        pool = replace(before, state=PoolState.ACTIVE)
        match draw(st.sampled_from(("numbers", "numbers", "cohort", "weight"))):
            case "numbers":
                pool = replace(pool, quotas=draw(quota_maps))
            case "cohort":
                pool = replace(pool, cohort=draw(st.none() | st.sampled_from((*COHORTS, "named"))))
            case _:
                pool = replace(pool, weight=draw(weights))
        self.ledger.put_pool(pool)

    def part(self, draw: st.DrawFn) -> None:
        parent = self.ledger.pools[draw(st.sampled_from(POOLS))]
        if parent.state is PoolState.ACTIVE:
            letter = draw(st.sampled_from(LETTERS))
            quotas: Quotas = (
                draw(st.dictionaries(st.sampled_from(sorted(parent.quotas)), small)) if parent.quotas else {}
            )
            part = replace(parent, quotas=quotas, parent=parent.name, subpool_name=letter)
            self.ledger.put_pool(replace(part, name=f"{parent.name}--{letter}"))

    def archive(self, draw: st.DrawFn) -> None:
        """With all its subpools, if they have no work."""
        name = draw(st.sampled_from(sorted(self.ledger.pools)))
        family = [each for each in self.ledger.pools.values() if name in (each.name, each.parent)]
        if not any(entry.gang.pool in {each.name for each in family} for entry in self.ledger.entries.values()):
            for each in family:
                self.ledger.put_pool(replace(each, state=PoolState.ARCHIVED))

    def node(self, draw: st.DrawFn) -> None:
        name, flavor = draw(st.sampled_from((("n0", "a"), ("n1", "a"), ("n2", "b"))))
        if name in self.ledger.nodes.by_name and draw(st.booleans()):
            self.ledger.drop_node(name)
        else:
            self.ledger.put_node(Node(name, {GPU: draw(amounts), CPU: 4}, flavor))

    def gang(self, draw: st.DrawFn) -> None:
        open_pools = sorted(each.name for each in self.ledger.pools.values() if each.state is PoolState.ACTIVE)
        if not open_pools:
            return
        name, self.names = f"g{self.names}", self.names + 1
        requests = of_one_pod(requests_of({GPU: draw(st.integers(0, 4)), CPU: draw(st.integers(1, 4))}))
        priority = draw(st.sampled_from(Priority))
        gang = Gang(name, draw(st.sampled_from(open_pools)), priority, 0, (PodSet("main", 1, requests),))
        placement = (Assignment("main", draw(st.sampled_from(("a", "b"))), 1),)
        self.ledger.apply(Queue(gang), 0)
        if draw(st.booleans()):
            self.ledger.apply(Admit(name, placement), 1)
        elif draw(st.booleans()):
            self.ledger.apply(Nominate(name, placement, ()), 1)

    def go(self, draw: st.DrawFn) -> None:
        if self.ledger.entries:
            entry = self.ledger.entries[draw(st.sampled_from(sorted(self.ledger.entries)))]
            if entry.state is GangState.ADMITTED and draw(st.booleans()):
                self.ledger.apply(Stop(entry.gang.id, Status.FAILED_CANCELED), 2)
            elif entry.state is GangState.NOMINATED and draw(st.booleans()):
                self.ledger.apply(Withdraw(entry.gang.id), 2)
            else:
                self.ledger.apply(Release(entry.gang.id), 2)

    def trial(self, draw: st.DrawFn) -> None:
        charged = [entry for _, entry in sorted(self.ledger.entries.items()) if entry.charged]
        for entry in charged:
            self.ledger.uncharge(entry)
        for entry in reversed(charged):
            self.ledger.charge(entry)


@settings(max_examples=tries(120), deadline=None, database=None)
@given(st.data())
def test_an_edited_tree_equals_a_newly_built_one(data: st.DataObject) -> None:
    """Any edits, in any order, one or several before the tree is read again, while gangs start and end."""
    history = History()
    for _ in range(data.draw(st.integers(1, 12))):
        for _ in range(data.draw(st.integers(1, 3))):
            data.draw(st.composite(lambda draw: history.step(draw))())
        assert tree_portrait(history.ledger.tree) == tree_portrait(anew(history.ledger))


# ---------------------------------------------------------------- edits that are made in place


def org() -> Ledger:
    """Two labs, of which one shares quota, pools with a subpool, and work in all of them."""
    ledger = empty()
    ledger.put_cohort(Cohort("org", None, {KEYS[0]: Quota(0, 9, 9), KEYS[1]: Quota(), KEYS[2]: Quota()}))
    ledger.put_cohort(Cohort("left", "org", {KEYS[0]: Quota(3)}))
    ledger.put_cohort(Cohort("right", "org"))
    for name, cohort in (("p0", "left"), ("p1", "left"), ("p2", "right")):
        ledger.put_pool(Pool(name, {KEYS[0]: Quota(4, None, 2), KEYS[1]: Quota(16)}, cohort=cohort))
    ledger.put_pool(Pool("p0--s", {KEYS[0]: Quota(2)}, cohort="left", parent="p0", subpool_name="s"))
    for at, (pool, priority) in enumerate((pool, each) for pool in ("p0", "p0--s", "p1", "p2") for each in Priority):
        requests = of_one_pod(requests_of({GPU: 1 + at % 3, CPU: 1}))
        ledger.apply(Queue(Gang(f"g{at}", pool, priority, 0, (PodSet("main", 1, requests),))), 0)
        ledger.apply(Admit(f"g{at}", (Assignment("main", "a", 1),)), 1)
    return ledger


CHANGED: dict[str, Pool | Cohort] = {
    "numbers of a pool": Pool("p1", {KEYS[0]: Quota(1, None, 1), KEYS[1]: Quota(2)}, cohort="left"),
    "a limit where there was none": Pool("p1", {KEYS[0]: Quota(4, 3, 2), KEYS[1]: Quota(16)}, cohort="left"),
    "another cohort": Pool("p1", {KEYS[0]: Quota(4, None, 2), KEYS[1]: Quota(16)}, cohort="right"),
    "a cohort that is only named": Pool("p1", {KEYS[0]: Quota(4, None, 2), KEYS[1]: Quota(16)}, cohort="named"),
    "a resource less": Pool("p1", {KEYS[0]: Quota(4, None, 2)}, cohort="left"),
    "what is no number": Pool(
        "p1", {KEYS[0]: Quota(4, None, 2), KEYS[1]: Quota(16)}, cohort="left", description="ours"
    ),
    "another subpool": Pool("p0--t", {KEYS[0]: Quota(1)}, cohort="left", parent="p0", subpool_name="t"),
    "the first subpool": Pool("p1--t", {KEYS[0]: Quota(1)}, cohort="left", parent="p1", subpool_name="t"),
    "a new pool": Pool("p9", {KEYS[0]: Quota(1)}, cohort="right"),
    "numbers of a cohort": Cohort("left", "org", {KEYS[0]: Quota(5)}),
    "a cohort that shares no more": Cohort("left", "org"),
    "a cohort that shares too": Cohort("right", "org", {KEYS[0]: Quota(5, 1, 1)}),
    "another parent": Cohort("left", "right", {KEYS[0]: Quota(3)}),
    "no parent": Cohort("left", None, {KEYS[0]: Quota(3)}),
    "a new cohort": Cohort("new", "left"),
}


@pytest.mark.parametrize("what", CHANGED)
def test_an_edit_keeps_the_tree_and_the_reverse_edit_is_its_exact_inverse(what: str) -> None:
    ledger, changed = org(), CHANGED[what]
    tree, before = ledger.tree, tree_portrait(ledger.tree)
    if isinstance(changed, Cohort):
        old = ledger.cohorts.get(changed.name)
        ledger.put_cohort(changed)
    else:
        was = ledger.pools.get(changed.name, replace(changed, state=PoolState.ARCHIVED))
        ledger.put_pool(changed)
    assert ledger.tree is tree
    assert tree_portrait(tree) == tree_portrait(anew(ledger))
    if not isinstance(changed, Cohort):
        ledger.put_pool(was)
    elif old is None:
        ledger.drop_cohort(changed.name)
    else:
        ledger.put_cohort(old)
    assert ledger.tree is tree
    assert tree_portrait(tree) == before
