"""Field `notify` of the file of `runrig serve`: the mail server, its password and its errors."""

from pathlib import Path

import pytest

from runrig.domain.notices import Security, Smtp
from tests.wiring.test_file import LEAST, folder, problems, read  # noqa: F401 - folder is a fixture

OWN = ("example.org",)
FROM = "runrig@example.org"


@pytest.mark.parametrize(
    ("written", "smtp"),
    [
        ("url: smtps://mail", Smtp("mail", 465, Security.TLS, FROM, OWN)),
        ("url: smtp://mail", Smtp("mail", 587, Security.STARTTLS, FROM, OWN)),
        ("url: smtp://mail:25, tls: false", Smtp("mail", 25, Security.NONE, FROM, OWN)),
        ("url: smtp://me:pw@localhost, tls: false", Smtp("localhost", 587, Security.NONE, FROM, OWN, "me", "pw")),
        ("url: {file: mail}", Smtp("mail.example.org", 465, Security.TLS, FROM, OWN, "me@x", "p/w")),
        ("url: smtps://mail, domains: [B.example, a.example]", Smtp("mail", 465, Security.TLS, FROM, ("b.example", "a.example"))),
    ],
)  # fmt: skip
def test_mail_server_is_read_with_encryption_unless_it_is_turned_off(folder: Path, written: str, smtp: Smtp) -> None:  # noqa: F811
    (folder / "mail").write_text("smtps://me%40x:p%2Fw@mail.example.org\n")
    (folder / "mail").chmod(0o600)
    spec = read(f"{LEAST}notify: {{smtp: {{from: {FROM}, {written}}}}}", folder)
    assert spec.notify.smtp == smtp
    assert "pw" not in repr(spec)
    assert "p/w" not in repr(spec)


USE = "Use smtps://USER:PASSWORD@mail.example.org, or smtp:// for STARTTLS."


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("url: smtps://mail", "smtp needs from. Add from: runrig@example.org"),
        (f"from: {FROM}", "smtp needs url. Add url: smtps://USER:PASSWORD@mail.example.org"),
        (f"from: {FROM}, url: https://me:secret@mail", f"url: it is not the address of a mail server. {USE}"),
        (f"from: {FROM}, url: smtps://me:secret@", f"url: it is not the address of a mail server. {USE}"),
        (f"from: {FROM}, url: 'smtps://me:secret@mail:99999'", f"url: it is not the address of a mail server. {USE}"),
        (f"from: {FROM}, url: smtps://mail, tls: false", "tls: smtps:// is always encrypted. Use smtp://, or leave out tls."),
        (f"from: {FROM}, url: smtp://me:secret@mail, tls: false", "tls: the password would be sent unencrypted. Leave out tls,"),
        ("from: 'Runrig <a@b>', url: smtps://mail", "from: 'Runrig <a@b>' is not a mail address. Use for example runrig@example.org."),
        (f"from: {FROM}, url: smtps://mail, domains: [a b]", "domains[0]: 'a b' is not a domain. Use for example example.org."),
        (f"from: {FROM}, url: {{env: NOPE}}", "env: environment variable 'NOPE' is not set. Set it to the URL of the mail server"),
    ],
)  # fmt: skip
def test_problem_has_a_way_out_and_shows_no_password(folder: Path, written: str, message: str) -> None:  # noqa: F811
    ((_, told),) = problems(f"{LEAST}notify: {{smtp: {{{written}}}}}", folder)
    assert told.startswith(message)
    assert "secret" not in told


def test_password_of_the_mail_server_is_refused_in_a_readable_file(folder: Path) -> None:  # noqa: F811
    ((_, told),) = problems(f"{LEAST}notify: {{smtp: {{from: {FROM}, url: smtps://me:secret@mail}}}}", folder, 0o644)
    assert told == (
        "url: it contains a password, and other users can read this file. Run `chmod 600` on it, or use url: {file: FILE}."
    )
