"""Browsers that are signed in: what a cookie is good for, and until when."""

import pytest

from runrig.domain.access import DEV_LOGIN, Grant, Identity, RoleKind
from runrig.domain.errors import NotAllowed, NotLoggedIn, TooMany
from runrig.service.access import browser_sessions
from runrig.service.access.access import Access
from runrig.store import backup, schema
from tests.patience import until
from tests.service.access.people import People, people

HERE = "192.0.2.1"


def good(access: Access, cookie: str) -> bool:
    try:
        access.browsers.visiting(cookie, None)
    except NotLoggedIn:
        return False
    return True


def begun(it: People, user: str = "bob", role: str = "admin") -> tuple[str, str]:
    """(token, cookie)"""
    token = it.token(user, role, expires_in_s=None)
    return token, it.access.browsers.enter(token, HERE)


def test_session_belongs_to_the_user_of_its_token_and_survives_a_restart(any_store: str) -> None:
    with people(any_store) as it:
        token, cookie = begun(it)
        assert it.access.browsers.visiting(cookie, None) == it.ask(token)
        assert it.again().browsers.visiting(cookie, None) == it.ask(token)
        assert cookie not in repr(it.access.browsers._sessions)
        assert it.trail()[-1] == ("bob", "signed in", "bob", "page")


def test_second_secret_is_required_wherever_it_is_configured(any_store: str) -> None:
    with people(any_store) as it:
        _, cookie = begun(it)
        _, other = begun(it, "carl")
        secret = it.access.browsers.csrf(cookie)
        assert it.access.browsers.visiting(cookie, secret).user == "bob"
        for wrong in ("", secret[:-1], secret.upper() + "x", it.access.browsers.csrf(other), cookie, "ä"):
            with pytest.raises(NotLoggedIn):
                it.access.browsers.visiting(cookie, wrong)


def test_session_ends_with_its_token_with_its_user_and_on_logout(any_store: str) -> None:
    with people(any_store) as it:
        it.token("root", "admin")
        _, revoked = begun(it, "bob")
        _, disabled = begun(it, "carl")
        _, ended = begun(it, "dora")
        it.access.tokens.revoke("bob", "t", actor="root")
        it.access.users.set_disabled("carl", True, actor="root")
        it.access.browsers.end(ended)
        for access in (it.access, it.again()):
            assert [good(access, each) for each in (revoked, disabled, ended)] == [False] * 3


def test_it_ends_after_a_week_and_after_half_a_day_without_a_request(any_store: str) -> None:
    with people(any_store) as it:
        _, idle = begun(it, "bob")
        _, busy = begun(it, "carl")
        for _ in range(14):
            it.time[0] += 11.9 * 3600
            assert good(it.access, busy)
        it.time[0] += 1.5 * 3600
        assert [good(it.access, idle), good(it.access, busy)] == [False, False]


def test_last_use_of_a_session_is_stored(any_store: str) -> None:
    with people(any_store) as it:
        _, cookie = begun(it)
        it.time[0] += 8 * 3600
        assert good(it.access, cookie)
        until(lambda: it.store.access.sessions()[0].seen_at == it.time[0])
        it.time[0] += 8 * 3600
        assert good(it.again(), cookie)


def test_revoked_role_is_removed_from_the_session(any_store: str) -> None:
    with people(any_store) as it:
        it.token("root", "admin")
        _, cookie = begun(it, "bob", "viewer")
        it.access.users.withdraw("bob", Grant(RoleKind.VIEWER), actor="root")
        assert it.access.browsers.visiting(cookie, None).grants == ()


def test_code_signs_in_once_and_within_a_minute(any_store: str) -> None:
    with people(any_store) as it:
        identity = it.ask(it.token("bob", "admin"))
        code = it.access.browsers.make_code(identity)
        assert it.access.browsers.visiting(it.access.browsers.enter(code, HERE), None) == identity
        late = it.access.browsers.make_code(identity)
        it.time[0] += browser_sessions.CODE_S
        for gone in (code, late):
            with pytest.raises(NotLoggedIn):
                it.access.browsers.enter(gone, HERE)


def test_code_of_a_disabled_user_does_not_work(any_store: str) -> None:
    with people(any_store) as it:
        it.token("root", "admin")
        code = it.access.browsers.make_code(it.ask(it.token("bob", "admin")))
        it.access.tokens.revoke("bob", "t", actor="root")
        with pytest.raises(NotLoggedIn):
            it.access.browsers.enter(code, HERE)


def test_short_lived_token_cannot_become_a_long_session(any_store: str) -> None:
    with people(any_store) as it:
        jwt, _ = it.access.authentication.exchange(it.token("bob", "admin"), HERE)
        with pytest.raises(NotLoggedIn, match="too short-lived"):
            it.access.browsers.enter(jwt, HERE)
        with pytest.raises(NotAllowed, match="without a token"):
            it.access.browsers.make_code(Identity("dev", (Grant(RoleKind.POOL_USER),), DEV_LOGIN))


def test_session_of_the_owner_of_up_survives_a_restart_but_not_a_new_token(any_store: str) -> None:
    with people(any_store) as it:
        it.access.authentication.let_in("first", "ann")
        cookie = it.access.browsers.enter("first", HERE)
        assert it.access.browsers.visiting(cookie, None).speaks_for_others
        again = it.again()
        assert not good(again, cookie)
        again.authentication.let_in("first", "ann")
        assert good(again, cookie)
        again.authentication.let_in("second", "ann")
        assert not good(again, cookie)


def test_ten_thousand_failed_logins_are_counted_and_lock_out_no_valid_token(any_store: str) -> None:
    with people(any_store) as it:
        token = it.token("bob", "admin")
        found: list[type[Exception]] = []
        for number in range(10_000):
            try:
                it.access.browsers.enter(f"wrong-{number}", HERE)
            except (NotLoggedIn, TooMany) as error:
                found.append(type(error))
        assert found[:10] == [NotLoggedIn] * 10
        assert set(found[10:]) == {TooMany}
        assert good(it.access, it.access.browsers.enter(token, HERE))


def test_number_of_sessions_of_a_user_is_limited(any_store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser_sessions, "MOST", 3)
    with people(any_store) as it:
        token, first = begun(it)
        others = []
        for _ in range(3):
            it.time[0] += 1
            others.append(it.access.browsers.enter(token, HERE))
        assert [good(it.access, each) for each in (first, *others)] == [False, True, True, True]
        assert len(it.store.access.sessions()) == 3


def test_session_ends_with_its_token_when_that_expires(any_store: str) -> None:
    with people(any_store) as it:
        cookie = it.access.browsers.enter(it.token("bob", "admin", expires_in_s=1000.0), HERE)
        it.time[0] += 999
        assert good(it.access, cookie)
        it.time[0] += 1
        assert not good(it.access, cookie)


def test_sessions_in_a_backup_do_not_work() -> None:
    assert schema.browser_sessions not in backup.TABLES
