"""The one rule that says who may do what (law S5)."""

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
    """Returns what *identity* may do about a pool."""
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
def test_a_role_on_a_pool_is_one_on_its_subpools(role: str, there: set[Permission], pool: str) -> None:
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
def test_no_other_name_is_opened_by_its_beginning(role: str, pool: str) -> None:
    assert may(asking(role), pool) == set()


@given(grant=grants, other=names, tail=st.text(max_size=6))
def test_a_role_of_one_pool_opens_that_pool_and_its_subpools_alone(grant: Grant, other: str, tail: str) -> None:
    identity = Identity("ann", (grant,))
    for pool in (other, f"{grant.pool}{tail}", f"{other}--{tail}"):
        parent, delimiter, short = pool.partition("--")
        inside = parent == grant.pool and (not delimiter or name_problem("subpool", short) is None)
        assert bool(may(identity, pool)) == (grant.pool is None or inside)


@given(roles=st.lists(grants, max_size=4), pool=names)
def test_more_roles_never_allow_less_and_admin_allows_all(roles: list[Grant], pool: str) -> None:
    fewer, more = Identity("ann", tuple(roles[1:])), Identity("ann", tuple(roles))
    assert may(fewer, pool) <= may(more, pool)
    everything = Identity("ann", (*roles, Grant(RoleKind.ADMIN)))
    assert all(allows(everything, each, pool=pool) for each in Permission)


def test_without_a_role_one_may_list_what_one_sees_and_have_tokens() -> None:
    nobody = asking()
    assert may(nobody, "team") == set()
    free = {each for each in Permission if allows(nobody, each)} - OF_A_POOL
    assert free >= {Permission.LIST_POOLS, Permission.OWN_TOKENS}
    assert not free & {Permission.READ_CLUSTER, Permission.CHANGE_CLUSTER, Permission.ACCESS}


def test_the_cluster_is_read_by_all_with_a_role_and_changed_by_admins() -> None:
    for role in ("viewer", "team-viewer", "team-user", "team-admin", "user"):
        who = asking(role)
        assert allows(who, Permission.READ_CLUSTER)
        assert not allows(who, Permission.CHANGE_CLUSTER)
        assert not allows(who, Permission.ACCESS)
    assert allows(asking("admin"), Permission.CHANGE_CLUSTER)
    assert allows(asking("admin"), Permission.ACCESS, owner="bob")


@pytest.mark.parametrize("permission", [Permission.CHANGE_WORKFLOW, Permission.EXEC_WORKFLOW])
def test_who_submitted_a_workflow_may_change_and_enter_it_while_a_role_lasts(permission: Permission) -> None:
    def change(role: str, owner: str, pool: str = "team--a") -> bool:
        return allows(asking(role), permission, pool=pool, owner=owner)

    assert change("team-user", "ann")
    assert not change("team-user", "bob")
    assert change("team-admin", "bob")
    assert not change("viewer", "ann")
    assert not change("team2-user", "ann")


def test_a_role_without_a_pool_is_asked_for_what_belongs_to_no_pool() -> None:
    assert not allows(asking("team-admin"), Permission.READ_POOL)
    assert allows(asking("viewer"), Permission.READ_POOL)
    assert allows(asking("team-admin"), Permission.CHANGE_SUBPOOLS, parent="team")
    assert not allows(asking("team-admin"), Permission.CHANGE_SUBPOOLS, parent="team2")
    assert not allows(asking("team-user"), Permission.CHANGE_SUBPOOLS, parent="team")


@given(grant=grants)
def test_the_name_of_a_role_says_all_of_it(grant: Grant) -> None:
    assert role_named(str(grant)) == grant


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "boss",
            "'boss' is not a role: write admin, viewer, or POOL-admin, POOL-user, POOL-viewer such as vision-user",
        ),
        (
            "team--a-user",
            "'team--a' is a subpool, and a role on a pool is one on all of its subpools: grant it on 'team'",
        ),
        (
            "Team-user",
            "pool name 'Team' must be lower-case letters, digits and '-', start with a letter and not end with '-'",
        ),
        ("", "'' is not a role: write admin, viewer, or POOL-admin, POOL-user, POOL-viewer such as vision-user"),
    ],
)
def test_what_is_no_role_is_refused_with_the_way_out(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        role_named(text)
    assert str(refused.value) == message


@pytest.mark.parametrize("name", ["", " ", "a b", "a/b", "..", "-a", "apply by x", "a\n", "é", "a" * 129])
def test_names_that_could_be_mistaken_are_no_user_names(name: str) -> None:
    assert user_problem(name) is not None


@pytest.mark.parametrize("name", ["ann", "ann.b@example.org", "A-1", "0x", "ann+ci"])
def test_usual_names_are(name: str) -> None:
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
def test_the_default_pool_is_the_one_that_was_set_or_the_only_one(
    own: str | None, pools: list[str], default: str | None
) -> None:
    assert Profile(pool=own).default_of(pools) == default
