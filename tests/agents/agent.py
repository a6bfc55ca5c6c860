"""An agent: the client of the SDK, connected to our server.

The SDK is imported when it is used: that takes a second, in each process of a run of tests.
"""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.worlds.command_line import RUN

NOWHERE = "http://127.0.0.1:9"
"""No server is there."""


class Failed(Exception):
    """The tool answered with an error."""

    def __init__(self, answer: Any) -> None:
        super().__init__(answer["error"])
        self.answer = answer


class Agent:
    def __init__(self, client: Any) -> None:
        self.client = client

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        """Calls a tool. Raises Failed."""
        result = await self.client.call_tool(tool, arguments)
        (content,) = result.content
        answer = json.loads(getattr(content, "text", ""))
        assert answer == result.structured_content
        if result.is_error:
            raise Failed(answer)
        return answer

    async def twice(self, tool: str, **arguments: Any) -> Any:
        """Calls a tool that changes something: first its dry run, then with its key."""
        shown = await self(tool, **arguments)
        assert shown["changed"] is False
        return await self(tool, **arguments, key=shown["key"])


@asynccontextmanager
async def here(data: Path) -> AsyncIterator[Agent]:
    """In this process, for the server in the data folder *data*."""
    async with connected(None, str(data)) as client:
        yield Agent(client)


@asynccontextmanager
async def connected(url: str | None, data: str | None = None, *, per_request: bool = False) -> AsyncIterator[Any]:
    """The client of the SDK, for tools in this process."""
    from mcp import Client

    from runrig.mcp.access import Access
    from runrig.mcp.server import build

    async with Client(build(Access(url, data, per_request=per_request))) as client:
        yield client


@asynccontextmanager
async def stdio(data: Path) -> AsyncIterator[Agent]:
    """Over stdio, as agents start it."""
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    started = StdioServerParameters(
        command=sys.executable, args=["-c", RUN, "mcp"], env={"RUNRIG_DATA": str(data), "PATH": "/usr/bin:/bin"}
    )
    async with Client(stdio_client(started)) as client:
        yield Agent(client)


@asynccontextmanager
async def http(url: str, token: str) -> AsyncIterator[Agent]:
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as network,
        Client(streamable_http_client(url, http_client=network)) as client,
    ):
        yield Agent(client)
