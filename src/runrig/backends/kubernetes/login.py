"""Logs in to the API server, and explains failures."""

import errno
import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import yaml
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import NameValue, User
from lightkube.core.exceptions import ConfigError

from runrig.domain.errors import ServerFault

_NOT_KNOWN = 401
_V1, _V1BETA1 = "client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"


def logins(http: httpx2.Client, url: str) -> Iterator[str]:
    """Yields values of the header Authorization, each tried if the API server rejected the previous one; empty: none
    needed.

    May read a file or run a program. Raises ServerFault.
    """
    flow = (http.auth or httpx2.Auth()).sync_auth_flow(http.build_request("GET", url))
    try:
        asked = next(flow)
        while True:
            value = str(asked.headers.get("authorization", ""))
            if not (value.isascii() and value.isprintable()):
                raise unsendable(url)
            yield value
            asked = flow.send(httpx2.Response(_NOT_KNOWN, request=asked))
    except StopIteration:
        return
    except (ConfigError, OSError, ValueError, LookupError) as error:
        raise no_login(url, error) from None


def unsendable(url: str) -> ServerFault:
    """Omits the original message, which may contain the token."""
    return ServerFault(f"the login for {url} contains characters that are not allowed in a header")


def no_login(url: str, error: Exception) -> ServerFault:
    return ServerFault(f"no login for {url}: {in_words(error)}. Try kubectl with the same kubeconfig")


def prepare_program(user: User) -> None:
    """Lets lightkube run the login program of *user*. It rejects v1, which differs from v1beta1 only in which fields are required, and
    omits the variable with the version.
    """
    program = user.exec
    if program is not None:
        told = {"apiVersion": program.apiVersion, "kind": "ExecCredential", "spec": {"interactive": False}}
        program.env = [*(program.env or ()), NameValue(name="KUBERNETES_EXEC_INFO", value=json.dumps(told))]
        program.apiVersion = _V1BETA1 if program.apiVersion == _V1 else program.apiVersion


def look_at_files(chosen: SingleConfig) -> None:
    """Raises OSError with the name of the first unreadable file, because ssl does not report it, and a pipe would wait."""
    user = chosen.user
    named = (chosen.cluster.certificate_auth, user and user.client_cert, user and user.client_key)
    files = [Path(chosen.abs_file(each)) for each in named if each]
    for each in (*files, *([Path(user.token_file)] if user and user.token_file else [])):
        if each.exists() and not each.is_file():
            raise OSError(errno.EINVAL, "Not a regular file", str(each))
    for each in files:
        with each.open("rb"):
            pass


def in_words(error: Exception) -> str:
    """Describes *error* without quoting the file, which may contain the token."""
    if isinstance(error, yaml.YAMLError):
        mark = getattr(error, "problem_mark", None)
        return f"not valid YAML (line {mark.line + 1})" if mark else "not valid YAML"
    if isinstance(error, AttributeError):
        return "not a kubeconfig (must be a mapping)"
    if isinstance(error, KeyError):
        return f"{error.args[0]!r} is missing"
    if isinstance(error, OSError):
        return " ".join(filter(None, (error.strerror or str(error), str(error.filename or ""))))
    return str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
