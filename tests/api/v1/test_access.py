"""Users, roles and tokens at our own door."""

from pathlib import Path
from uuid import uuid4

from tests.api.client import api
from tests.api.v1.ours import page_through, problem


def test_user_is_created_and_disabled(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        key = {"Idempotency-Key": str(uuid4())}
        body = {"name": "eve@x.org", "roles": ["pool1-user"]}
        made = it.http.post("/api/v1/users", json=body, headers=key)
        assert (made.status_code, made.headers["location"]) == (201, "/api/v1/users/eve%40x.org")
        assert it.http.get(made.headers["location"]).json() == made.json()
        assert it.http.post("/api/v1/users", json=body, headers=key).json() == made.json()
        problem(it.http.post("/api/v1/users", json=body), 409, "CONFLICT")
        problem(it.http.post("/api/v1/users", json=body | {"roles": []}, headers=key), 409, "CONFLICT")
        tag = {"If-Match": made.headers["etag"]}
        path = made.headers["location"]
        assert it.http.patch(path, json={"disabled": True}, headers=tag).json()["disabled"] is True
        problem(it.http.patch(path, json={"disabled": False}, headers=tag), 412, "CONFLICT")


def test_role_is_granted_and_revoked(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.http.post("/api/v1/users", json={"name": "eve"}).raise_for_status()
        before = it.http.get("/api/v1/users/eve").headers["etag"]
        made = it.http.post("/api/v1/roles", json={"user": "eve", "role": "pool1-user"})
        assert (made.status_code, made.headers["location"]) == (201, "/api/v1/roles/eve/pool1-user")
        again = it.http.post("/api/v1/roles", json={"user": "eve", "role": "pool1-user"})
        assert (again.status_code, again.json()) == (201, made.json())
        assert it.http.get(made.headers["location"]).json() == made.json()
        assert it.http.get("/api/v1/users/eve").headers["etag"] != before
        it.http.post("/api/v1/roles", json={"user": "eve", "role": "viewer"}).raise_for_status()
        pages = page_through(it, "/api/v1/roles", 1, user="eve")
        assert [[each["role"] for each in page] for page in pages] == [["pool1-user"], ["viewer"]]
        gone = it.http.delete(made.headers["location"])
        assert (gone.status_code, gone.content) == (204, b"")
        problem(it.http.delete(made.headers["location"]), 404, "NOTFOUND")
        problem(it.http.get(made.headers["location"]), 404, "NOTFOUND")
        trail = [each["what"] for page in page_through(it, "/api/v1/access-events", 2) for each in page]
        assert trail == ["role revoked", "role granted", "role granted", "user created"]


def test_repeated_request_returns_the_same_token_for_a_while(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        access, moments = it.desk.service.access, [1_000.0]
        access._accounts_now = None  # type: ignore[attr-defined] # only marks that the clock below is ours
        for part in (access.tokens._accounts,):
            part.now = lambda: moments[0]
        key = {"Idempotency-Key": str(uuid4())}
        body = {"name": "laptop", "expires_in_s": 86_400}
        made = it.http.post("/api/v1/tokens", json=body, headers=key)
        assert (made.status_code, made.headers["location"]) == (201, "/api/v1/users/ann/tokens/laptop")
        text = made.json()["token"]
        assert len(text) == 43
        signed_in = {"Authorization": f"Bearer {text}"}
        assert it.http.get("/api/v1/me", headers=signed_in).json()["token"]["name"] == "laptop"
        again = it.http.post("/api/v1/tokens", json=body, headers=key)
        assert (again.status_code, again.json()["token"]) == (201, text)
        assert len(it.http.get("/api/v1/tokens").json()["items"]) == 1
        # Another body, user or key creates another token.
        problem(it.http.post("/api/v1/tokens", json=body | {"name": "desk"}, headers=key), 409, "CONFLICT")
        problem(it.http.post("/api/v1/tokens", json=body | {"expires_in_s": None}, headers=key), 409, "CONFLICT")
        problem(it.http.post("/api/v1/tokens", json=body), 409, "CONFLICT")
        it.http.post("/api/v1/users", json={"name": "eve", "roles": ["admin"]}).raise_for_status()
        as_eve = access.tokens.create("eve", "t", actor="eve").text
        others = it.http.post("/api/v1/tokens", json=body, headers=key | {"Authorization": f"Bearer {as_eve}"})
        assert others.status_code == 201
        assert others.json()["token"] != text
        moments[0] += 601
        problem(it.http.post("/api/v1/tokens", json=body, headers=key), 409, "CONFLICT")
        assert it.http.delete("/api/v1/tokens/laptop").json()["state"] == "revoked"
        problem(it.http.get("/api/v1/me", headers=signed_in), 401, "FORBIDDEN")


def test_token_grants_some_roles_of_its_user_and_never_more(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.call("POST", "/api/v1/users", {"name": "eve", "roles": ["pool1-user", "pool2-viewer"]})
        tokens, key = "/api/v1/users/eve/tokens", {"Idempotency-Key": str(uuid4())}
        body = {"name": "nightly", "description": "the nightly run", "roles": ["pool2-viewer"]}
        made = it.http.post(tokens, json=body, headers=key)
        told = made.json()
        assert (told["description"], told["roles"]) == ("the nightly run", ["pool2-viewer"])
        assert it.http.post(tokens, json=body, headers=key).json() == told
        for other in ({"roles": None}, {"roles": ["pool1-user"]}, {"description": ""}):
            problem(it.http.post(tokens, json=body | other, headers=key), 409, "CONFLICT")
        as_eve = {"Authorization": f"Bearer {told['token']}"}

        def roles() -> list[str]:
            found: list[str] = it.http.get("/api/v1/me", headers=as_eve).json()["roles"]
            return found

        assert roles() == ["pool2-viewer"]
        # A narrowed token can neither create a wider token nor widen itself.
        for sent in (["pool1-user"], ["pool2-viewer", "pool1-user"], ["admin"]):
            wider = it.http.post("/api/v1/tokens", json={"name": "wider", "roles": sent}, headers=as_eve)
            assert "eve does not have" in problem(wider, 422, "USAGE")["detail"]
            problem(it.http.patch("/api/v1/tokens/nightly", json={"roles": sent}, headers=as_eve), 422, "USAGE")
        assert (
            it.http.patch("/api/v1/tokens/nightly", json={"roles": None}, headers=as_eve).json()["roles"]
            == body["roles"]
        )
        # An administrator can widen it, up to the roles of its user.
        problem(it.http.patch(f"{tokens}/nightly", json={"roles": ["admin"]}), 422, "USAGE")
        changed = it.call("PATCH", f"{tokens}/nightly", {"roles": ["pool1-user"]})
        assert (changed["roles"], changed["description"], roles()) == (
            ["pool1-user"],
            "the nightly run",
            ["pool1-user"],
        )
        assert it.call("PATCH", f"{tokens}/nightly", {"roles": None, "description": ""})["description"] == ""
        assert roles() == ["pool1-user", "pool2-viewer"]
        assert it.get(f"{tokens}/nightly") == it.get(tokens)["items"][0]
        assert it.call("PATCH", f"{tokens}/nightly", {"roles": []})["roles"] == []
        assert roles() == []
        problem(it.http.patch(f"{tokens}/nightly", json={"description": "a" * 201}), 422, "USAGE")
        problem(it.http.patch(f"{tokens}/nightly", json={"roles": ["chief"]}), 422, "USAGE")
        problem(it.http.patch(f"{tokens}/none", json={"roles": []}), 404, "NOTFOUND")
        trail = [each["what"] for each in it.get("/api/v1/access-events", user="eve")["items"]]
        assert trail[:4] == ["token changed"] * 3 + ["token created"]


def test_nodes_response_does_not_repeat_the_pools(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        (node,) = it.http.get("/api/v1/nodes").json()["items"]
        assert it.http.get(f"/api/v1/nodes/{node['name']}").json() == node
        assert (node["pools"], node["free"]["gpu"], node["gpus"]) == (2, 4, [None] * 4)
        assert "pool1" not in str(node)
