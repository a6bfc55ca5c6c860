"""The HTTP application: routes by noun, behind one guard."""

from collections.abc import Collection
from importlib import import_module

from fastapi import FastAPI

from runrig import __version__
from runrig.api import document, sockets
from runrig.api.osmo.absent import why_absent
from runrig.api.telemetry import Telemetry
from runrig.api.v1.following import Followers
from runrig.http import failures, permissions
from runrig.http.guard import Guard, own_names
from runrig.service.pulse import Pulse
from runrig.service.service import Service

_MODULES = (
    "runrig.api.osmo.workflows",
    "runrig.api.v1.workflows",
    "runrig.api.v1.workflow",
    "runrig.api.v1.code",
    "runrig.api.v1.pools",
    "runrig.api.v1.cohorts",
    "runrig.api.v1.nodes",
    "runrig.api.v1.events",
    "runrig.api.v1.usage",
    "runrig.api.v1.limits",
    "runrig.api.v1.tokens",
    "runrig.api.v1.access",
    "runrig.api.v1.credentials",
    "runrig.api.v1.notices",
    "runrig.api.v1.sign_in",
    "runrig.api.v1.server",
    "runrig.api.v1.plans",
    "runrig.api.v1.sessions",
    "runrig.api.osmo.configs",
    "runrig.api.osmo.pools",
    "runrig.api.osmo.subpools",
    "runrig.api.osmo.tasks",
    "runrig.api.osmo.resources",
    "runrig.api.osmo.accounts",
    "runrig.api.osmo.credentials",
    "runrig.api.osmo.profile",
    "runrig.api.osmo.login",
    "runrig.api.osmo.sessions",
    "runrig.api.osmo.apps",
    "runrig.api.meta",
)
"""Routes are tried in this order, so the most frequently called come first."""
ROUTERS = tuple(import_module(name).router for name in _MODULES)

_ABOUT = """Shares GPUs between teams: pools and cohorts with quotas, workflows with priorities, and the reason why a workflow is waiting.

Every route needs `Authorization: Bearer TOKEN`, except /healthz, /readyz and the login routes.
Routes below `/api/v1/` are runrig's own API: errors are problem details (RFC 9457), times are RFC 3339, lists page by `limit` and `cursor`.
The other routes are the osmo-compatible API: errors are `{message, error_code, details}`, times are UTC without a zone.
Durations are seconds.
Every response has `X-Request-Id`: that of the request, or a new one. The server's log contains it."""


def create_app(
    service: Service,
    *,
    port: int,
    token: str = "",
    user: str = "",
    hosts: Collection[str] | None = None,
    scheme: str = "http",
) -> FastAPI:
    """*port*: where clients reach it. *token*: of *user*, who started the server and may do everything; "" if there is
    none.

    *hosts*: allowed values of Host; None: the names of this machine with *port*. *scheme*: of its own pages.
    """
    app = described()
    app.state.service = service
    app.state.pulse = Pulse(service)
    app.state.followers = Followers(service, app.state.pulse)
    # The guard requires a token; other permissions were checked when the key was requested.
    app.router.routes.extend(sockets.ROUTES)
    if token:
        service.access.authentication.let_in(token, user)
    hosts = own_names(port) if hosts is None else hosts
    app.add_middleware(Guard, access=service.access, hosts=hosts, scheme=scheme)
    app.add_middleware(Telemetry, metrics=service.metrics)  # The last one added is the outermost.
    return app


def described() -> FastAPI:
    """Returns the routes without a service, for the documentation.

    It serves only /openapi.json: the framework's own documentation pages load scripts from elsewhere.
    """
    app = FastAPI(
        title="runrig", version=__version__, description=_ABOUT, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    failures.install(app, why_absent)
    document.install(app)
    for router in ROUTERS:
        permissions.install(app, router.routes)
    return app
