"""Selects the credentials that pull a gang's images, and builds the Docker config file for the kubelet.

A kubelet tries the entries for the image's registry and for each prefix of its path. Pure.
"""

import base64
import binascii
import json
from collections.abc import Iterable, Mapping

_HUB = "docker.io"
_HUB_IS_ALSO = ("index.docker.io", "registry-1.docker.io")
_HUB_KEY = "https://index.docker.io/v1/"
_HUB_DEFAULT = "library"


def needed(registries: Mapping[str, str], images: Iterable[str]) -> Mapping[str, str]:
    """Returns the entries of *registries* that pull any of *images*: credential → its registry, "" for Docker Hub."""
    repositories = {f"{repository(image)}/" for image in images}
    return {
        name: registry
        for name, registry in registries.items()
        if any(each.startswith(f"{_place(registry)}/") for each in repositories)
    }


def docker_config(auths: Iterable[tuple[str, str]]) -> str:
    """Returns `config.json` from (registry, result of `auth_of`); the last entry for a place wins."""
    return json.dumps({"auths": {_key(registry): {"auth": auth} for registry, auth in auths}}, sort_keys=True)


def auth_of(values: Mapping[str, str]) -> str:
    """Returns USER:PASSWORD in base64. Without a username, `auth` may already be in that form, as in Docker's file."""
    auth, username = values["auth"], values.get("username", "")
    if not username and _is_pair(auth):
        return auth
    return base64.b64encode(f"{username}:{auth}".encode()).decode()


def repository(image: str) -> str:
    """Returns HOST[:PORT]/PATH of *image*, without tag and digest, with Docker's defaults: `docker.io/library/ubuntu`."""
    path, _, last = image.partition("@")[0].rpartition("/")
    host, _, folder = path.partition("/")
    if host != "localhost" and "." not in host and ":" not in host:
        host, folder = _HUB, path
    host = _HUB if host.lower() in _HUB_IS_ALSO else host.lower()
    folder = folder or (_HUB_DEFAULT if host == _HUB else "")
    return "/".join(filter(None, (host, folder, last.partition(":")[0])))


def _place(registry: str) -> str:
    """Returns HOST[:PORT][/PATH] of *registry*, with or without a scheme or the `/v1/` of Docker Hub."""
    place = registry.rpartition("://")[2].strip("/")
    host, _, path = place.partition("/")
    host = host.lower() or _HUB
    host = _HUB if host in _HUB_IS_ALSO else host
    return host if path in ("", "v1", "v2") else f"{host}/{path}"


def _key(registry: str) -> str:
    """Returns the key that `docker login` writes; Docker Hub as a whole has its own."""
    place = _place(registry)
    return _HUB_KEY if place == _HUB else place


def _is_pair(auth: str) -> bool:
    try:
        return b":" in base64.b64decode(auth, validate=True)
    except (binascii.Error, ValueError):
        return False
