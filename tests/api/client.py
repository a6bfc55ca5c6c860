"""A browser's or a client's view of a server: the real application on a real service."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from runrig.api.app import create_app
from runrig.domain.access import role_named
from tests.worlds.service import TWO_POOLS, Desk, desk

TOKEN = "correct-horse"
PORT = 8700
URL = f"http://127.0.0.1:{PORT}"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}


class Api:
    """*http* sends the token and the right Host unless a test says otherwise."""

    def __init__(self, desk: Desk, http: TestClient) -> None:
        self.desk = desk
        self.http = http

    def get(self, path: str, **query: Any) -> Any:
        return self._ok(self.http.get(path, params=query))

    def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        return self._ok(self.http.request(method, path, json=body, params=query))

    def submit(self, text: str, pool: str = "pool1", **query: Any) -> Any:
        return self.call("POST", f"/api/pool/{pool}/workflow", {"file": text}, **query)

    def named(self, user: str, *roles: str) -> dict[str, str]:
        """The headers with which whoever runs `up` acts in the name of *user*, who has *roles* (an administrator if none are given)."""
        users = self.desk.service.access.users
        if user != "ann" and all(user != each.name for each in users.all()):
            users.create(user, [role_named(role) for role in roles or ("admin",)], actor="ann")
        return {"x-osmo-user": user}

    def error(self, method: str, path: str, body: Any = None, **query: Any) -> tuple[int, dict[str, Any]]:
        """Status and body of a refusal; what our own door says is told in the words of the other."""
        answer = self.http.request(method, path, json=body, params=query)
        said = answer.json()
        if path.startswith("/api/v1/") and answer.status_code >= 400:
            details = said.get("details", {}) | ({"problems": said["problems"]} if "problems" in said else {})
            said = {"message": said["detail"], "error_code": said["code"], "details": details}
        return answer.status_code, said

    @staticmethod
    def _ok(answer: Any) -> Any:
        assert answer.status_code in (200, 201, 204), answer.text
        if answer.status_code == 204:
            return None
        return answer.json() if answer.headers["content-type"] == "application/json" else answer.text


@contextmanager
def api(folder: Path, **settings: Any) -> Iterator[Api]:
    with desk(folder, **{"cluster": TWO_POOLS, **settings}) as it:
        app = create_app(it.service, token=TOKEN, port=PORT, user="ann")
        with TestClient(app, base_url=URL, headers=AUTHORIZED, raise_server_exceptions=False) as client:
            yield Api(it, client)  # one event loop for all requests, as in a server
