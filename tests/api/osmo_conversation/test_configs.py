"""`config show`, `update`, `list`, `history`, `diff` and `rollback`."""

import base64
from typing import Any

import pytest

from tests.api.permissions.two_teams import TwoTeams

from .client import fits, refused, said, send

COUNTABLE = {"guarantee": int, "maximum": int, "weight": int}
POOL = {
    "name": str,
    "description": str,
    "status": str,
    "backend": str,
    "default_platform": str | None,
    "default_exit_actions": {str: str},
    "resources": {"gpu": COUNTABLE},
    "topology_keys": [{"key": str, "label": str}],
    "platforms": {str: {"labels": {str: str}}},
}
ENTRY = {
    "config_type": str,
    "name": str,
    "revision": int,
    "username": str,
    "created_at": str,
    "description": str,
    "tags": [str],
}
ROLE = {"name": str, "description": str, "policies": [{"effect": str, "actions": [str], "resources": [str]}]}
TYPES = ["BACKEND", "BACKEND_TEST", "GROUP_TEMPLATE", "POD_TEMPLATE", "POOL", "RESOURCE_VALIDATION", "ROLE", "SERVICE"]
NOW = "2100-01-01T00:00:00"


def shown(world: TwoTeams, name: str, actor: str = "ada") -> dict[str, Any]:
    """As `config show POOL NAME` asks."""
    answer = said(world, actor, "GET", "api/configs/pool")
    fits(answer, {"pools": {str: POOL}})
    found: dict[str, Any] = answer["pools"][name]
    return found


def update(world: TwoTeams, name: str, configs: Any, actor: str = "ada", **more: Any) -> Any:
    """As `config update POOL NAME --file F -d DESC` sends what differs."""
    body = {"configs_dict": configs, "description": "for June", **more}
    return said(world, actor, "PATCH", f"api/configs/pool/{name}", body)


def history(world: TwoTeams, actor: str = "ada", **filters: Any) -> list[dict[str, Any]]:
    """As `config history` asks."""
    usual = {"omit_data": True, "offset": 0, "limit": 20, "order": "ASC"}
    answer = said(world, actor, "GET", "api/configs/history", **usual | filters)
    fits(answer, {"configs": [ENTRY]})
    found: list[dict[str, Any]] = answer["configs"]
    return found


# ---------------------------------------------------------------- config update

RACKS = [{"key": "rack", "label": "example.com/rack"}, {"key": "host", "label": "kubernetes.io/hostname"}]
RESCHEDULE = {"RESCHEDULE": "3006"}


@pytest.mark.parametrize(
    ("configs", "wanted"),
    [
        (
            {"resources": {"gpu": {"guarantee": 3}}},
            {"resources": {"gpu": {"guarantee": 3, "maximum": -1, "weight": 1}}},
        ),
        (
            {"resources": {"gpu": {"maximum": 6, "weight": 2}}},
            {"resources": {"gpu": {"guarantee": 4, "maximum": 6, "weight": 2}}, "weight": 2},
        ),
        ({"topology_keys": RACKS}, {"topology_keys": RACKS}),
        ({"description": "theirs"}, {"description": "theirs"}),
        ({"default_platform": "default"}, {"default_platform": "default"}),
        ({"default_exit_actions": RESCHEDULE}, {"default_exit_actions": RESCHEDULE}),
        (
            {"default_exec_timeout": "PT1H", "max_exec_timeout": "90m"},
            {
                "default_exec_timeout": "1h",
                "max_exec_timeout": "90m",
                "default_run_time_s": 3600.0,
                "max_run_time_s": 5400.0,
            },
        ),
        ({"queueing": "STRICT_FIFO", "grace_s": 5.0}, {"queueing": "STRICT_FIFO", "grace_s": 5.0}),
        (
            {"quotas": {"default": {"gpu": {"nominal": 3}, "cpu": {"nominal": 1500}}}},
            {
                "quotas": {
                    "default": {
                        "gpu": {"nominal": 3, "borrowing_limit": None, "lending_limit": None},
                        "cpu": {"nominal": 1500, "borrowing_limit": None, "lending_limit": None},
                    }
                },
                "resources": {"gpu": {"guarantee": 3, "maximum": -1, "weight": 1}},
            },
        ),
        ({"name": "team", "status": "ONLINE"}, {}),
    ],
)
def test_update_changes_only_the_named_settings(
    world: TwoTeams, configs: dict[str, Any], wanted: dict[str, Any]
) -> None:
    before = shown(world, "team")
    update(world, "team", configs)
    after = shown(world, "team")
    quotas = {} if "quotas" in wanted else {"quotas": after["quotas"]}
    assert after == before | wanted | (quotas if "resources" in wanted else {})


def test_maximum_is_kept_if_only_the_guarantee_changes(world: TwoTeams) -> None:
    update(world, "team", {"resources": {"gpu": {"maximum": 6}}})
    update(world, "team", {"resources": {"gpu": {"guarantee": 2}}})
    assert shown(world, "team")["resources"]["gpu"] == {"guarantee": 2, "maximum": 6, "weight": 1}
    update(world, "team", {"resources": {"gpu": {"maximum": -1}}})
    assert shown(world, "team")["resources"]["gpu"] == {"guarantee": 2, "maximum": -1, "weight": 1}


def test_lists_are_replaced_and_maps_are_merged(world: TwoTeams) -> None:
    update(world, "team", {"topology_keys": RACKS[1:], "default_exit_actions": RESCHEDULE})
    update(world, "team", {"topology_keys": RACKS, "default_exit_actions": {"FAIL": "1-9"}})
    found = shown(world, "team")
    assert (found["topology_keys"], found["default_exit_actions"]) == (RACKS, {**RESCHEDULE, "FAIL": "1-9"})


def test_guarantee_of_a_subpool_can_be_changed(world: TwoTeams) -> None:
    update(world, "team--a", {"resources": {"gpu": {"guarantee": 0}}})
    assert shown(world, "team--a")["resources"]["gpu"]["guarantee"] == 0
    status, message = refused(
        world, "ada", "PATCH", "api/configs/pool/team--a", {"configs_dict": {"description": "x"}, "description": "d"}
    )
    assert (status, "from team" in message) == (422, True)


@pytest.mark.parametrize(
    ("actor", "pool", "configs", "status", "says"),
    [
        ("ada", "team", {"name": "squad"}, 422, "name: pools cannot be renamed"),
        ("ada", "team", {"enable_maintenance": True}, 422, "maintenance mode is not supported"),
        ("ada", "team", {"platforms": {"x": {}}}, 422, "platforms are the flavors of the cluster file"),
        ("ada", "team", {"max_queue_timeout": "1h"}, 422, "runrig has no such setting"),
        ("ada", "team", {"nonsense": 1}, 422, "nonsense: runrig has no such setting"),
        ("ada", "team", {"resources": {"gpu": {"guarantee": -1}}}, 422, "is not a whole number of at least 0"),
        ("ada", "team", {"resources": {"gpu": {"guarantee": "8"}}}, 422, "is not a whole number of at least 0"),
        ("ada", "team", {"resources": {"gpu": {"guarantee": 2**63}}}, 422, "does not fit in 64 bits"),
        ("ada", "team", {"resources": {"gpu": {"maximum": 1}}}, 422, "maximum of 1 is below the guarantee of 4"),
        ("ada", "team", {"resources": {"gpu": 5}}, 422, "expected a mapping"),
        ("ada", "team", {"resources": {"cpu": {}}}, 422, "only gpu is supported here"),
        ("ada", "team", {"resources": {"gpu": {"guarantee": 0}}}, 400, "its subpools have 1"),
        ("ada", "team", {"topology_keys": [RACKS[0], RACKS[0]]}, 422, "rack"),
        ("ada", "team", {"topology_keys": "rack"}, 422, "topology_keys"),
        ("ada", "team", {"default_platform": "h200"}, 422, "is not one of the pool's flavors"),
        ("ada", "team", {"default_exit_actions": {"STAY": "1"}}, 422, "unknown exit action 'STAY'"),
        ("ada", "team", {"quotas": {"h200": {"gpu": {"nominal": 1}}}}, 422, "unknown flavor 'h200'"),
        ("ada", "team", {"quotas": {"default": 3}}, 422, "expected a mapping"),
        ("ada", "team", {"weight": 0}, 422, "too small"),
        ("ada", "teem", {"description": "x"}, 404, "unknown pool 'teem'"),
        ("tina", "team", {"resources": {"gpu": {"guarantee": 3}}}, 403, "tina cannot"),
        ("tom", "team", {"description": "x"}, 403, "tom cannot change the settings of pool team"),
        ("uwe", "team", {"description": "x"}, 404, "unknown pool 'team'"),
        ("nina", "team", {"description": "x"}, 404, "unknown pool 'team'"),
    ],
)
def test_invalid_update_is_refused_and_changes_nothing(
    still: TwoTeams, actor: str, pool: str, configs: Any, status: int, says: str
) -> None:
    body = {"configs_dict": configs, "description": "d"}
    found, message = refused(still, actor, "PATCH", f"api/configs/pool/{pool}", body)
    assert (found, says in message) == (status, True), message


def put(world: TwoTeams, configs: Any, actor: str = "ada") -> Any:
    """As `config update POOL --file F -d DESC` sends the settings of all pools."""
    body = {"configs": configs, "description": "all of them", "tags": ["june"]}
    return said(world, actor, "PUT", "api/configs/pool", body)


def test_several_pools_are_updated_together_by_their_full_settings(world: TwoTeams) -> None:
    update(world, "team", {"default_exit_actions": RESCHEDULE})
    before = said(world, "ada", "GET", "api/configs/pool")["pools"]
    team, team2, sub = (dict(before[name]) for name in ("team", "team2", "team--a"))
    team |= {"resources": {"gpu": {"guarantee": 3, "maximum": -1, "weight": 1}}, "default_exit_actions": {"FAIL": "1"}}
    team2 |= {"description": "theirs", "quotas": {"default": {"gpu": {"nominal": 3}}}}
    sub |= {"resources": {"gpu": {"guarantee": 0, "maximum": -1, "weight": 1}}}
    put(world, {"team": team, "team2": team2, "team--a": sub})
    after = said(world, "ada", "GET", "api/configs/pool")["pools"]
    assert after["team"]["resources"]["gpu"]["guarantee"] == 3
    assert after["team"]["default_exit_actions"] == {"FAIL": "1"}, (
        "in whole settings a map takes the place of the one before"
    )
    assert (after["team2"]["description"], list(after["team2"]["quotas"]["default"])) == ("theirs", ["gpu"])
    assert after["team--a"]["resources"]["gpu"]["guarantee"] == 0
    latest = history(world)[-1]
    assert (latest["name"], latest["description"], latest["tags"]) == ("", "all of them", ["june"])
    again = history(world)
    put(world, after)
    assert history(world) == again, "what is as it was is no change"


@pytest.mark.parametrize(
    ("actor", "configs", "status", "says"),
    [
        ("ada", {"team2": {"description": "x"}, "teem": {"description": "x"}}, 404, "unknown pool 'teem'"),
        (
            "ada",
            {"team2": {"description": "x"}, "team": {"enable_maintenance": True}},
            422,
            "pool team: enable_maintenance",
        ),
        ("ada", {"team2": {"description": "x"}, "team": {"resources": {"gpu": {"guarantee": 0}}}}, 400, "subpools"),
        ("ada", {"team2": {"description": "x"}, "team": {"resources": 3}}, 422, "pool team: resources"),
        ("ada", {"team2": 3}, 422, "configs.team2"),
        ("tina", {"team": {"description": "x"}}, 403, "tina cannot"),
    ],
)
def test_update_of_several_pools_is_all_or_nothing(
    still: TwoTeams, actor: str, configs: Any, status: int, says: str
) -> None:
    found, message = refused(still, actor, "PUT", "api/configs/pool", {"configs": configs, "description": "d"})
    assert (found, says in message) == (status, True), message


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "role/osmo-team-user"),
        ("PUT", "role"),
        ("PATCH", "service"),
        ("PATCH", "workflow"),
        ("POST", "backend/lab"),
        ("DELETE", "history/pool/revision/1"),
    ],
)
def test_fixed_settings_are_refused_with_a_message(still: TwoTeams, method: str, path: str) -> None:
    status, message = refused(still, "ada", method, f"api/configs/{path}", {"configs": {}, "configs_dict": {}})
    assert status in (404, 405)
    assert message.startswith(f"{method} /api/configs/{path}: only pools can be changed while a server runs")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("configs/pod_template", "runrig has no pod templates. "),
        ("configs/group_template", "runrig has no group templates. "),
        ("configs/resource_validation", "runrig has no resource validations. "),
        ("configs/backend_test", "runrig has no backend tests. "),
        ("app/user/mine", "runrig has no apps. "),
        ("app/user/mine/spec", "runrig has no apps. "),
        ("app/user/mine/rename", "runrig has no apps. "),
        ("bucket", "runrig has no buckets. "),
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "PATCH", "DELETE"])
def test_unsupported_kind_is_explained_in_one_sentence(still: TwoTeams, method: str, path: str, words: str) -> None:
    for name in ("", "/one"):
        payload: Any = None if method == "GET" else {"configs": {}}
        status, message = refused(still, "tom", method, f"api/{path}{name}", payload, order="ASC")
        assert status in (404, 405)
        assert message.startswith(words)
        assert "openapi" not in message


def test_body_of_the_runrig_api_is_refused(still: TwoTeams) -> None:
    for body in ({"description": "x"}, {"quota": 1}, {"configs_dict": {"weight": 2}, "quota": 1}):
        assert refused(still, "ada", "PATCH", "api/configs/pool/team", body)[0] == 422


# ---------------------------------------------------------------- the history


def test_history_has_every_change_with_its_description(world: TwoTeams) -> None:
    first = history(world)
    update(world, "team", {"description": "one"}, tags=["june", "a"])
    update(world, "team2", {"description": "two"})
    said(world, "ada", "DELETE", "api/configs/pool/team2--b", None)
    said(world, "ada", "DELETE", "api/configs/pool/team2", {"description": "too small", "tags": ["june"]})
    entries = history(world)[len(first) :]
    assert [
        (each["name"], each["description"], each["tags"], each["username"], each["config_type"]) for each in entries
    ] == [
        ("team", "for June", ["a", "june"], "ada", "POOL"),
        ("team2", "for June", [], "ada", "POOL"),
        ("team2--b", "team2--b deleted and archived", [], "ada", "POOL"),
        ("team2", "too small", ["june"], "ada", "POOL"),
    ]
    assert "T" in entries[0]["created_at"]
    assert "+" not in entries[0]["created_at"]


def tag(world: TwoTeams, revision: int, **tags: Any) -> Any:
    """As `config tag POOL:REVISION --set ... --delete ...` asks."""
    return said(world, "ada", "POST", f"api/configs/history/pool/revision/{revision}/tags", tags)


def test_a_revision_is_tagged(world: TwoTeams) -> None:
    update(world, "team", {"description": "one"}, tags=["june"])
    said(world, "ada", "DELETE", "api/configs/pool/team2--b", None)
    one, two = (each["revision"] for each in history(world)[-2:])
    tag(world, one, set_tags=["best", "june"], delete_tags=None)
    tag(world, two, set_tags=["best"], delete_tags=["none"])
    assert [(each["revision"], each["tags"]) for each in history(world, tags=["best"])] == [
        (one, ["best", "june"]),
        (two, ["best"]),
    ]
    assert history(world)[-1]["description"] == "team2--b deleted and archived"
    tag(world, one, set_tags=None, delete_tags=["best", "june"])
    assert [each["tags"] for each in history(world)[-2:]] == [[], ["best"]]
    before = world.portrait()
    for path, tags, status in (
        (f"POOL/revision/{one}", {"set_tags": ["a b"]}, 422),
        (f"POOL/revision/{one}", {"set_tags": [f"t{number}" for number in range(101)]}, 409),
        ("POOL/revision/99999", {"set_tags": ["a"]}, 404),
        ("POOL/revision/0", {"set_tags": ["a"]}, 422),
        ("ROLE/revision/1", {"set_tags": ["a"]}, 404),
    ):
        assert refused(world, "ada", "POST", f"api/configs/history/{path}/tags", tags)[0] == status
    assert world.portrait() == before


def test_every_filter_of_the_history_works(world: TwoTeams) -> None:
    update(world, "team", {"description": "one"}, tags=["june"])
    world.api.desk.later(10)
    update(world, "team2", {"description": "two"})
    everything = history(world)
    one, two = everything[-2:]
    assert history(world, order="DESC", limit=1) == [two]
    assert history(world, offset=len(everything) - 1) == [two]
    assert history(world, tags=["june", "none"]) == [one]
    assert history(world, tags=["none"]) == []
    assert history(world, revision=one["revision"]) == [one]
    assert history(world, name="team2")[-1] == two
    assert one not in history(world, name="team2")
    assert history(world, created_after=two["created_at"]) == [two]
    assert history(world, created_before=two["created_at"]) == everything[:-1]
    assert history(world, at_timestamp=one["created_at"]) == [one]
    assert history(world, config_types=TYPES, at_timestamp=NOW) == [two]
    assert history(world, config_types=["ROLE", "SERVICE"]) == []
    assert history(world, "tom")[-1] == one
    assert history(world, "nina") == []
    for wrong, status in ({"pool": "team"}, 400), ({"config_types": ["NODE"]}, 422), ({"revision": 0}, 422):
        assert refused(world, "ada", "GET", "api/configs/history", **wrong)[0] == status


def test_a_revision_is_shown_and_compared(world: TwoTeams) -> None:
    update(world, "team", {"description": "one"})
    update(world, "team", {"description": "two"})
    one, two = (each["revision"] for each in history(world)[-2:])
    answer = said(world, "ada", "GET", "api/configs/history", config_types=["POOL"], omit_data=False, revision=one)
    assert answer["configs"][0]["data"]["pools"]["team"]["description"] == "one"
    latest = said(world, "ada", "GET", "/api/configs/history", config_types=["POOL"], order="DESC", limit=1)
    assert latest["configs"][0]["revision"] == two
    params = {"config_type": "POOL", "first_revision": str(one), "second_revision": str(two)}
    found = said(world, "ada", "GET", "/api/configs/diff", **params)
    rest = {"team": None, "team--a": None}  # a subpool is listed after its parent
    before, after = (found[part]["pools"] for part in ("first_data", "second_data"))
    assert before | rest == after | rest
    assert [each["team"]["description"] for each in (before, after)] == ["one", "two"]
    seen = said(world, "tom", "GET", "/api/configs/diff", **params)
    assert sorted(seen["first_data"]["pools"]) == ["team", "team--a"]
    nothing = f"revision {one} did not change pools (latest revisions that did: none)"
    assert refused(world, "nina", "GET", "/api/configs/diff", **params) == (404, nothing)
    status, message = refused(world, "ada", "GET", "/api/configs/diff", **params | {"first_revision": "99999"})
    assert (status, message.partition(" (")[0]) == (404, "revision 99999 did not change pools")
    assert refused(world, "ada", "GET", "/api/configs/diff", **params | {"config_type": "ROLE"})[0] == 404


# ---------------------------------------------------------------- config rollback


def back(world: TwoTeams, revision: int, actor: str = "ada") -> Any:
    body = {"revision": revision, "config_type": "POOL", "description": "back", "tags": ["undo"]}
    return said(world, actor, "POST", "api/configs/history/rollback", body)


def test_rollback_restores_the_pools(world: TwoTeams) -> None:
    start = history(world)[-1]["revision"]
    before = said(world, "ada", "GET", "api/configs/pool")["pools"]
    update(world, "team", {"description": "one", "resources": {"gpu": {"guarantee": 3, "maximum": 5}}})
    assert world.send("ada", "POST", "/api/v1/pools", {"name": "new", "quota": 1}).status_code == 201
    said(world, "ada", "DELETE", "api/configs/pool/team2--b", None)
    answer = back(world, start)
    assert said(world, "ada", "GET", "api/configs/pool")["pools"] == before
    latest = history(world)[-1]
    assert (latest["revision"], latest["description"], latest["tags"], latest["name"]) == (
        answer["revision"],
        "back",
        ["undo"],
        "",
    )
    assert back(world, start) == {"revision": None}


def warned(world: TwoTeams, revision: int) -> str | None:
    """What the client prints beside the answer to a rollback."""
    body = {"revision": revision, "config_type": "POOL", "description": "back"}
    answer = send(world, "ada", "POST", "api/configs/history/rollback", body)
    assert answer.status_code == 200, answer.text
    header = answer.headers.get("x-osmo-warning")
    return None if header is None else base64.b64decode(header).decode()


def test_rollback_reports_deleted_pools_and_those_not_restored(world: TwoTeams) -> None:
    for name in ("b", "c"):
        said(world, "ada", "POST", "api/configs/pool/team/subpool", {"name": name, "quota": 1})
    start = history(world)[-1]["revision"]
    assert warned(world, start) is None
    world.submit("tom", "runs", "team--b", gpus=1)
    world.api.desk.later(1)
    for name in ("b", "c"):
        said(world, "ada", "DELETE", f"api/configs/pool/team/subpool/{name}", None)
    said(world, "ada", "POST", "api/configs/pool/team/subpool", {"name": "d", "quota": 1})
    assert warned(world, start) == (
        "Not restored, because workflows still run there: team--b. "
        f"Deleted, because missing in revision {start}: team--d."
    )
    states = {name: pool["state"] for name, pool in said(world, "ada", "GET", "api/configs/pool")["pools"].items()}
    assert {name: state for name, state in states.items() if name.startswith("team--")} == {
        "team--a": "ACTIVE",
        "team--b": "DELETING",
        "team--c": "ACTIVE",
    }
    assert warned(world, start) == ("Not restored, because workflows still run there: team--b.")


def test_the_settings_of_a_revision_can_be_sent_back(world: TwoTeams) -> None:
    said(world, "ada", "PATCH", "api/configs/pool/team/subpool/a", {"quota": 2})
    start = history(world)[-1]["revision"]
    now = said(world, "ada", "GET", "api/configs/pool")
    data = said(world, "ada", "GET", "api/configs/history", config_types=["POOL"], omit_data=False, revision=start)
    then = data["configs"][0]["data"]
    fits(then, {"pools": {str: POOL}})
    assert then == now
    update(
        world,
        "team",
        {
            "resources": {"gpu": {"guarantee": 3, "weight": 2}},
            "description": "less",
            "default_exec_timeout": "1h",
            "topology_keys": [{"key": "rack", "label": "rack"}],
        },
    )
    said(world, "ada", "PATCH", "api/configs/pool/team/subpool/a", {"quota": 1})
    assert said(world, "ada", "GET", "api/configs/pool") != now
    said(world, "ada", "PUT", "api/configs/pool", {"configs": then["pools"], "description": "as it was"})
    assert said(world, "ada", "GET", "api/configs/pool") == now
    assert history(world)[-1]["description"] == "as it was"


def test_a_rollback_that_a_rule_forbids_changes_nothing(world: TwoTeams) -> None:
    start = history(world)[-1]["revision"]
    for name in ("team--a", "team"):
        said(world, "ada", "DELETE", f"api/configs/pool/{name}", None)
    before = world.portrait()
    body = {"revision": start, "config_type": "POOL", "description": "back"}
    status, message = refused(world, "ada", "POST", "api/configs/history/rollback", body)
    assert (status, "DELETING" in message) == (409, True), message
    for actor, changes, wanted in (
        ("ada", {"revision": 99999}, 404),
        ("ada", {"config_type": "SERVICE"}, 404),
        ("ada", {"revision": "x"}, 422),
        ("ada", {"description": "x" * 1001}, 422),
        ("ada", {"tags": ["a b"]}, 422),
        ("tina", {}, 403),
        ("nina", {}, 403),
    ):
        assert refused(world, actor, "POST", "api/configs/history/rollback", body | changes)[0] == wanted
    assert world.portrait() == before


# ---------------------------------------------------------------- fixed settings


def test_roles_backend_workflow_and_service_are_shown(still: TwoTeams) -> None:
    roles = said(still, "ada", "GET", "api/configs/role")
    fits(roles, [ROLE])
    named = {role["name"]: role["policies"] for role in roles}
    assert sorted(named) == sorted(
        ["osmo-admin", "osmo-user", "osmo-viewer"]
        + [f"osmo-{pool}-{word}" for pool in ("team", "team2") for word in ("admin", "user", "viewer")]
    )
    assert named["osmo-team-user"][0]["resources"] == ["pool/team", "pool/team--*"]
    backends = said(still, "ada", "GET", "api/configs/backend")
    fits(backends, {"backends": [{"name": str, "description": str, "version": str, "online": bool}]})
    assert said(still, "ada", "GET", "api/configs/workflow")["subpool_drain_interval"] == "900s"
    service = said(still, "ada", "GET", "api/configs/service")
    assert (service["service_base_url"].startswith("http://"), service["subpool_drain_interval"]) == (True, "900s")
