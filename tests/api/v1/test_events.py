"""The log of the whole cluster at our own door: in pages, and as a stream of a real server."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from runrig.verify.chain import Chain
from runrig.verify.reading import commits
from tests.api.client import api
from tests.api.permissions.two_teams import FOREIGN, two_teams
from tests.api.v1.ours import page_through, problem
from tests.attack.target import Target, up
from tests.patience import PATIENCE_S, until
from tests.worlds.service import one_task


def test_log_is_returned_in_ordered_pages(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.submit(one_task("x"))
        it.desk.service.settle()
        whole = it.http.get("/api/v1/events", params={"limit": 1000}).json()
        places = [(each["revision"], each["seq"]) for each in whole["items"]]
        stored = it.desk.store.log.events()
        assert places == [(event.revision, event.seq) for event in stored]
        assert (whole["revision"], whole["next_cursor"]) == (stored[-1].revision, None)
        assert [each for page in page_through(it, "/api/v1/events", 1) for each in page] == whole["items"]
        submitted = next(each for each in whole["items"] if each["kind"] == "Submit")
        assert (submitted["workflow"], submitted["pool"], submitted["time"][-1]) == ("x-1", "pool1", "Z")
        after = it.http.get("/api/v1/events", params={"after": submitted["revision"]}).json()["items"]
        assert after == [each for each in whole["items"] if each["revision"] > submitted["revision"]]
        problem(it.http.get("/api/v1/events", params={"after": -1}), 422, "USAGE")


def test_first_page_has_the_hash_of_the_newest_commit(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.submit(one_task("x"))
        page = it.http.get("/api/v1/events", params={"limit": 1}).json()
        chain = Chain()
        assert [each.revision for each in commits(str(tmp_path / "runrig.db"), chain)][-1] == page["revision"]
        assert page["head"] == chain.last.hex()


def test_cached_events_equal_stored_ones(tmp_path: Path) -> None:
    """What was kept in memory, and what is read again from the store."""
    with api(tmp_path) as it:
        for name in ("a", "b"):
            it.submit(one_task(name))
            it.desk.service.settle()
        kept = it.http.get("/api/v1/events", params={"limit": 1000}).json()
        assert it.desk.service._transactor.events_after(0) == list(it.desk.store.log.events())
        for after in range(kept["revision"] + 1):
            found = it.http.get("/api/v1/events", params={"after": after, "limit": 1000}).json()["items"]
            assert found == [each for each in kept["items"] if each["revision"] > after]


def test_events_of_other_pools_are_hidden(tmp_path: Path) -> None:
    with two_teams(tmp_path) as it:
        seen = it.get("tom", "/api/v1/events", limit=1000)
        assert {each["pool"] for each in seen["items"]} == {"team", "team--a"}
        text = json.dumps(seen)
        assert [each for each in FOREIGN if each in text.replace("team--", "")] == []
        assert {each["pool"] for each in it.get("vera", "/api/v1/events", limit=1000)["items"]} >= {
            "team",
            "team2",
            None,
        }
        assert it.get("nina", "/api/v1/events", limit=1000)["items"] == []


def test_filters_do_not_find_hidden_events(tmp_path: Path) -> None:
    """Neither the work of another team, nor whether it exists, nor what happened to a node besides."""
    with two_teams(tmp_path) as it:
        ours, theirs = it.work["team"], it.work["team2"]
        whole = it.get("tom", "/api/v1/events", limit=1000)["items"]

        def found(asks: str, **query: Any) -> Any:
            return it.get(asks, "/api/v1/events", limit=1000, **query)["items"]

        assert found("tom", user="tom") == [each for each in whole if each["workflow"] or each["actor"] == "tom"]
        assert found("tom", user="uwe") == []
        assert found("tom", workflow=ours) == [each for each in whole if each["workflow"] == ours]
        (node,) = {node["name"] for node in it.get("ada", "/api/v1/nodes")["items"]}
        assert {each["workflow"] for each in found("ada", node=node)} == {None, *it.work.values(), *it.old.values()}
        assert {each["workflow"] for each in found("tom", node=node)} == {ours, it.old["team"]}
        for path in ("/api/v1/events", "/api/v1/events/stream"):
            hidden = it.send("tom", "GET", path, workflow=theirs)
            missing = it.send("tom", "GET", path, workflow="nothing-7")
            assert (hidden.status_code, missing.status_code) == (404, 404)
            assert hidden.json()["detail"].replace(theirs, "nothing-7") == missing.json()["detail"]
            assert it.send("tom", "GET", path, pool="team2").status_code == 404
            problem(it.send("tom", "GET", path, kind="eaten"), 422, "USAGE")


# ---------------------------------------------------------------- the stream


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with up(tmp_path_factory.mktemp("streamed")) as it:
        yield it


@contextmanager
def _stream(target: Target, user: str, path: str = "/api/v1/events/stream", **headers: str) -> Iterator[Any]:
    connection = HTTPConnection("127.0.0.1", target.port, timeout=PATIENCE_S)
    try:
        sent = {"Authorization": f"Bearer {target.tokens[user]}"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        connection.request("GET", path, headers=sent)
        yield connection.getresponse()
    finally:
        connection.close()


def _message(answer: Any) -> dict[str, str]:
    """The next one that is no comment; {} at the end of the stream."""
    found: dict[str, str] = {}
    while line := answer.readline().decode():
        name, _, value = line.rstrip("\n").partition(": ")
        if name and not line.startswith(":"):
            found[name] = value
        elif not name and found:
            return found
    return found


def _submit(target: Target, pool: str = "team") -> str:
    answer = target.ask("POST", "/api/v1/workflows", body={"pool": pool, "file": one_task("live")})
    assert answer.status == 201, answer
    return str(answer.json["id"])


def _of(answer: Any, id: str) -> dict[str, str]:
    """The first message that tells of the submission of *id*."""
    while message := _message(answer):
        if any(each["kind"] == "Submit" and each["workflow"] == id for each in json.loads(message["data"])):
            return message
    raise AssertionError("the stream ended")


@pytest.mark.slow
def test_stream_sends_events_and_resumes_where_it_broke(target: Target) -> None:
    with _stream(target, "admin") as answer:
        assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
        first = _of(answer, _submit(target))
        assert first["event"] == "commit"
    second = _submit(target)
    with _stream(target, "admin", Last_Event_ID=first["id"]) as answer:
        message = _of(answer, second)
        assert int(message["id"]) > int(first["id"])
        assert min(each["revision"] for each in json.loads(message["data"])) > int(first["id"])
    with _stream(target, "admin", f"/api/v1/events/stream?after={first['id']}") as answer:
        assert _of(answer, second)


@pytest.mark.slow
def test_stream_of_another_log_starts_over(target: Target) -> None:
    with _stream(target, "admin", Last_Event_ID="999999999") as answer:
        message = _message(answer)
        assert message["event"] == "reset"
        assert int(message["id"]) == json.loads(message["data"])["revision"] < 999999999
        assert _of(answer, _submit(target))


@pytest.mark.slow
@pytest.mark.parametrize("sent", ["x", "-1", "1.5", "9" * 30])
def test_invalid_last_event_id_is_refused(target: Target, sent: str) -> None:
    with _stream(target, "admin", Last_Event_ID=sent) as answer:
        assert (answer.status, answer.headers["content-type"]) == (422, "application/problem+json")


@pytest.mark.slow
def test_many_readers_use_no_threads(target: Target) -> None:
    def threads() -> int:
        return len(list(Path(f"/proc/{target.process.pid}/task").iterdir()))

    with ExitStack() as stack:
        first = stack.enter_context(_stream(target, "admin"))
        assert _of(first, _submit(target))
        before = threads()
        answers = [stack.enter_context(_stream(target, "admin")) for _ in range(60)]
        id = _submit(target)
        for answer in answers:
            assert _of(answer, id)
        assert threads() <= before + 8
        until(lambda: target.ask("GET", "/api/v1/version").status == 200)
