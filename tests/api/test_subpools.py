"""Routes of subpools, and every way to ask for one that cannot be (subpools.md; laws P3, R7, S1-S6)."""

import dataclasses
from pathlib import Path
from typing import Any

from tests.api.client import Api, api
from tests.worlds.service import one_task

TEAM = "pools: [{name: team, quota: 10}, {name: sim, quota: 2}]"
ROUTE = "/api/configs/pool/team/subpool"
NUMBERS = ("quota", "unallocated", "used", "subtree_used", "total", "available", "held", "workflows")
GUARANTEE = {"resources": {"gpu": {"guarantee": 2}}}
KINDS = """
flavors: [{name: h100, node_labels: {gpu: h100}}, {name: b200, node_labels: {gpu: b200}}]
pools:
- name: mixed
  quota: {h100: {gpu: 9, cpu: 90}, b200: {gpu: 5}}
"""


def numbers(answer: Any) -> list[int]:
    return [answer[name] for name in NUMBERS]


def state_of(it: Api) -> Any:
    """All that is stored, times of the log included."""
    return dataclasses.asdict(it.desk.store.load()), len(it.desk.store.log.events())


def test_subpool_has_the_format_of_a_pool_quota_with_its_parent(tmp_path: Path) -> None:
    with api(tmp_path, cluster=TEAM, gpus=12) as it:
        made = it.call("POST", ROUTE, {"name": "a", "quota": 4})
        place = ("name", "parent", "subpool_name", "subpool_state", "state", "status")
        assert [made[key] for key in place] == ["team--a", "team", "a", "ACTIVE", "ACTIVE", "ONLINE"]
        assert numbers(made) == [4, 4, 0, 0, 0, 4, 0, 0]
        assert it.get(f"{ROUTE}/a") == made
        assert it.get(ROUTE) == {"subpools": [made]}
        sets = it.get("/api/pool_quota")["node_sets"]
        assert [pool for each in sets for pool in each["pools"] if pool["name"] == "team--a"] == [made]
        parent = it.get("/api/v1/pools/team")
        assert (parent["subpools"], numbers(parent["gpus"] | parent)) == (["team--a"], [10, 6, 0, 0, 0, 6, 0, 0])
        assert numbers(it.call("PUT", f"{ROUTE}/a", {"quota": 6})) == [6, 6, 0, 0, 0, 6, 0, 0]
        assert numbers(it.call("PATCH", f"{ROUTE}/a", {"quota": "35%"}))[0] == 3


def test_percentage_share_is_computed_when_the_command_runs(tmp_path: Path) -> None:
    """S1, S5."""
    with api(tmp_path, cluster=TEAM, gpus=20) as it:
        assert it.call("POST", ROUTE, {"name": "a", "quota": "33.3%"})["quota"] == 3
        it.call("PATCH", "/api/v1/pools/team", {"quota": 20})
        assert it.get(f"{ROUTE}/a")["quota"] == 3
        assert it.call("PATCH", f"{ROUTE}/a", {"quota": "33.3%"})["quota"] == 6
        assert it.call("PATCH", f"{ROUTE}/a", {"quota": "100%"})["quota"] == 20


def test_with_several_flavors_a_share_is_given_for_each_and_a_percentage_applies_to_each(tmp_path: Path) -> None:
    """S1, S5."""
    route = "/api/configs/pool/mixed/subpool"
    with api(tmp_path, cluster=KINDS) as it:
        status, answer = it.error("POST", route, {"name": "a", "quota": 3})
        assert (status, answer["message"]) == (
            422,
            "quota: there are 2 flavors, h100, b200. Give an amount for each: h100=8,b200=8, or in full {h100: {gpu: 8}, b200: {gpu: 8}}",
        )
        made = it.call("POST", route, {"name": "a", "quota": "h100=3,b200=2"})
        assert made["quota"] == 5
        assert made["quotas"]["h100"]["cpu"]["nominal"] == 30_000
        half = it.call("PATCH", f"{route}/a", {"quota": "50%"})["quotas"]
        assert [half[flavor]["gpu"]["nominal"] for flavor in ("h100", "b200")] == [4, 2]
        assert it.call("PATCH", f"{route}/a", {"quota": "b200=1"})["quota"] == 1


def test_delete_drains_with_its_numbers_and_the_name_can_be_reused(tmp_path: Path) -> None:
    """R7, S3."""
    with api(tmp_path, cluster=TEAM, gpus=12) as it:
        it.call("POST", ROUTE, {"name": "a", "quota": 4})
        it.submit(one_task("runs", gpus=3), "team--a")
        it.desk.later(0)
        it.submit(one_task("waits", gpus=2), "team--a")
        before = state_of(it)
        would = it.call("DELETE", f"{ROUTE}/a", dry_run=True)
        assert state_of(it) == before
        gone = it.call("DELETE", f"{ROUTE}/a")
        assert gone == would
        assert (gone["state"], numbers(gone), gone["cancelled"]) == ("DELETING", [0, 0, 3, 3, 3, -3, 4, 1], ["waits-1"])
        assert it.get("/api/v1/pools/team")["gpus"]["unallocated"] == 6
        it.desk.later(200)
        assert it.get(ROUTE) == {"subpools": []}
        (kept,) = it.get(ROUTE, archived=True)["subpools"]
        assert (kept["state"], kept["quota"], kept["held"]) == ("ARCHIVED", 0, 0)
        assert it.get("/api/v1/pools/team")["gpus"]["unallocated"] == 10
        assert numbers(it.call("POST", ROUTE, {"name": "a", "quota": 5}))[0] == 5
        idle = it.call("DELETE", f"{ROUTE}/a")
        assert (idle["state"], idle["cancelled"]) == ("ARCHIVED", [])


def test_dry_run_shows_the_effect_and_changes_nothing(tmp_path: Path) -> None:
    with api(tmp_path, cluster=TEAM, gpus=12) as it:
        it.call("POST", ROUTE, {"name": "a", "quota": 4})
        before = state_of(it)
        assert it.call("POST", ROUTE, {"name": "b", "quota": "50%"}, dry_run=True)["quota"] == 5
        assert it.call("PUT", f"{ROUTE}/a", {"quota": 9}, dry_run=True)["quota"] == 9
        assert it.error("POST", ROUTE, {"name": "b", "quota": 7}, dry_run=True)[0] == 400
        assert state_of(it) == before


def test_pools_selected_by_name_include_their_subpools_on_request(tmp_path: Path) -> None:
    with api(tmp_path, cluster=TEAM, gpus=12) as it:
        for short in "ba":
            it.call("POST", ROUTE, {"name": short, "quota": 1})
        for asked, names in ((True, ["team", "team--a", "team--b"]), (False, ["team"])):
            found = it.get("/api/pool_quota", pools=["team"], all_pools=False, subpools=asked)["node_sets"]
            assert [pool["name"] for each in found for pool in each["pools"]] == names


# ---------------------------------------------------------------- refused requests

QUOTAS: list[tuple[Any, int, str]] = [
    (-1, 422, "-1 is negative"),
    ("-1", 422, "'-1' is not a number of GPUs"),
    (1.5, 422, "expected a whole number, got 1.5"),
    (2.0, 422, "expected a whole number, got 2.0"),
    (1e300, 422, "expected a whole number"),
    (True, 422, "expected a whole number, got true"),
    (None, 422, "expected a whole number, got nothing"),
    ([1], 422, "expected a whole number, got a list"),
    ({"gpu": {"nominal": 1, "borrowing_limit": 1}}, 422, "a subpool has only a GPU quota, without limits"),
    ({"cpu": 4}, 422, "a subpool has only a GPU quota, without limits"),
    (7, 400, "the subpools of team would have 11 GPUs (x 7, a 4), but team has only 10. Give x at most 6"),
    (2**63 - 1, 400, "but team has only 10. Give x at most 6"),
    (2**63, 422, "9223372036854775808 is too large (maximum 9223372036854775807)"),
    ("9" * 40, 422, "is too large"),
    ("101%", 422, "101% is more than the parent's quota. Use at most 100%."),
    ("-1%", 422, "'-1%' is not a percentage. Use 0% to 100%"),
    ("%", 422, "'%' is not a percentage"),
    ("33.3.3%", 422, "'33.3.3%' is not a percentage"),
    ("1e1%", 422, "'1e1%' is not a percentage"),
    ("nan%", 422, "'nan%' is not a percentage"),
    ("٥%", 422, "'٥%' is not a percentage"),
    ("9%", 422, "9% of 10 GPUs, rounded down, is 0 GPUs"),
    ("h100=1", 422, "unknown flavor 'h100'. Use default"),
    ("default=1,default=2", 422, "names default twice"),
    ("٣", 422, "expected a whole number, got text '٣'"),
    ("", 422, "'' is not a number of GPUs"),
    ("1'; DROP TABLE pools; --", 422, "is not a number of GPUs"),
    ("<script>alert(1)</script>", 422, "is not a number of GPUs"),
    ("9" * 20_000, 422, "the quota is too long (20000 characters"),
]


def test_invalid_share_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    with api(tmp_path, cluster=TEAM, gpus=12) as it:
        it.call("POST", ROUTE, {"name": "a", "quota": 4})
        it.call("POST", ROUTE, {"name": "x", "quota": 1})
        before = state_of(it)
        for quota, status, says in QUOTAS:
            for method, path, body in (
                ("PUT", f"{ROUTE}/x", {"quota": quota}),
                ("PATCH", f"{ROUTE}/x", {"quota": quota}),
                ("POST", ROUTE, {"name": "y", "quota": quota}),
            ):
                found, answer = it.error(method, path, body)
                assert (found, set(answer)) == (status, {"message", "error_code", "details"}), answer
                if method != "POST" or status == 422:
                    assert says in answer["message"], (quota, answer)
        assert state_of(it) == before


def test_update_can_take_all_gpus_of_a_subpool_and_return_them(tmp_path: Path) -> None:
    """S1, P3, R7."""
    with api(tmp_path, cluster=TEAM, gpus=12) as it:
        for name, nothing in (("z", 0), ("y", "0%"), ("x", "0.0%"), ("w", "0")):
            assert it.call("POST", ROUTE, {"name": name, "quota": nothing})["quota"] == 0
        it.call("POST", ROUTE, {"name": "a", "quota": 4})
        it.submit(one_task("runs", gpus=3), pool="team--a")
        it.desk.later(1)
        shrunk = it.call("PATCH", f"{ROUTE}/a", {"quota": 0})
        assert {name: shrunk[name] for name in ("quota", "used", "available", "state")} == {
            "quota": 0,
            "used": 3,
            "available": -3,
            "state": "ACTIVE",
        }
        assert it.get("/api/v1/pools/team")["gpus"]["unallocated"] == 10
        assert it.get("/api/workflow/runs-1")["status"] == "RUNNING"
        status, answer = it.error("POST", "/api/pool/team--a/workflow", {"file": one_task("firm")})
        assert (status, answer["details"]["law"]) == (400, "P3")
        it.submit(one_task("low"), pool="team--a", priority="LOW")
        it.desk.later(1)
        assert it.get("/api/workflow/low-1")["status"] == "RUNNING"
        assert it.call("PUT", f"{ROUTE}/a", {"quota": 4})["available"] == 1


NAMES: list[tuple[Any, str]] = [
    ("a--b", "subpool name 'a--b' contains '--', which separates a pool from its subpool: use a single '-'"),
    ("--", "contains '--'"),
    ("_shared", "subpool name '_shared' starts with '_', which is reserved"),
    ("A", "must be lower-case letters"),
    ("а", "must be lower-case letters"),  # full-width Cyrillic
    ("ａ", "must be lower-case letters"),  # full width
    ("a\u200b", "must be lower-case letters"),
    ("x" * 300, "subpool name is too long (300 characters, maximum 63)"),
    ("x" * 58, "so NAME can have up to 57"),
    ("", "must be lower-case letters"),
    ("-a", "must be lower-case letters"),
    ("a-", "must be lower-case letters"),
    ("a\n", "must be lower-case letters"),
    ("a\0", "must be lower-case letters"),
    ("a'; DROP TABLE pools", "must be lower-case letters"),
    ("<img src=x onerror=alert(1)>", "must be lower-case letters"),
    ("../../etc", "must be lower-case letters"),
    (1, "name: invalid value 1"),
    (None, "name: invalid value None"),
    (["a"], "name: invalid value ['a']"),
]


def test_invalid_name_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    """S4."""
    with api(tmp_path, cluster=TEAM, gpus=12) as it:
        before = state_of(it)
        for name, says in NAMES:
            status, answer = it.error("POST", ROUTE, {"name": name, "quota": 1})
            assert (status, says in answer["message"]) == (422, True), (name, answer)
        assert state_of(it) == before


def test_unusual_names_in_a_path_are_not_found(tmp_path: Path) -> None:
    with api(tmp_path, cluster=TEAM, gpus=12) as it:
        before = state_of(it)
        for name in ("a--b", "_a", "A", "а", "x" * 300, "a'; DROP TABLE pools", "<b>"):
            for method, body in (("GET", None), ("PUT", {"quota": 1}), ("PATCH", {"quota": 1}), ("DELETE", None)):
                assert it.error(method, f"{ROUTE}/{name}", body)[0] == 404, name
                assert it.error(method, f"/api/configs/pool/{name}/subpool/x", body)[0] == 404, name
            assert it.error("POST", f"/api/configs/pool/{name}/subpool", {"name": "x", "quota": 1})[0] == 404, name
        assert state_of(it) == before


def test_invalid_bodies_are_reported_field_by_field(tmp_path: Path) -> None:
    with api(tmp_path, cluster=TEAM, gpus=12) as it:
        before = state_of(it)
        for body, says in (
            ({}, "name is missing; quota is missing"),
            ({"name": "a"}, "quota is missing"),
            ({"name": "a", "quota": 1, "weight": 2}, "unknown field 'weight'. Omit it"),
            ([], "invalid value"),
        ):
            status, answer = it.error("POST", ROUTE, body)
            assert (status, says in answer["message"]) == (422, True), answer
        assert state_of(it) == before


def test_forbidden_states_and_parents_are_reported_and_nothing_changes(tmp_path: Path) -> None:
    """S3, S4."""
    with api(tmp_path, cluster=TEAM, gpus=12) as it:
        for short in ("a", "gone", "busy"):
            it.call("POST", ROUTE, {"name": short, "quota": 2})
        it.call("DELETE", f"{ROUTE}/gone")
        it.submit(one_task("w"), "team--busy")
        it.desk.later(0)
        it.call("DELETE", f"{ROUTE}/busy")
        before = state_of(it)
        still = "pool team--busy is DELETING: it cannot be changed, deleted or created again while 1 workflow with 1 GPU is running"
        nested = "team--a is a subpool, and a subpool cannot have subpools. Create 'x' in team instead"
        cases: list[tuple[str, str, Any, int, str]] = [
            ("POST", ROUTE, {"name": "a", "quota": 1}, 409, "pool team--a already exists"),
            ("POST", ROUTE, {"name": "busy", "quota": 1}, 409, still),
            ("PATCH", f"{ROUTE}/busy", {"quota": 1}, 409, still),
            ("PUT", f"{ROUTE}/busy", {"quota": 99}, 409, still),
            ("DELETE", f"{ROUTE}/busy", None, 409, still),
            ("DELETE", "/api/configs/pool/team--busy", None, 409, still),
            ("PATCH", f"{ROUTE}/gone", {"quota": 1}, 409, "pool team--gone is ARCHIVED: create it again to use it"),
            ("PUT", f"{ROUTE}/gone", {"quota": "50%"}, 409, "pool team--gone is ARCHIVED"),
            ("PATCH", "/api/v1/pools/team--gone", {"quota": "50%"}, 404, "team--gone is ARCHIVED. Create it again"),
            ("PATCH", "/api/configs/pool/team--gone", {"configs_dict": GUARANTEE}, 404, "team--gone is ARCHIVED. Create it"),
            ("DELETE", f"{ROUTE}/gone", None, 409, "pool team--gone is ARCHIVED: it has already been deleted"),
            ("DELETE", "/api/v1/pools/team--gone", None, 409, "pool team--gone is ARCHIVED"),
            ("DELETE", f"{ROUTE}/x", None, 404, "pool team has no subpool 'x' (subpools: a, busy)"),
            ("PATCH", f"{ROUTE}/x", {"quota": 1}, 404, "pool team has no subpool 'x'"),
            ("POST", "/api/configs/pool/team--a/subpool", {"name": "x", "quota": 1}, 400, nested),
            ("POST", "/api/configs/pool/nope/subpool", {"name": "x", "quota": 1}, 404, "unknown pool 'nope'"),
            ("GET", "/api/configs/pool/nope/subpool", None, 404, "unknown pool 'nope'"),
            ("GET", f"{ROUTE}/x", None, 404, "pool team has no subpool 'x'"),
            ("DELETE", "/api/configs/pool/team", None, 409, "pool team has subpools (team--a, team--busy)"),
            ("PATCH", "/api/v1/pools/team", {"quota": 3}, 400, "its subpools have 4 (a 2, busy 2 DELETING)"),
            ("PATCH", "/api/v1/pools/team--a", {"cohort": "x"}, 422, "subpool team--a inherits cohort from team"),
            ("PATCH", "/api/v1/pools/team--a", {"borrowing_limit": 1}, 422, "inherits borrowing_limit from team"),
            ("POST", "/api/v1/pools", {"name": "team--new", "quota": 1}, 422, "contains '--'"),
            ("POST", "/api/pool/team--gone/workflow", {"file": one_task("v")}, 400, "pool team--gone is ARCHIVED and"),
            ("POST", "/api/pool/team--busy/workflow", {"file": one_task("v")}, 400, "Use team--a. team--busy was deleted by ann"),
            ("POST", "/api/pool/team--x/workflow", {"file": one_task("v")}, 404, "Did you mean 'team--a'"),
        ]  # fmt: skip
        for method, path, body, status, says in cases:
            found, answer = it.error(method, path, body)
            assert (found, says in answer["message"]) == (status, True), (method, path, answer)
        assert state_of(it) == before


def test_cancelled_workflow_shows_who_deleted_its_pool(tmp_path: Path) -> None:
    """S3, S6."""
    with api(tmp_path, cluster=TEAM, gpus=12) as it:
        it.call("POST", ROUTE, {"name": "a", "quota": 2})
        for name in ("runs", "waits"):
            it.submit(one_task(name, gpus=2), "team--a")
            it.desk.later(0)
        it.http.delete(f"{ROUTE}/a", headers=it.named("eve"))
        deleted = {"pool": "team--a", "by": "eve", "at": "2027-01-15T08:00:00Z", "then": "DELETING"}
        why = it.get("/api/v1/workflows/waits-1/why")
        assert (why["ending"], why["sentence"]) == (
            deleted | {"state": "DELETING"},
            "waits-1 is FAILED_CANCELED: cancelled by eve: pool team--a was deleted before it started. "
            "Pool team--a was deleted by eve at 2027-01-15 08:00:00 UTC. It was DELETING then.",
        )
        why = it.get("/api/v1/workflows/runs-1/why")
        assert why["ending"] == deleted | {"state": "DELETING"}
        assert why["sentence"].endswith("and is DELETING; running work finishes first.")
        it.desk.later(200)
        assert it.get("/api/v1/workflows/runs-1/why")["ending"] is None
        assert it.get("/api/v1/workflows/waits-1/why")["ending"] == deleted | {"state": "ARCHIVED"}
        it.call("POST", ROUTE, {"name": "a", "quota": 2})
        it.call("DELETE", f"{ROUTE}/a")
        assert it.get("/api/v1/workflows/waits-1/why")["ending"] == deleted | {"state": "ARCHIVED"}
        events = it.get("/api/workflow/waits-1/events")
        assert "cancelled by eve: pool team--a was deleted before it started" in str(events)


def test_apply_makes_changes_and_prunes_subpools(tmp_path: Path) -> None:
    """S1, S5."""

    def changes(text: str, **options: Any) -> list[tuple[str, str]]:
        answer = it.call("POST", "/api/v1/apply", {"file": text, **options})
        return [(change["action"], change["name"]) for change in answer["changes"]]

    def cut(team: int, **shares: Any) -> str:
        parts = ", ".join(f"{{name: {short}, quota: {share!r}}}" for short, share in shares.items())
        return f"pools: [{{name: sim, quota: 2}}, {{name: team, quota: {team}, subpools: [{parts}]}}]"

    with api(tmp_path, cluster=TEAM, gpus=12) as it:
        assert changes(cut(10, a="50%", b=2), dry_run=True) == changes(cut(10, a="50%", b=2))
        assert [pool["quota"] for pool in it.get(ROUTE)["subpools"]] == [5, 2]
        smaller = cut(9, a="50%", b=2)
        assert changes(smaller)[:2] == [("update", "team"), ("update", "team--a")]
        assert {action for action, _ in changes(smaller)} == {"unchanged"}
        assert it.get(f"{ROUTE}/a")["quota"] == 4
        assert ("delete", "team--b") in changes(cut(9, a=4), prune=True)
        assert ("create", "team--b") in changes(cut(9, a=4, b=1))
        before = state_of(it)
        for shares, says in (
            ({"a": "1%"}, "1% of 9 GPUs, rounded down, is 0 GPUs"),
            ({"a": 10}, "together they have 10 GPUs (default), but pool team has 9"),
            ({"a": "101%"}, "at most 100%"),
            ({"a": "-1%"}, "is not a percentage"),
            ({"a": "%"}, "is not a percentage"),
            ({"a": -1}, "negative"),
            ({"a": 1.5}, "expected a whole number"),
            ({"a": 2**63}, "too large"),
            ({"a--b": 1}, "contains '--'"),
            ({"_a": 1}, "starts with '_'"),
            ({"x" * 300: 1}, "too long"),
            ({"а": 1}, "must be lower-case letters"),
        ):
            status, answer = it.error("POST", "/api/v1/apply", {"file": cut(9, **shares)})
            assert (status, says in answer["message"]) == (422, True), answer
        status, answer = it.error("POST", "/api/v1/apply", {"file": cut(3, b=1)})
        assert (status, "team cannot have a quota of 3 GPUs: its subpools have 5" in answer["message"]) == (400, True)
        assert state_of(it) == before
