"""What a browser is signed in with, in the wrong hands: another origin, another site, a stolen cookie, a guessed one."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.attack.target import Target, refused
from tests.attack.wire import Answer

FORM = ("Content-Type", "application/x-www-form-urlencoded")
EDITS: tuple[tuple[str, str, object], ...] = (
    ("POST", "/api/v1/workflows", {"pool": "team", "file": "workflow: {}"}),
    ("PUT", "/api/v1/pools/team", {"quotas": {"default": {"gpu": {"nominal": 0}}}}),
    ("DELETE", "/api/v1/pools/zebra", None),
    ("POST", "/api/v1/users", {"name": "mallory"}),
    ("POST", "/api/v1/roles", {"user": "mallory", "role": "admin"}),
    ("POST", "/api/v1/tokens", {"name": "mine"}),
    ("POST", "/api/workflow/treasure-1/cancel", None),
    ("GET", "/api/workflow/treasure-1/spec", None),
    ("GET", "/api/v1/workflows/treasure-1/logs", None),
    ("GET", "/api/v1/events/stream", None),
)


def sign_in(target: Target) -> str:
    """The cookie of the owner."""
    honest = [*target.headers(None), FORM, ("Origin", f"http://127.0.0.1:{target.port}")]
    secret = f"shown={target.tokens['admin']}".encode()
    answer = target.ask("POST", "/login", headers=honest, body=secret)
    assert answer.status == 303, answer
    return answer.headers["set-cookie"].partition(";")[0]


def word(target: Target, cookie: str) -> str:
    page = target.ask("GET", "/me", headers=[*target.headers(None), ("Cookie", cookie)])
    found = re.search(rb'name="csrf" (?:content|value)="([^"]+)"', page.body)
    assert found is not None, page
    return found[1].decode()


@contextmanager
def untouched(target: Target) -> Iterator[None]:
    before = target.portrait()
    yield
    assert target.portrait() == before


def test_stolen_cookie_without_its_second_secret_changes_nothing_and_reads_no_data(target: Target) -> None:
    cookie = sign_in(target)
    with untouched(target):
        for method, path, body in EDITS:
            for more in ((), (("X-CSRF-Token", "x"),), (("X-CSRF-Token", cookie.partition("=")[2]),)):
                headers = [*target.headers(None), ("Cookie", cookie), *more]
                refused(target, target.ask(method, path, headers=headers, body=body), 401)
        stolen = [*target.headers(None), ("Cookie", cookie), FORM]
        refused(target, target.ask("POST", "/logout", headers=stolen, body=b"csrf=x"), 403)
    assert word(target, cookie)


@pytest.mark.parametrize("header", [("Origin", "https://evil.example"), ("Sec-Fetch-Site", "cross-site")])
def test_other_origin_changes_nothing_even_with_the_second_secret(target: Target, header: tuple[str, str]) -> None:
    cookie = sign_in(target)
    csrf = word(target, cookie)
    with untouched(target):
        for method, path, body in EDITS:
            headers = [*target.headers(None), ("Cookie", cookie), ("X-CSRF-Token", csrf), header]
            refused(target, target.ask(method, path, headers=headers, body=body), 401, 403)


def test_other_origin_cannot_sign_in_a_user(target: Target) -> None:
    """Else a page could sign its visitors in as somebody else, and see what they then submit."""
    headers = [*target.headers(None), FORM, ("Origin", "https://evil.example")]
    secret = f"shown={target.tokens['admin']}".encode()
    answer: Answer = target.ask("POST", "/login", headers=headers, body=secret)
    refused(target, answer, 403)
    assert "set-cookie" not in answer.headers


def test_neither_cookies_nor_second_secrets_appear_in_log_or_database(target: Target) -> None:
    cookie = sign_in(target)
    secrets = [cookie.partition("=")[2], word(target, cookie)]
    stored = repr(target.portrait(volatile=True))
    log = target.log.read_text()
    assert [each for each in secrets if each in stored or each in log] == []
