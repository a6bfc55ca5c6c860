"""`runrig notify`, against the application on a port, with a receiver on this machine."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runrig.api.app import create_app
from runrig.domain.notices import When
from runrig.service.notices.webhook import Webhook
from tests.service.notices.receiver import HERE, Receiver, receiving
from tests.worlds.command_line import Done, runrig
from tests.worlds.http import listening
from tests.worlds.service import desk

_TOKEN = "0123456789abcdef" * 2
Run = Callable[..., Done]


@pytest.fixture
def there(tmp_path: Path) -> Iterator[tuple[Run, Receiver]]:
    with (
        receiving(tmp_path) as (receiver, trusts),
        desk(tmp_path / "data") as it,
        listening(lambda port: create_app(it.service, token=_TOKEN, port=port, user="ann")) as port,
    ):
        it.service.notices._webhook = Webhook(HERE, trusts)
        env = {"RUNRIG_SERVER": f"http://127.0.0.1:{port}", "RUNRIG_TOKEN": _TOKEN}
        yield lambda *args, **how: runrig("notify", *args, env=env, **how), receiver


@pytest.mark.parametrize("width", [80, 120])
def test_a_user_enables_tests_and_disables_notices(there: tuple[Run, Receiver], width: int, tmp_path: Path) -> None:
    run, receiver = there
    off = "Notices are off. Turn them on with `runrig notify --to https://HOST/PATH`, or your mail address."
    assert " ".join(run(width=width).out.split()) == off
    file = tmp_path / "secret"
    how = ("--when", "preempt,done", "--min-run", "10m", "--secret-file", str(file))
    made = run("--to", f"{receiver.url}/T0/pass", *how, width=width)
    first = f"Notices go to {receiver.url}/…: done, preempt, after a run of at least 10m00s."
    assert (made.code, " ".join(made.out.split())) == (0, f"{first} They are signed with the secret in {file}.")
    assert (len(file.read_text()), file.stat().st_mode & 0o777) == (44, 0o600)
    assert file.read_text().strip() not in made.out + made.err
    assert max(len(line) for line in made.out.split("\n") if str(file) not in line) <= width
    assert " ".join(run(width=width).out.split()) == first
    assert run("test", width=width).out == "The test notice arrived.\n"
    assert [each["event"] for each in receiver.documents] == ["test"]
    receiver.answers = [500]
    failed = run("test")
    assert (failed.code, "the test notice did not arrive: localhost answered with status 500" in failed.err) == (
        10,
        True,
    )
    assert " ".join(run("off", width=width).out.split()) == off


def test_json_does_not_contain_the_secret(there: tuple[Run, Receiver], tmp_path: Path) -> None:
    run, receiver = there
    file = tmp_path / "secret"
    made = run("--to", receiver.url, "--secret-file", str(file), "-t", "json")
    assert ("secret" in made.json, made.json["secret_file"]) == (False, str(file))
    assert file.read_text().strip() not in made.out + made.err


def test_mail_has_no_secret_and_needs_a_server_that_sends_it(there: tuple[Run, Receiver]) -> None:
    run, _ = there
    refused = run("--to", "ann@example.org")
    assert (refused.code, "this server sends no mail. Use https://HOST/PATH, or ask" in refused.err) == (2, True)
    assert run("--to", "mail").err == refused.err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["--to", "http://hooks.example.org"],
            "'http://hooks.example.org' is not an https address. Use https://HOST/PATH, or a mail address",
        ),
        (["--to", "https://h/", "--when", "fails"], "unknown event 'fails'. Did you mean 'fail'?"),
        (["--to", "https://h/", "--when", "eaten"], f"unknown event 'eaten'. Events: {', '.join(When)}"),
        (["--to", "https://h/", "--min-run", "10"], "--min-run 10 is not a duration. Use 30s, 10m, 2h or 1d."),
        (["off", "--to", "https://h/"], "use --to or off, not both"),
        (["of"], "'of' is not one of 'off', 'test'"),
    ],
)
def test_an_invalid_setting_is_refused_in_one_sentence(
    there: tuple[Run, Receiver], args: list[str], message: str
) -> None:
    done = there[0](*args)
    assert (done.code, message in done.err) == (2, True), done
    assert there[0]("-t", "json").json["to"] is None
