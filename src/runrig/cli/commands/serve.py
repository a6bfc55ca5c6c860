"""`runrig serve`: a production server from a config file. Imports the server only when it runs."""

import click

from runrig.cli import options
from runrig.cli.commands.doctor import lines, problems
from runrig.cli.lazy import command
from runrig.cli.rendering.output import say, warn
from runrig.cli.transport.config_file import read_config
from runrig.cli.transport.failure import located
from runrig.cli.transport.files import shown
from runrig.domain.cluster import ClusterSpec
from runrig.domain.errors import InvalidInput, Unavailable
from runrig.domain.findings import Verdict
from runrig.spec.serve_settings import KubernetesSpec


@command(
    "runrig serve --config /etc/runrig/serve.yaml --check",
    "runrig serve --config /etc/runrig/serve.yaml --init-admin alice",
    "runrig serve --config /etc/runrig/serve.yaml",
)
@options.config(required=True, help="Config file (see docs/production.md).")
@click.option("--check", is_flag=True, help="Check the config file and exit.")
@click.option("--init-admin", metavar="NAME", help="Create the first administrator, print a token and exit.")
@options.no_mirror
def serve(config: str, check: bool, init_admin: str | None, no_mirror: bool) -> int:
    """Start a production server from a config file.

    It has users, roles, TLS, and failover to a standby.

    If the backend is Kubernetes, --check also examines the cluster, as `runrig doctor` does. The exit code is 1 if the cluster lacks
    something that runrig needs.
    """
    if check and init_admin is not None:
        raise InvalidInput.one("--check and --init-admin exclude each other. Use one of them.")
    spec = read_config(config)
    from runrig.wiring import serve

    if init_admin is not None:
        say(serve.first_admin(spec, init_admin))
        return 0
    with located(shown(config)):
        doubt = serve.check(spec)
    if doubt is not None:
        warn(doubt)
    if check:
        say(f"{shown(config)} is valid")
        return 0 if spec.kubernetes is None else _examined(spec.kubernetes, spec.cluster)
    serve.serve(spec, mirror=not no_mirror)
    return 0


def _examined(spec: KubernetesSpec, declared: ClusterSpec | None) -> int:
    """Prints what the cluster lacks; returns the exit code."""
    from runrig.wiring.doctor import examine

    try:
        found = examine(spec, declared)
    except Unavailable as error:
        warn(f"The cluster could not be checked: {error.message}")
        return 0
    for line in lines([each for each in found if each.verdict is not Verdict.OK]):
        warn(line)
    return 1 if problems(found) else 0
