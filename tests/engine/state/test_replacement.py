"""Pods of lost nodes in cases with known results: another node in the domain or none, and the remaining pods
(docs/conformance.md).
"""

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from runrig.domain.workflows import Status, TaskSpec
from tests.properties.losses import submit, told, turn
from tests.worlds.placement import PLENTY, city, one_by_one, pods, stand


class Case(NamedTuple):
    """*stands*: pod set → node → pods, before the nodes *gone* are lost. *then*: the node of each pod; None if its
    domain has no room.
    """

    drawn: str
    levels: tuple[str, ...]
    tasks: tuple[TaskSpec, ...]
    stands: Mapping[str, Mapping[str, int]]
    gone: tuple[str, ...]
    then: Mapping[str, list[str]] | None


CASES = {
    "replacement-1: a pod that needs one host goes to the other": Case(
        "one: 1 | two: 1", ("host",), (pods("main", 1, 1, "host"),), {"main": {"n0": 1}}, ("n0",), {"main": ["n1"]}
    ),
    "replacement-2: so do both of a pair, if it was on the lost host whole": Case(
        "one: 2 | two: 2 | three: 1",
        ("host",),
        (pods("main", 2, 1, "host"),),
        {"main": {"n0": 2}},
        ("n0",),
        {"main": ["n1", "n1"]},
    ),
    "replacement-3: two free hosts of one pod are none for a slice of two": Case(
        "b/r1/s1: 2 | b/r1/s2: 2 | b/r2/s3: 2 | b/r2/s4: 2 | b/r2/s5: 1 | b/r2/s6: 1",
        ("block", "rack", "host"),
        (pods("main", 8, 1, "block", "rack*4", "host*2"),),
        {"main": {"n0": 2, "n1": 2, "n2": 2, "n3": 2}},
        ("n2",),
        None,
    ),
    "replacement-4: in three layers of slices the lost two go beside their own switch's others": Case(
        "b/r1/s1/h1: 4 | b/r1/s1/h2: 4 | b/r1/s2/h3: 4 | b/r1/s2/h4: 8 | b/r2/s3/h5: 4 | b/r2/s3/h6: 4 | b/r2/s4/h7: 4 | b/r2/s4/h8: 4",
        ("block", "rack", "switch", "host"),
        (pods("main", 16, 1, "block", "rack*8", "switch*4", "host*2"),),
        {"main": {f"n{at}": 2 for at in range(8)}},
        ("n2",),
        {"main": ["n0", "n0", "n1", "n1", "n3", "n3", "n3", "n3", *(f"n{at}" for at in (4, 4, 5, 5, 6, 6, 7, 7))]},
    ),
    "replacement-5: a rack whose name begins with that of the own one is another rack": Case(
        "b/rack-a: 1 1 | b/rack-ab: 1",
        ("block", "rack"),
        (pods("main", 2, 1, "rack"),),
        {"main": {"n0": 1, "n1": 1}},
        ("n0",),
        None,
    ),
    "elastic-1: nothing of a leader and its workers moves while their nodes stand": Case(
        "one: 4 | two: 4 | three: 4",
        ("host",),
        (pods("leader", 1, 1), pods("workers", 3, 1)),
        {"leader": {"n1": 1}, "workers": {"n0": 2, "n1": 1}},
        ("n2",),
        {"leader": ["n1"], "workers": ["n0", "n0", "n1"]},
    ),
    "elastic-2: nor of a single pod set": Case(
        "one: 4 | two: 4 | three: 4",
        ("host",),
        (pods("main", 3, 1),),
        {"main": {"n0": 2, "n1": 1}},
        ("n2",),
        {"main": ["n0", "n0", "n1"]},
    ),
    "elastic-3: workers without a node go where there is room, the others stay": Case(
        "one: 2 | two: 1 | three: 2 | four: 2",
        ("host",),
        (pods("leader", 1, 1), pods("workers", 4, 1)),
        {"leader": {"n1": 1}, "workers": {"n0": 2, "n3": 2}},
        ("n3",),
        {"leader": ["n1"], "workers": ["n0", "n0", "n2", "n2"]},
    ),
    "elastic-4: a leader whose node is deleted goes elsewhere, its workers stay": Case(
        "one: 2 | two: 3 | three: 3 | deleted: 1",
        ("host",),
        (pods("leader", 1, 1), pods("workers", 4, 1)),
        {"leader": {"n3": 1}, "workers": {"n0": 2, "n1": 2}},
        ("n3",),
        {"leader": ["n1"], "workers": ["n0", "n0", "n1", "n1"]},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_pods_of_lost_nodes_are_replaced_as_expected(case: Case) -> None:
    """T1, T2."""
    world = city(case.drawn, case.levels, team=PLENTY)
    submit(world, "w", *case.tasks)
    stand(world, "w", case.stands)
    turn(world)
    actions = told(world, turn(world, *case.gone))
    if case.then is None:
        assert actions == ["stop w"]
        turn(world)
        assert world.state.groups["w-1", "g"].attempt == 1
        assert world.status("w-1") == [Status.SCHEDULING]
    else:
        moved = any(node in case.gone for shares in case.stands.values() for node in shares)
        assert actions == (["replace w"] if moved else [])
        assert one_by_one(world, "w") == case.then
