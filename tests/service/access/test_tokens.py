"""The life of a token, on both stores."""

import hashlib
import logging
import re
import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runrig.domain.access import Identity, TokenRow, role_named
from runrig.domain.errors import Conflict, InvalidInput, NotFound, NotLoggedIn, ServerFault
from runrig.service.access.tokens import MOST_TOKENS
from tests.service.access.people import ADMIN, ELSEWHERE, VIEWER, people
from tests.worlds.service import T0


def test_token_grants_its_user_their_current_roles(any_store: str) -> None:
    with people(any_store) as it:
        token = it.token("bob", "team-user")
        row = it.access.tokens.of("bob")[0]
        assert re.fullmatch(r"[A-Za-z0-9_-]{43}", token)
        assert it.ask(token) == Identity("bob", (role_named("team-user"),), row.id)
        it.access.users.grant("bob", VIEWER, actor="root")
        assert it.ask(token).grants == (role_named("team-user"), VIEWER)
        it.access.users.withdraw("bob", role_named("team-user"), actor="root")
        assert it.ask(token).grants == (VIEWER,)


def test_only_the_hash_of_a_token_is_stored(any_store: str, tmp_path: Path) -> None:
    with people(any_store) as it:
        token = it.token("bob")
        assert it.access.tokens.of("bob") == (
            TokenRow(
                it.access.tokens.of("bob")[0].id, "t", "bob", hashlib.sha256(token.encode()).hexdigest(), T0, T0 + 1000
            ),
        )
        assert token not in repr(it.store.access.load())
    for file in (tmp_path / "data").glob("*"):
        assert token.encode() not in file.read_bytes()


def test_tokens_roles_and_users_survive_a_restart(any_store: str) -> None:
    with people(any_store) as it:
        token = it.token("bob", "team-user", "viewer")
        it.access.users.create("carl", actor="root")
        it.access.users.set_disabled("carl", True, actor="root")
        later = it.again()
        assert later.authentication.authenticate(token, ELSEWHERE) == it.ask(token)
        assert later.users.all() == it.access.users.all()
        assert later.users.grants() == it.access.users.grants()


def test_token_expires_at_its_time_and_not_before(any_store: str) -> None:
    with people(any_store) as it:
        token, forever = it.token("bob", expires_in_s=1000), it.token("bob", name="u", expires_in_s=None)
        it.time[0] = T0 + 999.999999
        assert it.ask(token).user == "bob"
        it.time[0] = T0 + 1000
        with pytest.raises(NotLoggedIn):
            it.ask(token)
        it.time[0] = T0 + 1e9
        assert it.ask(forever).user == "bob"
        assert {each.name: each.problem(it.time[0]) for each in it.access.tokens.of("bob", ended=True)} == {
            "t": "expired",
            "u": None,
        }
        assert [each.name for each in it.access.tokens.of("bob")] == ["u"]


def test_token_expires_on_a_whole_second_and_never_early(any_store: str) -> None:
    with people(any_store) as it:
        it.access.users.create("bob", actor="root")
        it.time[0] = T0 + 0.25
        assert it.access.tokens.create("bob", "a", 1000, actor="root").row.expires_at == T0 + 1001
        it.time[0] = T0
        assert it.access.tokens.create("bob", "b", 1000, actor="root").row.expires_at == T0 + 1000


def test_revoked_token_stops_working_immediately_and_its_name_is_free(any_store: str) -> None:
    with people(any_store) as it:
        token = it.token("bob")
        it.ask(token)
        it.time[0] += 5
        it.access.tokens.revoke("bob", "t", actor="bob")
        with pytest.raises(NotLoggedIn):
            it.ask(token)
        with pytest.raises(NotFound) as refused:
            it.access.tokens.revoke("bob", "t", actor="bob")
        assert str(refused.value) == "unknown token 't' of bob (tokens: none)"
        assert it.ask(it.token("bob")).user == "bob"
        old = next(each for each in it.again().tokens.of("bob", ended=True) if each.revoked_at)
        assert (old.revoked_at, old.last_used_at) == (T0 + 5, T0)


def test_disabled_user_is_locked_out_immediately_and_can_be_enabled_again(any_store: str) -> None:
    with people(any_store) as it:
        token = it.token("bob", "team-admin")
        it.access.users.set_disabled("bob", True, actor="root")
        with pytest.raises(NotLoggedIn):
            it.ask(token)
        with pytest.raises(Conflict) as refused:
            it.access.tokens.create("bob", "u", actor="root")
        assert str(refused.value) == "user bob is disabled. Enable it first: `runrig user enable bob`"
        it.access.users.set_disabled("bob", False, actor="root")
        assert it.ask(token).user == "bob"


def test_every_invalid_token_gets_the_same_response_and_the_log_has_the_reason(
    any_store: str, caplog: pytest.LogCaptureFixture
) -> None:
    with people(any_store) as it, caplog.at_level(logging.WARNING):
        ended, revoked, disabled = it.token("bob", expires_in_s=1), it.token("bob", name="u"), it.token("carl")
        it.access.tokens.revoke("bob", "u", actor="bob")
        it.access.users.set_disabled("carl", True, actor="root")
        it.time[0] += 10
        said = set()
        for bearer in (None, "", ended, revoked, disabled, "x" * 43, "a.b.c", ended[:-1], "é\udcff"):
            with pytest.raises(NotLoggedIn) as refused:
                it.ask(bearer)
            said.add((type(refused.value), refused.value.message, str(refused.value.details)))
    assert len(said) == 1
    logged = [re.sub(r"[0-9a-f]{16}", "ID", record.getMessage()) for record in caplog.records]
    unknown = f"event=login_failed source={ELSEWHERE} problem=unknown"
    assert logged == [
        f'event=login_failed source={ELSEWHERE} problem="token ID of bob is expired"',
        f'event=login_failed source={ELSEWHERE} problem="token ID of bob is revoked"',
        f'event=login_failed source={ELSEWHERE} problem="user carl is disabled"',
        unknown,
        f'event=login_failed source={ELSEWHERE} problem="not a JWT of this server, or expired"',
        unknown,
        unknown,
    ]


def test_last_use_is_visible_immediately_and_written_once_a_minute(any_store: str) -> None:
    with people(any_store) as it:
        token = it.token("bob", expires_in_s=None)
        written: list[dict[str, float]] = []
        write = it.store.access.used

        def used(last_used_at: Mapping[str, float]) -> None:
            written.append(dict(last_used_at))
            write(last_used_at)

        it.store.access.used = used  # type: ignore[method-assign] # what is told is written all the same
        row = it.access.tokens.of("bob")[0]
        for second in range(0, 180, 5):
            it.time[0] = T0 + second
            it.ask(token)
            assert it.access.tokens.of("bob")[0].last_used_at == T0 + second
            _wait_for_writers()
        assert written == [{row.id: T0 + at} for at in (0, 60, 120)]
        assert it.again().tokens.of("bob") == (replace(row, last_used_at=T0 + 120),)
        it.access.uses.write()
        assert it.again().tokens.of("bob") == (replace(row, last_used_at=T0 + 175),)


def _wait_for_writers() -> None:
    for thread in threading.enumerate():
        if thread.name == "token uses":
            thread.join()


def test_invalid_names_and_lifetimes_are_refused_together(any_store: str) -> None:
    with people(any_store) as it:
        it.access.users.create("bob", actor="root")
        with pytest.raises(InvalidInput) as refused:
            it.access.tokens.create("bob", "a b", -1.0, actor="root")
        assert [(each.path, each.message) for each in refused.value.problems] == [
            ("name", "token name 'a b' must be letters, digits and '.', '_', '-', and start with a letter or digit"),
            (
                "expires_in_s",
                "invalid token lifetime -1 s. Use more than 0 and at most 316224000 s (3660 days), or never",
            ),
        ]
        with pytest.raises(NotFound):
            it.access.tokens.create("carl", "a", actor="root")
        assert it.access.tokens.of("bob", ended=True) == ()


def test_number_of_tokens_of_a_user_is_limited(tmp_path: Path) -> None:
    with people(str(tmp_path / "runrig.db")) as it:
        for number in range(MOST_TOKENS):
            it.token("bob", name=f"t{number}", expires_in_s=10)
        with pytest.raises(Conflict) as refused:
            it.token("bob", name="more")
        assert str(refused.value) == "bob has reached the limit of 100 tokens. Delete some first"
        with pytest.raises(Conflict):
            it.token("bob", name="t1")
        it.time[0] += 10
        assert it.ask(it.token("bob", name="t1")).user == "bob"


def test_audit_trail_has_every_change_and_nothing_else(any_store: str) -> None:
    with people(any_store) as it:
        it.token("bob", "team-user")
        it.access.users.grant("bob", role_named("team-user"), actor="root")  # has it
        it.access.users.grant("bob", ADMIN, actor="root")
        it.access.tokens.create("bob", "u", actor="bob")
        it.access.tokens.revoke("bob", "u", actor="root")
        it.access.users.withdraw("bob", role_named("team-user"), actor="carl")
        it.access.users.create("dan", actor="root")
        it.access.users.set_disabled("dan", True, actor="root")
        it.access.users.set_disabled("dan", True, actor="root")  # is
        it.access.users.set_disabled("dan", False, actor="root")
        assert it.trail() == [
            ("root", "user created", "bob", ""),
            ("root", "role granted", "bob", "team-user"),
            ("root", "token created", "bob", "t"),
            ("root", "role granted", "bob", "admin"),
            ("bob", "token created", "bob", "u"),
            ("root", "token revoked", "bob", "u"),
            ("carl", "role revoked", "bob", "team-user"),
            ("root", "user created", "dan", ""),
            ("root", "user disabled", "dan", ""),
            ("root", "user enabled", "dan", ""),
        ]
        numbers = [each.number for each in it.access.events(user="dan", limit=2)]
        assert numbers == [10, 9]
        assert [each.number for each in it.access.events(user="dan", before=9)] == [8]


def test_change_that_was_not_stored_has_no_effect(tmp_path: Path) -> None:
    with people(str(tmp_path / "runrig.db")) as it:
        token = it.token("bob", "team-user")
        before, trail = it.access.users.all(), it.trail()
        with sqlite3.connect(tmp_path / "runrig.db") as connection:
            connection.execute(
                "CREATE TRIGGER no_more BEFORE INSERT ON access_events BEGIN SELECT RAISE(ABORT, 'no'); END"
            )
        connection.close()
        with pytest.raises(ServerFault):
            it.access.users.grant("bob", ADMIN, actor="root")
        with pytest.raises(ServerFault):
            it.access.tokens.revoke("bob", "t", actor="root")
        assert (it.access.users.all(), it.trail(), it.ask(token).grants) == (before, trail, before[0].grants)
        assert it.again().users.all() == before


def test_each_of_many_concurrent_commands_takes_effect_once(any_store: str) -> None:
    """And whoever asks meanwhile is let in or kept out, and gets no other answer."""
    with people(any_store) as it:
        good = it.token("bob", "team-user", name="good", expires_in_s=None)
        doomed = it.token("bob", name="doomed")
        results: list[str] = []
        started = threading.Barrier(9)

        def attempt(command: Callable[[], object]) -> None:
            started.wait()
            try:
                command()
                results.append("done")
            except (Conflict, NotFound) as error:
                results.append(type(error).__name__)

        def ask() -> None:
            started.wait()
            while len(results) < 8:
                assert it.ask(good).user == "bob"

        commands: list[Callable[[], object]] = [
            lambda: it.access.tokens.create("bob", "same", actor="root"),
            lambda: it.access.tokens.revoke("bob", "doomed", actor="root"),
        ]
        threads = [threading.Thread(target=attempt, args=(command,)) for command in commands * 4]
        for thread in threads:
            thread.start()
        ask()
        for thread in threads:
            thread.join()
        assert sorted(results) == ["Conflict"] * 3 + ["NotFound"] * 3 + ["done"] * 2
        with pytest.raises(NotLoggedIn):
            it.ask(doomed)
        assert it.trail()[-2:] in (
            [("root", "token created", "bob", "same"), ("root", "token revoked", "bob", "doomed")],
            [("root", "token revoked", "bob", "doomed"), ("root", "token created", "bob", "same")],
        )
        assert [each.number for each in it.access.events(limit=1000)] == list(range(len(it.trail()), 0, -1))


_NAMES = st.sampled_from(["ann", "bob", "carl"])
_ROLES = st.sampled_from([role_named(each) for each in ("admin", "viewer", "team-user", "team-admin", "team2-user")])
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("users.create"), _NAMES, st.lists(_ROLES, max_size=3)),
        st.tuples(st.just("users.set_disabled"), _NAMES, st.booleans()),
        st.tuples(st.just("users.grant"), _NAMES, _ROLES),
        st.tuples(st.just("users.withdraw"), _NAMES, _ROLES),
        st.tuples(st.just("tokens.create"), _NAMES, st.sampled_from(["t", "u"])),
        st.tuples(st.just("tokens.revoke"), _NAMES, st.sampled_from(["t", "u"])),
    ),
    max_size=25,
)


@settings(max_examples=15)
@given(steps=_STEPS)
def test_memory_always_equals_what_a_later_server_reads(steps: list[tuple[str, str, object]]) -> None:
    with TemporaryDirectory() as folder, people(f"{folder}/runrig.db") as it:
        for command, name, argument in steps:
            it.time[0] += 1
            with suppress(Conflict, NotFound):
                attrgetter(command)(it.access)(name, argument, actor="root")
        later = it.again()
        assert later.users.all() == it.access.users.all()
        assert later.users.grants() == it.access.users.grants()
        assert [later.tokens.of(user.name, ended=True) for user in later.users.all()] == [
            it.access.tokens.of(user.name, ended=True) for user in later.users.all()
        ]
        granted = {row.user: 0 for row in later.users.grants()} | {user.name: 0 for user in later.users.all()}
        for _, what, user, _ in it.trail():
            granted[user] += {"role granted": 1, "role revoked": -1}.get(what, 0)
        assert granted == {user.name: len(user.grants) for user in later.users.all()}
