"""Commands without an id: the user's latest workflow, which is named."""

import pytest

from tests.cli.canned_server import answered, at, entry, refused, serving

MINE = {"GET /api/v1/workflows": {"items": [entry("last-7")], "next_cursor": "more"}}


@pytest.mark.parametrize("verb", ["why", "logs", "restart", "wait"])
def test_default_id_is_your_latest_workflow_and_is_printed(verb: str) -> None:
    of = "/api/v1/workflows/last-7"
    asked = {"why": f"GET {of}/why", "logs": f"GET {of}", "restart": f"GET {of}", "wait": f"GET {of}/wait"}[verb]
    with serving(MINE | {asked: (404, refused("gone", "NOTFOUND"))}) as server:
        done = at(server, verb)
    assert (done.code, done.err) == (2, "last-7 (your latest workflow)\nError: gone\n")
    assert server.asked[0] == ("GET /api/v1/workflows", [("mine", "True"), ("limit", "1")], None)


@pytest.mark.parametrize("verb", ["why", "logs", "restart", "wait"])
def test_missing_latest_workflow_is_reported(verb: str) -> None:
    done = answered({"GET /api/v1/workflows": {"items": [], "next_cursor": None}}, verb)
    assert (done.code, done.err) == (
        2,
        "Error: you have no workflow yet. Start one with `runrig run -- COMMAND`, or give the ID of another workflow\n",
    )
