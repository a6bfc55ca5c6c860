"""Keys, small answers and the list of tools, without a server."""

import asyncio
import io
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runrig.domain.errors import InvalidInput, Problem, Refused
from runrig.domain.shown import WorkflowEvent
from runrig.mcp.answers import LARGEST, harmless, plain, problem, small, written
from runrig.mcp.confirming import VALID_S, Keys
from tests.agents.agent import NOWHERE, connected
from tests.exploring import tries
from tests.worlds.command_line import runrig

CALL = ("ann", "cancel", {"id": "train-1"})


def test_a_key_fits_one_call_of_one_caller_of_one_server_and_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys()
    key = keys.new(*CALL)
    assert keys.check(key, *CALL) == keys.check(key, *CALL)
    assert keys.check(keys.new(*CALL), *CALL) != keys.check(key, *CALL)
    end, number, code = key.split(".")
    for wrong in ("", "x", "ключ", f"{end}.{number}.", f"{int(end) + 9}.{number}.{code}", f"{end}..{code}"):
        with pytest.raises(InvalidInput, match="Call cancel again without key"):
            keys.check(wrong, *CALL)
    for call in (("bob", *CALL[1:]), ("ann", "hold", CALL[2]), ("ann", "cancel", {"id": "train-2"})):
        with pytest.raises(InvalidInput, match="valid only for the same arguments"):
            keys.check(key, *call)
    with pytest.raises(InvalidInput, match="valid only for the same arguments"):
        Keys().check(key, *CALL)
    monkeypatch.setattr("runrig.mcp.confirming.time.time", lambda: float(end) + 1)
    with pytest.raises(InvalidInput, match=f"it is valid for {VALID_S // 60} minutes"):
        keys.check(key, *CALL)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=120),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)


@settings(max_examples=tries(100))
@given(st.dictionaries(st.text(max_size=5), JSON, max_size=6), st.integers(200, 2000))
def test_an_answer_is_never_larger_than_the_limit_and_says_when_something_is_missing(
    answer: dict[str, Any], largest: int
) -> None:
    found = small(answer, largest)
    assert len(written(found)) <= largest
    if "left_out" not in found:
        assert found == _harmless(answer)


def _harmless(value: Any) -> Any:
    if isinstance(value, str):
        return harmless(value)
    if isinstance(value, dict):
        return {harmless(key): _harmless(each) for key, each in value.items()}
    return [_harmless(each) for each in value] if isinstance(value, list) else value


def test_a_large_answer_keeps_its_beginning_and_says_what_is_left_out() -> None:
    found = small({"pools": [{"name": f"pool-{n}", "text": "x" * 100} for n in range(1000)], "more": "no"})
    assert [each["name"] for each in found["pools"]] == [f"pool-{n}" for n in range(len(found["pools"]))]
    assert found["left_out"] == [f"pools: {1000 - len(found['pools'])} of 1000 items"]
    assert len(written(found)) <= LARGEST


def test_text_loses_escape_sequences_and_invisible_characters() -> None:
    assert harmless("a\x1b[31mred\x1b[0m\x07 b\u202e\u200bc\U000e0041\ue000\n日本 é") == "ared bc\n日本 é"


def test_empty_fields_are_left_out() -> None:
    event = WorkflowEvent(7, 0, datetime(2026, 1, 31, tzinfo=UTC), "engine", "Admit", "", "started")
    assert plain(event) == {
        "revision": 7,
        "seq": 0,
        "time": "2026-01-31T00:00:00Z",
        "actor": "engine",
        "kind": "Admit",
        "text": "started",
    }


def test_an_error_has_its_sentence_code_numbers_and_lines() -> None:
    assert problem(Refused("needs 4 GPUs", "P3", {"asked": 4})) == {
        "error": "needs 4 GPUs (Limit of a pool, rule P3)",
        "code": "RESOURCE",
        "details": {"law": "P3", "asked": 4},
    } | {"error": problem(Refused("needs 4 GPUs", "P3"))["error"]}
    assert problem(InvalidInput((Problem("no name", "workflow", 1, 2),))) == {
        "error": "no name",
        "code": "USAGE",
        "problems": [{"message": "no name", "path": "workflow", "line": 1, "column": 2}],
    }


def test_tools_are_few_and_described_and_those_that_change_something_need_a_key() -> None:
    async def listed() -> Any:
        async with connected(NOWHERE) as client:
            return (await client.list_tools()).tools

    tools = asyncio.run(listed())
    assert sum(len(each.model_dump_json(exclude_none=True)) for each in tools) < 20_000
    assert all(each.description for each in tools)
    changing = {each.name for each in tools if not each.annotations.read_only_hint}
    assert changing == {"cancel", "change_workflow", "hold", "release", "restart", "submit"}
    assert {each.name for each in tools if "key" in each.input_schema["properties"]} == changing
    assert [each.name for each in tools if each.annotations.destructive_hint] == ["cancel"]
    page = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == {each.name for each in tools}


def test_without_a_server_a_tool_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async def called() -> Any:
        async with connected(NOWHERE) as client:
            return await client.call_tool("whoami", {})

    monkeypatch.setenv("RUNRIG_TOKEN", "x")
    result = asyncio.run(called())
    assert result.is_error
    assert "no runrig server at http://127.0.0.1:9" in json.loads(result.content[0].text)["error"]


def test_over_http_a_call_without_a_token_never_uses_that_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    async def called() -> Any:
        async with connected(NOWHERE, per_request=True) as client:
            return await client.call_tool("whoami", {})

    from runrig.mcp.access import Access

    monkeypatch.setenv("RUNRIG_TOKEN", "x")
    access = Access(NOWHERE, None, per_request=True)
    assert [asyncio.run(access.verify_token(blank)) for blank in ("", " ")] == [None, None]
    assert json.loads(asyncio.run(called()).content[0].text)["code"] == "FORBIDDEN"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--listen", "127.0.0.1:9000"), "--listen requires --http"),
        (("--http", "--listen", "nowhere"), "--listen 'nowhere' is not an address. Use HOST:PORT"),
        (("--http", "--listen", "127.0.0.1:99999"), "is not an address"),
        (("--server", "ftp://x"), "is not a server address"),
    ],
)
def test_mcp_refuses_invalid_addresses(arguments: tuple[str, ...], message: str) -> None:
    done = runrig("mcp", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_without_the_sdk_mcp_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runrig.cli.commands.mcp.find_spec", lambda name: None)
    done = runrig("mcp")
    assert (done.code, done.err) == (
        2,
        "Error: this command needs the MCP SDK. Install it with: pip install 'runrig[mcp]'\n",
    )


def test_a_message_that_cannot_be_read_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    import anyio
    from mcp.server.stdio import stdio_server

    from runrig.mcp.access import Access
    from runrig.mcp.server import build

    sent = [
        '{"id": 2, "method": "tools/call", "params": {"name": "\\ud800"}}',
        '{"id": "\\ud800"}',
        "no JSON",
        '{"id": 7}',
    ]
    out = io.StringIO()
    streams = anyio.wrap_file(io.StringIO("\n".join(sent))), anyio.wrap_file(out)
    monkeypatch.setattr("runrig.mcp.server.stdio_server", lambda: stdio_server(*streams))
    asyncio.run(build(Access(NOWHERE, None, per_request=False)).run_stdio_async())
    answers = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(each["id"], each["error"]["code"]) for each in answers] == [(id, -32700) for id in (2, None, None, 7)]
    assert all(each["error"]["message"].startswith("invalid message: ") for each in answers)
