"""The function that decides who may do what (rule S5)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runrig.domain.access import (
    OF_A_POOL,
    Grant,
    Identity,
    Permission,
    Profile,
    RoleKind,
    allows,
    role_named,
    role_on,
    user_problem,
)
from runrig.domain.errors import InvalidInput
from runrig.domain.pools import name_problem

READING = {Permission.READ_POOL, Permission.READ_WORKFLOW}
WORKING = READING | {Permission.SUBMIT}
MANAGING = WORKING | {
    Permission.CHANGE_WORKFLOW,
    Permission.EXEC_WORKFLOW,
    Permission.CHANGE_SUBPOOLS,
    Permission.CHANGE_POOL,
}

names = st.from_regex(r"[a-z]([a-z0-9]|-(?!-)){0,8}[a-z0-9]", fullmatch=True).filter(
    lambda name: name_problem("pool", name) is None
)
grants = st.one_of(
    st.sampled_from([Grant(RoleKind.ADMIN), Grant(RoleKind.VIEWER), Grant(RoleKind.POOL_USER)]),
    st.builds(role_on, st.sampled_from([RoleKind.VIEWER, RoleKind.POOL_ADMIN, RoleKind.POOL_USER]), names),
)


def asking(*roles: str) -> Identity:
    return Identity("ann", tuple(role_named(role) for role in roles))


def may(identity: Identity, pool: str) -> set[Permission]:
    """The permissions of *identity* on a pool."""
    return {each for each in OF_A_POOL if allows(identity, each, pool=pool)}


@pytest.mark.parametrize(
    ("role", "there"),
    [
        ("team-user", WORKING),
        ("team-admin", MANAGING),
        ("team-viewer", READING),
        ("admin", MANAGING),
        ("viewer", READING),
        ("user", WORKING),
    ],
)
@pytest.mark.parametrize("pool", ["team", "team--a", "team--a-b"])
def test_a_role_on_a_pool_covers_its_subpools(role: str, there: set[Permission], pool: str) -> None:
    assert may(asking(role), pool) == there


@pytest.mark.parametrize("role", ["team-user", "team-admin", "team-viewer"])
@pytest.mark.parametrize(
    "pool",
    [
        "team2",
        "team2--a",
        "tea",
        "team-",
        "team-a",
        "team--",
        "team---a",
        "team--a--b",
        "team--a/../b",
        "team--A",
        "team--a ",
        "team\0--a",
        "TEAM",
        "a--team",
        "",
    ],
)
def test_pool_names_are_not_matched_by_prefix(role: str, pool: str) -> None:
    assert may(asking(role), pool) == set()


@given(grant=grants, other=names, tail=st.text(max_size=6))
def test_a_pool_role_covers_only_that_pool_and_its_subpools(grant: Grant, other: str, tail: str) -> None:
    identity = Identity("ann", (grant,))
    for pool in (other, f"{grant.pool}{tail}", f"{other}--{tail}"):
        parent, delimiter, short = pool.partition("--")
        inside = parent == grant.pool and (not delimiter or name_problem("subpool", short) is None)
        assert bool(may(identity, pool)) == (grant.pool is None or inside)


@given(roles=st.lists(grants, max_size=4), pool=names)
def test_more_roles_never_allow_less_and_admin_allows_everything(roles: list[Grant], pool: str) -> None:
    fewer, more = Identity("ann", tuple(roles[1:])), Identity("ann", tuple(roles))
    assert may(fewer, pool) <= may(more, pool)
    everything = Identity("ann", (*roles, Grant(RoleKind.ADMIN)))
    assert all(allows(everything, each, pool=pool) for each in Permission)


def test_users_without_roles_can_list_visible_pools_and_have_tokens() -> None:
    nobody = asking()
    assert may(nobody, "team") == set()
    free = {each for each in Permission if allows(nobody, each)} - OF_A_POOL.keys()
    assert free >= {Permission.LIST_POOLS, Permission.OWN_TOKENS}
    assert not free & {Permission.READ_CLUSTER, Permission.CHANGE_CLUSTER, Permission.ACCESS}


def test_any_role_can_read_the_cluster_and_only_admins_change_it() -> None:
    for role in ("viewer", "team-viewer", "team-user", "team-admin", "user"):
        who = asking(role)
        assert allows(who, Permission.READ_CLUSTER)
        assert not allows(who, Permission.CHANGE_CLUSTER)
        assert not allows(who, Permission.ACCESS)
    assert allows(asking("admin"), Permission.CHANGE_CLUSTER)
    assert allows(asking("admin"), Permission.ACCESS, owner="bob")


@pytest.mark.parametrize("permission", [Permission.CHANGE_WORKFLOW, Permission.EXEC_WORKFLOW])
def test_submitters_can_change_and_enter_their_workflows_while_they_have_a_role(permission: Permission) -> None:
    def change(role: str, owner: str, pool: str = "team--a") -> bool:
        return allows(asking(role), permission, pool=pool, owner=owner)

    assert change("team-user", "ann")
    assert not change("team-user", "bob")
    assert change("team-admin", "bob")
    assert not change("viewer", "ann")
    assert not change("team2-user", "ann")


def test_only_a_global_role_covers_what_belongs_to_no_pool() -> None:
    assert not allows(asking("team-admin"), Permission.READ_POOL)
    assert allows(asking("viewer"), Permission.READ_POOL)
    assert allows(asking("team-admin"), Permission.CHANGE_SUBPOOLS, pool="team")
    assert not allows(asking("team-admin"), Permission.CHANGE_SUBPOOLS, pool="team2")
    assert not allows(asking("team-user"), Permission.CHANGE_SUBPOOLS, pool="team")


@given(grant=grants)
def test_role_names_contain_the_kind_and_the_pool(grant: Grant) -> None:
    assert role_named(str(grant)) == grant


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("boss", "'boss' is not a role: use admin, viewer, or POOL-admin, POOL-user, POOL-viewer such as vision-user"),
        (
            "team--a-user",
            "'team--a' is a subpool, but roles are granted on top-level pools and cover their subpools. Grant it on 'team'",
        ),
        (
            "Team-user",
            "pool name 'Team' must be lower-case letters, digits and '-', start with a letter and not end with '-'",
        ),
        ("", "'' is not a role: use admin, viewer, or POOL-admin, POOL-user, POOL-viewer such as vision-user"),
    ],
)
def test_invalid_role_names_are_rejected_with_a_hint(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        role_named(text)
    assert str(refused.value) == message


@pytest.mark.parametrize("name", ["", " ", "a b", "a/b", "..", "-a", "apply by x", "a\n", "é", "a" * 129])
def test_ambiguous_user_names_are_rejected(name: str) -> None:
    assert user_problem(name) is not None


@pytest.mark.parametrize("name", ["ann", "ann.b@example.org", "A-1", "0x", "ann+ci"])
def test_common_user_names_are_valid(name: str) -> None:
    assert user_problem(name) is None


@pytest.mark.parametrize(
    ("own", "pools", "default"),
    [
        (None, ["team", "team--a", "team--b"], "team"),
        (None, ["team", "other"], None),
        (None, ["team--a"], None),
        (None, [], None),
        ("other", ["team", "other"], "other"),
        ("team--a", ["team", "team--a"], "team--a"),
        ("gone", ["team", "team--a"], "team"),
        ("gone", ["team", "other"], None),
    ],
)
def test_the_default_pool_is_the_chosen_one_or_the_only_one(
    own: str | None, pools: list[str], default: str | None
) -> None:
    assert Profile(pool=own).default_of(pools) == default
