"""What is declared, written as a cluster file, is declared by that file: for any tree."""

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from runrig.domain.access import Grant, RoleKind
from runrig.domain.cluster import ClusterSpec
from runrig.domain.nodes import Flavor, Taint
from runrig.domain.pools import (
    HOSTNAME,
    BudgetReached,
    Cohort,
    Pool,
    PoolState,
    Queueing,
    Quota,
    Quotas,
    TopologyKey,
    subpool_of,
)
from runrig.domain.quantities import CPU, GPU, LARGEST, MEMORY, FlavorResource
from runrig.engine.lifecycle import pools
from runrig.engine.state.state import State
from runrig.spec.cluster import read_cluster
from runrig.spec.export import cluster_text

FPGA = "example.com/fpga"
COHORTS = ("org", "left", "right", "on")  # a YAML 1.1 reader takes the last one for true
RESOURCES = (GPU, GPU, CPU, MEMORY, FPGA)
FLAVORS = (
    (Flavor("default"),),
    (
        Flavor("h100", {"gpu": "h100", "n": "1"}, (Taint("reserved", "yes", "NoSchedule"),), ("privileged",), 0),
        Flavor("b200", {"gpu": "b200"}, (), ("hostNetwork", "volumeMounts"), 1),
    ),
)
amounts = st.one_of(
    st.integers(0, 20), st.integers(0, 2**40), st.sampled_from((1, 1001, 2**30, 3 * 2**29, 10**18, 2**62, LARGEST))
)
texts = st.text(st.characters(codec="utf-8", exclude_characters="<>"), max_size=12).filter(str.isprintable)


@st.composite
def quotas(draw: Callable[..., Any], flavors: tuple[str, ...]) -> Quotas:
    keys = draw(st.sets(st.builds(FlavorResource, st.sampled_from(flavors), st.sampled_from(RESOURCES))))
    limits = st.none() | amounts
    return {key: Quota(draw(amounts), draw(limits), draw(limits)) for key in sorted(keys)}


@st.composite
def trees(draw: Callable[..., Any]) -> ClusterSpec:
    flavors = draw(st.sampled_from(FLAVORS))
    names = tuple(flavor.name for flavor in flavors)
    cohorts = tuple(
        Cohort(name, draw(st.sampled_from((None, *COHORTS[:at]))), draw(quotas(names)), draw(st.integers(1, 3)))
        for at, name in enumerate(COHORTS)
        if draw(st.booleans())
    )
    tops = [draw(tops_of(name, names)) for name in ("team", "y", "null")]
    below = [subpool for top in tops for subpool in draw(subpools_of(top))]
    return ClusterSpec(flavors=flavors, cohorts=cohorts, pools=(*tops, *below))


@st.composite
def tops_of(draw: Callable[..., Any], name: str, flavors: tuple[str, ...]) -> Pool:
    own = tuple(draw(st.permutations(draw(st.lists(st.sampled_from(flavors), unique=True)))))
    keys = (TopologyKey("rack", "example.com/rack"), TopologyKey("host", HOSTNAME))
    return Pool(
        name,
        draw(quotas(own or flavors)),
        cohort=draw(st.sampled_from((None, *COHORTS, "undeclared"))),
        weight=draw(st.integers(1, 3)),
        queueing=draw(st.sampled_from(Queueing)),
        grace_s=draw(st.sampled_from((0.0, 0.25, 30.0, 600.0))),
        flavors=own,
        topology_keys=draw(st.sampled_from(((), keys, keys[1:]))),
        default_platform=draw(st.sampled_from((None, *(own or flavors)))),
        default_exit_actions=draw(
            st.sampled_from(((), (("RESCHEDULE", 3006, 3006), ("RESCHEDULE", 1, 9), ("FAIL", 0, 255))))
        ),
        description=draw(texts),
        default_run_time_s=draw(st.sampled_from((None, 0.5, 3600.0))),
        max_run_time_s=draw(st.sampled_from((None, 3600.0, 100_000.25))),
        user_waiting=draw(st.sampled_from((None, 1, 20))),
        gpus_per_workflow=draw(st.sampled_from((None, 64))),
        budget=draw(st.sampled_from((None, 1000))),
        budget_reached=draw(st.sampled_from((None, *BudgetReached))),
        default_image=draw(st.sampled_from((None, "ubuntu:24.04", "ghcr.io/x/y@sha256:0123"))),
        shell_idle_s=draw(st.sampled_from((None, 1800.0))),
    )


@st.composite
def subpools_of(draw: Callable[..., Any], top: Pool) -> list[Pool]:
    left = {key.flavor: quota.nominal for key, quota in top.quotas.items() if key.resource == GPU}
    found = []
    for short in draw(st.lists(st.sampled_from(("a", "b", "no")), unique=True)):
        share = {flavor: draw(st.integers(0, most)) for flavor, most in left.items()}
        left = {flavor: most - share[flavor] for flavor, most in left.items()}
        found.append(subpool_of(top, short, share))
    return found


def declared(spec: ClusterSpec) -> State:
    state = State(place=True)
    state.apply_all(pools.declare(state, spec).actions, 0.0)
    return state


def exported(state: State, grants: tuple[tuple[str, Grant], ...] = ()) -> str:
    return cluster_text(state.flavors.values(), state.cohorts.values(), state.pools.values(), grants)


@given(trees())
@settings(deadline=None)
def test_export_changes_nothing_and_reproduces_the_state_on_an_empty_server(tree: ClusterSpec) -> None:
    state = declared(tree)
    text = exported(state)
    spec = read_cluster(text, resources=(FPGA,))
    assert pools.declare(state, spec).actions == (), text
    again = declared(spec)
    assert exported(again) == text
    assert (again.pools, again.cohorts, again.flavors) == (state.pools, state.cohorts, state.flavors)


def test_deleted_pools_and_roles_on_them_are_not_exported() -> None:
    gone = Pool("gone", state=PoolState.ARCHIVED)
    team = Pool("team", {FlavorResource("default", GPU): Quota(4)})
    going = subpool_of(team, "a", {"default": 1}, PoolState.DELETING)
    grants = (
        ("ada", Grant(RoleKind.ADMIN)),
        ("kim", Grant(RoleKind.POOL_ADMIN, "team")),
        ("tom", Grant(RoleKind.POOL_USER, "team")),
        ("tom", Grant(RoleKind.POOL_USER, "gone")),
        ("vera", Grant(RoleKind.VIEWER)),
    )
    text = cluster_text((Flavor("default"),), (), (gone, team, going), grants)
    assert text == (
        "pools:\n- name: team\n  quota:\n    default:\n      gpu: {nominal: 4}\n"
        "roles:\n- {user: ada, role: admin}\n- {user: kim, role: admin, pool: team}\n"
        "- {user: tom, role: user, pool: team}\n- {user: vera, role: viewer}\n"
    )
    assert read_cluster(text).roles == tuple(each for each in grants if each[1].pool != "gone")
