"""People sign in at a real provider of identities, by HTTP, forms and redirects: Django OAuth Toolkit on loopback."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from runrig.domain.access import Identity, SignIn, role_named
from runrig.domain.errors import Conflict, InvalidInput, NotAllowed, NotFound, NotLoggedIn
from runrig.service.access import jwts
from runrig.service.access.access import Access
from runrig.service.access.oidc.fetching import ProviderSilent
from runrig.service.access.oidc.provider import SEARCH_EVERY_S, Pending, Provider
from runrig.service.access.oidc.sign_ins import SignIns
from tests.provider.access import ELSEWHERE, Asked, Signing, settings, signing
from tests.provider.running import CODES, DEVICES, Browser, Running, provider

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with provider(tmp_path_factory.mktemp("provider")) as it:
        yield it


@pytest.fixture
def it(running: Running, tmp_path: Path) -> Iterator[Signing]:
    running.groups(alice=["ml", "choir"], bob=[])
    with signing(tmp_path, settings(running.issuer)) as made:
        yield made


def test_groups_become_roles_for_fifteen_minutes_and_unknown_groups_are_ignored(it: Signing) -> None:
    found = it.sign_in(Browser("alice"))
    roles = (role_named("team-user"),)
    assert it.ask(found.token) == Identity("oidc:alice", roles, sign_in=SignIn(roles, found.ends_at))
    assert 0 <= it.access.now() + 900 - found.ends_at < 10
    assert it.access.users.get("oidc:alice").account == f"{it.spec.issuer}#{_subject(it, 'oidc:alice')}"
    assert it.access.users.get("oidc:alice").grants == ()
    assert it.roles(it.sign_in(Browser("bob")).token) == []
    assert [(each.what.value, each.user) for each in reversed(it.access.events())] == [
        ("user created", "oidc:alice"),
        ("signed in", "oidc:alice"),
        ("user created", "oidc:bob"),
        ("signed in", "oidc:bob"),
    ]


def test_stream_continues_while_the_sign_in_is_renewed_with_its_current_groups(it: Signing, running: Running) -> None:
    first = it.sign_in(Browser("alice"))
    identity = it.ask(first.token)
    it.shift[0] = 200
    running.groups(alice=["heads"])
    second = it.renewed(first)
    it.shift[0] += first.ends_at - it.access.now() + 1  # the first token has expired, the second has not
    with pytest.raises(NotLoggedIn):
        it.ask(first.token)
    present = it.access.authentication.present(identity)
    assert present is not None
    assert [str(each) for each in present.grants] == ["team-admin", "viewer"]
    it.access.users.set_disabled("oidc:alice", True, actor="root")
    assert it.access.authentication.present(identity) is None
    with pytest.raises(NotLoggedIn):
        it.ask(second.token)
    it.access.users.set_disabled("oidc:alice", False, actor="root")
    it.shift[0] += second.ends_at - it.access.now() + 1
    assert it.access.authentication.present(identity) is None


def _subject(it: Signing, user: str) -> str:
    return str(it.access.users.get(user).account).partition("#")[2]


def test_a_withdrawn_group_is_gone_with_the_next_token(it: Signing, running: Running) -> None:
    first = it.sign_in(Browser("alice"))
    running.groups(alice=["heads", "ml"])
    second = it.renewed(first)
    assert (it.roles(first.token), it.roles(second.token)) == (["team-user"], ["team-user", "team-admin", "viewer"])
    running.groups(alice=[])
    third = it.renewed(second)
    assert (it.roles(third.token), third.user) == ([], "oidc:alice")
    it.shift[0] = jwts.SIGN_IN_S + 1
    for old in (first, second, third):
        with pytest.raises(NotLoggedIn):
            it.ask(old.token)


def test_code_works_once_and_only_for_its_client(it: Signing) -> None:
    browser, asked = Browser("alice"), Asked()
    code = asked.code(it, browser)
    it.by(asked, code)
    with pytest.raises(NotAllowed, match=r"the identity provider refused: invalid_grant"):
        it.by(asked, code)
    other = Asked()
    with pytest.raises(NotAllowed, match="invalid_grant"):
        it.by(asked, other.code(it, browser))  # the verifier of another request
    with pytest.raises(NotAllowed, match="the nonce belongs to another sign-in"):
        it.by(other, other.code(it, browser), nonce=asked.nonce)


def test_code_for_another_client_is_refused(it: Signing) -> None:
    asked = Asked(client="elsewhere")
    with pytest.raises(NotAllowed, match="invalid_grant"):
        it.by(asked, asked.code(it, Browser("alice")))


@pytest.mark.parametrize(
    "uri",
    [
        "https://evil.example.org/",
        "http://runrig.example.org/",
        "https://runrig.example.org.evil.org/",
        "https://runrig.example.org@evil.org/",
        "http://127.0.0.1@evil.org/",
        "http://localhost:80/",
        "http://127.0.0.1:45555/#x",
        "//evil.org/",
        "http://[::1",
    ],
)
def test_code_sent_to_another_address_is_refused(it: Signing, uri: str) -> None:
    with pytest.raises(InvalidInput, match="It must be on loopback or on https://runrig"):
        it.by(Asked(), "x", redirect_uri=uri)


def test_sign_in_may_return_to_the_page_of_this_server(it: Signing) -> None:
    with pytest.raises(NotAllowed, match="invalid_grant"):  # the provider is asked, and does not know the code
        it.by(Asked(), "x", redirect_uri="https://runrig.example.org/signed-in")


def test_refresh_token_works_once(it: Signing) -> None:
    first = it.sign_in(Browser("alice"))
    second = it.renewed(first)
    assert second.refresh_token != first.refresh_token
    with pytest.raises(NotAllowed, match="invalid_grant"):
        it.renewed(first)


def test_rotated_keys_are_fetched_but_not_for_every_token(it: Signing, running: Running) -> None:
    time = [0.0]
    access = it.access
    access._sign_ins = SignIns(it.spec, access._accounts, access.authentication.key, Provider(it.spec, lambda: time[0]))
    found = it.sign_in(Browser("alice"))
    running.rotate()
    found = it.renewed(found)
    running.rotate()
    with pytest.raises(
        NotAllowed, match=r"is signed with key '.*' for RS256, which the identity provider does not publish"
    ):
        it.renewed(found)
    time[0] += SEARCH_EVERY_S
    assert it.roles(it.sign_in(Browser("alice")).token) == ["team-user"]


def test_local_user_with_the_same_name_is_a_different_user(it: Signing) -> None:
    it.access.users.create("alice", [role_named("admin")], actor="root")
    assert it.sign_in(Browser("alice")).user == "oidc:alice"
    assert str(it.access.users.get("alice").grants[0]) == "admin"
    with pytest.raises(InvalidInput, match="must be letters"):
        it.access.users.create("oidc:carl", actor="root")


def test_user_name_stays_with_its_account(it: Signing, running: Running) -> None:
    assert it.sign_in(Browser("alice")).user == "oidc:alice"
    running.rename(alice="carol", bob="alice")
    try:
        assert it.sign_in(Browser("carol")).user == "oidc:alice"
        assert it.sign_in(Browser("alice")).user == "oidc:alice-2"
    finally:
        running.rename(alice="bob")
        running.rename(carol="alice")
    assert it.access.users.get("oidc:alice").account != it.access.users.get("oidc:alice-2").account


def test_an_account_is_known_after_a_restart(it: Signing) -> None:
    found = it.sign_in(Browser("alice"))
    again = Access(it.access._accounts._store, now=it.access.now, oidc=it.spec)
    assert again.authentication.authenticate(found.token, ELSEWHERE) == it.ask(found.token)
    assert again.users.get("oidc:alice") == it.access.users.get("oidc:alice")


def test_roles_granted_on_this_server_are_added(it: Signing) -> None:
    found = it.sign_in(Browser("alice"))
    it.access.users.grant("oidc:alice", role_named("team2-user"), actor="root")
    assert it.roles(found.token) == ["team2-user", "team-user"]


def test_disabled_user_cannot_renew_a_sign_in(it: Signing) -> None:
    found = it.sign_in(Browser("alice"))
    it.access.users.set_disabled("oidc:alice", True, actor="root")
    with pytest.raises(NotAllowed, match="user oidc:alice is disabled on this server"):
        it.renewed(found)


def test_no_token_outlives_the_sign_in(it: Signing) -> None:
    found = it.sign_in(Browser("alice"))
    for actor in ("oidc:alice", "root"):
        with pytest.raises(Conflict, match="oidc:alice uses single sign-on and cannot have access tokens"):
            it.access.tokens.create("oidc:alice", "laptop", actor=actor)
    with pytest.raises(NotLoggedIn):
        it.access.authentication.exchange(found.token, ELSEWHERE)


def test_server_without_a_provider_rejects_earlier_sign_ins(it: Signing) -> None:
    found = it.sign_in(Browser("alice"))
    without = Access(it.access._accounts._store, now=it.access.now)
    with pytest.raises(NotLoggedIn):
        without.authentication.authenticate(found.token, ELSEWHERE)
    with pytest.raises(NotFound, match="single sign-on is not configured"):
        without.sign_ins  # noqa: B018 - asking raises


def test_device_sign_in_works_without_a_browser(it: Signing, running: Running) -> None:
    running.knows(DEVICES)
    try:
        started = it.signs.start_device(ELSEWHERE)
        with pytest.raises(Pending):
            it.signs.by_device(started.device_code, ELSEWHERE)
        Browser("alice").open(
            started.verification_uri, f"{running.issuer}/device-grant-status", user_code=started.user_code
        )
        found = it.signs.by_device(started.device_code, ELSEWHERE)
        assert (found.user, it.roles(found.token)) == ("oidc:alice", ["team-user"])
        assert it.roles(it.renewed(found).token) == ["team-user"]
    finally:
        running.knows(CODES)


def test_tokens_stay_valid_while_the_provider_is_down(it: Signing, tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    with provider(tmp_path / "p") as mortal, signing(tmp_path / "p", settings(mortal.issuer)) as other:
        found = other.sign_in(Browser("alice"))
        mortal.process.kill()
        mortal.process.wait()
        with pytest.raises(ProviderSilent, match="the identity provider does not respond at http:"):
            other.renewed(found)
        assert other.ask(found.token).user == "oidc:alice"
