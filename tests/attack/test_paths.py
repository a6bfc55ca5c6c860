"""Paths that try to be another path than the one that is checked."""

import pytest

from tests.attack.target import TREASURE, Target, refused

# Each shows an error page: however they are written, these are not pools, workflows or routes.
TRICKS = (
    "/api/pool/team--a/../b/workflow",
    "/api/pool/team--a%2F..%2Fb/workflow",
    "/api/pool/team--a%2f..%2fteam2/workflow",
    "/api/pool/team--a%252F..%252Fteam2/workflow",
    "/api/pool/team--a/..%2fteam2/workflow",
    "/api/pool/%2e%2e/pool/team2/workflow",
    "/api/pool/./team2/workflow",
    "/api/pool/team/%2e/workflow",
    "/api/pool/team2%00/workflow",
    "/api/pool/team2%00.team/workflow",
    "/api/pool/team2%0d%0aX-Evil:%201/workflow",
    "/api/pool/team2%09/workflow",
    "/api/pool/team2%20/workflow",
    "/api/pool/%20team2/workflow",
    "/api/pool/team2;x=1/workflow",
    "/api/pool/team2/workflow/",
    "/api/pool//team2/workflow",
    "/api/pool/team2//workflow",
    "/api//pool/team2/workflow",
    "/api/pool/team2\\workflow",
    "/api/pool/team%5cteam2/workflow",
    "/api/pool/TEAM2/workflow",
    "/api/pool/te%61m2%ff/workflow",
    "/api/pool/team2%c0%af/workflow",
    "/api/pool/%ef%bd%94eam2/workflow",
    "/api/pool/team2%e2%80%8b/workflow",
    "/api/pool/t\u0435am2/workflow",
    "/api/pool/team--/workflow",
    "/api/pool/--a/workflow",
    "/api/pool/team----a/workflow",
    "/api/pool/team--a--b/workflow",
    "/api/pool/*/workflow",
    "/api/pool/%25/workflow",
    "/api/pool/_/workflow",
    "/api/pool/'%20OR%201=1--/workflow",
    "/api/pool/{pool}/workflow",
    "/api/pool/" + "team" * 4000 + "/workflow",
    "/../../etc/passwd",
    "/api/../../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/..%2f..%2f..%2fetc%2fpasswd",
    "/healthz/../api/pool",
    "/healthz%2f..%2fapi%2fpool",
    "/healthz/%2e%2e/api/pool",
    "/healthz;/api/pool",
    "/readyz%00/api/pool",
)
READS = (
    "/api/workflow/treasure-1%2f..%2ftreasure-1/spec",
    "/api/workflow/..%2fworkflow%2ftreasure-1/spec",
    "/api/workflow/treasure-1%00/spec",
    "/api/workflow/treasure-%/spec",
    "/api/workflow/treasure-_/spec",
    "/api/workflow/TREASURE-1/spec",
    "/api/workflow/treasure-01/spec",
    "/api/workflow/treasure-1/logs?task_name=../../../server.log",
    "/api/workflow/treasure-1/logs?task_name=%00",
    "/api/workflow/treasure-1/logs?task_name=main&retry_id=99999999999999999999",
    "/api/configs/pool/team/subpool/..%2f..%2fteam2",
    "/api/configs/pool/team/subpool/team--a",
    "/api/configs/pool/team/subpool/a%2f..%2fb",
    "/api/resources/..%2fpool",
    "/api/v1/cohorts/%2e%2e",
)


@pytest.mark.parametrize("path", TRICKS)
def test_invalid_path_changes_nothing(target: Target, path: str) -> None:
    for user, statuses in (("admin", ()), (None, (400, 401))):
        refused(target, target.ask("POST", path.encode(), user=user, body={"file": TREASURE}), *statuses)


@pytest.mark.parametrize("path", READS)
def test_invalid_path_shows_nothing(target: Target, path: str) -> None:
    refused(target, target.ask("GET", path.encode()))
    refused(target, target.ask("GET", path.encode(), user=None), 400, 401)


@pytest.mark.parametrize(
    "name",
    [
        "a/../b",
        "..",
        "a--b",
        "team--a",
        "",
        " a",
        "a ",
        "A",
        "a\u0000",
        "a\n",
        "\u0430",
        "-a",
        "a" * 1000,
        "{{x}}",
        "a;b",
    ],
)
def test_subpool_name_cannot_be_a_path(target: Target, name: str) -> None:
    refused(target, target.ask("POST", "/api/configs/pool/team/subpool", body={"name": name, "quota": 1}), 409, 422)
    assert name == "a" or refused(target, target.ask("POST", "/api/v1/cohorts", body={"name": f"{name}/.."}), 422)


def test_equivalent_paths_are_checked_alike(target: Target) -> None:
    """//api/ is what the reference client calls: the checks see what the routes see."""
    for path in ("//api/pool", "///api/pool", "/api/pool"):
        assert target.ask("GET", path).status == 200
        refused(target, target.ask("GET", path, user=None), 401)
