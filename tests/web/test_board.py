"""The board: what a browser is told, and is told to change, is what there is; and of others it learns amounts only."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runrig.domain.access import Grant, Identity, RoleKind
from runrig.domain.gangs import Assignment, Gang, GangState, NodeShare, PodSet, Priority
from runrig.domain.nodes import Node
from runrig.domain.quantities import GPU
from runrig.service.queries.board import Look, board
from runrig.service.queries.visibility import ALL, Visibility
from runrig.web.board import as_json, delta, held_by, layout, records, state

POOLS = ("alpha", "alpha--one", "beta", "gamma")
NODES = tuple(
    Node(
        name,
        {GPU: 4} if place % 5 else {},
        labels={"zone": f"z{place // 6}", "rack": f"r{place // 2}"} if place != 7 else {},
    )
    for place, name in enumerate(["n08", "n09", "n10", "n1", "n2", "gpu-0001", "gpu-0002", "odd", "x", "n11", "n100"])
)
SIGHTS = (
    ALL,
    *(
        Visibility(Identity("u", tuple(Grant(RoleKind.POOL_USER, pool) for pool in pools)))
        for pools in ((), ("alpha",), ("beta",), ("alpha", "gamma"))
    ),
)


@st.composite
def held(draw: st.DrawFn, number: int) -> tuple[Gang, GangState, tuple[Assignment, ...]]:
    pool = draw(st.sampled_from(POOLS))
    numbered = draw(st.booleans())
    shares = []
    for node in draw(st.lists(st.sampled_from([each.name for each in NODES]), unique=True, min_size=1, max_size=5)):
        gpus = draw(st.lists(st.integers(0, 3), unique=True, min_size=1, max_size=4)) if numbered else []
        shares.append(NodeShare(node, len(gpus) if numbered else draw(st.integers(1, 4)), tuple(sorted(gpus))))
    gang = Gang(
        f"{pool}-work-{number}/train", pool, draw(st.sampled_from(Priority)), 1.0, (PodSet("p", 9, ((GPU, 1),)),)
    )
    gang_state = draw(st.sampled_from([GangState.ADMITTED, GangState.NOMINATED, GangState.STOPPING]))
    return gang, gang_state, (Assignment("p", "f", 9, tuple(shares)),)


@st.composite
def looks(draw: st.DrawFn, revision: int = 1) -> Look:
    gangs = [draw(held(number)) for number in sorted(draw(st.sets(st.integers(0, 9), max_size=6)))]
    queued = draw(st.lists(st.tuples(st.sampled_from(POOLS), st.integers(1, 3), st.integers(0, 9)), max_size=4))
    keys = tuple((pool, (("zone", "zone"), ("rack", "rack"))) for pool in POOLS)
    return Look(revision, NODES, frozenset({"n10"}), keys, tuple(gangs), tuple(queued))


def amounts(found: dict[str, list[Any]]) -> dict[tuple[str, int], list[int]]:
    """(id, place) → the masks."""
    sums: dict[tuple[str, int], list[int]] = {}
    for id, record in found.items():
        for place, mask in held_by(record):
            sums.setdefault((id, place), []).append(mask)
    return {key: sorted(masks) for key, masks in sums.items()}


@given(looks(), st.sampled_from(SIGHTS))
def test_board_equals_the_usage_in_the_state(look: Look, sight: Visibility) -> None:
    found = board(look, sight)
    names = [
        f"{head}{number:0{digits}}" if digits else head
        for head, first, digits, count in layout(found)["names"]
        for number in range(first, first + count)
    ]
    places = {name: place for place, name in enumerate(names)}
    assert sorted(names) == sorted(node.name for node in NODES)
    expected: dict[tuple[str, int], list[int]] = {}
    for gang, _, placement in look.held:
        for assignment in placement:
            for share in assignment.shares:
                id = gang.id if sight.sees(gang.pool) else ""
                mask = sum(1 << gpu for gpu in share.gpus) or -share.count
                expected.setdefault((id, places[share.node]), []).append(mask)
    assert amounts(records(found)) == {key: sorted(masks) for key, masks in expected.items()}


@given(st.lists(looks(), min_size=2, max_size=4), st.sampled_from(SIGHTS))
def test_changes_of_the_board_add_up(history: list[Look], sight: Visibility) -> None:
    """What a browser has after all changes is what it would be told now; a change that changes nothing is none."""
    seen = [records(board(look, sight)) for look in history]
    there = seen[0]
    for number, after in enumerate(seen[1:], start=1):
        change = delta(there, after, number, number + 1)
        assert (change is None) == (there == after)
        if change is not None:
            there = {id: record for id, record in there.items() if id not in change["-"]}
            there |= {record[0]: record for record in change["+"]}
        assert there == after


@given(looks(), looks(), st.sampled_from(SIGHTS))
def test_board_contains_no_hidden_names(before: Look, after: Look, sight: Visibility) -> None:
    boards = [board(look, sight) for look in (before, after)]
    told = [layout(each) for each in boards] + [state(each, "t") for each in boards]
    told.append(delta(records(boards[0]), records(boards[1]), 1, 2) or {})
    text = "".join(map(as_json, told)) + repr(boards)
    for pool in POOLS:
        if not sight.sees(pool):
            assert f"{pool}-work" not in text
            assert f"'{pool}'" not in text


@given(looks())
def test_pending_work_is_counted_for_all_users(look: Look) -> None:
    for sight in SIGHTS:
        queued = board(look, sight).queued
        assert sum(each.gangs for each in queued.values()) == sum(gangs for _, gangs, _ in look.queued)
        assert sum(each.gpus for each in queued.values()) == sum(gpus for _, _, gpus in look.queued)
        assert [pool for pool in queued if not sight.sees(pool)] in ([], [""])


def test_board_layout_is_small_and_in_topology_order() -> None:
    nodes = tuple(
        Node(f"n{i:04}", {GPU: 8}, labels={"zone": f"z{i // 500}", "rack": f"r{i // 10}"}) for i in range(1000)
    )
    keys = (("a", (("zone", "zone"), ("rack", "rack"))),)
    found = layout(board(Look(1, nodes, frozenset({"n0003"}), keys, (), ()), ALL))
    assert (found["levels"], found["names"], found["gpus"], found["closed"]) == (
        ["zone", "rack"],
        [["n", 0, 4, 1000]],
        [[8, 1000]],
        [3],
    )
    assert [(label, first, count, len(below)) for label, first, count, below in found["tree"]] == [
        ("z0", 0, 500, 50),
        ("z1", 500, 500, 50),
    ]
    assert [label for label, *_ in found["tree"][0][3]] == [f"r{i}" for i in range(50)], "r9 before r10"
    assert len(as_json(found)) < 3_000


def test_node_with_too_many_gpus_for_a_mask_has_a_count() -> None:
    node = Node("n", {GPU: 64})
    gangs = []
    for first, count in ((0, 53), (53, 2)):
        gang = Gang(f"alpha-work-{first}/train", "alpha", Priority.NORMAL, 1.0, (PodSet("p", 1, ((GPU, count),)),))
        share = NodeShare("n", 1, tuple(range(first, first + count)))
        gangs.append((gang, GangState.ADMITTED, (Assignment("p", "f", 1, (share,)),)))
    found = records(board(Look(1, (node,), frozenset(), (), tuple(gangs), ()), ALL))
    assert [list(held_by(each)) for each in found.values()] == [[(0, 2**53 - 1)], [(0, -2)]]
