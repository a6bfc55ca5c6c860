"""Our own door as a test sees it."""

from typing import Any

from tests.api.client import TOKEN, Api
from tests.api.document import document

OURS = {
    (path, method): operation
    for path, methods in document()["paths"].items()
    for method, operation in methods.items()
    if path.startswith("/api/v1/")
}
QUESTIONS = [path for path, method in OURS if method == "get" and "{" not in path]
LISTS = [
    path
    for (path, method), operation in OURS.items()
    if method == "get" and "cursor" in {each["name"] for each in operation.get("parameters", ())}
]


def problem(answer: Any, status: int, code: str) -> dict[str, Any]:
    """The body of *answer*, which is a problem with *status* and *code*."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    found: dict[str, Any] = answer.json()
    assert found["type"] == f"urn:runrig:problem:{code.lower()}"
    assert (found["status"], found["code"]) == (status, code)
    assert found["title"]
    assert found["detail"]
    return found


def page_through(it: Api, path: str, limit: int, **query: Any) -> list[Any]:
    """The pages of the list at *path*."""
    pages, cursor = [], None
    while True:
        sent = query | {"limit": limit} | ({"cursor": cursor} if cursor else {})
        answer = it.http.get(path, params=sent, headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 200, answer.text
        pages.append(answer.json()["items"])
        cursor = answer.json()["next_cursor"]
        if cursor is None:
            return pages
