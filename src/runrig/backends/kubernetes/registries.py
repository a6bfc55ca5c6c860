"""Which credentials pull the images of a gang, and the file of Docker's client in which a kubelet looks for them.

A kubelet tries what stands under the registry of an image, or under a beginning of its path there.  Pure.
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
    """The part of *registries* that pulls any of *images*: credential → its registry, "" for Docker Hub."""
    repositories = {f"{repository(image)}/" for image in images}
    return {
        name: registry
        for name, registry in registries.items()
        if any(each.startswith(f"{_place(registry)}/") for each in repositories)
    }


def docker_config(auths: Iterable[tuple[str, str]]) -> str:
    """`config.json` with (registry, what `auth_of` gives); of two for the same place the later one counts."""
    return json.dumps({"auths": {_key(registry): {"auth": auth} for registry, auth in auths}}, sort_keys=True)


def auth_of(values: Mapping[str, str]) -> str:
    """USER:PASSWORD in base64; without a username `auth` may be that already, as it stands in Docker's file."""
    auth, username = values["auth"], values.get("username", "")
    if not username and _is_pair(auth):
        return auth
    return base64.b64encode(f"{username}:{auth}".encode()).decode()


def repository(image: str) -> str:
    """HOST[:PORT]/PATH of *image*, without tag and digest, with what Docker leaves out: `docker.io/library/ubuntu`."""
    path, _, last = image.partition("@")[0].rpartition("/")
    host, _, folder = path.partition("/")
    if host != "localhost" and "." not in host and ":" not in host:
        host, folder = _HUB, path
    host = _HUB if host.lower() in _HUB_IS_ALSO else host.lower()
    folder = folder or (_HUB_DEFAULT if host == _HUB else "")
    return "/".join(filter(None, (host, folder, last.partition(":")[0])))


def _place(registry: str) -> str:
    """HOST[:PORT][/PATH] of *registry*, however it was written: with a scheme, with the `/v1/` of Docker Hub."""
    place = registry.rpartition("://")[2].strip("/")
    host, _, path = place.partition("/")
    host = host.lower() or _HUB
    host = _HUB if host in _HUB_IS_ALSO else host
    return host if path in ("", "v1", "v2") else f"{host}/{path}"


def _key(registry: str) -> str:
    """As `docker login` writes it: Docker Hub as a whole has a name of its own."""
    place = _place(registry)
    return _HUB_KEY if place == _HUB else place


def _is_pair(auth: str) -> bool:
    try:
        return b":" in base64.b64decode(auth, validate=True)
    except (binascii.Error, ValueError):
        return False
