"""Run times that a pool gives to work that names none, by every way in (law P6)."""

from pathlib import Path
from typing import Any

from tests.api.client import Api, api
from tests.api.test_batches import BATCH, KEY, check_memory
from tests.worlds.service import one_task


def limits(it: Api, *ids: str) -> list[float | None]:
    return [it.get(f"/api/v1/workflows/{id}")["exec_timeout_s"] for id in ids]


def posted(it: Api, path: str, body: dict[str, Any], key: str | None = None) -> Any:
    answer = it.http.post(path, json=body, headers={"Idempotency-Key": key} if key else {})
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


def test_each_submission_gets_the_run_time_of_its_pool_and_keeps_it(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.http.patch("/api/v1/pools/pool1", json={"default_run_time": "1h"})
        it.http.patch("/api/v1/pools/pool2", json={"max_run_time": "2h"})
        for pool in ("pool1", "pool2"):
            body = {"pool": pool, "file": one_task("a")}
            assert posted(it, "/api/v1/workflows", body, KEY if pool == "pool1" else None)["id"]
        for together in (False, True):
            many = {"pool": "pool1", "workflows": [{"file": one_task("a")}] * 2, "all_or_nothing": together}
            posted(it, BATCH, many)
        it.http.patch("/api/v1/pools/pool1", json={"default_run_time": None})
        assert posted(it, "/api/v1/workflows", {"pool": "pool1", "file": one_task("a")}, KEY)["id"] == "a-1"
        posted(it, "/api/v1/workflows", {"pool": "pool1", "file": one_task("a")})
        posted(it, "/api/v1/workflows/a-2/repeat", {"pool": "pool1"})
        ids = [f"a-{number}" for number in range(1, 9)]
        assert limits(it, *ids) == [3600.0, 7200.0, 3600.0, 3600.0, 3600.0, 3600.0, None, 7200.0]
        check_memory(it)
