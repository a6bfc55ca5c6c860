"""An independent model of the quota tree, directly from T(x, r) of hierarchical-cohorts.md (rules Q3, Q4). `Model`
knows declarations and the usage of leaves; it does not use the sums of the tree.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from runrig.domain.pools import Cohort, Pool, Quota
from runrig.domain.quantities import GPU, FlavorResource
from runrig.engine.quota.limits import ceilings, promises
from runrig.engine.quota.numbers import lent, lent_by_all
from runrig.engine.quota.pool_tree import QuotaTree
from runrig.engine.quota.quota_node import (
    CHARGED,
    REAL,
    NodeKind,
    QuotaLeaf,
    QuotaNode,
    add,
    add_everywhere,
    fits,
    headroom,
    potential,
    take,
    within_promise,
)
from runrig.engine.quota.together import change_together
from runrig.kueue.engine.at_once import lacking

KEYS = (FlavorResource("a", "fpga"), FlavorResource("a", GPU))
MOST_DEPTH = 5

Place = tuple[str, str]
Request = tuple[tuple[int, int], ...]
Load = list[tuple[int, Request]]


# ---------------------------------------------------------------- the model


@dataclass
class Model:
    """Nodes are (kind, name); quotas are per index of KEYS."""

    cohorts: list[Cohort]
    pools: list[Pool]
    capacity: Mapping[FlavorResource, int]
    held: dict[tuple[Place, int], int] = field(default_factory=dict)
    _brings: dict[tuple[Place, int], int] = field(default_factory=dict)

    def quota(self, place: Place, index: int) -> Quota:
        """The nominal quota and limits of the node itself."""
        kind, name = place
        key = KEYS[index]
        if kind == "root":
            top = [each.quotas for each in self.pools if each.parent is None]
            promised = sum(quotas[key].nominal for quotas in (*(each.quotas for each in self.cohorts), *top))
            return Quota(max(0, self.capacity[key] - promised), 0)
        if kind == "firm":
            own, *slices = (
                each.quotas[key].nominal
                for each in sorted(self.pools, key=_parents_first)
                if name in (each.name, each.parent)
            )
            return Quota(own - sum(slices), None if self.is_shared(name, index) else 0)
        if kind == "low":
            return Quota()
        declared = next(each for each in (self.cohorts if kind == "cohort" else self.pools) if each.name == name)
        quota = declared.quotas[key]
        return quota if kind == "cohort" else Quota(0, quota.borrowing_limit, quota.lending_limit)

    @cached_property
    def children(self) -> Mapping[Place, list[Place]]:
        found: dict[Place, list[Place]] = {}
        for cohort in self.cohorts:
            above = ("cohort", cohort.parent) if cohort.parent else ("root", "")
            found.setdefault(above, []).append(("cohort", cohort.name))
        for pool in self.pools:
            above = ("pool", pool.parent) if pool.parent else ("cohort", pool.cohort) if pool.cohort else ("root", "")
            found.setdefault(above, []).append(("pool", pool.name))
            found[("pool", pool.name)] = [*found.get(("pool", pool.name), []), ("firm", pool.name), ("low", pool.name)]
        return found

    def places(self) -> Iterator[Place]:
        yield ("root", "")
        for below in self.children.values():
            yield from below

    def balance(self, place: Place, index: int) -> int:
        """T(x, r)."""
        total = self.quota(place, index).nominal - self.held.get((place, index), 0)
        for child in self.children.get(place, []):
            limit, below = self.quota(child, index).lending_limit, self.balance(child, index)
            total += below if limit is None else min(limit, below)
        return total

    def valid(self, index: int) -> bool:
        """True if no node owes more than it may."""
        return all(
            limit is None or self.balance(place, index) >= -limit
            for place in self.places()
            for limit in (self.quota(place, index).borrowing_limit,)
        )

    def is_shared(self, pool: str, index: int) -> bool:
        """True if some cohort above has quota of its own."""
        pools, cohorts = {each.name: each for each in self.pools}, {each.name: each for each in self.cohorts}
        above = pools[pools[pool].parent or pool].cohort
        while above is not None:
            if cohorts[above].quotas[KEYS[index]].nominal:
                return True
            above = cohorts[above].parent
        return False

    def drawn(self, place: Place, index: int) -> int:
        """Rule P2: what guaranteed work below uses of the nodes above *place*, the nearest quota first."""
        own, held = self.quota(place, index).nominal, self.held.get((place, index), 0)
        if place[0] in ("firm", "low"):
            return max(0, held - own) if place[0] == "firm" else 0
        below = sum(self.drawn(child, index) for child in self.children.get(place, []))
        return max(0, below - own) if place[0] == "cohort" else below

    def firm_within(self, place: Place, index: int) -> bool:
        """Rule P2: guaranteed work is within its guarantee."""
        return place[0] != "firm" or all(
            limit is None or self.drawn(above, index) <= limit
            for above in self.places()
            for limit in (self.quota(above, index).borrowing_limit,)
            if above[0] not in ("firm", "low")
        )

    def allows(self, place: Place, request: Request) -> bool:
        """True if every balance is valid after the leaf *place* also uses *request*."""
        for index, amount in request:
            self.held[place, index] = self.held.get((place, index), 0) + amount
        fine = all(self.valid(index) and self.firm_within(place, index) for index, _ in request)
        for index, amount in request:
            self.held[place, index] -= amount
        return fine

    # ------------------------------------------------------------ Q4, from scratch

    def brings(self, place: Place, index: int) -> int:
        known = self._brings.get((place, index))
        if known is None:
            below = [(child, self.brings(child, index)) for child in self.children.get(place, [])]
            known = self.quota(place, index).nominal + sum(brings - self.keeps(child, index) for child, brings in below)
            self._brings[place, index] = known
        return known

    def keeps(self, place: Place, index: int) -> int:
        limit = self.quota(place, index).lending_limit
        return 0 if limit is None else max(0, self.brings(place, index) - limit)

    def usage(self, place: Place, index: int) -> int:
        """The usage of a leaf; of an inner node, what its children use beyond what they keep."""
        total = self.held.get((place, index), 0)
        for child in self.children.get(place, []):
            total += max(0, self.usage(child, index) - self.keeps(child, index))
        return total

    def available(
        self, place: Place, index: int, above: Callable[[Place], Place | None], *, empty: bool = False
    ) -> int:
        """The amount that can still be used there. *empty*: if there were no usage."""
        usage = 0 if empty else self.usage(place, index)
        brings, keeps = self.brings(place, index), self.keeps(place, index)
        parent = above(place)
        if parent is None:
            return brings - usage
        left = self.available(parent, index, above, empty=empty)
        limit = self.quota(place, index).borrowing_limit
        if limit is not None:
            left = min(left, (brings - keeps) + limit - max(0, usage - keeps))
        return max(0, keeps - usage) + left


def _parents_first(pool: Pool) -> tuple[bool, str]:
    return (pool.parent is not None, pool.name)


# ---------------------------------------------------------------- random trees

limits = st.none() | st.none() | st.integers(0, 6)
quota_maps = st.fixed_dictionaries({key: st.builds(Quota, st.integers(0, 6), limits, limits) for key in KEYS})
requests = st.lists(
    st.tuples(st.sampled_from((0, 1)), st.integers(1, 8)), min_size=1, max_size=2, unique_by=lambda each: each[0]
).map(lambda found: tuple(sorted(found)))
loads = st.lists(st.tuples(st.integers(0, 60), requests), max_size=10)


@st.composite
def models(draw: st.DrawFn) -> Model:
    """A chain of cohorts of depth 1 to 5 (a pool counts), others next to it; a pool at its end, more anywhere, one
    of them with up to two subpools.
    """
    depth = draw(st.integers(1, MOST_DEPTH))
    chain = [Cohort(f"c{at}", f"c{at - 1}" if at else None, draw(quota_maps)) for at in range(depth - 1)]
    names = [each.name for each in chain]
    beside = [
        Cohort(f"d{at}", draw(st.sampled_from([None, *names])), draw(quota_maps))
        for at in range(draw(st.integers(0, 3)))
    ]
    anywhere = st.sampled_from([None, *names, *(each.name for each in beside)])
    pools = [Pool("p0", draw(quota_maps), cohort=names[-1] if names else None)]
    pools += [Pool(f"p{at}", draw(quota_maps), cohort=draw(anywhere)) for at in range(1, draw(st.integers(1, 4)))]
    parent = pools[draw(st.integers(0, len(pools) - 1))]
    left = {key: parent.quotas[key].nominal for key in KEYS}
    for short in draw(st.sampled_from(("", "a", "ab"))):
        part = {key: Quota(draw(st.integers(0, most))) for key, most in left.items()}
        left = {key: left[key] - part[key].nominal for key in KEYS}
        pools.append(Pool(f"{parent.name}--{short}", part, parent=parent.name, subpool_name=short))
    return Model([*chain, *beside], pools, {key: draw(st.integers(0, 30)) for key in KEYS})


@dataclass
class Grown:
    """A model and the engine's tree of the same declarations, with their leaves in one order."""

    model: Model

    def __post_init__(self) -> None:
        self.tree = fresh(self.model)
        nodes: dict[Place, QuotaNode] = {("root", ""): self.tree.root}
        for kind, found in (
            ("cohort", self.tree.cohorts),
            ("pool", self.tree.pools),
            ("firm", self.tree.firm),
            ("low", self.tree.low),
        ):
            nodes |= {(kind, name): node for name, node in found.items()}
        self.nodes = nodes
        self.leaves = [place for place in sorted(nodes) if place[0] in ("firm", "low")]

    def leaf(self, place: Place) -> QuotaLeaf:
        found = self.nodes[place]
        assert isinstance(found, QuotaLeaf)
        return found

    def hold(self, at: int, request: Request) -> None:
        place = self.leaves[at % len(self.leaves)]
        add_everywhere(self.leaf(place), request)
        for index, amount in request:
            self.model.held[place, index] = self.model.held.get((place, index), 0) + amount

    def above(self, place: Place) -> Place | None:
        return next((parent for parent, below in self.model.children.items() if place in below), None)


def grown(model: Model, load: Load) -> Grown:
    both = Grown(model)
    for at, request in load:
        both.hold(at, request)
    return both


def portrait(tree: QuotaTree) -> dict[str, object]:
    nodes = [*tree.nodes(), *(node.guarantee for node in tree.nodes() if node.guarantee)]
    return {
        f"{at} {node!r}": (node.usage, node.used, node.pools_over_nominal, node.borrowed)
        for at, node in enumerate(nodes)
    }


def fresh(model: Model) -> QuotaTree:
    tree = QuotaTree(model.cohorts, model.pools, model.capacity)
    assert tree.keys == KEYS
    return tree


many = settings(max_examples=200, deadline=None, derandomize=True, database=None)


# ---------------------------------------------------------------- invariants


@many
@given(models(), loads, st.integers(0, 60), requests)
def test_from_a_valid_start_an_admission_is_valid_exactly_if_no_node_then_owes_too_much(
    model: Model, load: Load, at: int, asked: Request
) -> None:
    """Q3, P2: all nodes of the tree are checked, not only the path."""
    both = Grown(model)
    for where, request in load:
        if model.allows(both.leaves[where % len(both.leaves)], request):
            both.hold(where, request)
    place = both.leaves[at % len(both.leaves)]
    assert all(model.valid(index) for index in (0, 1))
    assert fits(both.leaf(place), asked) == model.allows(place, asked)


@many
@given(models(), loads, st.integers(0, 60), requests)
def test_a_request_fits_exactly_if_it_is_within_headroom_and_guarantees(
    model: Model, load: Load, at: int, asked: Request
) -> None:
    """Q4, P2; over-committed trees too, since loading checks nothing."""
    both = grown(model, load)
    leaf = both.leaf(both.leaves[at % len(both.leaves)])
    within = all(amount <= headroom(leaf, index) for index, amount in asked)
    caps = leaf.kind is NodeKind.LOW or all(
        amount <= left for index, amount in asked for _, left in promises(leaf, index)
    )
    assert fits(leaf, asked) == (within and caps)
    assert leaf.kind is NodeKind.LOW or within_promise(leaf, asked) == caps


@many
@given(models(), loads, st.integers(0, 1))
def test_everything_left_fits_and_one_unit_more_does_not(model: Model, load: Load, index: int) -> None:
    """Q4, P2, at the bound of each leaf, which random amounts seldom reach."""
    both = grown(model, load)
    for leaf in map(both.leaf, both.leaves):
        most = headroom(leaf, index)
        if leaf.kind is not NodeKind.LOW:
            most = min(most, *(left for _, left in promises(leaf, index)))
        assert fits(leaf, ((index, most),)), (leaf, most)
        assert not fits(leaf, ((index, most + 1),)), (leaf, most)


@many
@given(models(), loads, st.integers(0, 60), st.integers(0, 1), st.integers(1, 9))
def test_ceilings_name_the_nodes_whose_limits_refuse(
    model: Model, load: Load, at: int, index: int, amount: int
) -> None:
    """None is named exactly if it fits; without the first limit the others refuse as before."""
    both = grown(model, load)
    leaf = both.leaf(both.leaves[at % len(both.leaves)])
    named = [each for each in ceilings(leaf, index) if each[1] < amount]
    assert (not named) == (amount <= headroom(leaf, index))
    if not named or named[0][0] is both.tree.root:
        return
    (first, _), *others = named
    first.room[index] = None
    assert [each for each in ceilings(leaf, index) if each[1] < amount] == others
    assert (not others) == (amount <= headroom(leaf, index))


@many
@given(models(), loads)
def test_over_counts_the_outermost_pools_above_their_nominal(model: Model, load: Load) -> None:
    tree = grown(model, load).tree
    tops = [node for node in tree.pools.values() if node.pool and node.pool.parent is None]
    for node in [tree.root, *tree.cohorts.values()]:
        below = [top for top in tops if node in top.path]
        counted = [sum(top.usage[CHARGED][at] > top.subtree[at] for top in below) for at in range(len(tree.keys))]
        assert node.pools_over_nominal == counted, node


@many
@given(models(), loads)
def test_balance_headroom_and_potential_of_any_tree_match_a_recount(model: Model, load: Load) -> None:
    """Q3, Q4; most of these trees are over-committed, because usage is not checked."""
    both = grown(model, load)
    for place, node in both.nodes.items():
        for index in (0, 1):
            found = (node.balance(index), headroom(node, index), potential(node, index))
            known = (
                model.balance(place, index),
                model.available(place, index, both.above),
                model.available(place, index, both.above, empty=True),
            )
            if node.kind is not NodeKind.OWN:
                assert found == known, (place, index)


@many
@given(models(), loads, requests)
def test_a_leaf_lacks_exactly_what_exceeds_its_headroom(model: Model, load: Load, asked: Request) -> None:
    """Q4, each resource separately; LOW, which has no guarantee."""
    both = grown(model, load)
    for place in both.leaves:
        if place[0] == "low":
            beyond = [index for index, amount in asked if amount > model.available(place, index, both.above)]
            assert lacking(both.leaf(place), asked) == beyond


@many
@given(models(), loads, st.randoms(use_true_random=False), st.integers(0, 10))
def test_the_order_of_changes_leaves_no_trace(model: Model, load: Load, mix: Random, kept: int) -> None:
    """Whatever is added and removed in between, the tree equals one with only the remaining usage."""
    both = Grown(model)
    staying, leaving = load[:kept], load[kept:]
    events = [(1, each) for each in load]
    mix.shuffle(events)
    for each in leaving:  # each leaves some time after it arrives
        came = next(at for at, event in enumerate(events) if event == (1, each))
        events.insert(mix.randint(came + 1, len(events)), (-1, each))
    for sign, (at, request) in events:
        for layer in (CHARGED, REAL):
            add(both.leaf(both.leaves[at % len(both.leaves)]), request, layer, sign)
    assert portrait(both.tree) == portrait(grown(model, staying).tree)


@many
@given(models(), loads, loads, st.integers(1, 3))
def test_changes_together_equal_changes_one_by_one(model: Model, leaving: Load, coming: Load, times: int) -> None:
    """Some usage is removed while other usage is added, *times* times each."""
    together, apart = grown(model, leaving * times), grown(model, leaving * times)
    leaves = together.leaves
    signed = [*((-times, each) for each in leaving), *((times, each) for each in coming)]
    change_together([(together.leaf(leaves[at % len(leaves)]), request, sign) for sign, (at, request) in signed])
    for sign, (at, request) in signed:
        for _ in range(times):
            (add if sign > 0 else take)(apart.leaf(leaves[at % len(leaves)]), request, CHARGED)
    assert portrait(together.tree) == portrait(apart.tree)


@many
@given(models(), loads)
def test_lent_amounts_cover_borrowed_amounts_at_every_node(model: Model, load: Load) -> None:
    """In any tree a node lends at most what it has idle and may lend, and the sums between siblings match. Siblings lend in
    proportion to that, within 1, whatever their names are (rule U3).
    """
    both = grown(model, load)
    lent_everywhere = lent_by_all(both.tree.root)
    for node in both.tree.nodes():
        for index in (0, 1):
            given_away = lent(node, index)
            assert isinstance(node, QuotaLeaf) or lent_everywhere.get(node, (0, 0))[index] == given_away
            limit = node.lending[index]
            idle = max(0, node.balance(index))
            assert 0 <= given_away <= (idle if limit is None else min(idle, limit))
            if node.children:
                owes = given_away + sum(max(0, -child.balance(index)) for child in node.children)
                gets = sum(lent(child, index) for child in node.children) + max(0, -node.balance(index))
                own = 0 if node.kind is NodeKind.POOL else node.nominal[index]
                assert 0 <= owes - gets <= own
                rooms = {child: _lendable(child, index) for child in node.children if _lendable(child, index)}
                lends = {child: lent(child, index) for child in rooms}
                whole = sum(lends.values())
                for child, room in rooms.items():
                    assert abs(lends[child] - Fraction(whole * room, sum(rooms.values()))) < 1


def _lendable(node: QuotaNode, index: int) -> int:
    idle, limit = max(0, node.balance(index)), node.lending[index]
    return idle if limit is None else min(idle, limit)


def test_what_cannot_be_divided_is_lent_by_the_first_names() -> None:
    """alpha, mid and zeta have 4 idle GPUs each, mid lends at most 2."""
    quotas = {"alpha": Quota(4), "busy": Quota(0), "mid": Quota(4, lending_limit=2), "zeta": Quota(4)}
    for borrowed, parts in ((1, [1, 0, 0]), (5, [2, 1, 2]), (6, [3, 1, 2]), (10, [4, 2, 4])):
        tree = QuotaTree([], [Pool(name, {KEYS[1]: quota}) for name, quota in quotas.items()], {KEYS[1]: 12})
        add(tree.low["busy"], ((0, borrowed),), REAL)
        assert [lent(tree.pools[name], 0) for name in ("alpha", "mid", "zeta")] == parts
