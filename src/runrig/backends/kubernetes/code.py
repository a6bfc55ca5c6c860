"""The code of a gang: an archive in a Secret, which an init container unpacks into the working folder of each pod. Pure."""

import base64
from collections.abc import Iterator, Mapping

from runrig.backends.kubernetes import names
from runrig.backends.kubernetes.names import Object
from runrig.domain.code_archive import archive
from runrig.ports.code import StoredCode

CODE = "/runrig/code"
"""Working folder of a task that has code."""
LARGEST_ARCHIVE = 700 * 1024
"""Bytes. A Secret has up to 1 MiB, and etcd gets it in base64 with the rest of the request."""
CONTAINER = "runrig-code"
_KEY = "code.tar.gz"
_ARCHIVE = "/runrig/code-archive"
_UNPACK = ("tar", "-xzof", f"{_ARCHIVE}/{_KEY}", "-C", CODE)


def data_of(code: StoredCode) -> Mapping[str, str]:
    """Returns the data of the Secret. Equal code gives equal data."""
    packed = b"".join(archive(code.manifest, code.read))
    return {_KEY: base64.b64encode(packed).decode()}


def hidden(text: str) -> Mapping[str, str]:
    """Returns the same for a Secret that is only shown."""
    return {_KEY: text}


def volumes(gang: str) -> Iterator[Object]:
    yield {"name": "code", "emptyDir": {}}
    yield {"name": "code-archive", "secret": {"secretName": names.code_name(gang), "defaultMode": 0o444}}


def mount() -> Object:
    return {"name": "code", "mountPath": CODE}


def init_container(image: str, amounts: Mapping[str, int | str]) -> Object:
    """*image*: that of the task, which needs ``tar``. *amounts*: CPU and memory of the task, which its pod has anyway."""
    container: Object = {
        "name": CONTAINER,
        "image": image,
        "command": list(_UNPACK),
        "volumeMounts": [mount(), {"name": "code-archive", "mountPath": _ARCHIVE, "readOnly": True}],
    }
    return container | ({"resources": {"limits": dict(amounts), "requests": dict(amounts)}} if amounts else {})
