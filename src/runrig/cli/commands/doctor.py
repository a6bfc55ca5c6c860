"""`runrig doctor`: what a Kubernetes cluster lacks, and the commands that fix it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from runrig.cli import completing, options
from runrig.cli.lazy import command
from runrig.cli.rendering import sanitize
from runrig.cli.rendering.output import say
from runrig.cli.transport.config_file import read_cluster_file
from runrig.domain.findings import Finding, Verdict

_WIDTH = max(map(len, Verdict))


@command(
    "runrig doctor",
    "runrig doctor --kubeconfig ~/.kube/config --cluster cluster.yaml",
    "runrig doctor --kubeconfig lab.kubeconfig --namespace jobs -t json",
)
@click.option(
    "--kubeconfig",
    shell_complete=completing.files,
    metavar="FILE",
    help="Default: KUBECONFIG, the service account of this pod, ~/.kube/config.",
)
@click.option("--context", metavar="NAME", help="Default: the current context of the kubeconfig.")
@click.option("--namespace", "-n", default="runrig", metavar="NAME", help="Namespace of runrig's pods.")
@options.cluster(help="Also check the node labels that this cluster file uses.")
@options.as_json(help="json: one document.")
def doctor(kubeconfig: str | None, context: str | None, namespace: str, cluster: str | None, as_json: bool) -> int:
    """Show what a Kubernetes cluster lacks for runrig, and the commands that fix it.

    Checks the rights of the account, the kinds, version and flags of KAI Scheduler, GPUs and labels of nodes, and the clock. Changes
    nothing. The exit code is 0 if nothing that runrig needs is missing, 1 otherwise, 75 if the API server does not respond.
    """
    from runrig.spec.serve_settings import KubernetesSpec
    from runrig.wiring.doctor import examine

    declared = None if cluster is None else read_cluster_file(cluster)
    spec = KubernetesSpec(namespace, None if kubeconfig is None else Path(kubeconfig), context)
    found = examine(spec, declared)
    if as_json:
        checks = [
            {"check": each.check, "verdict": each.verdict.value, "message": each.message, "command": each.command}
            for each in found
        ]
        click.echo(sanitize.as_json({"ok": not problems(found), "checks": checks}))
    else:
        for line in lines(found):
            say(line)
    return 1 if problems(found) else 0


def problems(found: Sequence[Finding]) -> int:
    return sum(each.verdict is Verdict.PROBLEM for each in found)


def lines(found: Sequence[Finding]) -> Iterator[str]:
    """Yields one line per finding and, below it, its command."""
    for each in found:
        yield f"{each.verdict.value:<{_WIDTH}}  {each.message}"
        if each.command:
            yield f"{'':<{_WIDTH}}  {each.command}"
