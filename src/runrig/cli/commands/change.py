"""`runrig workflow cancel`, `hold`, `release`, `move` and `reprioritise`: change existing workflows one by one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from runrig.cli import completing, options
from runrig.cli.confirm import asks, confirmed
from runrig.cli.lazy import command
from runrig.cli.rendering.array_text import parts
from runrig.cli.rendering.output import say, warn
from runrig.cli.transport.failure import document, sentence
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import Transport, Value, path
from runrig.domain.errors import InvalidInput, RunrigError, ServerFault
from runrig.domain.quantities import counted, few
from runrig.domain.workflows import MOST_ELEMENTS

_REFUSED = 1
_ALIVE = ("PENDING", "RUNNING")
MOST_NAMED = 8
"""Maximum workflows named in a confirmation."""
_ids = click.argument("ids", nargs=-1, required=True, metavar="ID...", shell_complete=completing.living_workflows)


def _each(
    session: Session,
    ids: Sequence[str],
    change: Callable[[str], Any],
    done: str,
    line: Callable[[str], str] | None = None,
    verdicts: Mapping[str, Any] | None = None,
) -> None:
    """Applies *change* to each workflow; *done*: its resulting state, for messages. Continues after a refusal.

    *line*: formats the line for one workflow, if not "*done*". *verdicts*: of a dry run, for JSON.

    Raises the error if there is only one workflow, Exit(1) if one of several was refused.
    """
    changed: list[str] = []
    failed: list[tuple[str, RunrigError]] = []
    for id in ids:
        try:
            changed.append(change(id)["id"])
        except ServerFault:
            raise
        except RunrigError as error:
            if len(ids) == 1:
                raise
            failed.append((id, error))
    in_json: dict[str, Any] = {
        done: changed,
        "failed": [{"name": id} | document(each) for id, each in failed],
    }
    if verdicts is not None:
        in_json["verdicts"] = verdicts
    if not session.show(in_json):
        for name in changed:
            say(f"{name} is {done}" if line is None else line(name))
        for _, each in failed:
            warn(sentence(each))  # The sentence names the workflow.
    if failed:
        raise click.exceptions.Exit(_REFUSED)


@command(
    "runrig cancel train-1",
    'runrig cancel train-1 train-2 -m "wrong data"',
    "runrig cancel sweep-4/7",
    "runrig cancel --pool vision --status PENDING",
    "runrig cancel --user alice --yes",
)
@click.argument("ids", nargs=-1, metavar="[ID...]", shell_complete=completing.living_workflows)
@click.option("--message", "-m", help="Reason, stored with the workflow.")
@options.pools(help="Your workflows in this pool, without its subpools, instead of IDs (repeatable).")
@options.users(help="Workflows of this user; default: you (repeatable).")
@click.option("--all", "-a", "all_users", is_flag=True, help="Workflows of all users.")
@click.option(
    "--status",
    "-s",
    "statuses",
    type=click.Choice(_ALIVE, case_sensitive=False),
    multiple=True,
    metavar="STATUS",
    help="Only PENDING or only RUNNING workflows (repeatable).",
)
@options.yes
@click.option("--force", "-f", is_flag=True, expose_value=False, help="No effect; accepted for scripts.")
@with_session
def cancel(session: Session, ids: tuple[str, ...], message: str | None, yes: bool, **filters: Any) -> None:
    """Cancel workflows, by ID or by --pool, --user and --status; ID/INDEX is one element of an array.

    With none of these: your latest workflow, after a prompt on a terminal. If a workflow cannot be cancelled, the others still are.
    """
    client = session.client
    if ids and any(filters.values()):
        raise InvalidInput.one("IDs exclude --pool, --user, --status and --all. Use one or the other.")
    if ids:
        found: Sequence[str] = ids
    elif any(filters.values()):
        found = _that_fit(client, **filters)
    else:
        found = [_latest(session, yes=yes)]
    if not ids and found:
        confirmed(f"Cancel {counted(len(found), 'workflow')} ({few(found, MOST_NAMED)})?", yes=yes)
    if not found and not session.as_json:
        say(
            "No workflows match."
            + ("" if filters["users"] or filters["all_users"] else " Use --all to include those of all users.")
        )
        return
    body = {"message": message or ""}

    def cancel_one(id: str) -> Any:
        workflow, element = parts(id)
        where = ("workflows", workflow) if element is None else ("workflows", workflow, "elements", element)
        return client.call("POST", path(*where, "cancel"), body=body)

    _each(session, found, cancel_one, "cancelled")


def _latest(session: Session, *, yes: bool) -> str:
    """Raises InvalidInput without a terminal: a script with an empty variable must not cancel an unnamed workflow."""
    if yes or not asks():
        raise InvalidInput.one(
            "no workflows named. Name their IDs (see `runrig list`), or use --pool, --user, --status or --all."
        )
    return session.or_latest(None)


def _that_fit(
    client: Transport, pools: Sequence[str], users: Sequence[str], all_users: bool, statuses: Sequence[str]
) -> list[str]:
    """Returns ids of unfinished workflows, pending ones first, so that none starts in place of one that stops."""
    mine = None if all_users or users else True
    query: dict[str, Value] = {"pool": pools, "user": () if all_users else users, "mine": mine}
    asked = [status for status in _ALIVE if status in statuses or not statuses]
    found = (each["id"] for status in asked for each in client.items(path("workflows"), query | {"status": status}))
    return list(dict.fromkeys(found))  # A workflow that started between the two requests is in both answers.


@command("runrig workflow move train-1 --pool batch", "runrig workflow move train-1 train-2 --pool batch --dry-run")
@_ids
@click.option("--pool", "-p", required=True, shell_complete=completing.pools, metavar="NAME", help="Pool to move to.")
@options.dry_run
@with_session
def move(session: Session, ids: tuple[str, ...], pool: str, dry_run: bool) -> None:
    """Move workflows that have not started to another pool.

    They keep their submit time.
    """
    _reassign(session, ids, {"pool": pool}, f"is in pool {pool}", "moved", dry_run=dry_run)


@command(
    "runrig workflow reprioritise train-1 --priority LOW",
    "runrig workflow reprioritise train-1 train-2 --priority HIGH --dry-run",
)
@_ids
@options.priority(required=True)
@options.dry_run
@with_session
def reprioritise(session: Session, ids: tuple[str, ...], priority: str, dry_run: bool) -> None:
    """Change the priority of workflows.

    Waiting workflows keep their submit time, and running ones their nodes. LOW frees quota, but the work can be preempted.
    NORMAL and HIGH need room in the quota of the pool.
    """
    _reassign(session, ids, {"priority": priority}, f"now has priority {priority}", "reprioritised", dry_run=dry_run)


def _reassign(
    session: Session, ids: Sequence[str], what: Mapping[str, str], words: str, done: str, *, dry_run: bool
) -> None:
    """*words*: their new setting. *done*: name of the list in JSON."""
    client, verdicts, effects = session.client, {}, dict[str, str]()

    def change(id: str) -> dict[str, Any]:
        body = {**what, "dry_run": dry_run}
        answer: dict[str, Any] = client.call("POST", path("workflows", id, "reassign"), body=body)
        verdicts[answer["id"]], effects[answer["id"]] = answer["verdict"], answer.get("on_nodes") or ""
        return answer

    if dry_run:
        _each(session, ids, change, "checked", lambda id: _would(id, verdicts[id], effects[id]), verdicts)
    else:
        _each(session, ids, change, done, lambda id: f"{id} {words}")


def _would(id: str, verdict: Mapping[str, Any] | None, on_nodes: str) -> str:
    """*on_nodes*: the effect on its groups on nodes; "" if there is none, or the server is older."""
    if on_nodes and not verdict:
        return on_nodes
    waits = f"{id} {verdict['sentence'] if verdict else 'would not wait in the queue, or has not been evaluated yet'}"
    return ". ".join(filter(None, (on_nodes, waits)))


@command("runrig workflow hold train-1", "runrig workflow hold train-1 train-2 -t json")
@_ids
@with_session
def hold(session: Session, ids: tuple[str, ...]) -> None:
    """Hold workflows until they are released.

    Groups that have not started stay out of the queue; running groups continue. Held workflows keep their
    submit time, and so their queue position.
    """
    _each(session, ids, lambda id: session.client.call("POST", path("workflows", id, "hold")), "held")


@command("runrig workflow release train-1", "runrig workflow release train-1 train-2 -t json")
@_ids
@with_session
def release(session: Session, ids: tuple[str, ...]) -> None:
    """Release held workflows.

    They return to the queue at the position of their submit time.
    """
    _each(session, ids, lambda id: session.client.call("POST", path("workflows", id, "release")), "released")


@command("runrig array sweep-4 --most 5", "runrig array sweep-4 --most 5 --dry-run")
@click.argument("id", shell_complete=completing.living_workflows)
@click.option(
    "--most", type=click.IntRange(1, MOST_ELEMENTS), required=True, metavar="N", help="Elements that may run at a time."
)
@click.option("--dry-run", is_flag=True, help="Show what would happen, without changing anything.")
@with_session
def array(session: Session, id: str, most: int, dry_run: bool) -> None:
    """Change how many elements of an array may run at a time. Running elements continue."""
    body = {"most": most, "dry_run": dry_run}
    answer = session.client.call("POST", path("workflows", id, "array"), body=body)
    if session.show(answer):
        return
    if not dry_run:
        say(f"{answer['id']} runs at most {most} of its elements at a time")
    elif answer["unqueued"]:
        say(f"{_elements(answer['unqueued'])} of {id} would leave the queue. Nothing was changed")
    else:
        say(f"{_elements(answer['queued'])} of {id} would enter the queue now. Nothing was changed")


def _elements(number: int) -> str:
    return counted(number, "element")
