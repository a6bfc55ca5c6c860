"""Reads the file of `runrig serve`: the settings of a production server, or all its errors.

Also checks files that it names: a missing certificate is an error of the line that names it.
"""

import ipaddress
import os
import re
import ssl
import stat
from collections.abc import Mapping
from pathlib import Path

from runrig.domain.cluster import BACKENDS, ClusterSpec
from runrig.domain.credentials import read_keys
from runrig.domain.errors import InvalidInput
from runrig.spec.cluster import read_cluster
from runrig.spec.fields import Field, Fields, read_file
from runrig.spec.pools import NAMESPACE
from runrig.spec.regular_file import regular_file
from runrig.spec.serve_notify import read_notify
from runrig.spec.serve_oidc import read_oidc
from runrig.spec.serve_secrets import Secrets
from runrig.spec.serve_settings import DEFAULT_LISTEN, KubernetesSpec, ServeSpec, Tls, is_loopback

FIELDS = (
    "database",
    "data",
    "listen",
    "tls",
    "behind_proxy",
    "hosts",
    "backend",
    "cluster",
    "auth",
    "oidc",
    "drain_sweep_s",
    "bind_timeout_s",
    "start_timeout_s",
    "retention_days",
    "log_store",
    "log_file",
    "connections",
    "read_timeout_s",
    "credential_key",
    "notify",
)
_DAY_S = 86_400
_YEARS_DAYS = 36_500
_BACKENDS = {name: name for name in BACKENDS}
_NOT_HERE = {
    "local": "its tasks would run as the server's user. Use `runrig up` for one person on one machine.",
}
_OF_KUBERNETES = ("namespace", "kubeconfig", "context", "code_url")
_LISTEN = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[^\[\]:/\s]+)):(?P<port>[0-9]{1,5})")
_HOST = re.compile(r"(?:\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)(?::[0-9]{1,5})?")
_CODE_URL = re.compile(r"(?P<scheme>https?)://(?P<host>[^/?#@\s]+)(?P<path>(?:/[A-Za-z0-9._~-]+)*/?)")


def read_serve(text: str, folder: Path, environment: Mapping[str, str], *, mode: int = 0o600) -> ServeSpec:
    """Returns the settings in *text*. *folder*: base of relative paths. *mode*: the file's permissions.

    Raises InvalidInput with all errors.
    """
    hints = {"pools": "pools are defined in the cluster file. Use cluster: FILE.", "port": "use listen: HOST:PORT"}
    return read_file(
        text, "server file", FIELDS, lambda fields: _Reader(fields, folder, environment, mode).spec(), hints
    )


class _Reader:
    def __init__(self, fields: Fields, folder: Path, environment: Mapping[str, str], mode: int) -> None:
        self._fields = fields
        self._folder = folder
        self._secrets = Secrets(environment, mode, self._file)

    def spec(self) -> ServeSpec:
        fields = self._fields
        data = self._path("data", "data: /var/lib/runrig")
        host, port = self._listen()
        tls, proxies = self._tls(), self._proxies()
        self._check_open(host, tls, proxies)
        hosts = self._hosts()
        self._check_hosts(host, hosts)
        backend, kubernetes = self._backend()
        self._fields["auth"].choice({"tokens": "tokens"})
        data = data or self._folder
        return ServeSpec(
            database=self._database() or f"sqlite:///{data / 'runrig.db'}",
            data=data,
            host=host,
            port=port,
            tls=tls,
            proxies=proxies,
            hosts=hosts,
            backend=backend,
            kubernetes=kubernetes,
            cluster=self._cluster(backend),
            drain_sweep_s=self._number("drain_sweep_s", 1, _DAY_S, 900),
            retention_days=self._retention(),
            log_store=self._path("log_store"),
            log_file=self._path("log_file"),
            connections=fields["connections"].whole(10, 100_000) or 1000,
            read_timeout_s=self._number("read_timeout_s", 1, 600, 30),
            oidc=read_oidc(fields["oidc"]),
            credential_key=self._credential_key(),
            notify=read_notify(fields["notify"], self._secrets),
        )

    # ------------------------------------------------------------ where it is reached

    def _listen(self) -> tuple[str, int]:
        field = self._fields["listen"]
        text = field.text()
        if text is None:
            return DEFAULT_LISTEN
        match = _LISTEN.fullmatch(text.strip())
        if match is None or int(match["port"]) > 65535:
            field.wrong(f"{text!r} is not an address. Use HOST:PORT, such as 0.0.0.0:8700 or [::]:8700.")
            return DEFAULT_LISTEN
        return match["six"] or match["name"], int(match["port"])

    def _tls(self) -> Tls | None:
        field = self._fields["tls"]
        inner = field.fields("tls", ("cert", "key"))
        cert = self._file(inner.need("cert", "cert: FILE"))
        key = self._file(inner.need("key", "key: FILE"))
        if key is not None and key.stat().st_mode & stat.S_IRWXO:
            inner["key"].wrong(f"{key} is readable by all users of this machine. Run `chmod 600 {key}`")
        if cert is None or key is None:
            return None
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password=_no_password)
        except (ssl.SSLError, OSError, ValueError):
            field.wrong(
                "the certificate and the key do not work together. Both must be in PEM, and the key without a password."
            )
        return Tls(cert, key)

    def _proxies(self) -> str | None:
        """``true`` means a proxy on this machine."""
        field = self._fields["behind_proxy"]
        if isinstance(field.node.value, str) and field.node.value.lower() not in ("true", "false"):
            text = field.text() or ""
            try:
                return ",".join(str(ipaddress.ip_network(each.strip())) for each in text.split(","))
            except ValueError:
                field.wrong(
                    f"{text!r} is not a proxy address. Use true for a proxy on this machine, or for example 10.0.0.5 or 10.0.0.0/28."
                )
                return None
        return "127.0.0.1,::1" if field.flag(False) else None

    def _check_open(self, host: str, tls: Tls | None, proxies: str | None) -> None:
        """Reports settings that would send tokens unencrypted."""
        if is_loopback(host) or tls or proxies or self._fields["tls"] or self._wrong_proxy():
            return
        self._fields["listen"].wrong(
            f"{host} can be reached from other machines, so tokens would be sent unencrypted. Add tls: {{cert: FILE, key: FILE}}, "
            "or behind_proxy: true if a proxy handles TLS, or listen on 127.0.0.1",
        )

    def _check_hosts(self, host: str, hosts: tuple[str, ...]) -> None:
        if host in ("0.0.0.0", "::") and not hosts and not self._fields["hosts"]:  # noqa: S104 - asked, not bound
            self._fields["listen"].wrong(
                f"{host} means all addresses of this machine. Add hosts: [NAME] with the names that clients use."
            )

    def _wrong_proxy(self) -> bool:
        field = self._fields["behind_proxy"]
        return bool(field) and field.node.value not in (True, False)

    def _hosts(self) -> tuple[str, ...]:
        names = []
        for item in self._fields["hosts"].items():
            text = (item.text() or "").lower()
            if text and not _HOST.fullmatch(text):
                item.wrong(
                    f"{text!r} is not a host name. Use for example runrig.example.org or runrig.example.org:8443."
                )
            names.append(text)
        return tuple(dict.fromkeys(names))

    # ------------------------------------------------------------ what it works with

    def _database(self) -> str | None:
        """Returns the URL; None if it is missing or invalid."""
        found = self._secrets.url(self._fields["database"], "database", "database")
        return self._url(*found) if found else None

    def _url(self, found: Field, text: str) -> str | None:
        """Returns *text* as a URL. Errors show only its beginning, since the rest may contain a password."""
        if "://" not in text:
            if "\n" in text or not text:
                found.wrong("it contains no URL. Use postgresql://USER:PASSWORD@HOST/DATABASE.")
                return None
            return f"sqlite:///{self._folder / text}"
        scheme = text.partition("://")[0]
        if scheme.partition("+")[0] not in ("postgresql", "postgres", "sqlite"):
            found.wrong(
                f"{scheme}://… is not supported. Use postgresql://USER:PASSWORD@HOST/DATABASE or sqlite:///PATH."
            )
            return None
        return text

    def _backend(self) -> tuple[str, KubernetesSpec | None]:
        """Returns the backend, given as a name or a mapping. Reports fields of kubernetes for other backends."""
        field = whole = self._fields.need("backend", "backend: kubernetes")
        inner = Fields(field, "a backend", {})
        if isinstance(field.node.value, Mapping):
            inner = field.fields("a backend", ("type", *_OF_KUBERNETES))
            field = inner.need("type", "type: kubernetes")
        chosen = field.choice(_BACKENDS)
        if chosen in _NOT_HERE:
            field.wrong(f"`serve` does not support {chosen}: {_NOT_HERE[chosen]}")
        bind_s = self._number("bind_timeout_s", 1, _DAY_S, 60)
        start_s = self._number("start_timeout_s", 1, _DAY_S, 1800)
        if chosen != "kubernetes":
            said = [name for name in _OF_KUBERNETES if inner[name]]
            if chosen is not None and said:
                whole.wrong(f"{', '.join(said)}: only the kubernetes backend has this, not {chosen}")
            return chosen or "simulated", None
        return chosen, self._kubernetes(inner, bind_s, start_s)

    def _kubernetes(self, inner: Fields, bind_s: float, start_s: float) -> KubernetesSpec:
        namespace = inner["namespace"]
        name = namespace.text() or "runrig"
        if not NAMESPACE.fullmatch(name):
            namespace.wrong(f"{name!r} must be lower-case letters, digits and '-', at most 63")
        return KubernetesSpec(
            namespace=name,
            kubeconfig=self._file(inner["kubeconfig"]),
            context=inner["context"].text(),
            bind_timeout_s=bind_s,
            start_timeout_s=start_s,
            code_url=_code_url(inner["code_url"]),
        )

    def _cluster(self, backend: str) -> ClusterSpec | None:
        """Returns the cluster file. Reports its errors at the line that names it, each with its own position."""
        field = self._fields["cluster"]
        path = self._file(field)
        if path is None:
            return None
        try:
            spec = read_cluster(path.read_text(encoding="utf-8"))
        except InvalidInput as error:
            for problem in error.problems:
                field.wrong(problem.located(str(path)))
            return None
        except (OSError, UnicodeDecodeError) as error:
            field.wrong(f"{path} cannot be read: {error}")
            return None
        if spec.backend_type not in (None, backend):
            field.wrong(
                f"{path} sets backend {spec.backend_type}, but this file sets {backend}. Use the same backend in both."
            )
        return spec

    def _retention(self) -> float | None:
        if self._fields["retention_days"].node.value == "never":
            return None
        return self._number("retention_days", 0.01, _YEARS_DAYS, 90)

    def _credential_key(self) -> Path | None:
        field = self._fields["credential_key"]
        path = self._file(field)
        if path is None:
            return None
        if path.stat().st_mode & (stat.S_IRWXO | stat.S_IWGRP):
            field.wrong(f"{path} is readable or writable by other users. Run `chmod 600 {path}`")
        try:
            read_keys(path.read_text(encoding="ascii", errors="replace"))
        except ValueError as error:
            field.wrong(f"{path} is not a key file: {error}. Create one with `runrig admin credential-key {path}`")
        return path

    # ------------------------------------------------------------ values

    def _number(self, name: str, least: float, most: float, default: float) -> float:
        value = self._fields[name].number(least, most)
        return default if value is None else value

    def _path(self, name: str, example: str | None = None) -> Path | None:
        field = self._fields.need(name, example) if example else self._fields[name]
        text = field.text()
        if text is not None and (not text.strip() or "\0" in text):
            field.wrong(f"{text!r} is not a path. Use for example /var/lib/runrig.")
            return None
        return None if text is None else (self._folder / text)

    def _file(self, found: Field) -> Path | None:
        """Returns a readable file; None if there is none, or after an error."""
        text = found.text()
        if text is None:
            return None
        path = self._folder / text
        try:
            with regular_file(path).open("rb"):
                return path
        except (OSError, ValueError) as error:
            found.wrong(
                f"{path} cannot be read ({getattr(error, 'strerror', None) or error}). Correct the path or its permissions."
            )
            return None


def _no_password() -> str:
    raise ValueError("the key has a password")


def folder_and_mode(path: Path) -> tuple[Path, int]:
    """Returns (base folder of relative paths in the file *path*, its permissions)."""
    return path.resolve().parent, stat.S_IMODE(os.stat(path).st_mode)


def _code_url(field: Field) -> str | None:
    """Returns the URL without a slash at its end; None if there is none, or after an error."""
    text = field.text()
    if text is None:
        return None
    match = _CODE_URL.fullmatch(text)
    if match is None or not _HOST.fullmatch(match["host"].lower()):
        field.wrong(f"{text!r:.200} is not the address of this server. Use for example http://runrig.runrig.svc:8700.")
        return None
    return f"{match['scheme']}://{match['host'].lower()}{match['path'].rstrip('/')}"
