"""How users become and stay administrators, and the roles that a cluster file declares."""

from collections.abc import Callable
from pathlib import Path

import pytest

from runrig.domain.access import Grant, RoleKind, role_named
from runrig.domain.errors import Conflict, InvalidInput, NotFound
from runrig.service.access import roles
from runrig.service.access.roles import RoleChanges
from tests.service.access.people import ADMIN, VIEWER, people
from tests.worlds.service import TWO_POOLS, desk

USER1 = Grant(RoleKind.POOL_USER, "pool1")


def test_first_admin_token_is_created_once(any_store: str) -> None:
    with people(any_store) as it:
        token = it.access.tokens.first_admin("root")
        assert (it.ask(token).user, it.ask(token).grants) == ("root", (ADMIN,))
        with pytest.raises(Conflict) as refused:
            it.again().tokens.first_admin("eve")
        assert str(refused.value) == (
            "there are already administrators with valid tokens (root). Ask one of them to run `runrig user create` and "
            "`runrig token create`"
        )
        assert it.trail() == [
            ("runrig", "user created", "root", ""),
            ("runrig", "role granted", "root", "admin"),
            ("runrig", "token created", "root", "first-1800000000"),
        ]


def test_user_whose_tokens_have_all_expired_can_recover_access(any_store: str) -> None:
    with people(any_store) as it:
        it.access.tokens.first_admin("root")
        it.time[0] += 91 * 86_400
        assert it.ask(it.access.tokens.first_admin("root")).grants == (ADMIN,)


def test_disabled_admin_does_not_count(any_store: str) -> None:
    with people(any_store) as it:
        it.token("bob", "admin")
        it.token("carl", "admin")
        it.access.users.set_disabled("bob", True, actor="carl")
        it.access.tokens.revoke("carl", "t", actor="carl")
        token = it.access.tokens.first_admin("bob")
        assert it.ask(token).admin


def test_last_admin_cannot_be_removed(any_store: str) -> None:
    with people(any_store) as it:
        it.token("root", "admin")
        it.access.users.create("bob", actor="root")
        changes: tuple[Callable[[], object], ...] = (
            lambda: it.access.users.set_disabled("root", True, actor="root"),
            lambda: it.access.users.withdraw("root", ADMIN, actor="root"),
            lambda: it.access.users.remove("root", actor="root"),
        )
        for change in changes:
            with pytest.raises(Conflict) as refused:
                change()
            assert (
                str(refused.value)
                == "root is the last administrator. Grant the role to someone else first: `runrig role grant USER admin`"
            )
        it.access.users.grant("bob", ADMIN, actor="root")
        assert it.access.users.withdraw("root", ADMIN, actor="bob").grants == ()


@pytest.mark.parametrize("name", ["engine", "runrig", "serve", "apply by bob", ""])
def test_user_names_cannot_be_names_that_the_log_uses_for_programs(tmp_path: Path, name: str) -> None:
    with people(str(tmp_path / "runrig.db")) as it, pytest.raises(InvalidInput):
        it.access.users.create(name, actor="root")


def test_roles_are_granted_on_existing_pools_only(any_store: str) -> None:
    with people(any_store) as it:
        with pytest.raises(NotFound) as refused:
            it.access.users.create("bob", [role_named("teem-user")], actor="root")
        assert str(refused.value) == "unknown pool 'teem'. Did you mean 'team'?"
        assert it.access.users.all() == ()
        it.access.users.create("bob", [role_named("team2-admin")], actor="root")
        with pytest.raises(NotFound):
            it.access.users.grant("bob", role_named("teem-user"), actor="root")
        with pytest.raises(NotFound) as refused:
            it.access.users.withdraw("bob", role_named("team-admin"), actor="root")
        assert str(refused.value) == "user bob does not have the role team-admin (roles: team2-admin)"
        with pytest.raises(Conflict):
            it.access.users.create("bob", actor="root")


# ---------------------------------------------------------------- cluster files

WITH_ROLES = TWO_POOLS + "roles: [{user: bob, role: user, pool: pool1}, {user: carl, role: viewer}]\n"


def test_a_cluster_file_grants_what_is_missing_and_prunes_what_a_file_granted(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        access, apply = it.service.access, it.service.declarations.apply
        told = [(each.action, each.name) for each in apply(WITH_ROLES, user="ann", dry_run=True) if each.kind == "role"]
        assert told == [("create", "bob pool1-user"), ("create", "carl viewer")]
        assert access.users.all() == ()
        apply(WITH_ROLES, user="ann")
        assert [(row.user, row.grant, row.granted_by) for row in access.users.grants()] == [
            ("bob", USER1, "apply by ann"),
            ("carl", VIEWER, "apply by ann"),
        ]
        access.users.grant("bob", VIEWER, actor="ann")
        fewer = TWO_POOLS + "roles: [{user: bob, role: user, pool: pool1}]\n"
        apply(fewer, user="ann")
        assert len(access.users.grants()) == 3
        told = [(each.action, each.name) for each in apply(fewer, user="ann", prune=True) if each.kind == "role"]
        assert told == [("delete", "carl viewer"), ("unchanged", "bob pool1-user")]
        assert [(row.user, row.grant) for row in access.users.grants()] == [("bob", USER1), ("bob", VIEWER)]


def test_a_file_that_would_prune_the_last_admin_changes_nothing(any_store: str) -> None:
    with people(any_store) as it:
        it.access.users.change_roles([("root", ADMIN)], [], "apply by ann")
        with pytest.raises(Conflict) as refused:
            roles.changes(it.access, (), prune="apply by ")
        assert str(refused.value).startswith("root would lose the role admin, and no other administrator is left")
        found = roles.changes(it.access, [("bob", ADMIN)], prune="apply by ")
        assert found == RoleChanges((("bob", ADMIN),), it.access.users.grants())


def test_file_with_an_invalid_role_changes_no_pool(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        before = it.revision
        with pytest.raises(InvalidInput):
            it.service.declarations.apply(
                "pools: [{name: new, quota: 1}]\nroles: [{user: bob, role: user, pool: pool9}]\n", user="ann"
            )
        assert (it.revision, it.service.access.users.all()) == (before, ())


def test_server_started_with_a_file_has_the_roles_of_the_file(tmp_path: Path) -> None:
    with desk(tmp_path, cluster=WITH_ROLES) as it:
        assert [str(row.grant) for row in it.service.access.users.grants()] == ["pool1-user", "viewer"]
