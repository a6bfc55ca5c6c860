"""The API server's HTTP, as much of it as the harness and its tests need."""

import json
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import yaml

Object = dict[str, Any]
T = TypeVar("T")

MANAGER = "runrig-e2e"
_TRIES = 20
_PLURALS = {
    "Topology": "topologies",
    "PriorityClass": "priorityclasses",
    "NetworkPolicy": "networkpolicies",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
}
_CLUSTER_WIDE = {
    *("Namespace", "ClusterRole", "ClusterRoleBinding", "Node", "PriorityClass", "CustomResourceDefinition", "Queue"),
    *("SchedulingShard", "Topology", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    "ValidatingWebhookConfiguration",
}


class Refusal(Exception):
    """What the API server said no with."""

    def __init__(self, status: int, said: Mapping[str, Any]) -> None:
        super().__init__(f"{status} {said.get('reason')}: {said.get('message')}")
        self.status = status
        self.message = str(said.get("message"))


class Api:
    def __init__(self, url: str, token: str, certificate: Path) -> None:
        self._http = httpx2.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            verify=ssl.create_default_context(cafile=str(certificate)),
            timeout=30,
        )

    def close(self) -> None:
        self._http.close()

    def call(self, method: str, path: str, body: Any = None, *, kind: str = "application/json", **query: str) -> Any:
        """The answer's JSON, or its text.  Raises Refusal.  A server that is not ready for it (429) is asked again for a while."""
        content = None if body is None else yaml.safe_dump(body) if kind.endswith("yaml") else json.dumps(body)
        headers = {} if body is None else {"Content-Type": kind}
        for _ in range(_TRIES):
            answer = self._http.request(method, path, content=content, headers=headers, params=query)
            if answer.status_code != 429:
                break
            time.sleep(float(answer.headers.get("retry-after", 1)))
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        said: Any = answer.json() if is_json else answer.text
        if answer.is_error:
            raise Refusal(answer.status_code, said if is_json else {"message": said})
        return said

    def create(self, each: Object, *, dry_run: bool = False) -> Object:
        """As it was taken.  A field that the kind does not have is refused."""
        query = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
        answer: Object = self.call("POST", path_of(each, named=False), each, **query)
        return answer

    def apply(self, each: Object) -> Object:
        """Server-side apply: made, or made as *each* says; any number of times."""
        query = {"fieldManager": MANAGER, "force": "true", "fieldValidation": "Strict"}
        answer: Object = self.call("PATCH", path_of(each), each, kind="application/apply-patch+yaml", **query)
        return answer

    def read(self, each: Object) -> Object | None:
        """As it is now; None if it is gone."""
        try:
            found: Object = self.call("GET", path_of(each))
        except Refusal as refusal:
            if refusal.status != 404:
                raise
            return None
        return found

    def listed(self, api_version: str, kind: str, namespace: str | None = None, **query: str) -> list[Object]:
        """*query*: `labelSelector`, `fieldSelector`.  In the order of names."""
        metadata = {} if namespace is None else {"namespace": namespace}
        where = path_of({"apiVersion": api_version, "kind": kind, "metadata": metadata}, named=False)
        found: list[Object] = self.call("GET", where, **query)["items"]
        return found

    def delete(self, each: Object, *, grace_s: int | None = None) -> None:
        query = {} if grace_s is None else {"gracePeriodSeconds": str(grace_s)}
        self.call("DELETE", path_of(each), **query)

    def set_status(self, each: Object, status: Mapping[str, Any]) -> Object:
        """Merges *status* into the object's, through the subresource."""
        patch = "application/merge-patch+json"
        answer: Object = self.call("PATCH", f"{path_of(each)}/status", {"status": status}, kind=patch)
        return answer


def path_of(each: Object, *, named: bool = True) -> str:
    """Where *each* lies, or the collection that it belongs to."""
    version, kind = each["apiVersion"], each["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = each["metadata"].get("namespace")
    if kind not in _CLUSTER_WIDE and namespace is not None:
        root += f"/namespaces/{namespace}"
    collection = f"{root}/{_PLURALS.get(kind, kind.lower() + 's')}"
    return f"{collection}/{each['metadata']['name']}" if named else collection


def until(found: Callable[[], T | None], what: str, *, timeout_s: float = 30, every_s: float = 0.05) -> T:
    """The first thing that *found* returns which counts as true.  Raises TimeoutError that names *what*."""
    end = time.monotonic() + timeout_s
    while True:
        value = found()
        if value:
            return value
        if time.monotonic() > end:
            raise TimeoutError(f"not within {timeout_s:g} s: {what}")
        time.sleep(every_s)
