"""Pools and cohorts at our own door."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.api.client import Api, api
from tests.api.v1.ours import page_through, problem

KEY = {"Idempotency-Key": str(uuid4())}


def _names(pages: list[Any]) -> list[list[str]]:
    return [[each["name"] for each in page] for page in pages]


def _create(it: Api, body: Any, **headers: str) -> Any:
    return it.http.post("/api/v1/pools", json=body, headers=headers)


def test_pool_is_created_shown_changed_and_deleted(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        body = {"name": "vision", "quota": 2, "description": "eyes", "borrowing_limit": 2, "queueing": "STRICT_FIFO"}
        made = _create(it, body)
        assert (made.status_code, made.headers["location"]) == (201, "/api/v1/pools/vision")
        read = it.http.get(made.headers["location"])
        assert (read.json(), read.headers["etag"]) == (made.json(), made.headers["etag"])
        found = read.json()
        limited = {"nominal": 2, "borrowing_limit": 2, "lending_limit": None}
        shown = ("parent", "state", "quotas", "queueing", "description")
        assert [found[name] for name in shown] == [None, "ACTIVE", {"default": {"gpu": limited}}, "STRICT_FIFO", "eyes"]
        assert all(isinstance(number, int) for name, number in found["gpus"].items() if name != "shared")
        changed = it.http.patch("/api/v1/pools/vision", json={"quota": 1, "borrowing_limit": None, "weight": 3})
        assert (changed.status_code, changed.json()["gpus"]["quota"], changed.json()["weight"]) == (200, 1, 3)
        assert changed.json()["quotas"]["default"]["gpu"] == limited | {"nominal": 1, "borrowing_limit": None}
        assert changed.headers["etag"] != made.headers["etag"]
        gone = it.http.delete("/api/v1/pools/vision")
        assert gone.status_code == 200
        assert (gone.json()["pool"]["state"], gone.json()["cancelled"]) == ("ARCHIVED", [])
        listed = {archived: it.get("/api/pool_quota", archived=archived)["node_sets"] for archived in (True, False)}
        names = {
            archived: [pool["name"] for each in found for pool in each["pools"]] for archived, found in listed.items()
        }
        assert names == {True: ["pool1", "pool2", "vision"], False: ["pool1", "pool2"]}


def test_subpool_is_a_pool_with_a_parent(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        made = _create(it, {"name": "a", "parent": "pool1", "quota": 1})
        assert (made.status_code, made.headers["location"]) == (201, "/api/v1/pools/pool1--a")
        assert (made.json()["name"], made.json()["parent"]) == ("pool1--a", "pool1")
        changed = it.http.patch("/api/v1/pools/pool1--a", json={"quota": "100%"})
        assert changed.json()["gpus"]["quota"] == it.http.get("/api/v1/pools/pool1").json()["gpus"]["quota"]
        problem(it.http.patch("/api/v1/pools/pool1--a", json={"weight": 2}), 422, "USAGE")
        problem(_create(it, {"name": "b", "parent": "pool1", "quota": 1, "weight": 2}), 422, "USAGE")
        assert (
            problem(_create(it, {"name": "b", "parent": "pool1", "quota": 99}), 400, "RESOURCE")["details"]["law"]
            == "S1"
        )
        problem(_create(it, {"name": "b", "parent": "nope", "quota": 1}), 404, "NOTFOUND")
        problem(_create(it, {"name": "b", "parent": 7, "quota": 1}), 422, "USAGE")
        gone = it.http.delete("/api/v1/pools/pool1--a")
        assert gone.json()["pool"]["state"] == "ARCHIVED"
        assert it.http.get("/api/v1/pools/pool1--a").json()["state"] == "ARCHIVED"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/api/v1/pools", {"name": "vision", "quota": 1}),
        ("POST", "/api/v1/pools", {"name": "a", "parent": "pool1", "quota": 1}),
        ("PATCH", "/api/v1/pools/pool1", {"quota": 1}),
        ("DELETE", "/api/v1/pools/pool2", None),
    ],
)
def test_dry_run_returns_the_effect_and_stores_nothing(tmp_path: Path, method: str, path: str, body: Any) -> None:
    with api(tmp_path) as it:
        before = it.desk.store.load(), it.desk.store.log.events()
        tried = it.http.request(method, path, json=body, params={"dry_run": "true"})
        assert tried.status_code == 200, tried.text
        assert (it.desk.store.load(), it.desk.store.log.events()) == before
        done = it.http.request(method, path, json=body)
        assert done.json() == tried.json()


@pytest.mark.parametrize("body", [{"name": "vision", "quota": 2}, {"name": "a", "parent": "pool1", "quota": 1}])
def test_repeated_creation_with_a_key_happens_once(tmp_path: Path, body: Any) -> None:
    with api(tmp_path) as it:
        first = _create(it, body, **KEY)
        events = it.desk.store.log.events()
        again = _create(it, body, **KEY)
        assert (again.status_code, again.json(), again.headers["location"]) == (
            201,
            first.json(),
            first.headers["location"],
        )
        assert it.desk.store.log.events() == events
        problem(_create(it, body), 409, "CONFLICT")
        problem(_create(it, body | {"quota": body["quota"] + 1}, **KEY), 409, "CONFLICT")
        problem(_create(it, body, **{"Idempotency-Key": "x"}), 422, "USAGE")


def test_tag_of_a_pool_does_not_depend_on_its_work(tmp_path: Path) -> None:
    from tests.worlds.service import one_task

    with api(tmp_path) as it:
        before = it.http.get("/api/v1/pools/pool1")
        it.submit(one_task("x"))
        it.desk.service.settle()
        after = it.http.get("/api/v1/pools/pool1")
        assert after.json()["gpus"] != before.json()["gpus"]
        assert after.headers["etag"] == before.headers["etag"]


def test_pages_are_stable_while_pools_are_created_and_deleted(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        for name in ("b", "d", "f"):
            _create(it, {"name": name, "quota": 0})
        _create(it, {"name": "s", "parent": "pool1", "quota": 1})
        assert _names(page_through(it, "/api/v1/pools", 2)) == [["b", "d"], ["f", "pool1"], ["pool1--s", "pool2"]]
        first = it.http.get("/api/v1/pools", params={"limit": 2}).json()
        it.http.delete("/api/v1/pools/d")
        for name in ("a", "e"):
            _create(it, {"name": name, "quota": 0})
        rest = it.http.get("/api/v1/pools", params={"limit": 9, "cursor": first["next_cursor"]}).json()
        assert [each["name"] for each in rest["items"]] == ["e", "f", "pool1", "pool1--s", "pool2"]


# ---------------------------------------------------------------- cohorts


def test_cohort_is_created_shown_changed_and_deleted(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        body = {"name": "org", "quota": 4}
        made = it.http.post("/api/v1/cohorts", json=body, headers=KEY)
        assert (made.status_code, made.headers["location"]) == (201, "/api/v1/cohorts/org")
        assert it.http.post("/api/v1/cohorts", json=body, headers=KEY).json() == made.json()
        problem(it.http.post("/api/v1/cohorts", json=body), 409, "CONFLICT")
        problem(it.http.post("/api/v1/cohorts", json={"name": "org", "quota": 5}, headers=KEY), 409, "CONFLICT")
        tag = it.http.get("/api/v1/cohorts/org").headers["etag"]
        assert tag == made.headers["etag"]
        changed = it.http.patch("/api/v1/cohorts/org", json={"weight": 2}, headers={"If-Match": tag})
        assert changed.json()["weight"] == 2
        problem(it.http.patch("/api/v1/cohorts/org", json={"weight": 3}, headers={"If-Match": tag}), 412, "CONFLICT")
        problem(it.http.delete("/api/v1/cohorts/org", headers={"If-Match": tag}), 412, "CONFLICT")
        assert _names(page_through(it, "/api/v1/cohorts", 1)) == [["org"]]
        tree = it.http.get("/api/v1/quota-tree").json()
        assert [each["name"] for each in tree["nodes"]] == ["org", "pool1", "pool2"]
        gone = it.http.delete("/api/v1/cohorts/org")
        assert (gone.status_code, gone.content) == (204, b"")
        problem(it.http.get("/api/v1/cohorts/org"), 404, "NOTFOUND")


def test_nested_values_are_validated_as_strictly_as_the_request(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        body = {"topology_keys": [{"key": "rack", "label": "r", "lebel": "x"}, {"key": 3}, 4]}
        said = it.http.patch("/api/v1/pools/pool1", json=body).json()
    assert [each["message"] for each in said["problems"]] == [
        "unknown field 'topology_keys.0.lebel'. Omit it",
        "topology_keys.1.key: invalid value 3: Input should be a valid string",
        "topology_keys.1.label is missing",
        "topology_keys.2: invalid value 4: Input should be an object",
    ]
