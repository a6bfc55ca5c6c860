"""Finds the digest of the base image of `deploy/Dockerfile`, by the protocol of image registries."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

DOCKERFILE = Path(__file__).parent.parent / "deploy" / "Dockerfile"
_HUB = {"docker.io": "registry-1.docker.io"}
_KINDS = "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json"
_PATIENCE_S = 10


def base_of(dockerfile: str) -> str:
    """Returns the base image that it names: REGISTRY/NAME:TAG."""
    found = re.search(r"^ARG BASE=(\S+)$", dockerfile, re.MULTILINE)
    assert found is not None, "the Dockerfile has no ARG BASE"
    return found[1]


def pinned(image: str, scheme: str = "https") -> str | None:
    """Returns *image* with its digest; None if its registry cannot be reached or something else answers in its place."""
    registry, _, rest = image.partition("/")
    name, _, tag = rest.rpartition(":")
    url = f"{scheme}://{_HUB.get(registry, registry)}/v2/{name}/manifests/{tag}"
    try:
        digest = _head(url, {"Accept": _KINDS}).get("Docker-Content-Digest")
    except (OSError, ValueError, KeyError):  # Proxies answer with pages of their own.
        return None
    return f"{image}@{digest}" if digest else None


def _head(url: str, headers: Mapping[str, str]) -> Mapping[str, str]:
    """Asks anonymously. Most registries first want a token, which they give to anybody."""
    try:
        with urlopen(Request(url, headers=dict(headers), method="HEAD"), timeout=_PATIENCE_S) as answer:
            return dict(answer.headers)
    except HTTPError as refusal:
        wants = dict(re.findall(r'(\w+)="([^"]*)"', refusal.headers.get("WWW-Authenticate", "")))
        if refusal.code != 401 or "realm" not in wants or "Authorization" in headers:
            raise
    realm = wants.pop("realm")
    with urlopen(f"{realm}?{urlencode(wants)}", timeout=_PATIENCE_S) as answer:
        token = json.load(answer)["token"]
    return _head(url, {**headers, "Authorization": f"Bearer {token}"})
