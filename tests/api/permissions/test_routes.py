"""Every route says what it needs, and holds to it, for every kind of person (law S5)."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from starlette.routing import Route

from runrig.api import app as application
from runrig.domain.access import role_named
from runrig.http.guard import OPEN_PATHS
from runrig.http.permissions import OPENLY, declared
from tests.api.document import document
from tests.api.permissions.rows import (
    CLUSTER_FILE,
    ENDLESS,
    EVERYBODY,
    GOOD,
    NOT_ALLOWED,
    NOT_SEEN,
    NOT_THERE,
    OUTCOMES,
    ROWS,
    Row,
)
from tests.api.permissions.two_teams import CANARY, TwoTeams, two_teams
from tests.worlds.service import one_task

DOCUMENT = document()
NEEDS = {
    f"{method.upper()} {path}": operation["x-permission"]
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}
GUARDED = sorted(route for route, need in NEEDS.items() if need != OPENLY and route not in ENDLESS)
QUESTIONS = [route for route in GUARDED if route.startswith("GET ")]
COMMANDS = [route for route in GUARDED if not route.startswith("GET ")]
WITHOUT_TRACE = {
    "PATCH /api/v1/me",  # no default pool, as before the request
    "DELETE /api/v1/me/notices",  # notices are off, as before the request
    "POST /api/v1/me/notices:test",
    "POST /api/configs/history/rollback",  # names the existing ones
    "HEAD /api/v1/code/{id}",
    "POST /api/v1/browser-codes",
    "POST /api/v1/clock/accept",
    "POST /api/v1/nodes:uncordon",  # routes without authentication
    "POST /api/v1/pools/{name}/open",  # the same
    "POST /api/v1/plan",
    "POST /api/v1/workflows:render",
    "POST /api/v1/workflows:check",
    *(route for route, need in NEEDS.items() if need == "exec workflow"),
}
"""Commands that change nothing; the last ones only have an entry in the audit trail."""


def test_every_route_declares_its_permission_and_only_the_login_is_open() -> None:
    routes = [route for router in application.ROUTERS for route in router.routes]
    assert [route for route in routes if not isinstance(route, APIRoute) or not list(declared(route))] == []
    own, *others = application.described().routes
    assert isinstance(own, Route)
    assert (own.path, others) == ("/openapi.json", routes)
    openly = {route.partition(" ")[2] for route, need in NEEDS.items() if need == OPENLY}
    assert openly == set(OPEN_PATHS)


def test_every_route_and_every_permission_has_a_row() -> None:
    assert sorted(ROWS) == GUARDED
    assert set(OUTCOMES) == set(NEEDS.values()) - {OPENLY}


def test_document_has_401_and_403_for_every_route_with_a_permission() -> None:
    for route in GUARDED:
        method, _, path = route.partition(" ")
        responses = DOCUMENT["paths"][path][method.lower()]["responses"]
        assert {"401", "403"} <= set(responses), route


NAMES = r"\{\w+\}(--\{\w+\})?"


def _places(body: Any) -> list[str]:
    """The texts of *body* that stand for a name."""
    texts = body.values() if isinstance(body, dict) else ()
    return [each for each in texts if isinstance(each, str) and re.fullmatch(NAMES, each)]


def _send(it: TwoTeams, actor: str | None, route: str, row: Row, pool: str = "team") -> Any:
    sub = {"team": "a", "team2": "b"}[pool]
    names = {"pool": pool, "sub": sub, "id": it.work[pool], "old": it.old[pool]}
    return it.send(actor, route.partition(" ")[0], row.path.format(**names), _filled(row.body, names), **row.query)


def _filled(body: Any, names: Mapping[str, str]) -> Any:
    """*body* with *names* in texts that are nothing but a place for one."""
    if isinstance(body, dict):
        return {
            field: value.format(**names) if isinstance(value, str) and re.fullmatch(NAMES, value) else value
            for field, value in body.items()
        }
    return body


def _status(answer: Any) -> int:
    """200 for every kind of success."""
    return GOOD if answer.is_success else int(answer.status_code)


def _expected(route: str, actor: str, row: Row) -> int:
    blind, status = NOT_SEEN.get(row.path, ("", 0))
    if actor == blind and OUTCOMES[NEEDS[route]][actor] == GOOD:
        return status
    return OUTCOMES[NEEDS[route]][actor]


def test_queries_are_answered_for_declared_users_only(tmp_path: Path) -> None:
    with two_teams(tmp_path) as it:
        before = it.portrait()
        found = {
            route: [_status(_send(it, actor, route, ROWS[route])) for actor in (None, *EVERYBODY)]
            for route in QUESTIONS
        }
        assert found == {
            route: [401, *(_expected(route, actor, ROWS[route]) for actor in EVERYBODY)] for route in QUESTIONS
        }
        assert it.portrait() == before


@pytest.mark.parametrize("route", COMMANDS)
def test_commands_work_for_declared_users_and_change_nothing_for_others(tmp_path: Path, route: str) -> None:
    """Users with the right come last, the weakest first: for the others the same may be done already."""
    row = ROWS[route]
    with two_teams(tmp_path) as it:
        access = it.api.desk.service.access
        for user in EVERYBODY:
            access.tokens.create(user, "spare", actor=user)
        if row.of == "paused":
            it.api.desk.service.declarations.pause_pool("team", user="ada", reason="")
        elif row.of == "array":
            it.work_is_arrays()
        elif row.of != "runs":
            it.work_waits(held=row.of == "held")
        before = it.portrait()
        outcomes = {actor: _expected(route, actor, row) for actor in EVERYBODY}
        refused = [actor for actor, outcome in outcomes.items() if outcome != GOOD]
        assert _send(it, None, route, row).status_code == 401
        assert {actor: _send(it, actor, route, row).status_code for actor in refused} == {
            actor: outcomes[actor] for actor in refused
        }
        assert it.portrait() == before
        allowed = [actor for actor in reversed(EVERYBODY) if outcomes[actor] == GOOD]
        first, *others = (_send(it, actor, route, row) for actor in allowed)
        assert _status(first) == GOOD, first.text
        assert {_status(answer) for answer in others} <= {GOOD, 409}
        assert (it.portrait() == before) is (route in WITHOUT_TRACE)


def test_hidden_objects_get_the_same_response_as_missing_ones(tmp_path: Path) -> None:
    """To *tom*, whose role is on `team`: `team2` and nothing at all are the same, to the letter."""
    names = {"pool": "team9", "sub": "b", "id": "nopejob-1", "old": "nopeold-1"}
    with two_teams(tmp_path) as it:
        before = it.portrait()
        for route in GUARDED:
            row = ROWS[route]
            if "{" not in f"{row.path}{_places(row.body)}":
                continue
            foreign = _send(it, "tom", route, row, "team2")
            method = route.partition(" ")[0]
            nothing = it.send("tom", method, row.path.format(**names), _filled(row.body, names), **row.query)
            assert foreign.status_code == NOT_THERE, (route, foreign.text)
            as_nothing = (
                foreign.text.replace("team2", "team9").replace("uwejob", "nopejob").replace("uweold", "nopeold")
            )
            assert (nothing.status_code, nothing.text) == (NOT_THERE, as_nothing), route
        assert it.portrait() == before


# ---------------------------------------------------------------- a second opinion

SUBMIT = {"file": one_task("x")}

PAIRS: list[tuple[str | None, str, str, Any, int]] = [
    # A role on a pool includes its subpools, but not pools whose names only begin with the same letters.
    ("tom", "POST", "/api/pool/team/workflow", SUBMIT, GOOD),
    ("tom", "POST", "/api/pool/team--a/workflow", SUBMIT, GOOD),
    ("tom", "POST", "/api/pool/team2/workflow", SUBMIT, NOT_THERE),
    ("tom", "POST", "/api/pool/team2--b/workflow", SUBMIT, NOT_THERE),
    ("tom", "POST", "/api/pool/team--/workflow", SUBMIT, NOT_THERE),
    ("tom", "POST", "/api/pool/team-/workflow", SUBMIT, NOT_THERE),
    ("tom", "POST", "/api/pool/team--a--b/workflow", SUBMIT, NOT_THERE),
    ("tom", "POST", "/api/pool/TEAM/workflow", SUBMIT, NOT_THERE),
    ("tom", "POST", "/api/pool/team%20/workflow", SUBMIT, NOT_THERE),
    ("tom", "POST", "/api/pool/team%00/workflow", SUBMIT, NOT_THERE),
    ("tom", "POST", "/api/pool/team%2F..%2Fteam2/workflow", SUBMIT, NOT_THERE),
    ("tom", "POST", "/api/pool/team--a/../team2/workflow", SUBMIT, NOT_THERE),
    ("uwe", "POST", "/api/pool/team/workflow", SUBMIT, NOT_THERE),
    ("uwe", "POST", "/api/pool/team--a/workflow", SUBMIT, NOT_THERE),
    ("uwe", "POST", "/api/pool/team2--b/workflow", SUBMIT, GOOD),
    ("nina", "POST", "/api/pool/team/workflow", SUBMIT, NOT_THERE),
    ("vera", "POST", "/api/pool/team/workflow", SUBMIT, NOT_ALLOWED),
    ("vera", "POST", "/api/pool/team/workflow?dry_run=true", SUBMIT, NOT_ALLOWED),
    ("vera", "POST", "/api/pool/nope/workflow", SUBMIT, NOT_THERE),
    (None, "POST", "/api/pool/team/workflow", SUBMIT, 401),
    # Workflows: your own, or those of a pool that you administer.
    ("tom", "POST", "/api/workflow/tomjob-1/cancel", None, GOOD),
    ("tess", "POST", "/api/workflow/tomjob-1/cancel", None, NOT_ALLOWED),
    ("tina", "POST", "/api/workflow/tomjob-1/cancel", None, GOOD),
    ("tina", "POST", "/api/workflow/uwejob-1/cancel", None, NOT_THERE),
    ("ada", "POST", "/api/workflow/uwejob-1/cancel", None, GOOD),
    ("vera", "GET", "/api/workflow/uwejob-1", None, GOOD),
    ("tess", "GET", "/api/workflow/tomjob-1/logs", None, GOOD),
    ("tom", "GET", "/api/workflow/uwejob-1/logs", None, NOT_THERE),
    # Submitting a file again shows its content.
    ("tom", "POST", "/api/pool/team/workflow?workflow_id=tomold-1", None, GOOD),
    ("tess", "POST", "/api/pool/team/workflow?workflow_id=tomold-1", None, NOT_ALLOWED),
    ("tom", "POST", "/api/pool/team/workflow?workflow_id=uweold-1", None, NOT_THERE),
    ("tom", "POST", "/api/pool/team/workflow/uweold-1/restart", None, NOT_THERE),
    ("tom", "POST", "/api/pool/team2/workflow/tomold-1/restart", None, NOT_THERE),
    ("tom", "POST", "/api/v1/workflows/uweold-1/repeat", {"pool": "team"}, NOT_THERE),
    # Every switch that could show more.
    ("tom", "GET", "/api/workflow/uwejob-1/spec?use_template=true", None, NOT_THERE),
    ("tom", "GET", "/api/v1/workflows/uwejob-1/spec?template=true", None, NOT_THERE),
    ("tom", "GET", "/api/v1/workflows/uwejob-1/logs?stream=stderr", None, NOT_THERE),
    ("tom", "GET", "/api/pool?pools=team2", None, NOT_THERE),
    ("tom", "GET", "/api/pool_quota?pools=team2", None, NOT_THERE),
    ("tom", "GET", "/api/resources?pools=team2", None, NOT_THERE),
    ("tom", "GET", "/api/v1/topology?pool=team2", None, NOT_THERE),
    ("tom", "GET", "/api/v1/pools?name=team2", None, NOT_THERE),
    ("tom", "GET", "/api/v1/nodes?pool=team2", None, NOT_THERE),
    # An administrator of a pool may change its settings and subpools, but not what affects other pools.
    ("tina", "PATCH", "/api/v1/pools/team", {"queueing": "STRICT_FIFO"}, GOOD),
    ("tina", "PATCH", "/api/v1/pools/team", {"quota": 100}, NOT_ALLOWED),
    ("tina", "PATCH", "/api/v1/pools/team", {"cohort": "zeta"}, NOT_ALLOWED),
    ("tina", "PATCH", "/api/v1/pools/team", {"borrowing_limit": None}, NOT_ALLOWED),
    ("tina", "PATCH", "/api/v1/pools/team", {"lending_limit": 0}, NOT_ALLOWED),
    ("tina", "PATCH", "/api/v1/pools/team", {"weight": 9}, NOT_ALLOWED),
    ("tina", "PATCH", "/api/v1/pools/team", {"flavors": []}, NOT_ALLOWED),
    ("tina", "PATCH", "/api/v1/pools/team--a", {"quota": 2}, GOOD),
    ("tina", "POST", "/api/configs/pool/team/subpool", {"name": "c", "quota": 1}, GOOD),
    ("tina", "POST", "/api/configs/pool/team2/subpool", {"name": "c", "quota": 1}, NOT_THERE),
    ("tina", "DELETE", "/api/configs/pool/team", None, NOT_ALLOWED),
    ("tina", "DELETE", "/api/configs/pool/team2", None, NOT_THERE),
    ("tom", "POST", "/api/configs/pool/team/subpool", {"name": "c", "quota": 1}, NOT_ALLOWED),
    ("tina", "POST", "/api/v1/pools", {"name": "mine", "quota": 1}, NOT_ALLOWED),
    ("tina", "POST", "/api/v1/apply", {"file": CLUSTER_FILE, "dry_run": True}, NOT_ALLOWED),
    ("vera", "POST", "/api/v1/apply", {"file": CLUSTER_FILE, "dry_run": True}, NOT_ALLOWED),
    ("tina", "POST", "/api/v1/roles", {"user": "tina", "role": "admin"}, NOT_ALLOWED),
    ("tina", "GET", "/api/v1/users", None, NOT_ALLOWED),
    ("tina", "POST", "/api/v1/users/ada/tokens", {"name": "x"}, NOT_ALLOWED),
    ("nina", "GET", "/api/resources", None, NOT_ALLOWED),
    ("nina", "GET", "/api/workflow", None, GOOD),
    ("tom", "GET", "/metrics", None, NOT_ALLOWED),
    ("tom", "GET", "/api/v1/cohorts/zeta", None, NOT_THERE),
    (None, "GET", "/openapi.json", None, 401),
]


@pytest.mark.parametrize(("actor", "method", "path", "body"), [pair[:-1] for pair in PAIRS if pair[-1] == GOOD])
def test_important_commands_of_a_user_work(tmp_path: Path, actor: str, method: str, path: str, body: Any) -> None:
    with two_teams(tmp_path) as it:
        answer = it.send(actor, method, path, body)
        assert answer.status_code == GOOD, answer.text


def test_important_commands_of_others_are_refused_and_change_nothing(tmp_path: Path) -> None:
    with two_teams(tmp_path) as it:
        before = it.portrait()
        for actor, method, path, body, status in PAIRS:
            if status != GOOD:
                answer = it.send(actor, method, path, body)
                assert answer.status_code == status, (actor, method, path, answer.text)
                assert CANARY not in answer.text
        assert it.portrait() == before


def test_refusal_names_the_user_the_action_and_the_required_role(tmp_path: Path) -> None:
    with two_teams(tmp_path) as it:
        assert it.send("tess", "POST", "/api/workflow/tomjob-1/cancel").json() == {
            "message": "tess cannot cancel, hold or restart workflow tomjob-1 of tom, or read its code. Required role: team-admin. "
            "An administrator can grant it: `runrig role grant tess team-admin`",
            "error_code": "FORBIDDEN",
            "details": {"permission": "change workflow", "roles": ["team-admin"], "pool": "team"},
        }
        assert it.send("tom", "GET", "/metrics").json() == {
            "message": "tom cannot see data about all pools. Required role: viewer or admin. "
            "An administrator can grant it: `runrig role grant tom viewer`",
            "error_code": "FORBIDDEN",
            "details": {"permission": "read everything", "roles": ["viewer", "admin"]},
        }


@pytest.mark.parametrize("verb", ["cordon", "uncordon", "drain"])
def test_refusal_of_a_node_command_names_the_nodes_and_the_required_role(tmp_path: Path, verb: str) -> None:
    with two_teams(tmp_path) as it:
        told = it.send("tina", "POST", f"/api/v1/nodes:{verb}", {"nodes": [f"n{number}" for number in range(7)]})
        assert (told.status_code, told.json()["detail"]) == (
            403,
            f"tina cannot {verb} nodes 'n0', 'n1', 'n2', 'n3', 'n4' and 2 more. Required role: admin. An administrator can grant it: "
            "`runrig role grant tina admin`",
        )


def test_workflow_can_be_moved_only_to_a_pool_that_its_user_can_submit_to(tmp_path: Path) -> None:
    """*tom* may see `team2`, as a viewer, but not submit to it."""
    with two_teams(tmp_path) as it:
        it.work_waits(held=False)
        it.api.desk.service.access.users.grant("tom", role_named("viewer"), actor="ada")
        before, route = it.portrait(), f"/api/v1/workflows/{it.work['team']}/reassign"
        for dry_run in (True, False):
            answer = it.send("tom", "POST", route, {"pool": "team2", "dry_run": dry_run})
            assert answer.status_code == 403, answer.text
            assert answer.json()["detail"].startswith("tom cannot submit to pool team2. ")
        assert it.portrait() == before
        assert it.send("tom", "POST", route, {"pool": "team--a", "priority": "LOW"}).status_code == 200
