"""A server with canned answers in the shapes of runrig.wire.v1, and the command line run against it."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from runrig.domain.shown import Pool, PoolGpus, TaskAttempt, TaskGroup, Workflow, WorkflowEntry, WorkflowSubmitted
from runrig.http.problems import problem
from runrig.wire.base import example_of, json_of
from runrig.wire.json import adapter
from tests.worlds.command_line import Done, runrig

SUBMITTED: dict[str, Any] = example_of(WorkflowSubmitted)

Said = tuple[int, Any]
"""Status and body: text goes as text/plain, everything else as JSON.  A list of them is answered one after the other."""


@dataclass
class Server:
    answers: dict[str, Said | list[Said]]
    url: str = ""
    asked: list[tuple[str, list[tuple[str, str]], Any]] = field(default_factory=list)
    """``METHOD path``, query, body."""
    tokens: list[str | None] = field(default_factory=list)


@contextmanager
def serving(answers: Mapping[str, Any]) -> Iterator[Server]:
    """A real HTTP server on a free port.  *answers*: ``METHOD path`` → body of a 200, or (status, body), or a list of them."""
    world = Server({route: _said(answer) for route, answer in answers.items()})

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            route = f"{self.command} {parts.path}"
            world.asked.append((route, parse_qsl(parts.query), body))
            world.tokens.append(self.headers.get("Authorization"))
            status, answer = _next(world.answers, route)
            raw = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815

        def log_message(self, *args: object) -> None:
            """Silent."""

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    world.url = f"http://127.0.0.1:{httpd.server_address[1]}"
    thread = threading.Thread(target=lambda: httpd.serve_forever(poll_interval=0.01))
    thread.start()
    try:
        yield world
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()


def _said(answer: Any) -> Said | list[Said]:
    if isinstance(answer, list) and answer and all(isinstance(each, tuple) for each in answer):
        return answer
    return answer if isinstance(answer, tuple) else (200, answer)


def _next(answers: Mapping[str, Said | list[Said]], route: str) -> Said:
    said: Said | list[Said] = answers.get(route) or (404, refused(f"no route {route}", "NOTFOUND"))
    if not isinstance(said, list):
        return said
    return said.pop(0) if len(said) > 1 else said[0]


def at(server: Server, *args: str, stdin: str = "") -> Done:
    return runrig("--server", server.url, *args, stdin=stdin)


def answered(answers: Mapping[str, Any], *args: str, stdin: str = "") -> Done:
    with serving(answers) as server:
        return at(server, *args, stdin=stdin)


def refused(message: str, code: str, **details: Any) -> dict[str, Any]:
    return dict(problem(400, message, code, details))


def page(*items: Any, following: str | None = None) -> dict[str, Any]:
    return {"items": list(items), "next_cursor": following}


def pool(name: str, **fields: Any) -> dict[str, Any]:
    """A pool of 8 GPUs with nothing in it, but for *fields*, some of which are numbers of GPUs."""
    idle = {"quota": 8, "unallocated": 8, "used": 0, "low": 0, "subtree_used": 0, "total": 0, "available": 8, "lent": 0}
    numbers = idle | {each: fields.pop(each) for each in list(fields) if each in example_of(PoolGpus)}
    return _full(Pool, {"name": name, "subpools": [], "gpus": example_of(PoolGpus) | numbers, **fields})


def task(name: str = "main", **fields: Any) -> dict[str, Any]:
    return _full(TaskAttempt, {"name": name, **fields})


def workflow(status: str, *tasks: dict[str, Any], group: str = "RUNNING", **fields: Any) -> dict[str, Any]:
    """train-1 with one group."""
    groups = [_full(TaskGroup, {"status": group, "tasks": list(tasks) or [task()]})]
    return _full(Workflow, {"status": status, "groups": groups, **fields})


def entry(id: str, **fields: Any) -> dict[str, Any]:
    return _full(WorkflowEntry, {"id": id, **fields})


def _full(model: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The example of *model* with *fields*, and everything that a server sends besides."""
    answer: dict[str, Any] = json.loads(json_of(adapter(model).validate_python(example_of(model) | fields)))
    return answer
