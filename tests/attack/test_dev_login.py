"""`up --dev-login`: exactly that user gets in by name, from this machine, and nobody gets further than that."""

import getpass
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attack.target import CLUSTER, TREASURE, Target, refused, serve, up
from tests.attack.test_tokens import NOT_BY_NAME
from tests.patience import PATIENCE_S
from tests.worlds.command_line import Done, warm

ALONE = "`login --method dev` is enabled only for dev"
DIRECT = "`login --method dev` works only for programs on this machine, not through a browser or proxy"
BY_NOW = "dev login is no longer allowed for dev"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with up(tmp_path_factory.mktemp("dev"), "--dev-login", "dev") as target:
        yield target


def named(target: Target, *more: tuple[str, str], host: str | None = None, user: str = "dev") -> list[tuple[str, str]]:
    """What the reference client sends after `login --method dev`, and *more*."""
    return [("Host", host or f"127.0.0.1:{target.port}"), ("x-osmo-user", user), *more, ("Connection", "close")]


def test_user_logs_in_by_name_with_its_own_roles(shared: Target) -> None:
    said = shared.ask("GET", "/api/profile/settings", headers=named(shared)).json
    assert (said["profile"]["username"], said["roles"], said["token"]) == ("dev", ["osmo-user"], None)
    body = {"file": TREASURE.replace("treasure", "mine")}
    assert shared.ask("POST", "/api/pool/team/workflow", headers=named(shared), body=body).status == 200
    shared.ok("GET", "/api/v1/workflows/mine-1/wait?for=RUNNING&timeout=120")
    assert shared.ok("GET", "/api/workflow/mine-1")["submitted_by"] == "dev"
    assert "event=dev_login user=dev" in shared.log.read_text()
    assert "can act as dev without a token" in (shared.data.parent / "stderr").read_text()


@pytest.mark.parametrize(
    "user", ["admin", getpass.getuser(), "Dev", "dev ", "dev,admin", "", "../dev", "de\u200bv", "serve"]
)
def test_other_users_cannot_log_in_by_name(target: Target, user: str) -> None:
    headers = named(target, user=user)
    answer = target.ask("GET", "/api/v1/workflows", headers=headers)
    if user == "dev ":  # surrounding spaces are not part of a value
        assert answer.status == 200
        return
    assert refused(target, answer, 400, 401)["message"].startswith((ALONE, "the request"))


def test_duplicate_name_headers_are_ignored(target: Target) -> None:
    for names in (("dev", "admin"), ("admin", "dev"), ("dev", "dev")):
        headers = named(target, ("x-osmo-user", names[1]), user=names[0])
        refused(target, target.ask("GET", "/api/v1/workflows", headers=headers), 401)


@pytest.mark.parametrize("value", ["Bearer wrong", "Bearer ", "", "Basic ZGV2OmRldg=="])
def test_name_does_not_help_a_client_with_a_wrong_token(target: Target, value: str) -> None:
    headers = named(target, ("Authorization", value))
    refused(target, target.ask("GET", "/api/v1/workflows", headers=headers, source="127.5.0.1"), 401)


@pytest.mark.parametrize(
    "header",
    [
        ("X-Forwarded-For", "203.0.113.9"),
        ("X-Forwarded-Host", "gpu.example.org"),
        ("Forwarded", "for=203.0.113.9"),
        ("Via", "1.1 proxy"),
        ("X-Real-IP", "127.0.0.1"),
        ("Sec-Fetch-Site", "none"),
    ],
)
def test_requests_through_a_proxy_or_from_a_page_cannot_log_in_by_name(target: Target, header: tuple[str, str]) -> None:
    answer = target.ask("GET", "/api/v1/workflows", headers=named(target, header))
    assert refused(target, answer, 401)["message"].startswith(DIRECT)


def test_rebound_names_and_foreign_pages_are_refused_before_authentication(target: Target) -> None:
    for host in ("evil.example", f"evil.example:{target.port}", "127.0.0.1", f"127.0.0.1.evil.example:{target.port}"):
        refused(target, target.ask("GET", "/api/v1/workflows", headers=named(target, host=host)), 403)
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{target.port}", "http://localhost:3000"):
        for method in ("GET", "POST", "OPTIONS"):
            headers = named(target, ("Origin", origin))
            refused(target, target.ask(method, "/api/v1/workflows", headers=headers, body={}), 403)
    own = named(target, ("Origin", f"http://127.0.0.1:{target.port}"))
    assert refused(target, target.ask("GET", "/api/v1/workflows", headers=own), 401)["message"].startswith(DIRECT)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/api/v1/tokens", {"name": "kept"}),
        ("GET", "/api/v1/tokens", None),
        ("POST", "/api/auth/access_token/kept?expires_at=2030-02-28", None),
        ("DELETE", "/api/auth/access_token/kept", None),
        ("POST", "/api/v1/users/dev/tokens", {"name": "kept"}),
        ("POST", "/api/auth/user/dev/access_token/kept?expires_at=2030-02-28", None),
        ("POST", "/api/auth/user/dev/roles", {"role_name": "osmo-admin"}),
        ("POST", "/api/v1/roles", {"user": "dev", "role": "admin"}),
        ("GET", "/api/v1/users", None),
        ("PATCH", "/api/v1/pools/team", {"quota": 100}),
    ],
)
def test_login_by_name_creates_no_credentials_and_gives_no_further_access(
    target: Target, method: str, path: str, body: object
) -> None:
    refused(target, target.ask(method, path, headers=named(target), body=body), 403)


def test_named_user_cannot_act_for_others(target: Target) -> None:
    headers = named(target, ("x-osmo-roles", "osmo-admin"), ("x-osmo-allowed-pools", "team2"))
    assert target.ask("GET", "/api/profile/settings", headers=headers).json["roles"] == ["osmo-user"]
    for token in ("dev login", "owner"):
        answer = target.ask("POST", "/api/auth/jwt/access_token", user=None, body={"token": token}, source="127.5.0.2")
        refused(target, answer, 401)


@pytest.mark.parametrize("role", ["admin", "team-admin"])
def test_user_who_becomes_an_administrator_can_no_longer_log_in_by_name(shared: Target, role: str) -> None:
    def status() -> int:
        return shared.ask("GET", "/api/v1/workflows", headers=named(shared)).status

    assert status() == 200
    assert shared.ask("POST", "/api/v1/roles", body={"user": "dev", "role": role}).status == 201
    said = refused(shared, shared.ask("GET", "/api/v1/workflows", headers=named(shared)), 401)["message"]
    assert said.startswith(BY_NOW)
    assert "dev_login_refused" in shared.log.read_text()
    assert shared.ask("DELETE", f"/api/v1/roles/dev/{role}").status == 204
    assert status() == 200


def test_disabled_user_cannot_log_in_by_name(shared: Target) -> None:
    assert shared.ask("PATCH", "/api/v1/users/dev", body={"disabled": True}).status == 200
    said = refused(shared, shared.ask("GET", "/api/v1/workflows", headers=named(shared)), 401)["message"]
    assert said.startswith(BY_NOW)
    assert shared.ask("PATCH", "/api/v1/users/dev", body={"disabled": False}).status == 200


def test_without_the_option_login_by_name_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with up(tmp_path / "up") as target, serve(tmp_path / "serve") as other:
        for each in (target, other):
            for user in ("dev", "admin", "ann", getpass.getuser()):
                answer = each.ask("GET", "/api/v1/workflows", headers=named(each, user=user))
                assert refused(each, answer, 401)["message"] == NOT_BY_NAME


def _start(folder: Path, user: str, cluster: str = CLUSTER) -> Done:
    (folder / "cluster.yaml").write_text(cluster)
    arguments = ["up", "--cluster", str(folder / "cluster.yaml"), "--data", str(folder / "data"), "--port", "0"]
    with warm(*arguments, "--dev-login", user) as child:
        out, err = child.communicate(PATIENCE_S)
        return Done(child.wait(), out, err)


def test_server_does_not_start_with_dev_login_for_an_administrator(tmp_path: Path) -> None:
    roles = "roles: [{user: ada, role: admin}, {user: tina, role: admin, pool: team}]\n"
    for user, why in (
        (getpass.getuser(), "this user runs the server and has all permissions"),
        ("ada", "this user is an administrator (admin)"),
        ("tina", "this user is an administrator (team-admin)"),
    ):
        done = _start(tmp_path, user, CLUSTER + roles)
        said = f"dev login is not allowed for {user}: {why}. Use another user"
        assert (done.code, done.out) == (1, "")
        assert said in done.err
        assert "Traceback" not in done.err


@pytest.mark.parametrize("user", ["", "a b", "-x", "serve", "x" * 200])
def test_server_does_not_start_with_an_invalid_user_name(tmp_path: Path, user: str) -> None:
    done = _start(tmp_path, user)
    assert (done.code, done.out, "Traceback" in done.err) == (2, "", False)
