"""Routes of the audit trail of pools."""

from pathlib import Path
from typing import Any

import pytest

from tests.api.client import Api, api

TEAM = "pools: [{name: team, quota: 4, subpools: [{name: a, quota: 2}]}]"
POOL = "/api/v1/pools/team"
HISTORY, PAST = f"{POOL}/history", f"{POOL}/past"
NAMED = "/api/configs/pool"
"""Pools at the door where the holder of the token may name another user."""


def edit(it: Api, user: str | None = None, pool: str = "team", **fields: Any) -> Any:
    it.desk.time[0] += 1
    headers = {} if user is None else it.named(user)
    answer = it.http.patch(f"{NAMED}/{pool}", json={"configs_dict": fields}, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def gpus(**countable: int) -> dict[str, Any]:
    """The quota of GPUs as that door has it: guarantee, maximum."""
    return {"gpu": countable}


def entry(
    revision: int, second: int, by: str, what: list[str], *changes: dict[str, Any], **more: Any
) -> dict[str, Any]:
    plain = {"revision": revision, "seq": 0, "time": f"2027-01-15T08:00:{second:02}Z", "by": by, "via": "command"}
    return plain | {"pool": "team", "what": what, "changes": list(changes)} | more


def change(field: str, before: Any, after: Any, resource: str | None = None) -> dict[str, Any]:
    return {"field": field, "resource": resource, "before": before, "after": after}


def test_history_has_author_time_and_both_values(tmp_path: Path) -> None:
    """Law S6."""
    with api(tmp_path, cluster="pools: [{name: team, quota: 4}]") as it:
        edit(it, resources=gpus(guarantee=5))
        edit(it, "bob", queueing="STRICT_FIFO", cohort="org", resources=gpus(maximum=6))
        answer = it.get(HISTORY)
    created = entry(1, 0, "ann", ["created"], change("nominal", None, 4, "default/gpu"), seq=1, via="apply")
    assert answer == {
        "items": [
            entry(
                4,
                2,
                "bob",
                ["moved", "changed"],
                change("borrowing_limit", None, 1, "default/gpu"),
                change("cohort", None, "org"),
                change("queueing", "BEST_EFFORT_FIFO", "STRICT_FIFO"),
            ),
            entry(3, 1, "ann", ["resized"], change("nominal", 4, 5, "default/gpu")),
            created,
        ],
        "next_cursor": None,
    }


def test_history_shows_values_as_the_settings_of_the_pool_do(tmp_path: Path) -> None:
    settings = "{name: team, quota: 4, flavors: [default], default_exit_actions: {RESCHEDULE: '7-9'},"
    settings += " topology_keys: [{key: rack, label: r}], queueing: STRICT_FIFO}"
    with api(tmp_path, cluster=f"pools: [{settings}]") as it:
        shown = it.get(POOL)
        told = {each["field"]: each["after"] for each in it.get(HISTORY)["items"][0]["changes"]}
    assert told.pop("nominal") == 4
    assert told == {field: shown[field] for field in told}
    assert set(told) == {"flavors", "default_exit_actions", "topology_keys", "queueing"}


def test_history_is_filtered_and_read_page_by_page(tmp_path: Path) -> None:
    with api(tmp_path, cluster=TEAM) as it:
        edit(it, "bob", "team--a", resources=gpus(guarantee=1))
        edit(it, "bob", "team", resources=gpus(guarantee=5))

        def listed(**query: Any) -> list[tuple[str, str]]:
            return [(each["pool"], each["by"]) for each in it.get(HISTORY, **query)["items"]]

        whole = [("team", "bob"), ("team--a", "bob"), ("team--a", "ann"), ("team", "ann")]
        assert listed() == whole
        assert listed(by="bob") == whole[:2]
        assert listed(pool="a", by="ann") == listed(pool="team--a", until="2027-01-15T08:00:00") == whole[2:3]
        assert listed(since="2027-01-15T08:00:02") == whole[:1]
        assert listed(since="2027-01-15T09:00:02+01:00") == whole[:1]
        assert it.get(HISTORY, by="bob", until="2027-01-15T08:00:00") == {"items": [], "next_cursor": None}
        assert it.get(HISTORY, by="runrig") == {"items": [], "next_cursor": None}
        assert it.error("GET", HISTORY, by="nobody")[0] == 404
        first = it.get(HISTORY, limit=3)
        last = it.get(HISTORY, limit=3, cursor=first["next_cursor"])
        assert (first["items"] + last["items"], last["next_cursor"]) == (it.get(HISTORY)["items"], None)


def test_pool_is_shown_as_it_was_at_a_past_time(tmp_path: Path) -> None:
    with api(tmp_path, cluster=TEAM) as it:
        before = {name: it.get(f"/api/v1/pools/{name}") for name in ("team", "team--a")}
        edit(it, "bob", "team--a", resources=gpus(guarantee=1))
        edit(it, "bob", "team", resources=gpus(guarantee=8), description="more")
        now = it.get(PAST, at="2027-01-15T08:00:02")
        then = it.get(PAST, at="2027-01-15T09:00:00.5+01:00")
    assert (then["at"], then["pool"]["changed"]["by"]) == ("2027-01-15T08:00:00.500000Z", "ann")
    for each in (then["pool"], *then["subpools"]):
        was = before[each["name"]]
        same = {field: value for field, value in each.items() if field != "changed"}
        assert same == {field: (was if field in was else was["gpus"])[field] for field in same}
    assert [each["name"] for each in then["subpools"]] == ["team--a"]
    assert (now["pool"]["quota"], now["pool"]["unallocated"], now["subpools"][0]["quota"]) == (8, 7, 1)


@pytest.mark.parametrize(
    ("path", "query", "status", "says"),
    [
        ("/api/v1/pools/x/history", {}, 404, "unknown pool 'x' (pools: team, team--a)"),
        ("/api/v1/pools/x/past", {"at": "2027-01-01"}, 404, "unknown pool 'x' (pools: team, team--a)"),
        ("/api/v1/pools/<b>'; DROP TABLE pools;--/history", {}, 404, "unknown pool "),
        (HISTORY, {"pool": "b"}, 404, "pool 'team' has no subpool 'b' (subpools: a)"),
        (HISTORY, {"pool": "' OR 1=1 --"}, 404, 'has no subpool "\' OR 1=1 --" (subpools: a)'),
        (HISTORY, {"since": "yesterday"}, 422, "since: invalid value 'yesterday'"),
        (HISTORY, {"since": "2027-02-01", "until": "2027-01-01"}, 422, "must be before until"),
        (HISTORY, {"limit": 0}, 422, "limit: invalid value '0'"),
        (HISTORY, {"limit": 1001}, 422, "limit: invalid value '1001'"),
        (HISTORY, {"after": "7"}, 400, "'after'"),
        (HISTORY, {"cursor": "7"}, 422, "cursor '7' does not belong to this list"),
        (HISTORY, {"by": ""}, 422, "by: invalid value ''"),
        (HISTORY, {"by": "a\0b"}, 422, "invalid user name"),
        (HISTORY, {"by": "x" * 129}, 422, "invalid value"),
        (
            PAST,
            {"at": "2027-01-15T08:00:01"},
            422,
            "2027-01-15 08:00:01 UTC is in the future (now: 2027-01-15 08:00:00 UTC)",
        ),
        (PAST, {"at": "9999-12-31T23:59:59"}, 422, "is in the future"),
        (PAST, {"at": "1970-01-01"}, 404, "pool 'team' did not exist at 1970-01-01 00:00:00 UTC"),
    ],
)
def test_invalid_history_queries_get_an_error_with_a_way_out(
    tmp_path: Path, path: str, query: dict[str, Any], status: int, says: str
) -> None:
    with api(tmp_path, cluster=TEAM) as it:
        found, body = it.error("GET", path, **query)
    assert found == status
    assert says in body["message"]


@pytest.mark.parametrize("name", ["engine", "apply by ann"])
def test_user_names_that_the_log_could_confuse_are_rejected(tmp_path: Path, name: str) -> None:
    with api(tmp_path, cluster=TEAM) as it:
        before = it.desk.revision
        answer = it.http.patch(f"{NAMED}/team", json={"configs_dict": {}}, headers={"x-osmo-user": name})
        assert (answer.status_code, it.desk.revision) == (403, before)


TIMES = (("/api/workflow", "submitted_after"), ("/api/workflow", "submitted_before"), (HISTORY, "since"), (PAST, "at"))


@pytest.mark.parametrize(
    "at", ["0001-01-01", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999999", "9999-12-31T23:59:59-14:00"]
)
def test_times_that_no_database_can_store_are_refused(tmp_path: Path, any_store: str, at: str) -> None:
    with api(tmp_path, cluster=TEAM, database=any_store) as it:
        found = [it.error("GET", path, **{field: at}) for path, field in TIMES]
    why = f"invalid value {at!r}: use a time from the years 1970 to 9999"
    assert [(status, body["message"]) for status, body in found] == [(422, f"{field}: {why}") for _, field in TIMES]
