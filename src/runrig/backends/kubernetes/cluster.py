"""The API server: a few verbs on objects, which are dicts like their YAML.

lightkube reads the kubeconfig and provides TLS and logins. Requests are our own, because its client can neither delete
by uid nor end a silent watch. Thread-safe.
"""

import os
import ssl
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import httpx2
from lightkube.config.client_adapter import ConnectionParams
from lightkube.config.kubeconfig import DEFAULT_KUBECONFIG, KubeConfig
from lightkube.core.exceptions import ConfigError

from runrig.backends.kubernetes import answers, kinds
from runrig.backends.kubernetes.answers import ApiRefusal, Batch, Stream, unless
from runrig.backends.kubernetes.login import in_words, logins, look_at_files, no_login, prepare_program, unsendable
from runrig.backends.kubernetes.names import Object
from runrig.domain.errors import InvalidInput, ServerFault, Unavailable

T = TypeVar("T")

MANAGER = "runrig"
_PAGE = 500
_TRIES = 5
_CONNECTIONS = 32
_APPLY, _MERGE, _PATCH = (f"application/{form}" for form in ("apply-patch+yaml", "merge-patch+json", "json-patch+json"))


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds. *watch*: when the server ends a watch. *silence*: when a silent watch is abandoned.

    *silence* is longer, because a healthy server sends nothing if nothing happens.
    """

    connect: float = 5
    read: float = 30
    watch: float = 60
    silence: float = 75


class Listing(NamedTuple):
    objects: tuple[Object, ...]
    resource_version: str


class Cluster:
    """Raises ApiRefusal and Unavailable; ServerFault if login fails for a local reason."""

    def __init__(self, http: httpx2.Client, url: str, timeouts: Timeouts, tls: ssl.SSLContext | None = None) -> None:
        """*tls*: of *http*, for connections with another protocol."""
        self.url, self.tls = url, tls
        self._http, self._timeouts = http, timeouts

    def close(self) -> None:
        self._http.close()

    def logins(self) -> Iterator[str]:
        """As `login.logins`."""
        return logins(self._http, self.url)

    # ------------------------------------------------------------ questions

    def version(self) -> str:
        """The version of the API server, e.g. `v1.35.0`. Raises ServerFault if it is another program."""
        found = self._call("GET", "version")
        if not isinstance(found, Mapping) or "gitVersion" not in found:
            raise ServerFault(f"{self.url} is not a Kubernetes API server. Correct the server in the kubeconfig")
        return str(found["gitVersion"])

    def account(self) -> str:
        """The user name that the API server knows this login by."""
        return str(self._review("authentication", "SelfSubjectReview", None)["userInfo"]["username"])

    def may(self, verb: str, group: str, resource: str, namespace: str | None) -> bool:
        """Whether this login has a right; *resource*: such as `pods/log`; *namespace* None: in all namespaces."""
        kind, _, part = resource.partition("/")
        about = {"verb": verb, "group": group, "resource": kind, "subresource": part, "namespace": namespace or ""}
        return bool(self._review("authorization", "SelfSubjectAccessReview", {"resourceAttributes": about})["allowed"])

    def clock(self) -> float:
        """The time of the API server, in whole seconds since the epoch."""
        return parsedate_to_datetime(self._send("GET", "version", {}).headers["date"]).timestamp()

    def kinds_missing(self) -> tuple[str, ...]:
        """Returns KAI kinds that the API server does not serve, as `Queue scheduling.run.ai/v2`."""
        served = {
            (version, name) for version in {kind.api_version for kind in kinds.KAI} for name in self._served(version)
        }
        return tuple(
            f"{kind.name} {kind.api_version}" for kind in kinds.KAI if (kind.api_version, kind.name) not in served
        )

    def review(self, token: str, audience: str) -> Object:
        """Returns whose *token* is, as the status of a TokenReview."""
        return self._review("authentication", "TokenReview", {"token": token, "audiences": [audience]})

    def get(self, each: Object) -> Object | None:
        """Returns the current object with the kind and name of *each*, or None."""
        with unless(404):
            return answers.lean(self._call("GET", _path(each)))
        return None

    def list(
        self,
        kind: kinds.ObjectKind,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> Listing:
        """Returns all objects of *kind*, and the version from which to watch."""
        for _ in range(_TRIES):
            query = {"labelSelector": _selector(labels), "fieldSelector": _selector(fields)}
            with unless(410):
                return self._pages(kind, _collection(kind, namespace), query)
        raise Unavailable(f"the list of {kind.plural} expired while it was read, {_TRIES} times")

    def watch(
        self,
        kind: kinds.ObjectKind,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        resource_version: str,
    ) -> Stream[Batch]:
        """Returns later changes in batches, including BOOKMARK. Ends after a minute. ApiRefusal 410: list again."""
        query = {
            "watch": "true",
            "labelSelector": _selector(labels),
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": f"{self._timeouts.watch:.0f}",
        }
        return self._stream(_collection(kind, namespace), query, answers.events, silence_s=self._timeouts.silence)

    def log(
        self, namespace: str, pod: str, container: str, *, follow: bool = False, timestamps: bool = False
    ) -> Stream[bytes]:
        """Returns the container's output so far; *follow*: and later output. *timestamps*: each line starts with its time."""
        query = {"container": container, "follow": "true" * follow, "timestamps": "true" * timestamps}
        # A followed log may be silent for days; probes detect a dead connection.
        silence_s = None if follow else self._timeouts.read
        return self._stream(f"{_collection(kinds.POD, namespace)}/{_part(pod)}/log", query, iter, silence_s=silence_s)

    # ------------------------------------------------------------ changes

    def apply(self, each: Object) -> Object:
        """Server-side apply: creates the object or updates it to match *each*. Idempotent. Rejects unknown fields."""
        query = {"fieldManager": MANAGER, "force": "true", "fieldValidation": "Strict"}
        return answers.lean(self._call("PATCH", _path(each), query, each, form=_APPLY))

    def create(self, each: Object) -> Object | None:
        """Returns the new object; None if the name exists."""
        query = {"fieldManager": MANAGER, "fieldValidation": "Strict"}
        try:
            return answers.lean(self._call("POST", _path(each, named=False), query, each))
        except ApiRefusal as refusal:
            if refusal.reason != "AlreadyExists":
                raise
            return None

    def patch(self, each: Object, merge: Object) -> Object:
        """Merges *merge* into the object."""
        return answers.lean(self._call("PATCH", _path(each), {"fieldManager": MANAGER}, merge, form=_MERGE))

    def delete(self, each: Object, *, uid: str | None = None, grace_s: float | None = None) -> None:
        """Deletes the object if it exists; *uid*: only if it still has that uid."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace_s is not None:
            options["gracePeriodSeconds"] = round(grace_s)
        try:
            self._call("DELETE", _path(each), {}, options)
        except ApiRefusal as refusal:
            if refusal.status != 404 and not (refusal.status == 409 and uid and self._now(each, uid) is None):
                raise

    def release(self, each: Object, finalizer: str) -> None:
        """Removes *finalizer* from the object, if it still exists with the uid of *each*."""
        uid = each["metadata"]["uid"]
        now: Object | None = each
        for _ in range(_TRIES):
            held = now["metadata"].get("finalizers", []) if now else []
            if finalizer not in held:
                return
            with unless(404, 409, 422):
                self._without(each, uid, held.index(finalizer), finalizer)
                return
            now = self._now(each, uid)
        raise Unavailable(f"{each['kind']} {each['metadata']['name']} changes too often to remove its finalizer")

    def _without(self, each: Object, uid: str, index: int, finalizer: str) -> None:
        place = f"/metadata/finalizers/{index}"
        steps = [
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "test", "path": place, "value": finalizer},
            {"op": "remove", "path": place},
        ]
        self._call("PATCH", _path(each), {"fieldManager": MANAGER}, steps, form=_PATCH)

    def _now(self, each: Object, uid: str) -> Object | None:
        return found if (found := self.get(each)) and found["metadata"]["uid"] == uid else None

    # ------------------------------------------------------------ requests

    def _review(self, group: str, kind: str, spec: Object | None) -> Object:
        asked = {"apiVersion": f"{group}.k8s.io/v1", "kind": kind} | ({"spec": spec} if spec else {})
        found: Object = self._call("POST", f"apis/{group}.k8s.io/v1/{kind.lower()}s", {}, asked)["status"]
        return found

    def _served(self, api_version: str) -> Iterator[str]:
        with unless(404):
            yield from (each["kind"] for each in self._call("GET", _root(api_version))["resources"])

    def _pages(self, kind: kinds.ObjectKind, path: str, query: Mapping[str, str]) -> Listing:
        found: list[Object] = []
        rest = ""
        while True:
            said = self._call("GET", path, {**query, "limit": str(_PAGE), "continue": rest})
            about = {"apiVersion": kind.api_version, "kind": kind.name}
            found += [answers.lean({**about, **each}) for each in said.get("items") or ()]
            rest = said["metadata"].get("continue", "")
            if not rest:
                return Listing(tuple(found), said["metadata"]["resourceVersion"])

    def _call(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Any = None, *, form: str = ""
    ) -> Any:
        return answers.decoded(self._send(method, path, query or {}, body, form=form).content)

    def _stream(
        self,
        path: str,
        query: Mapping[str, str],
        read: Callable[[Iterator[bytes]], Iterator[T]],
        *,
        silence_s: float | None,
    ) -> Stream[T]:
        timeout = httpx2.Timeout(self._timeouts.read, connect=self._timeouts.connect, read=silence_s)
        return Stream(self.url, self._send("GET", path, query, timeout=timeout), read)

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any = None,
        *,
        form: str = "",
        timeout: httpx2.Timeout | None = None,
    ) -> httpx2.Response:
        """Returns a successful response; with *timeout*, one whose body has not been read. Omits empty parameters."""
        asked = self._http.build_request(
            method,
            path,
            params={name: value for name, value in query.items() if value},
            json=body,
            headers={"Content-Type": form} if form else None,
            timeout=timeout or httpx2.USE_CLIENT_DEFAULT,
        )
        try:
            response = self._http.send(asked, stream=timeout is not None)
            if not response.is_success:
                response.read()
                response.close()
        except (httpx2.LocalProtocolError, UnicodeError):
            # Their text may contain the token.
            raise unsendable(self.url) from None
        except httpx2.HTTPError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise Unavailable(
                    f"the API server {self.url} is not trusted: its certificate is not from the certificate authority in the kubeconfig, "
                    f"or is for another name ({error})"
                ) from None
            raise answers.unanswered(self.url, error) from None
        except (ConfigError, OSError, ValueError, LookupError) as error:
            raise no_login(self.url, error) from None
        if not response.is_success:
            raise answers.refused(response)
        return response


# ---------------------------------------------------------------- where things are


def _path(each: Object, *, named: bool = True) -> str:
    kind = kinds.BY_NAME[each["apiVersion"], each["kind"]]
    metadata = each["metadata"]
    assert not kind.namespaced or metadata.get("namespace"), f"{kind.name} {metadata['name']} needs a namespace"
    collection = _collection(kind, metadata.get("namespace"))
    return f"{collection}/{_part(metadata['name'])}" if named else collection


def _collection(kind: kinds.ObjectKind, namespace: str | None) -> str:
    """Returns the path of a collection; without *namespace*, across all namespaces."""
    inside = f"/namespaces/{_part(namespace)}" if kind.namespaced and namespace else ""
    return f"{_root(kind.api_version)}{inside}/{kind.plural}"


def _root(api_version: str) -> str:
    return f"apis/{api_version}" if "/" in api_version else f"api/{api_version}"


def _part(name: str) -> str:
    return urllib.parse.quote(name, safe="")


def _selector(wanted: Mapping[str, str] | None) -> str:
    return ",".join(f"{name}={value}" for name, value in (wanted or {}).items())


# ---------------------------------------------------------------- connecting


def connect(
    kubeconfig: Path | None = None,
    context: str | None = None,
    *,
    timeouts: Timeouts = Timeouts(),
) -> Cluster:
    """Connects to the cluster of *kubeconfig*, else of the pod's service account, `KUBECONFIG` or `~/.kube/config`.

    *context* None: the current one. Sends no request. Raises InvalidInput.
    """
    place = str(kubeconfig or os.environ.get("KUBECONFIG") or DEFAULT_KUBECONFIG)
    try:
        config = KubeConfig.from_file(kubeconfig) if kubeconfig else KubeConfig.from_env()
        if context is not None and context not in config.contexts:
            raise ConfigError(
                f"unknown context {context!r} (contexts: {', '.join(sorted(config.contexts)) or 'none'}). "
                "Correct backend.context"
            )
        chosen = config.get(context)
        assert chosen is not None, "without a context it raises"
        if chosen.user is None:
            raise ConfigError(f"context {chosen.context_name!r} has no user")
        url = httpx2.URL(chosen.cluster.server)
        if url.scheme not in ("http", "https") or not url.host:
            raise ConfigError(f"the server of cluster {chosen.context.cluster!r} is not a URL with https://")
        look_at_files(chosen)
        prepare_program(chosen.user)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=_CONNECTIONS)
        params = ConnectionParams(timeout=httpx2.Timeout(timeouts.read, connect=timeouts.connect))
        parts: dict[str, Any] = params.httpx_params(chosen)
        http = httpx2.Client(**parts, limits=limits)
    except Exception as error:  # noqa: BLE001  a broken file can raise anything, because the library hardly checks it
        if isinstance(error, ConfigError) and str(error).startswith("Configuration file"):
            raise InvalidInput.one(
                f"no kubeconfig at {place}. Set backend.kubeconfig or KUBECONFIG, or run in a pod with a service account"
            ) from None
        raise InvalidInput.one(f"kubeconfig {place} cannot be used: {in_words(error)}") from None
    tls = parts["verify"] if url.scheme == "https" else None
    return Cluster(http, str(url.copy_with(userinfo=b"")).rstrip("/"), timeouts, tls)
