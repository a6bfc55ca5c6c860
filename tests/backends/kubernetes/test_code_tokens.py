"""Tokens with which pods fetch code: the API server says whose they are; what it says of others opens nothing."""

import json
from typing import Any

import httpx2
import pytest

from runrig.backends.kubernetes.cluster import Cluster, Timeouts
from runrig.backends.kubernetes.code_tokens import pod_of
from runrig.domain.errors import NotLoggedIn, Unavailable

TOKEN = "header.claims.signature"
POD = "authentication.kubernetes.io/pod-name"
UID = "authentication.kubernetes.io/pod-uid"
EXTRA = {POD: ["wf-1-t-0"], UID: ["u1"]}
OURS = {
    "authenticated": True,
    "audiences": ["runrig-code"],
    "user": {"username": "system:serviceaccount:jobs:default", "extra": EXTRA},
}


def asked(token: str, answer: Any, status: int = 201) -> tuple[list[Any], tuple[str, str]]:
    bodies = []

    def answers(request: httpx2.Request) -> httpx2.Response:
        assert request.url.path == "/apis/authentication.k8s.io/v1/tokenreviews"
        bodies.append(json.loads(request.content)["spec"])
        return httpx2.Response(status, json=answer)

    http = httpx2.Client(transport=httpx2.MockTransport(answers), base_url="http://test")
    return bodies, pod_of(Cluster(http, "http://test", Timeouts()), "jobs", token)


def test_token_of_a_pod_in_the_namespace_identifies_the_pod() -> None:
    bodies, pod = asked(TOKEN, {"status": OURS})
    assert (bodies, pod) == ([{"token": TOKEN, "audiences": ["runrig-code"]}], ("wf-1-t-0", "u1"))


@pytest.mark.parametrize(
    "told",
    [
        {"error": "invalid bearer token"},
        OURS | {"authenticated": False},
        OURS | {"audiences": ["https://kubernetes.default.svc"]},
        OURS | {"user": {"username": "system:serviceaccount:jobs-2:default", "extra": EXTRA}},
        OURS | {"user": {"username": "ada", "extra": EXTRA}},
        OURS | {"user": {"username": "system:serviceaccount:jobs:default"}},
        OURS | {"user": {"username": "system:serviceaccount:jobs:default", "extra": {POD: ["wf-1-t-0"]}}},
    ],
)
def test_any_other_token_is_refused(told: Any) -> None:
    with pytest.raises(NotLoggedIn):
        asked(TOKEN, {"status": told})


@pytest.mark.parametrize("token", ["", "rr_0123", "a.b", "a.b.c.d", f"a.b.{'c' * 9000}"])
def test_impossible_token_is_not_passed_on(token: str) -> None:
    with pytest.raises(NotLoggedIn):
        asked(token, {}, 500)


def test_missing_permission_is_not_blamed_on_the_pod() -> None:
    refused = {
        "kind": "Status",
        "reason": "Forbidden",
        "message": 'tokenreviews is forbidden: User "runrig" cannot create',
    }
    with pytest.raises(Unavailable, match="Grant runrig the permissions in"):
        asked(TOKEN, refused, 403)
