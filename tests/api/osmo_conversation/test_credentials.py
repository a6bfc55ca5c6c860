"""`credential list|set|delete`, of all three types."""

from typing import Any

import pytest

from tests.api.permissions.two_teams import CANARY, TwoTeams

from .client import fits, refused, said, send

CREDENTIAL = {"cred_name": str, "cred_type": str, "profile": str}
GENERIC = {"generic_credential": {"credential": {"omni_user": "tom", "omni_pass": CANARY}}}
REGISTRY = {"registry_credential": {"registry": "nvcr.io/team", "username": "$oauthtoken", "auth": CANARY}}
DATA = {"data_credential": {"access_key_id": "tom", "access_key": CANARY, "endpoint": "s3://bucket", "region": None}}


def listed(world: TwoTeams, actor: str) -> list[tuple[str, str, str]]:
    """As `credential list` reads them, but for the one that is there at the start."""
    answer = said(world, actor, "GET", "api/credentials")
    fits(answer, {"credentials": [CREDENTIAL]})
    rows = [(each["cred_name"], each["cred_type"], each["profile"]) for each in answer["credentials"]]
    return [row for row in rows if row[0] != "spare"]


@pytest.mark.parametrize("actor", ["tom", "ada", "nina"])
def test_credentials_are_set_listed_and_deleted(world: TwoTeams, actor: str) -> None:
    for name, body in (("omni", GENERIC), ("nvcr", REGISTRY), ("bucket", DATA)):
        answer = send(world, actor, "POST", f"api/credentials/{name}", body)
        assert answer.status_code == 200
        fits(answer.json(), {"credentials": [CREDENTIAL]})
        assert CANARY not in answer.text
    assert listed(world, actor) == [
        ("bucket", "DATA", "s3://bucket"),
        ("nvcr", "REGISTRY", "nvcr.io/team"),
        ("omni", "GENERIC", "-"),
    ]
    assert [listed(world, other) for other in ("tess", "vera")] == [[], []]
    gone = said(world, actor, "DELETE", "api/credentials/bucket")
    assert gone == {"credentials": [{"cred_name": "bucket", "cred_type": "DATA", "profile": "s3://bucket"}]}
    assert [row[0] for row in listed(world, actor)] == ["nvcr", "omni"]
    status, message = refused(world, actor, "DELETE", "api/credentials/bucket")
    assert (status, message) == (404, f"unknown credential 'bucket' of {actor} (credentials: nvcr, omni, spare)")


def test_setting_a_credential_again_replaces_it(world: TwoTeams) -> None:
    said(world, "tom", "POST", "api/credentials/x", GENERIC)
    said(world, "tom", "POST", "api/credentials/x", REGISTRY)
    assert listed(world, "tom") == [("x", "REGISTRY", "nvcr.io/team")]
    found = world.api.desk.service.access.credentials
    assert found.opened("tom", "x") == {"registry": "nvcr.io/team", "username": "$oauthtoken", "auth": CANARY}


def test_registry_password_is_sent_as_auth(world: TwoTeams) -> None:
    said(world, "tom", "POST", "api/credentials/x", {"registry_credential": {"registry": "r", "password": CANARY}})
    assert world.api.desk.service.access.credentials.opened("tom", "x") == {"registry": "r", "auth": CANARY}


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("x", {}, "send one of"),
        ("x", {**GENERIC, **REGISTRY}, "send one of"),
        ("x", {"generic_credential": {"credential": {}}}, "a credential must have 1 to 64 values"),
        ("x", {"generic_credential": {"credential": {"a b": CANARY}}}, "key 'a b' must be"),
        ("x", {"generic_credential": {"credential": {"..": CANARY}}}, "key '..' must be"),
        ("x", {"generic_credential": {"credential": {"a/b": CANARY}}}, "key 'a/b' must be"),
        ("x", {"generic_credential": {"credential": {"a": ""}}}, "value of 'a'"),
        ("x", {"generic_credential": {"credential": {"a": f"{CANARY}\0"}}}, "value of 'a'"),
        ("x", {"generic_credential": {"credential": {"a": CANARY * 10_000}}}, "the values are too large"),
        ("x", {"generic_credential": {"credential": {"a": [CANARY]}}}, "generic_credential.credential.a is invalid: "),
        ("x", {"generic_credential": CANARY}, "generic_credential is invalid: "),
        ("x", {"registry_credential": {"registry": "r"}}, "a credential of type REGISTRY needs auth"),
        (
            "x",
            {"registry_credential": {"auth": CANARY, "token": CANARY}},
            "a credential of type REGISTRY has no 'token'",
        ),
        ("x", {"data_credential": {"access_key": CANARY}}, "a credential of type DATA needs access_key_id, endpoint"),
        (
            "x",
            {"data_credential": {**DATA["data_credential"], "endpoint": f"s3://me:{CANARY}@host"}},
            "endpoint is shown in lists",
        ),
        ("1x", GENERIC, "credential '1x' must be"),
        ("x-", GENERIC, "credential 'x-' must be"),
        ("x" * 65, GENERIC, "credential name is too long (65 characters"),
    ],
)
def test_invalid_credential_is_refused_without_its_value(still: TwoTeams, name: str, body: Any, words: str) -> None:
    answer = send(still, "tom", "POST", f"api/credentials/{name}", body)
    assert (answer.status_code, answer.json()["message"][: len(words)]) == (422, words)
    assert CANARY not in answer.text


def test_number_of_credentials_is_limited_to_a_hundred(world: TwoTeams) -> None:
    for number in range(99):
        said(world, "tom", "POST", f"api/credentials/c{number}", GENERIC)
    status, message = refused(world, "tom", "POST", "api/credentials/more", GENERIC)
    assert (status, message) == (409, "tom has reached the limit of 100 credentials. Delete some first")
    said(world, "tom", "POST", "api/credentials/c0", REGISTRY)


def test_deleted_user_has_no_credentials_left(world: TwoTeams) -> None:
    said(world, "ada", "DELETE", "api/auth/user/tom")
    said(world, "ada", "POST", "api/auth/user", {"id": "tom"})
    assert world.api.desk.service.access.credentials.of("tom") == ()


# ---------------------------------------------------------------- workflows that use credentials

FILE = """
workflow:
  name: uses
  tasks:
  - name: main
    image: any
    command: [train]
    credentials: {omni: {PASSWORD: omni_pass}, spare: /etc/spare}
"""


def submit(world: TwoTeams, actor: str, text: str = FILE, pool: str = "team", **params: Any) -> Any:
    body: dict[str, Any] = {
        "file": text,
        "set_variables": [],
        "set_string_variables": [],
        "uploaded_templated_spec": None,
    }
    return send(world, actor, "POST", f"api/pool/{pool}/workflow", body, {"priority": "LOW", **params})


def test_submission_with_an_unknown_credential_is_refused_with_a_message(world: TwoTeams) -> None:
    checks: tuple[dict[str, Any], ...] = ({}, {"validation_only": True, "dry_run": False})
    for params in checks:
        answer = submit(world, "tom", **params).json()
        assert (answer["error_code"], answer["message"]) == (
            "CREDENTIAL",
            "unknown credential 'omni' of tom (credentials: spare). Set it with `runrig credential set omni`",
        )
    said(world, "tom", "POST", "api/credentials/omni", REGISTRY)
    assert submit(world, "tom").json()["message"] == (
        "credential 'omni' of tom has no key 'omni_pass' (keys: auth, registry, username)"
    )
    assert submit(world, "tom").status_code == 400
    said(world, "tom", "POST", "api/credentials/omni", GENERIC)
    assert submit(world, "tom").json()["name"] == "uses-1"
    assert submit(world, "tess").json()["error_code"] == "CREDENTIAL"


def test_submitted_files_show_no_credential_value(world: TwoTeams) -> None:
    said(world, "tom", "POST", "api/credentials/omni", GENERIC)
    id = submit(world, "tom").json()["name"]
    theirs = [f"workflow/{id}{each}" for each in ("", "/spec", "/events", "/spec?use_template=True")]
    ours = [f"v1/workflows/{id}{each}" for each in ("", "/spec", "/events", "/why")]
    for path in (*theirs, *ours):
        for actor in ("tom", "tina", "tess"):
            answer = send(world, actor, "GET", f"api/{path}")
            assert (answer.status_code, CANARY in answer.text) == (200, False)
    rendered = world.send("tom", "POST", "/api/v1/workflows:render", {"pool": "team", "file": FILE})
    assert (rendered.status_code, CANARY in rendered.text) == (200, False)
    assert "(hidden)" in rendered.text


def test_user_who_resubmits_another_users_workflow_does_not_get_their_credentials(world: TwoTeams) -> None:
    """Or tom's program would get what tina keeps under the name that tom wrote."""
    for actor in ("tom", "tina"):
        said(world, actor, "POST", "api/credentials/omni", GENERIC)
    id = submit(world, "tom").json()["name"]
    said(world, "tom", "POST", f"api/workflow/{id}/cancel", None, force=False)
    world.api.desk.later(31)
    for path, params in ((f"api/pool/team/workflow/{id}/restart", {}), ("api/pool/team/workflow", {"workflow_id": id})):
        answer = send(world, "tina", "POST", path, None, params)
        assert (answer.status_code, answer.json()["message"]) == (
            400,
            f"{id} uses credential 'omni' of tom, which tina cannot use. Ask tom to repeat it, or submit its file yourself",
        )
    assert said(world, "tom", "POST", f"api/pool/team/workflow/{id}/restart")["name"] == "uses-2"
