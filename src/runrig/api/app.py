"""The HTTP application: routes by noun, behind one guard."""

from fastapi import FastAPI

from runrig import __version__
from runrig.api import cohorts, failures, history, meta, pools, render, resources, subpools, topology, workflows
from runrig.api.guard import Guard
from runrig.service.service import Service

_ABOUT = """Shares GPUs between teams: pools and cohorts with quotas, workflows with priorities, and an answer to why one waits.

Every route but /healthz and /readyz needs `Authorization: Bearer TOKEN`. Errors are `{message, error_code, details}`; with status 422
`details.problems` lists all problems. Times are UTC without a zone, durations are seconds."""


def create_app(service: Service, *, token: str, port: int, user: str) -> FastAPI:
    """*port*: the one that it is reached at.  *user*: who asks if a request does not say.

    The documentation is /openapi.json alone: the usual pages of the framework load their scripts from elsewhere.
    """
    app = FastAPI(
        title="runrig", version=__version__, description=_ABOUT, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    app.state.service = service
    app.state.user = user
    failures.install(app)
    for module in (meta, pools, subpools, history, cohorts, resources, topology, workflows, render):
        app.include_router(module.router)
    app.add_middleware(Guard, token=token, port=port)
    return app
