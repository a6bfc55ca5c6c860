"""Limits of users at our own door."""

from pathlib import Path
from typing import Any

from tests.api.client import Api, api
from tests.api.v1.ours import page_through, problem
from tests.worlds.service import one_task

NONE = {"gpus": None, "waiting": None, "gpus_per_workflow": None, "budget": None}


def of(user: str | None, pool: str | None, limit: str, most: int, used: int | None) -> dict[str, Any]:
    return {"user": user, "pool": pool, "limit": limit, "most": most, "used": used, "renews": None}


def rows(it: Api, headers: dict[str, str] | None = None, **query: str) -> list[Any]:
    answer = it.http.get("/api/v1/limits", params=query, headers=headers or {})
    return list(answer.raise_for_status().json()["items"])


def test_a_limit_of_a_user_over_all_pools_is_set_shown_and_lifted(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.submit(one_task("a"), "pool1")
        it.desk.later(0)
        limits = "/api/v1/limits/users/ann"
        dry = it.http.patch(limits, json={"gpus": 4, "waiting": 2}, params={"dry_run": "true"}).json()
        after = NONE | {"gpus": 4, "waiting": 2}
        assert dry == {"user": "ann", "pool": None, "before": NONE, "after": after, "above": [], "budget": None}
        assert rows(it) == []
        assert it.http.patch(limits, json={"gpus": 4, "waiting": 2}).json() == dry
        it.http.patch(limits, json={"gpus_per_workflow": 3}).raise_for_status()
        assert rows(it) == [
            of("ann", None, "gpus", 4, 1),
            of("ann", None, "gpus_per_workflow", 3, None),
            of("ann", None, "waiting", 2, 0),
        ]
        assert len(page_through(it, "/api/v1/limits", 2)) == 2
        lifted = it.http.patch(limits, json=NONE).json()
        assert (lifted["before"], lifted["after"]) == (after | {"gpus_per_workflow": 3}, NONE)
        assert rows(it) == []


def test_a_limit_of_a_pool_names_users_above_it_and_applies_to_subpools(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        for name in ("a", "b"):
            it.submit(one_task(name), "pool1")
        it.desk.later(0)
        changed = it.http.patch("/api/v1/limits/pools/pool1", json={"gpus": 1, "waiting": 5}).json()
        assert changed["above"] == [of("ann", "pool1", "gpus", 1, 2)]
        assert it.get("/api/v1/pools/pool1")["user_gpus"] == 1
        assert rows(it, pool="pool1") == [
            of(None, "pool1", "gpus", 1, None),
            of(None, "pool1", "waiting", 5, None),
            of("ann", "pool1", "gpus", 1, 2),
        ]
        assert rows(it, user="ann") == [of("ann", "pool1", "gpus", 1, 2), of("ann", "pool1", "waiting", 5, 0)]


def test_users_see_their_own_limits_and_administrators_see_all(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.http.post("/api/v1/users", json={"name": "eve", "roles": ["pool1-user"]}).raise_for_status()
        token = it.http.post("/api/v1/users/eve/tokens", json={"name": "laptop"}).json()["token"]
        it.submit(one_task("a"), "pool1")
        it.desk.later(0)
        for path in ("users/ann", "users/eve", "pools/pool1", "pools/pool2"):
            it.http.patch(f"/api/v1/limits/{path}", json={"gpus": 7}).raise_for_status()
        eve = {"Authorization": f"Bearer {token}"}
        assert rows(it, eve) == [of(None, "pool1", "gpus", 7, None), of("eve", None, "gpus", 7, 0)]
        assert rows(it, eve, user="ann") == []
        assert [(each["user"], each["pool"]) for each in rows(it)] == [
            (None, "pool1"),
            (None, "pool2"),
            ("ann", None),
            ("ann", "pool1"),
            ("eve", None),
        ]
        problem(it.http.patch("/api/v1/limits/users/eve", json={"gpus": 9}, headers=eve), 403, "FORBIDDEN")
        problem(it.http.get("/api/v1/limits", params={"pool": "pool2"}, headers=eve), 404, "NOTFOUND")


def test_invalid_limits_are_refused_with_the_rule_and_not_stored(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        limits = "/api/v1/limits/users/ann"
        for body in ({"gpus": 0}, {"waiting": 1_000_001}, {"gpus": "x"}, {"unknown": 1}, {"gpus": 1.5}):
            problem(it.http.patch(limits, json=body), 422, "USAGE")
        problem(it.http.patch("/api/v1/limits/users/nobody", json={"gpus": 1}), 404, "NOTFOUND")
        problem(it.http.patch("/api/v1/limits/pools/pool9", json={"gpus": 1}), 404, "NOTFOUND")
        problem(it.http.patch("/api/v1/limits/pools/pool1", json={"gpus": 0}), 422, "USAGE")
        assert rows(it) == []


def test_budgets_are_listed_with_what_is_held_and_when_they_renew(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.submit(one_task("a", gpus=2, duration=10_000_000), "pool1")
        it.desk.later(0)
        it.http.patch("/api/v1/limits/pools/pool1", json={"budget": 100}).raise_for_status()
        it.http.patch("/api/v1/limits/users/ann", json={"budget": 3}).raise_for_status()
        assert [each["used"] for each in rows(it)] == [None, None]
        it.desk.later(2 * 3600)
        renews = {"renews": "2027-02-01T00:00:00Z"}
        assert rows(it) == [of(None, "pool1", "budget", 100, 4) | renews, of("ann", None, "budget", 3, 4) | renews]
        it.submit(one_task("b"), "pool2")
        it.desk.later(0)
        (group,) = it.http.get("/api/v1/workflows/b-1/why").json()["groups"]
        (reason,) = group["reasons"]
        assert (reason["code"], reason["law"], reason["have"], reason["own"]) == ("BudgetReached", "W7", 4, 3)
        above = it.http.patch("/api/v1/limits/pools/pool1", json={"budget": 1}, params={"dry_run": "true"}).json()[
            "above"
        ]
        assert above == [of(None, "pool1", "budget", 1, 4) | renews]
        assert it.http.get("/api/v1/pools/pool1").json()["budget"] == 100
        wrong = it.http.patch("/api/v1/limits/users/ann", json={"budget": 0})
        assert problem(wrong, 422, "USAGE")["detail"].startswith(
            "budget: 0 is out of range: use a whole number from 1 to 1000000000"
        )
