"""An agent: the client of the SDK, connected to our server."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from runrig.mcp.access import Access
from runrig.mcp.server import build
from tests.worlds.command_line import RUN


class Failed(Exception):
    """The tool answered with an error."""

    def __init__(self, answer: Any) -> None:
        super().__init__(answer["error"])
        self.answer = answer


class Agent:
    def __init__(self, client: Client) -> None:
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
    async with Client(build(Access(None, str(data), per_request=False))) as client:
        yield Agent(client)


@asynccontextmanager
async def stdio(data: Path) -> AsyncIterator[Agent]:
    """Over stdio, as agents start it."""
    started = StdioServerParameters(
        command=sys.executable, args=["-c", RUN, "mcp"], env={"RUNRIG_DATA": str(data), "PATH": "/usr/bin:/bin"}
    )
    async with Client(stdio_client(started)) as client:
        yield Agent(client)


@asynccontextmanager
async def http(url: str, token: str) -> AsyncIterator[Agent]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as network,
        Client(streamable_http_client(url, http_client=network)) as client,
    ):
        yield Agent(client)
