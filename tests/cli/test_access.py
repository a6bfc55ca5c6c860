"""`runrig login`, `token`, `user` and `role` against a real server over a real socket."""

import json
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runrig.api.app import create_app
from runrig.client import saved
from tests.worlds.command_line import Done, runrig
from tests.worlds.http import listening
from tests.worlds.service import desk, one_task


class Home:
    """A user's machine: a configuration folder and a terminal."""

    def __init__(self, folder: Path, url: str, admin: str) -> None:
        self.folder, self.url, self.admin = folder, url, admin
        self.file = folder / "config" / "runrig" / "logins.json"

    def run(self, *args: str, stdin: str = "", **env: str) -> Done:
        """With no data folder named, as people type it."""
        home = {"RUNRIG_DATA": "", "XDG_CONFIG_HOME": str(self.folder / "config"), "XDG_DATA_HOME": str(self.folder)}
        return runrig(*args, stdin=stdin, env=home | {"HOME": str(self.folder), "TZ": "UTC"} | env)

    def said(self, *args: str, stdin: str = "") -> str:
        done = self.run(*args, stdin=stdin)
        assert (done.code, done.err) == (0, ""), done
        return done.out.rstrip("\n")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """Not logged in; *admin* is the token of the user root."""
    with server(tmp_path / "server") as (url, admin):
        yield Home(tmp_path / "home", url, admin)


@contextmanager
def server(folder: Path) -> Iterator[tuple[str, str]]:
    folder.mkdir()
    with desk(folder) as it:
        admin = it.service.access.tokens.first_admin("root")
        with listening(lambda port: create_app(it.service, port=port)) as port:
            yield f"http://127.0.0.1:{port}", admin


def test_login_is_stored_until_logout(home: Home) -> None:
    assert home.said("login", home.url, stdin=f"{home.admin}\n").splitlines()[0] == (
        f"logged in to {home.url} as root: admin"
    )
    assert home.said("user", "list").splitlines()[2].split()[:3] == ["root", "enabled", "admin"]
    assert home.said("logout") == f"logged out of {home.url}"
    done = home.run("user", "list", "--server", home.url)
    assert (done.code, done.out) == (4, "")
    assert done.err.startswith(
        "Error: the token is missing or invalid. Send the header 'Authorization: Bearer TOKEN' (no token was sent"
    )
    done = home.run("logout")
    assert (done.code, done.err) == (2, "Error: You are not logged in to any server.\n")


def test_token_file_is_private(home: Home) -> None:
    (home.folder).mkdir()
    file = home.folder / "token"
    file.write_text(home.admin)
    home.said("login", home.url + "/", "--token-file", str(file))
    assert stat.S_IMODE(home.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.file.parent.stat().st_mode) == 0o700
    assert json.loads(home.file.read_text()) == {"current": home.url, "tokens": {home.url: home.admin}}
    assert [each.name for each in home.file.parent.iterdir()] == ["logins.json"]


def test_invalid_token_is_not_stored(home: Home) -> None:
    done = home.run("login", home.url, stdin="wrong\n")
    assert (done.code, done.out) == (4, "")
    assert done.err == (
        "Error: the token is missing or invalid. Send the header 'Authorization: Bearer TOKEN' (invalid token)\n"
    )
    assert not home.file.exists()
    done = home.run("login", home.url, stdin="\n")
    assert (done.code, done.err[:24]) == (2, "Error: no token in stdin")


@pytest.mark.parametrize("url", ["http://gpu.example.org", "http://10.0.0.7:8700"])
def test_token_is_not_sent_unencrypted(home: Home, url: str) -> None:
    done = home.run("login", url, stdin=home.admin)
    assert (done.code, done.err) == (
        2,
        f"Error: {url} is not encrypted, so the token could be read on the network. Use https://, or --plain-http to accept this.\n",
    )


def test_token_is_sent_only_to_its_server(home: Home, tmp_path: Path) -> None:
    with server(tmp_path / "other") as (other, other_admin):
        home.said("login", home.url, stdin=home.admin)
        home.said("login", other, stdin=other_admin)
        assert home.said("token", "list", "--server", home.url, "-t", "json") != home.said(
            "token", "list", "-t", "json"
        )
        home.said("logout", other)
        assert home.run("token", "list", "--server", other).code == 4
        assert home.run("token", "list", "--server", home.url).code == 0


def test_environment_and_named_folder_override_a_login(home: Home, tmp_path: Path) -> None:
    home.said("login", home.url, stdin=home.admin)
    assert home.run("token", "list", RUNRIG_TOKEN="wrong").code == 4
    assert home.run("token", "list", RUNRIG_SERVER="http://127.0.0.1:1", RUNRIG_RETRY_S="0").code == 10
    (tmp_path / "server.json").write_text('{"url": "http://127.0.0.1:1"}')
    assert home.run("token", "list", "--data", str(tmp_path), RUNRIG_RETRY_S="0").code == 10
    done = home.run("login", home.url, stdin=home.admin, RUNRIG_TOKEN="x")
    assert (done.code, done.err) == (0, "RUNRIG_TOKEN is set and overrides this login\n")


def test_admin_enables_and_disables_a_user(home: Home) -> None:
    home.said("login", home.url, stdin=home.admin)
    assert home.said("user", "create", "bob", "--role", "pool1-user") == "created user bob (roles: pool1-user)"
    done = home.run("token", "create", "laptop", "--user", "bob", "--expires", "12h")
    assert (done.code, len(done.out.strip())) == (0, 43)
    assert done.err.startswith("token laptop of bob is valid until ")
    bob = done.out.strip()
    assert home.run("pool", "list", RUNRIG_TOKEN=bob).code == 0
    refused = home.run("user", "list", RUNRIG_TOKEN=bob)
    assert (refused.code, refused.out) == (4, "")
    assert home.said("role", "grant", "bob", "viewer") == "roles of bob: pool1-user, viewer"
    assert [line.split()[:2] for line in home.said("role", "list", "--user", "bob").splitlines()[2:]] == [
        ["bob", "pool1-user"],
        ["bob", "viewer"],
    ]
    assert home.said("role", "revoke", "bob", "viewer") == "roles of bob: pool1-user"
    assert home.said("token", "delete", "laptop", "--user", "bob") == "token laptop of bob is revoked"
    assert home.run("pool", "list", RUNRIG_TOKEN=bob).code == 4
    assert home.said("user", "disable", "bob") == "disabled user bob (roles: pool1-user)"
    assert home.said("user", "show", "bob").splitlines()[:3] == [
        "User     bob",
        "State    disabled",
        "Roles    pool1-user",
    ]
    assert home.said("user", "enable", "bob") == "enabled user bob (roles: pool1-user)"
    history = [line.split("  ")[1:] for line in home.said("user", "history", "bob").splitlines()[2:]]
    assert [[cell.strip() for cell in line if cell.strip()] for line in history] == [
        ["root", "bob", "user enabled", "-"],
        ["root", "bob", "user disabled", "-"],
        ["root", "bob", "token revoked", "laptop"],
        ["root", "bob", "role revoked", "viewer"],
        ["root", "bob", "role granted", "viewer"],
        ["root", "bob", "token created", "laptop"],
        ["root", "bob", "role granted", "pool1-user"],
        ["root", "bob", "user created", "-"],
    ]


def test_token_grants_the_named_roles_and_shows_them(home: Home) -> None:
    home.said("login", home.url, stdin=home.admin)
    home.said("user", "create", "bob", "--role", "pool1-user", "--role", "pool2-viewer")
    made = home.run("token", "create", "ci", "-u", "bob", "--role", "pool2-viewer", "--description", "at night")
    assert made.code == 0
    bob = made.out.strip()
    assert home.run("token", "list", RUNRIG_TOKEN=bob).out.splitlines()[2].endswith("pool2-viewer  at night")
    refused = home.run("token", "create", "x", "--role", "pool1-user", RUNRIG_TOKEN=bob)
    assert (refused.code, refused.err) == (
        2,
        "Error: bob does not have the role pool1-user, so a token cannot grant it (roles: pool2-viewer)\n",
    )
    assert home.said("token", "update", "ci", "-u", "bob", "-r", "pool1-user") == "token ci of bob grants: pool1-user"
    assert home.said("token", "update", "ci", "-u", "bob", "--all-roles") == "token ci of bob grants: all"
    done = home.run("token", "update", "ci", "-u", "bob", "--description", "", "-t", "json").json
    assert (done["roles"], done["description"]) == (None, "")
    for wrong in ((), ("--role", "admin", "--all-roles")):
        assert home.run("token", "update", "ci", *wrong).code == 2


def test_json_is_one_document_and_refusals_have_their_exit_codes(home: Home) -> None:
    home.said("login", home.url, stdin=home.admin)
    made = home.run("token", "create", "ci", "--expires", "never", "-t", "json")
    assert (made.code, made.err, made.json["expires_at"], len(made.json["token"])) == (0, "", None, 43)
    assert [each["name"] for each in home.run("token", "list", "-t", "json").json["tokens"]][1:] == ["ci"]
    assert home.run("user", "create", "a b").code == 2
    assert home.run("role", "grant", "root", "pool9-user").code == 2
    assert home.run("role", "revoke", "root", "admin").code == 1
    assert home.run("token", "create", "ci").code == 1
    assert home.run("token", "create", "x", "--expires", "soon").code == 2
    assert home.run("token", "delete", "nope").code == 2


def test_work_goes_to_the_only_pool_that_accepts_it(home: Home, tmp_path: Path) -> None:
    home.said("login", home.url, stdin=home.admin)
    home.said("user", "create", "bob", "--role", "pool2-user", "--role", "viewer")
    bob = home.run("token", "create", "t", "--user", "bob").out.strip()
    file = tmp_path / "wf.yaml"
    file.write_text(one_task("a"))
    made = home.run("workflow", "submit", str(file), "-t", "json", RUNRIG_TOKEN=bob)
    assert (made.code, made.json["name"]) == (0, "a-1")
    found = home.run("workflow", "query", "a-1", "-t", "json", RUNRIG_TOKEN=bob).json
    assert (found["pool"], found["submitted_by"]) == ("pool2", "bob")
    refused = home.run("workflow", "submit", str(file))
    assert (refused.code, refused.err) == (
        2,
        "Error: you can submit to 2 pools (pool1, pool2). Choose one with --pool, "
        "or set a default with `runrig pool default POOL`\n",
    )


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://Gpu.example.org", "https://gpu.example.org:443/", True),
        ("http://h:80", "http://h", True),
        ("https://h", "http://h", False),
        ("https://h:8443", "https://h", False),
        ("https://h/a", "https://h/b", False),
    ],
)
def test_different_spellings_of_an_address_mean_one_server(one: str, other: str, same: bool) -> None:
    assert (saved.key_of(one) == saved.key_of(other)) is same


@pytest.mark.parametrize("text", ["", "{", "[]", '{"current": 5, "tokens": {}}', '{"current": null, "tokens": []}'])
def test_damaged_login_file_counts_as_none(home: Home, text: str) -> None:
    home.file.parent.mkdir(parents=True)
    home.file.write_text(text)
    assert home.run("logout").code == 2
    home.said("login", home.url, stdin=home.admin)


def test_the_clock_is_accepted(home: Home) -> None:
    home.said("login", home.url, stdin=f"{home.admin}\n")
    said = home.said("admin", "accept-clock")
    assert said.startswith("the server's time was 20")
    assert said.endswith("the system clock was already trusted")
