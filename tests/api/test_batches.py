"""Many workflows in one request: each has its own result, or all are submitted or none."""

from pathlib import Path
from typing import Any

from runrig.domain.plan import Submit
from runrig.service.commands.batches import MOST, MOST_TOGETHER, PART
from runrig.wire import v1
from tests.api.client import Api, api
from tests.replaying import replayed
from tests.worlds.service import one_task

KEY = "5f0c3a1e-8d2b-4c47-9a3e-2f6b7c1d0e9f"
ANOTHER_KEY = "6f0c3a1e-8d2b-4c47-9a3e-2f6b7c1d0e9f"
BATCH = "/api/v1/workflows:batch"


def sent(
    it: Api, *texts: str, key: str | None = None, together: bool = False, pool: str = "pool1", **more: Any
) -> tuple[int, dict[str, Any]]:
    answer = it.http.post(
        BATCH,
        json={"pool": pool, "workflows": [{"file": text} for text in texts], "all_or_nothing": together, **more},
        headers={"Idempotency-Key": key} if key else {},
    )
    return answer.status_code, answer.json()


def said(answer: tuple[int, dict[str, Any]]) -> list[str]:
    """Returns the id of each result, or the code of its problem."""
    status, body = answer
    assert status == 200, body
    found = [each["id"] or each["problem"]["code"] for each in body["outcomes"]]
    assert body["submitted"] == sum(each["problem"] is None for each in body["outcomes"])
    return found


def submits(it: Api, after: int = 0) -> list[tuple[int, str]]:
    return [
        (event.revision - after, event.action.workflow.id)
        for event in it.desk.store.log.events(after=after)
        if isinstance(event.action, Submit)
    ]


def check_memory(it: Api) -> None:
    with it.desk.service._transactor.reading() as state:
        assert state.rows() == it.desk.store.load() == replayed(it.desk.store).rows()


def test_each_item_of_a_batch_gets_the_same_result_as_alone(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        before = it.desk.revision
        texts = [one_task("a"), "workflow: 7", one_task("big", gpus=9), one_task("a"), one_task("b")]
        answer = sent(it, *texts)
        assert said(answer) == ["a-1", "USAGE", "RESOURCE", "a-2", "b-1"]
        bodies = [{"pool": "pool1", "file": text} for text in texts[1:3]]
        alone = [v1.ProblemDetails(**it.http.post("/api/v1/workflows", json=body).json()) for body in bodies]
        assert [v1.ProblemDetails(**each["problem"]) for each in answer[1]["outcomes"][1:3]] == alone
        assert submits(it, before) == [(1, "a-1"), (2, "a-2"), (3, "b-1")]
        check_memory(it)


def test_all_or_nothing_is_one_revision_or_none(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        before = it.desk.revision
        for bad, code in ((one_task("big", gpus=9), "RESOURCE"), ("workflow: 7", "USAGE")):
            answer = sent(it, one_task("a"), bad, one_task("b"), together=True)
            assert said(answer) == ["CONFLICT", code, "CONFLICT"]
            assert answer[1]["outcomes"][2]["problem"]["details"] == {"refused": 2}
        assert it.desk.revision == before
        assert said(sent(it, *[one_task("a")] * 2, one_task("b"), together=True)) == ["a-1", "a-2", "b-1"]
        assert submits(it, before) == [(1, "a-1"), (1, "a-2"), (1, "b-1")]
        check_memory(it)


def test_repeated_batch_submits_nothing_twice_and_continues(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        texts = [one_task(f"w{at}") for at in range(PART + 2)]
        first = said(sent(it, *texts[:PART], key=KEY))
        assert said(sent(it, *texts, key=KEY)) == [*first, f"w{PART}-1", f"w{PART + 1}-1"]
        assert said(sent(it, *texts, key=KEY.upper())) == [*first, f"w{PART}-1", f"w{PART + 1}-1"]
        assert len(submits(it)) == PART + 2
        assert said(sent(it, one_task("other"), *texts[1:3], key=KEY)) == ["CONFLICT", *first[1:3]]


def test_a_key_is_not_for_both_a_batch_and_a_single_submission(tmp_path: Path) -> None:
    with api(tmp_path) as it:

        def alone(key: str) -> tuple[int, str]:
            body, headers = {"pool": "pool1", "file": one_task("a")}, {"Idempotency-Key": key}
            answer = it.http.post("/api/v1/workflows", json=body, headers=headers)
            return answer.status_code, answer.json().get("detail", "")

        assert alone(KEY) == (201, "")
        assert said(sent(it, one_task("a"), key=ANOTHER_KEY)) == ["a-2"]
        before = it.desk.revision
        used = "this Idempotency-Key was used for a {}. Use a new key for each request"
        for together in (False, True):
            status, body = sent(it, one_task("a"), key=KEY, together=together)
            assert (status, body["detail"]) == (409, used.format("single submission"))
        assert alone(ANOTHER_KEY) == (409, used.format("batch"))
        assert it.desk.revision == before


def test_all_or_nothing_with_a_key_is_answered_as_before(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        texts, key = [one_task("a"), one_task("a")], KEY
        first = sent(it, *texts, key=key, together=True)
        revision = it.desk.revision
        assert sent(it, *texts, key=key, together=True) == first
        assert sent(it, one_task("b"), one_task("a"), key=key, together=True)[0] == 409
        status, body = sent(it, *texts, one_task("a"), key=key, together=True)
        said_so = "this Idempotency-Key was used for another batch. Use a new key for each batch"
        assert (status, body["detail"]) == (409, said_so)
        assert it.desk.revision == revision


def test_batch_needs_a_pool_and_a_valid_length(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        revision = it.desk.revision
        assert [sent(it)[0], sent(it, *["x"] * (MOST + 1))[0]] == [422, 422]
        status, body = sent(it, *[one_task("a")] * (MOST_TOGETHER + 1), together=True)
        assert (status, body["detail"]) == (
            422,
            "invalid batch of 201 workflows. Send 1 to 200 in one all-or-nothing batch",
        )
        assert it.http.post(BATCH, json={"workflows": [{"file": one_task("a")}]}).status_code == 422
        assert said(sent(it, one_task("a"), pool="nope")) == ["NOTFOUND"]
        assert it.http.post(f"{BATCH}?pool=pool1", json={"pool": "pool1", "workflows": []}).status_code == 400
        assert it.desk.revision == revision


def test_batch_takes_the_options_of_a_single_submission(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        assert said(sent(it, one_task("a"), one_task("b"), priority="LOW", environment={"MODE": "fast"})) == [
            "a-1",
            "b-1",
        ]
        assert it.get("/api/workflow/b-1")["priority"] == "LOW"
        assert sent(it, one_task("a"), priority="URGENT")[0] == 422


def test_batch_counts_against_the_limit_of_waiting_workflows(tmp_path: Path) -> None:
    """W6."""
    with api(tmp_path) as it:
        it.call("PATCH", "/api/v1/pools/pool1", {"user_waiting": 2})
        answer = sent(it, *[one_task("a")] * 3, together=True)
        assert "ann already has 2 workflows waiting in pool pool1" in str(answer)
        assert submits(it) == []
