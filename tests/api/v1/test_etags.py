"""An edit holds to what was read, for everything that can be edited: the tag of now passes, an older one is 412 and changes nothing."""

import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.api.client import Api, api
from tests.worlds.service import one_task

from .ours import problem


class Edited(NamedTuple):
    """*read*: where the tag comes from.  *edits*: what changes it each time, *end* what removes it: method, path and body."""

    read: str
    edits: tuple[tuple[str, str, Any], ...]
    end: tuple[tuple[str, str, None], ...] = ()


_POOL, _COHORT, _USER = "/api/v1/pools/pool1", "/api/v1/cohorts/all", "/api/v1/users/eve"
_TOKEN, _ROLE, _CREDENTIAL = f"{_USER}/tokens/laptop", "/api/v1/roles/eve/pool1-user", "/api/v1/credentials/wandb"
_OWN = "/api/v1/tokens/desk"
_WORKFLOW = "/api/v1/workflows/w-1"


def _patches(path: str, *bodies: Any) -> tuple[tuple[str, str, Any], ...]:
    return tuple(("PATCH", path, body) for body in bodies)


def _gone(path: str) -> tuple[tuple[str, str, None], ...]:
    return (("DELETE", path, None),)


EDITED = {
    "pool": Edited(_POOL, _patches(_POOL, {"description": "a"}, {"description": "b"}), _gone(_POOL)),
    "cohort": Edited(_COHORT, _patches(_COHORT, {"weight": 2}, {"weight": 3})),
    "user": Edited(_USER, _patches(_USER, {"disabled": True})),
    "token": Edited(_TOKEN, _patches(_TOKEN, {"description": "a"}, {"roles": ["pool1-user"]}), _gone(_TOKEN)),
    "own token": Edited(_OWN, _patches(_OWN, {"description": "a"}, {"roles": ["admin"]}), _gone(_OWN)),
    "role": Edited(_ROLE, (), _gone(_ROLE)),
    "credential": Edited(
        _CREDENTIAL,
        (("PUT", _CREDENTIAL, {"values": {"a": "1"}}), ("PUT", _CREDENTIAL, {"values": {"b": "2"}})),
        _gone(_CREDENTIAL),
    ),
    "tags of a workflow": Edited(
        _WORKFLOW, _patches(f"{_WORKFLOW}/tags", {"add": ["a"]}, {"add": ["b"], "remove": ["a"]})
    ),
}


def _furnished(it: Api) -> None:
    for path, body in (
        ("/api/v1/cohorts", {"name": "all"}),
        ("/api/v1/users", {"name": "eve", "roles": ["pool1-user"]}),
        ("/api/v1/users/eve/tokens", {"name": "laptop"}),
        ("/api/v1/tokens", {"name": "desk"}),
        ("/api/v1/workflows", {"pool": "pool2", "file": one_task("w")}),
    ):
        it.call("POST", path, body)
    it.call("PUT", _CREDENTIAL, {"values": {"api_key": "s"}})


def _portrait(it: Api) -> tuple[object, ...]:
    store = it.desk.store
    access = store.access.load()
    tokens = tuple(replace(each, last_used_at=None) for each in access.tokens)
    return store.load(), store.log.events(), replace(access, tokens=tokens), store.tags.of("w-1")


def _tag(it: Api, path: str) -> dict[str, str]:
    return {"If-Match": it.http.get(path).headers["etag"]}


@pytest.mark.parametrize("name", EDITED)
def test_current_tag_is_accepted_and_an_older_one_changes_nothing(tmp_path: Path, name: str) -> None:
    read, edits, end = EDITED[name]
    with api(tmp_path) as it:
        _furnished(it)
        seen = [_tag(it, read)]
        for method, path, body in edits:
            assert _tag(it, read) == seen[-1], "reading changes nothing"
            done = it.http.request(method, path, json=body, headers=seen[-1])
            assert done.status_code == 200, done.text
            seen.append({"If-Match": done.headers["etag"]})
            assert _tag(it, read) == seen[-1], "the answer of an edit has the new tag"
        if not edits:  # the role was revoked and granted again
            it.call("DELETE", _ROLE)
            it.desk.service.access.users._accounts.now = lambda: 2_000_000_000.0
            seen.append(
                {"If-Match": it.http.post("/api/v1/roles", json={"user": "eve", "role": "pool1-user"}).headers["etag"]}
            )
        assert len({each["If-Match"] for each in seen}) == len(seen)
        before = _portrait(it)
        for stale in seen[:-1]:
            for method, path, body in edits + end:
                said = problem(it.http.request(method, path, json=body, headers=stale), 412, "CONFLICT")
                assert "has changed since you read it. Read it again" in said["detail"]
        assert _portrait(it) == before
        for method, path, _ in end:
            assert it.http.request(method, path, headers=seen[-1]).status_code in (200, 204)


@pytest.mark.parametrize("name", EDITED)
def test_one_of_two_concurrent_edits_wins(tmp_path: Path, name: str) -> None:
    read, edits, end = EDITED[name]
    method, path, body = (edits + end)[0]
    with api(tmp_path) as it:
        _furnished(it)
        tag, start, found = _tag(it, read), threading.Barrier(4), Counter[int]()

        def write() -> None:
            start.wait()
            found[it.http.request(method, path, json=body, headers=tag).status_code] += 1

        writers = [threading.Thread(target=write) for _ in range(4)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        won = found.pop(200, 0) + found.pop(204, 0)
        assert (won, dict(found)) == (1, {412 if edits else 404: 3})


def test_any_tag_of_a_list_is_accepted_but_never_a_weak_one(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        _furnished(it)
        tag = it.http.get(_TOKEN).headers["etag"]
        for sent, status in ((f'"x", {tag}', 200), (f"W/{tag}", 412), ("*", 200), ("laptop", 422)):
            answer = it.http.patch(_TOKEN, json={"description": ""}, headers={"If-Match": sent})
            assert answer.status_code == status, sent


def test_etags_of_nodes_and_tokens_ignore_usage(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        (node,) = it.get("/api/v1/nodes")["items"]
        before = _tag(it, f"/api/v1/nodes/{node['name']}")
        _furnished(it)
        it.desk.later(5)
        assert it.get(f"/api/v1/nodes/{node['name']}")["free"] != node["free"]
        assert _tag(it, f"/api/v1/nodes/{node['name']}") == before
        text, tag = it.call("POST", "/api/v1/tokens", {"name": "used"})["token"], _tag(it, "/api/v1/tokens/used")
        it.http.get("/api/v1/me", headers={"Authorization": f"Bearer {text}"}).raise_for_status()
        assert it.get("/api/v1/tokens/used")["last_used_at"] is not None
        assert _tag(it, "/api/v1/tokens/used") == tag
