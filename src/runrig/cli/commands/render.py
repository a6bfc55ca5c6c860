"""`runrig workflow render`: prints a workflow as Kubernetes objects."""

from typing import Any

import click
import yaml

from runrig.cli import completing, options
from runrig.cli.commands.submit import default_pool, offline, request
from runrig.cli.commands.submit_options import Settings, submit_options
from runrig.cli.lazy import command
from runrig.cli.rendering.output import say
from runrig.cli.transport.failure import located
from runrig.cli.transport.files import read_text, shown
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path


@command(
    "runrig workflow render train.yaml --pool vision",
    "runrig workflow render train.yaml --pool vision --cluster cluster.yaml --namespace jobs",
)
@click.argument("file", shell_complete=completing.files)
@options.pool(help="Target pool. Default: your default pool.")
@options.cluster(help="Read the pool from this cluster file; needs no server.")
@click.option(
    "--namespace", "-n", default="runrig", metavar="NAME", help="Namespace of the gangs; part of other names too."
)
@submit_options
@with_session
def render(session: Session, file: str, pool: str | None, cluster: str | None, namespace: str, **said: Any) -> None:
    """Print the Kubernetes objects of a workflow file.

    Output is YAML with queues, topology, pod groups and pods. Nothing is submitted.
    """
    text = read_text(file)
    settings = Settings(**said)
    if cluster is not None:
        objects = _offline(text, file, pool, cluster, namespace, settings)
    else:
        objects = _by_server(session, text, file, pool, namespace, settings)
    if not session.show({"objects": objects}):
        say(as_yaml(objects))


def _offline(
    text: str, file: str, pool: str | None, cluster_file: str, namespace: str, settings: Settings
) -> list[dict[str, Any]]:
    from runrig.wiring.up import render

    cluster, _, submission = offline(text, file, pool, cluster_file, settings)
    with located(shown(file)):
        return render(submission, cluster, namespace)


def _by_server(
    session: Session, text: str, file: str, pool: str | None, namespace: str, settings: Settings
) -> list[dict[str, Any]]:
    client = session.client
    body = request(client, text, file, pool or default_pool(client), settings)
    with located(shown(file)):
        answer = client.call("POST", path("workflows") + ":render", body=body | {"namespace": namespace})
    objects: list[dict[str, Any]] = answer["objects"]
    return objects


class _Plain(yaml.SafeDumper):
    """No anchors: repeated parts are written in full, as users expect."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def as_yaml(objects: list[dict[str, Any]]) -> str:
    """Returns one document per object, with fields in their original order."""
    dumped = (yaml.dump(each, Dumper=_Plain, sort_keys=False, width=1000, allow_unicode=True) for each in objects)
    return "---\n".join(dumped).rstrip("\n")
