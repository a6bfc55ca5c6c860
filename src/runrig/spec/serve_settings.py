"""The settings in the file of `runrig serve`."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runrig.domain.access import Grant
from runrig.domain.cluster import ClusterSpec
from runrig.domain.notices import Smtp

DEFAULT_LISTEN = ("127.0.0.1", 8700)


@dataclass(frozen=True, slots=True)
class Tls:
    cert: Path
    key: Path


@dataclass(frozen=True, slots=True)
class KubernetesSpec:
    """*namespace*: of all pods. *kubeconfig* None: $KUBECONFIG, the service account of this pod, or ~/.kube/config.
    *context* None: the current one. *bind_timeout_s*: how long the cluster's scheduler can take to place a gang (rule
    T7). *start_timeout_s*: how long a pod that has a node can take to start its task. *code_url*: how pods reach the
    server, to fetch their code; None: Secrets have it.
    """

    namespace: str = "runrig"
    kubeconfig: Path | None = None
    context: str | None = None
    bind_timeout_s: float = 60.0
    start_timeout_s: float = 1800.0
    code_url: str | None = None


@dataclass(frozen=True, slots=True)
class OidcSpec:
    """The identity provider. *groups_claim*: the claim of ID tokens with a user's groups. *role_map*: group → roles."""

    issuer: str
    client_id: str
    groups_claim: str
    role_map: Mapping[str, tuple[Grant, ...]]


@dataclass(frozen=True, slots=True)
class NotifySpec:
    """*allow*: private networks to which users can send notices. *smtp* None: this server sends no mail."""

    allow: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()
    smtp: Smtp | None = None


NO_NOTIFY = NotifySpec()


@dataclass(frozen=True, slots=True)
class ServeSpec:
    """*database*: a URL. *host*, *port*: listening address (port 0: any free one). *hosts*: other names of the server.

    *proxies*: addresses trusted to name the real client; None: none. *cluster* None: no file. Paths are absolute.
    *kubernetes*: for that backend, else None. *log_store* None: below *data*. *log_file* None: stderr. *retention_days*
    None: no limit. *oidc* None: users log in only with runrig tokens. *credential_key* None: credentials are disabled.
    *notify*: where notices of users can go.
    """

    database: str
    data: Path
    host: str = DEFAULT_LISTEN[0]
    port: int = DEFAULT_LISTEN[1]
    tls: Tls | None = None
    proxies: str | None = None
    hosts: tuple[str, ...] = ()
    backend: str = "simulated"
    kubernetes: KubernetesSpec | None = None
    cluster: ClusterSpec | None = None
    drain_sweep_s: float = 900.0
    retention_days: float | None = 90.0
    log_store: Path | None = None
    log_file: Path | None = None
    connections: int = 1000
    read_timeout_s: float = 30.0
    oidc: OidcSpec | None = None
    credential_key: Path | None = None
    notify: NotifySpec = NO_NOTIFY

    @property
    def loopback(self) -> bool:
        """Whether other machines cannot reach it directly."""
        return is_loopback(self.host)

    @property
    def https(self) -> bool:
        """Whether clients use https."""
        return self.tls is not None or self.proxies is not None


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
