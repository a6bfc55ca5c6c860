"""Credentials at our own door."""

from pathlib import Path

from tests.api.client import api

from .ours import page_through, problem

VALUES = {"api_key": "s3cr3t-canary", "team": "vision"}
PATH = "/api/v1/credentials"


def test_credential_is_created_shown_replaced_and_deleted(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        made = it.http.put(f"{PATH}/wandb", json={"values": VALUES})
        assert (made.status_code, made.headers["location"]) == (201, f"{PATH}/wandb")
        shown = made.json()
        assert {**shown, "changed_at": ""} == {
            "name": "wandb",
            "type": "GENERIC",
            "keys": ["api_key", "team"],
            "profile": "",
            "changed_at": "",
            "lost": False,
        }
        assert it.http.get(f"{PATH}/wandb").json() == shown
        registry = {"type": "REGISTRY", "values": {"registry": "nvcr.io", "auth": "s3cr3t-canary"}}
        again = it.http.put(f"{PATH}/wandb", json=registry)
        assert (again.status_code, again.json()["type"], again.json()["profile"]) == (200, "REGISTRY", "nvcr.io")
        assert "location" not in again.headers
        problem(it.http.put(f"{PATH}/new", json=registry, headers={"If-Match": '"x"'}), 404, "NOTFOUND")
        assert it.http.delete(f"{PATH}/wandb").status_code == 204
        found = problem(it.http.get(f"{PATH}/wandb"), 404, "NOTFOUND")
        assert found["detail"] == "unknown credential 'wandb' of ann (credentials: none)"


def test_list_is_paged_by_name(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        for name in ("c", "a", "b"):
            it.http.put(f"{PATH}/{name}", json={"values": VALUES})
        pages = page_through(it, PATH, 2)
        assert [[each["name"] for each in page] for page in pages] == [["a", "b"], ["c"]]


def test_no_response_contains_a_value(tmp_path: Path) -> None:
    canary = VALUES["api_key"]
    with api(tmp_path) as it:
        for body in (
            {"values": {"a": [canary]}},
            {"values": canary},
            {"values": {"a": canary}, "type": canary},
            {"type": "DATA", "values": {"a": canary}},
            [canary],
            canary,
        ):
            answer = it.http.put(f"{PATH}/a", json=body)
            assert (answer.status_code, canary in answer.text) == (422, False), answer.text
        for body in (f"{{{canary}", f'{{"values": {{"a": "{canary}'):
            answer = it.http.put(f"{PATH}/a", content=body, headers={"content-type": "application/json"})
            assert (answer.status_code, canary in answer.text) == (422, False), answer.text


def test_all_credentials_are_sealed_again(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.http.put(f"{PATH}/a", json={"values": VALUES})
        assert it.http.post(f"{PATH}:reseal").json() == {"count": 1, "unread": 0}
