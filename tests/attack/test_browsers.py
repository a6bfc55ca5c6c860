"""What a browser is signed in with, in the wrong hands: another origin, another site, a stolen cookie, a guessed one."""

import re

from tests.attack.target import Target

FORM = ("Content-Type", "application/x-www-form-urlencoded")


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


def test_neither_cookies_nor_second_secrets_appear_in_log_or_database(target: Target) -> None:
    cookie = sign_in(target)
    secrets = [cookie.partition("=")[2], word(target, cookie)]
    stored = repr(target.portrait(volatile=True))
    log = target.log.read_text()
    assert [each for each in secrets if each in stored or each in log] == []
