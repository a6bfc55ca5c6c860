"""`runrig workflow submit`, `validate` and `restart`."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import click

from runrig.cli import completing, options
from runrig.cli.commands import submit_many
from runrig.cli.commands.submit_options import Settings, submit_options
from runrig.cli.lazy import command
from runrig.cli.printed import workflows
from runrig.cli.rendering.output import say, warn, warn_of
from runrig.cli.transport.config_file import read_cluster_file
from runrig.cli.transport.failure import located
from runrig.cli.transport.files import read_text, shown
from runrig.cli.transport.session import Session, with_session
from runrig.client.localpath import KEY, inlined
from runrig.client.transport import Transport, path
from runrig.domain.errors import InvalidInput
from runrig.domain.quantities import few
from runrig.domain.tokens import TOKEN
from runrig.osmo.workflows import validated

if TYPE_CHECKING:
    from runrig.domain.cluster import ClusterSpec

_TEMPLATE = re.compile(r"""\{%|\{\{|\{#|^["']?default-values""", re.MULTILINE)
_MOST_KEPT = 3
"""Maximum completed groups named after a restart."""
_SUBMIT, _CHECK = path("workflows"), path("workflows") + ":check"


def default_pool(client: Transport) -> str:
    """Returns the server's default pool. Raises InvalidInput with the pool names if there is none."""
    none = (
        "you cannot submit to any pool. An administrator can create one with "
        "`runrig pool create NAME --quota GPUS`, or grant you a role."
    )
    me = client.get(path("me"))
    default: str | None = me["default_pool"]
    return default or only_pool(me["pools"], none, ", or set a default with `runrig pool default POOL`")


def only_pool(names: Iterable[str], none: str, default: str = "") -> str:
    """Returns the only one of *names*. Raises InvalidInput with the names if there are several, with *none* if there are none.

    *default*: how to set a default, after the names.
    """
    in_order = sorted(names)
    if len(in_order) == 1:
        return in_order[0]
    if in_order:
        raise InvalidInput.one(
            f"you can submit to {len(in_order)} pools ({', '.join(in_order)}). Choose one with --pool{default}"
        )
    raise InvalidInput.one(none)


@command(
    "runrig submit train.yaml",
    "runrig submit train.yaml --pool vision --priority LOW --set epochs=3 --set-env MODE=fast",
    "runrig submit - --dry-run < train.yaml",
    "runrig submit eval.yaml --array 0-9%3",
    "runrig submit sweep/*.yaml --pool vision --all-or-nothing",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", shell_complete=completing.files)
@options.pool(help="Pool to submit to. Default: your default pool.")
@submit_options
@click.option("--all-or-nothing", is_flag=True, help="Submit all files (up to 200) or none.")
@click.option(
    "--dry-run", is_flag=True, help="Print the rendered file and whether it would start, without submitting it."
)
@with_session
def submit(
    session: Session, files: tuple[str, ...], pool: str | None, all_or_nothing: bool, dry_run: bool, **said: Any
) -> None:
    """Submit workflow files; - reads stdin.

    If one of several files is refused, the others are still submitted.
    """
    settings = Settings(**said)
    if len(files) > 1:
        _submit_many(session, files, pool, settings, together=all_or_nothing, dry_run=dry_run)
        return
    (file,) = files
    text = read_text(file)
    client = session.client
    body = request(client, text, file, pool or default_pool(client), settings)
    with located(shown(file)):
        if dry_run:
            answer = workflows.rendered(client.call("POST", _CHECK, body=body))
        else:
            answer = workflows.submitted(client.call("POST", _SUBMIT, body=body, key=str(uuid4())), client.url)
    if session.show(answer):
        return
    if dry_run:
        say(answer["spec"].rstrip("\n"))
        if options := settings.besides_file():
            warn(f"The file is shown without the options that apply to it: {options}")
        if answer["verdict"] is not None:
            warn(answer["verdict"]["sentence"])
        warn_of(answer)
    else:
        _submitted(answer, "is submitted")


def _submit_many(
    session: Session, files: tuple[str, ...], pool: str | None, settings: Settings, *, together: bool, dry_run: bool
) -> None:
    if files.count("-") > 1:
        raise InvalidInput.one("stdin is named twice. Use - once.")
    texts = dict(zip(files, map(read_text, files), strict=True))
    client = session.client
    whole = settings.whole(pool or default_pool(client))

    def body(file: str) -> dict[str, Any]:
        with located(shown(file)):
            return _with_local_files(client, whole, settings.body(texts[file]), file)

    def check(file: str) -> dict[str, Any]:
        return workflows.rendered(client.call("POST", _CHECK, body=whole | body(file)))

    if dry_run:
        submit_many.report(session, files, submit_many.each_of(files, check), done="checked")
        return
    results = submit_many.send(client, files, [body(file) for file in files], whole, together=together)
    submit_many.report(session, files, results, done="submitted")


def request(client: Transport, text: str, file: str, pool: str, settings: Settings) -> dict[str, Any]:
    """Returns the body that submits the *text* of *file* to *pool*."""
    whole = settings.whole(pool)
    with located(shown(file)):
        return whole | _with_local_files(client, whole, settings.body(text), file)


def _with_local_files(client: Transport, whole: Mapping[str, Any], body: dict[str, Any], file: str) -> dict[str, Any]:
    """Returns *body* with its ``localpath`` files included. The server renders a template first, which may name them."""
    text = body["file"]
    if KEY not in text:
        return body
    folder = _folder(file)
    if not _TEMPLATE.search(TOKEN.sub("", text)):
        return body | {"file": inlined(text, folder)}
    rendered = client.call("POST", _CHECK, body={**whole, **body, "template_only": True})["file"]
    return body | {"file": inlined(rendered, folder), "template": text}


def _submitted(answer: dict[str, Any], what: str) -> None:
    """Prints *what* was submitted, and the command that follows it."""
    say(f"{answer['name']} {what}. Follow it: runrig attach {answer['name']}")
    warn_of(answer)


@command(
    "runrig workflow validate train.yaml",
    "runrig workflow validate train.yaml --pool vision",
    "runrig workflow validate train.yaml --pool vision --priority LOW --cluster cluster.yaml",
)
@click.argument("file", shell_complete=completing.files)
@options.pool(help="Also ask the server whether this pool could ever run it.")
@options.cluster(help="Check against a pool of this cluster file instead; needs no server.")
@submit_options
@with_session
def validate(session: Session, file: str, pool: str | None, cluster: str | None, **said: Any) -> None:
    """Check a workflow file; - reads stdin.

    Prints every error as FILE:LINE:COLUMN. Needs no server without --pool.
    """
    text = read_text(file)
    settings = Settings(**said)
    if cluster is not None:
        pool, answer = _checked_offline(text, file, pool, cluster, settings)
    elif pool is not None:
        body = request(session.client, text, file, pool, settings)
        with located(shown(file)):
            answer = validated(session.client.call("POST", _CHECK, body=body))
    else:
        with located(shown(file)):
            answer = _checked_here(text, _folder(file), settings)
    if session.show(answer):
        return
    say(f"{shown(file)} is valid" + (f" in pool {pool}" if pool else ""))
    warn_of(answer)


def _folder(file: str) -> Path:
    """Returns the base folder for files named in the workflow file *file*."""
    return Path() if file == "-" else Path(file).parent


def _checked_here(text: str, folder: Path, settings: Settings) -> dict[str, Any]:
    """Checks that the file is valid, not whether it can run."""
    from runrig.spec.arrays import Given
    from runrig.spec.overrides import with_after, with_retry
    from runrig.spec.template import render
    from runrig.spec.workflow import parse_environment, read_workflow

    given = Given(settings.array, settings.sweep, settings.most)
    spec = read_workflow(inlined(render(text, settings.variables, settings.string_variables), folder), given)
    parse_environment(settings.environment)
    with_after(with_retry(spec, settings.retry), settings.after)
    return {"name": spec.name, "warnings": []}


def _checked_offline(
    text: str, file: str, pool: str | None, cluster_file: str, settings: Settings
) -> tuple[str, dict[str, Any]]:
    """Returns (the pool, the answer of a server of the cluster in *cluster_file*)."""
    from runrig.wire.json import to_plain
    from runrig.wiring.up import check

    cluster, into, submission = offline(text, file, pool, cluster_file, settings)
    with located(shown(file)):
        return into, validated(to_plain(check(submission, cluster)))


def offline(
    text: str, file: str, pool: str | None, cluster_file: str, settings: Settings
) -> "tuple[ClusterSpec, str, Any]":
    """Returns the cluster of *cluster_file*, *pool* or its only one, and the submission of *text*, with its ``localpath`` files, to it."""
    from runrig.spec.template import render
    from runrig.wiring.up import submission

    cluster = read_cluster_file(cluster_file)
    none = f"{shown(cluster_file)} has no pools. Add pools: [{{name: NAME, quota: GPUS}}]"
    into = pool or only_pool((each.name for each in cluster.pools), none)
    with located(shown(file)):
        if KEY in text:
            text = inlined(render(text, settings.variables, settings.string_variables), _folder(file))
        return cluster, into, submission(text, into, **asdict(settings))


@command("runrig restart", "runrig restart train-1 --failed --code .", "runrig restart train-1 --pool batch")
@click.argument("id", required=False, shell_complete=completing.workflows)
@click.option(
    "--failed",
    "keep",
    is_flag=True,
    help="Run only groups that are not COMPLETED; they read the outputs of those that are.",
)
@click.option(
    "--code",
    "folder",
    metavar="DIR",
    help="Send this folder as the code of the workflow. Default: the code that it had.",
)
@options.pool(help="Pool to submit to. Default: the workflow's pool.")
@with_session
def restart(session: Session, id: str | None, keep: bool, folder: str | None, pool: str | None) -> None:
    """Submit a failed workflow again, as a new one. Without ID: your latest workflow."""
    client, id = session.client, session.or_latest(id)
    old = client.get(path("workflows", id)) if keep or pool is None else {}
    body: dict[str, Any] = {"pool": pool or old["pool"], "keep_completed" if keep else "failed_only": True}
    if folder is not None:
        from runrig.cli.transport import code

        chosen = code.choose(Path(folder))
        body |= {"code": code.send(client, chosen), "labels": dict(chosen.labels)}
    made = client.call("POST", path("workflows", id, "repeat"), body=body, key=str(uuid4()))
    answer = workflows.submitted(made, client.url)
    if session.show(answer):
        return
    kept = [group["name"] for group in old["groups"] if group["status"] == "COMPLETED"] if keep else []
    _submitted(answer, _repeats(id, kept, keep=keep, array=bool(old.get("array"))))


def _repeats(id: str, kept: list[str], *, keep: bool, array: bool) -> str:
    """*kept*: groups of the workflow *id*, or elements of the *array*, that had completed, if *keep* asks for them."""
    if not kept:
        return f"repeats all of {id}" if keep else f"repeats {id}"
    of = ("element " if len(kept) == 1 else "elements ") if array else ""
    return f"repeats {id} except {of}{few(kept, _MOST_KEPT)} (completed)"
