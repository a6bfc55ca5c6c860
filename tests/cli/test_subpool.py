"""`runrig pool subpool`: what is asked of the server, and what is said."""

from typing import Any

import pytest

from runrig.domain.shown import PoolDeleted
from runrig.wire.json import read
from tests.cli.canned_server import answered, at, page, pool, refused, serving
from tests.worlds.command_line import lines, runrig

POOLS = "/api/v1/pools"
ROUTE = f"{POOLS}/team--a"
PARENT = pool("team", quota=100, unallocated=70, available=70, subpools=["team--a"])


def quotas(gpus: int) -> dict[str, Any]:
    return {"default": {"gpu": {"nominal": gpus, "borrowing_limit": None, "lending_limit": None}}}


def subpool(name: str = "a", gpus: int = 30, **fields: Any) -> dict[str, Any]:
    place = {"parent": "team", "quotas": quotas(gpus)}
    return pool(f"team--{name}", **{"quota": gpus, "unallocated": gpus, "available": gpus, **place, **fields})


def deleted(state: str, *cancelled: str, **fields: Any) -> dict[str, Any]:
    return {"pool": subpool(**fields, state=state), "cancelled": list(cancelled)}


def test_list_has_a_row_per_subpool() -> None:
    rows = [PARENT, subpool(), subpool("b", 0, used=5, available=-5, held=40, state="DELETING")]
    done = answered({f"GET {POOLS}": page(*rows)}, "pool", "subpool", "list", "team")
    assert lines(done.out) == [
        "Pool            Status         Subpool State  GPU Quota     Used  Available",
        "--------------  -------------  -------------  ------------  ----  ---------",
        "team--a         ONLINE         ACTIVE         30            0     30",
        "team--b         DELETING       DELETING       0 (Held: 40)  5     -5",
    ]
    none = answered({f"GET {POOLS}": page(PARENT)}, "pool", "subpool", "list", "team")
    assert (
        none.out == "pool team has no subpools. Create one with `runrig pool subpool create team NAME --quota GPUS`.\n"
    )


@pytest.mark.parametrize(
    ("quota", "sent"), [("30", 30), ("33.3%", "33.3%"), ("h100=8,b200=4", "h100=8,b200=4"), ("0", 0), ("101%", "101%")]
)
def test_create_and_update_send_the_share_as_typed(quota: str, sent: object) -> None:
    answers = {f"POST {POOLS}": (201, subpool()), f"PATCH {ROUTE}": subpool(), "GET /api/v1/flavors": page()}
    with serving(answers) as server:
        at(server, "pool", "subpool", "create", "team", "a", "--quota", quota, "-t", "json")
        at(server, "pool", "subpool", "update", "team", "a", "--quota", quota, "--dry-run", "-t", "json")
    assert [each for each in server.asked if each[2]] == [
        (f"POST {POOLS}", [], {"parent": "team", "name": "a", "quota": sent}),
        (f"PATCH {ROUTE}", [("dry_run", "True")], {"quota": sent}),
    ]


def test_create_reports_the_quota_and_the_rest_of_the_parent() -> None:
    answers = {f"POST {POOLS}": subpool(), f"GET {POOLS}/team": PARENT}
    done = answered(answers, "pool", "subpool", "create", "team", "a", "--quota", "30%")
    assert lines(done.out) == ["subpool team--a: created with quota 30", "pool team has 70 of its 100 GPUs unallocated"]
    done = answered(answers, "pool", "subpool", "create", "team", "a", "--quota", "30%", "--dry-run")
    assert lines(done.out) == ["subpool team--a: would be created with quota 30"]


def test_update_reports_the_change_and_what_drains() -> None:
    answers = {
        f"GET {ROUTE}": subpool(),
        f"PATCH {ROUTE}": subpool(gpus=4, used=9, available=-5),
        f"GET {POOLS}/team": PARENT,
    }
    done = answered(answers, "pool", "subpool", "update", "team", "a", "--quota", "4")
    assert lines(done.out) == [
        "subpool team--a: quota 30 → 4",
        "9 GPUs are still in use, so Available is -5 until workflows finish",
        "pool team has 70 of its 100 GPUs unallocated",
    ]


def test_delete_reports_whether_it_drains_and_what_still_runs() -> None:
    drains = deleted("DELETING", "w-3", "w-4", quota=0, held=30, total=5, workflows=2)
    done = answered({f"DELETE {ROUTE}": drains}, "pool", "subpool", "delete", "team", "a")
    assert lines(done.out) == [
        "pool team--a is DELETING: 2 workflows with 5 GPUs still run there, "
        "and it keeps 30 GPUs of team until they have ended",
        "cancelled, as they had not started: w-3, w-4",
    ]
    one = deleted("DELETING", quota=0, held=1, total=1, workflows=1)
    assert answered({f"DELETE {ROUTE}": one}, "pool", "subpool", "delete", "team", "a").out == (
        "pool team--a is DELETING: 1 workflow with 1 GPU still runs there, and it keeps 1 GPU of team until it has ended\n"
    )
    done = answered({f"DELETE {ROUTE}": deleted("ARCHIVED")}, "pool", "subpool", "delete", "team", "a")
    assert lines(done.out) == [
        "pool team--a is ARCHIVED: nothing runs there, and its quota is unallocated in team again"
    ]
    with serving({f"DELETE {ROUTE}": drains}) as server:
        done = at(server, "pool", "subpool", "delete", "team", "a", "--dry-run")
    assert [line.split(":")[0] for line in lines(done.out)] == [
        "pool team--a would be DELETING",
        "would be cancelled, as they had not started",
    ]
    assert server.asked == [(f"DELETE {ROUTE}", [("dry_run", "True")], None)]


@pytest.mark.parametrize("quota", ["-1", "1.5", "x", "", "٣", "1e3", "<b>", "\x1b[31m"])
def test_invalid_share_is_reported_before_any_request(quota: str) -> None:
    done = runrig("--server", "http://127.0.0.1:1", "pool", "subpool", "create", "team", "a", "--quota", quota)
    assert (done.code, done.out) == (2, "")
    assert "is not a quota. Use whole GPUs such as 8, a percentage of the parent's quota such as 25%" in done.err
    assert "\x1b" not in done.err


def test_subpool_needs_a_quota() -> None:
    done = runrig("--server", "http://127.0.0.1:1", "pool", "subpool", "update", "team", "a")
    assert (done.code, "--quota" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("status", "code", "exit_code"), [(400, "RESOURCE", 1), (409, "CONFLICT", 1), (404, "NOTFOUND", 2)]
)
def test_refusal_of_the_server_has_the_right_exit_code(status: int, code: str, exit_code: int) -> None:
    answers = {f"POST {POOLS}": (status, refused("no, and why", code))}
    done = answered(answers, "pool", "subpool", "create", "team", "a", "--quota", "8")
    assert (done.code, done.out, done.err) == (exit_code, "", "Error: no, and why\n")


def test_names_cannot_change_the_path_of_the_url() -> None:
    with serving({}) as server:
        assert at(server, "pool", "subpool", "delete", "../x", "a/../../b?c#").code == 2
        at(server, "pool", "subpool", "delete", "..x", "b?c#%2F")
    assert [each[0] for each in server.asked] == ["DELETE /api/v1/pools/..x--b%3Fc%23%252F"]


def test_answer_of_a_delete_is_valid_for_its_model() -> None:
    assert read(PoolDeleted, deleted("DELETING")).pool.state == "DELETING"
