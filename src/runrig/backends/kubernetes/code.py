"""The code of a gang: an init container gets an archive and unpacks it into the working folder of each pod. Pure.

The archive is in a Secret. If pods can reach the server, they fetch it from there instead, with a token of their service
account that is only for this (`code_tokens`).
"""

import base64
from collections.abc import Iterator, Mapping

from runrig.backends.kubernetes import names
from runrig.backends.kubernetes.names import Object
from runrig.domain.code import POD_CODE
from runrig.domain.code_archive import archive
from runrig.ports.code import StoredCode

CODE = "/runrig/code"
"""Working folder of a task that has code."""
LARGEST_ARCHIVE = 700 * 1024
"""Bytes. A Secret has up to 1 MiB, and etcd gets it in base64 with the rest of the request."""
CONTAINER = "runrig-code"
AUDIENCE = "runrig-code"
"""Audience of the tokens that fetch code; other servers do not accept them."""
ACCOUNT = "default"
"""The service account of pods that fetch code. It needs no permissions."""
_TOKEN_S = 600
"""The shortest lifetime that Kubernetes accepts; kubelets renew it while the pod lives."""
_TRIES = 60
_AGAIN_S = 5
ARCHIVE = "code.tar.gz"
"""The key of the archive in the Secret, and its file name."""
_FOLDER = "/runrig/code-archive"
_TOKEN = "/runrig/code-token"  # noqa: S105 - a folder
_UNPACK = ("tar", "-xzof", f"{_FOLDER}/{ARCHIVE}", "-C", CODE)
_PYTHON = (
    "import shutil, sys, urllib.request as http",
    'asked = http.Request(sys.argv[2], headers={"Authorization": "Bearer " + sys.argv[1]})',
    "shutil.copyfileobj(http.urlopen(asked), sys.stdout.buffer)",
)
_FETCH = (
    "url=$1",
    "if command -v curl > /dev/null; then",
    '  fetch() { curl -fsS -H "Authorization: Bearer $token" "$url"; }',
    "elif command -v wget > /dev/null; then",
    '  fetch() { wget -qO- --header "Authorization: Bearer $token" "$url"; }',
    "elif command -v python3 > /dev/null; then",
    f"""  fetch() {{ python3 -c '{"; ".join(_PYTHON)}' "$token" "$url"; }}""",
    "else",
    '  echo "the image has no curl, wget or python3, and needs one of them to fetch the code" >&2',
    "  exit 1",
    "fi",
    "tries=0",
    f"until token=$(cat {_TOKEN}/token) && fetch > {_FOLDER}/{ARCHIVE}; do",
    "  tries=$((tries + 1))",
    f"  if [ $tries -ge {_TRIES} ]; then",
    '    echo "could not fetch the code from $url" >&2',
    "    exit 1",
    "  fi",
    f"  sleep {_AGAIN_S}",
    "done",
    f"{' '.join(_UNPACK)} && rm {_FOLDER}/{ARCHIVE}",
)


def data_of(code: StoredCode) -> Mapping[str, str]:
    """Returns the data of the Secret. Equal code gives equal data."""
    packed = b"".join(archive(code.manifest, code.read))
    return {ARCHIVE: base64.b64encode(packed).decode()}


def volumes(gang: str, url: str | None) -> Iterator[Object]:
    """*url*: where pods fetch the code; None: a Secret has it."""
    yield {"name": "code", "emptyDir": {}}
    if url is None:
        yield {"name": "code-archive", "secret": {"secretName": names.code_name(gang), "defaultMode": 0o444}}
        return
    yield {"name": "code-archive", "emptyDir": {}}
    token = {"path": "token", "audience": AUDIENCE, "expirationSeconds": _TOKEN_S}
    # The image may run as any user.
    yield {"name": "code-token", "projected": {"defaultMode": 0o444, "sources": [{"serviceAccountToken": token}]}}


def mount() -> Object:
    return {"name": "code", "mountPath": CODE}


def init_container(image: str, amounts: Mapping[str, int | str], url: str | None) -> Object:
    """*image*: that of the task, which needs ``tar`` and, with *url*, curl, wget or python3. *amounts*: CPU and memory of the
    task, which its pod has anyway. *url*: as in `volumes`.
    """
    mounts: list[Object] = [mount(), {"name": "code-archive", "mountPath": _FOLDER}]
    command = _UNPACK
    if url is None:
        mounts[-1]["readOnly"] = True
    else:
        mounts.append({"name": "code-token", "mountPath": _TOKEN, "readOnly": True})
        command = ("sh", "-c", "\n".join(_FETCH), CONTAINER, f"{url}{POD_CODE}")
    container: Object = {
        "name": CONTAINER,
        "image": image,
        "command": list(command),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }
    return container | ({"resources": {"limits": dict(amounts), "requests": dict(amounts)}} if amounts else {})
