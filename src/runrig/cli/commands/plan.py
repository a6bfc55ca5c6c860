"""`runrig plan`: previews an edit, a loss of nodes or a submission. Changes nothing."""

import shlex
from typing import Any

import click

from runrig.cli import completing, options
from runrig.cli.commands.submit import default_pool, request
from runrig.cli.commands.submit_options import Settings, submit_options
from runrig.cli.lazy import command
from runrig.cli.rendering.output import say, tell, to_apply
from runrig.cli.rendering.plan_text import print_plan
from runrig.cli.transport.failure import located
from runrig.cli.transport.files import read_text, shown
from runrig.cli.transport.session import Session, with_session
from runrig.client.caller import PLAN_S
from runrig.client.transport import path
from runrig.domain.errors import InvalidInput
from runrig.domain.pools import SUBPOOL_DELIMITER
from runrig.domain.quantities import whole_number

_ONE = "plan shows exactly one change. Use one of -f CLUSTER_FILE, --pool NAME --quota N, --drain NODE, --down DOMAIN, -s WORKFLOW_FILE"


@command(
    "runrig plan -f cluster.yaml",
    "runrig plan --pool vision --quota 96",
    "runrig plan --drain n0 --drain n1",
    "runrig plan --down zone-a/rack-3",
    "runrig plan -s train.yaml --pool vision --priority LOW",
)
@options.file(metavar="CLUSTER_FILE", help="Preview `runrig apply -f FILE`; - reads stdin.")
@click.option("--prune", is_flag=True, help="With -f: preview `apply --prune`.")
@click.option(
    "-s",
    "--submit",
    "workflow",
    shell_complete=completing.files,
    metavar="WORKFLOW_FILE",
    help="Preview the submission of this workflow file; - reads stdin.",
)
@options.pool(help="With --quota: pool to change; with -s: pool to submit to.")
@click.option(
    "--quota", metavar="GPUS", help="New quota in GPUs, or per flavor: h100=8,b200=4; for a subpool also 50%."
)
@click.option(
    "--drain",
    shell_complete=completing.nodes,
    metavar="NODE",
    multiple=True,
    help="Preview `runrig node drain NODE` (repeatable).",
)
@click.option("--force", is_flag=True, help="With --drain: preview `drain --force`.")
@click.option("--down", metavar="DOMAIN", help="Preview the loss of all nodes of a topology domain.")
@submit_options
@with_session
def plan(
    session: Session,
    file: str | None,
    prune: bool,
    workflow: str | None,
    pool: str | None,
    quota: str | None,
    drain: tuple[str, ...],
    force: bool,
    down: str | None,
    **said: Any,
) -> None:
    """Preview which workflows a change would affect.

    Shows what would start, wait, be preempted, become preemptible or never be able to start. The scheduler runs
    with and without the change until nothing more happens, and the differences are shown. Nothing is changed.
    """
    _check(file, workflow, quota, drain, down, pool=pool, prune=prune, force=force, said=said)
    client, source, command = session.client, None, None
    body: dict[str, Any]
    if file is not None:
        source, body = file, {"file": read_text(file), "prune": prune}
        command = f"runrig apply -f {shlex.quote(file)}{' --prune' if prune else ''}"
    elif workflow is not None:
        source, pool = workflow, pool or default_pool(client)
        settings = Settings(**said)
        body = {"submission": request(client, read_text(workflow), workflow, pool, settings)}
        command = shlex.join(("runrig", "workflow", "submit", workflow, "--pool", pool, *settings.options()))
    elif pool is not None and quota is not None:
        gpus = whole_number(quota)
        body = {"pool": pool, "quota": quota if gpus is None else gpus}
        command = _update(pool, quota)
    elif drain:
        body = {"drain": list(drain)} | ({"force": True} if force else {})
        command = f"runrig node drain {shlex.join(drain)}{' --force' if force else ''}"
    else:
        body = {"down": down}
    with located(source and shown(source)):
        answer = client.call("POST", path("plan"), body=body, timeout_s=PLAN_S)
    if session.show(answer):
        return
    print_plan(answer)
    if answer["verdict"] is not None:
        tell(f"{workflow and shown(workflow)} {answer['verdict']['sentence']}.")
    revision = answer["revision"]
    if command:
        conditional = f"{command} --if-revision {revision}" if file is not None else command
        to_apply(conditional)
    else:
        say(f"Nothing was changed (revision {revision}).")


def _check(*asked: Any, pool: str | None, prune: bool, force: bool, said: dict[str, Any]) -> None:
    """Raises InvalidInput unless exactly one change is given."""
    file, workflow, quota, *_ = asked
    if sum(bool(each) if isinstance(each, tuple) else each is not None for each in asked) != 1:
        raise InvalidInput.one(_ONE)
    if quota is not None and pool is None:
        raise InvalidInput.one("--quota requires a pool. Add --pool NAME.")
    if pool is not None and quota is None and workflow is None:
        raise InvalidInput.one("--pool requires --quota N or -s WORKFLOW_FILE")
    if prune and file is None:
        raise InvalidInput.one("--prune requires -f CLUSTER_FILE")
    if force and not asked[3]:
        raise InvalidInput.one("--force requires --drain NODE")
    if workflow is None and any(said.values()):
        raise InvalidInput.one(
            "--priority, --set, --set-string, --set-env, --label, --retry, --after, --array, --sweep and --most require -s WORKFLOW_FILE"
        )


def _update(pool: str, quota: str) -> str:
    parent, _, short = pool.partition(SUBPOOL_DELIMITER)
    return f"runrig pool {f'subpool update {parent} {short}' if short else f'update {pool}'} --quota {quota}"
