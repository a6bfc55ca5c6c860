"""`runrig why`: the sentence first, then everything that blocks, tier by tier, then who took the room before."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from runrig.cli import completing
from runrig.cli.lazy import examples
from runrig.cli.printed import workflows
from runrig.cli.printed.addresses import page
from runrig.cli.rendering import times, would_start
from runrig.cli.rendering.cause_text import last_lines
from runrig.cli.rendering.output import say, warn
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path
from runrig.domain.errors import Unavailable
from runrig.domain.quantities import GPU, amount_in_a_sentence, amount_in_words

WIDTH = 80
TIERS = {
    "submission": "submitted",
    "order": "order",
    "quota": "quota",
    "shape": "nodes",
    "preemption": "preempt",
    "waiting_for": "waits for",
}
"""How the tiers are called in the first column."""

_ALWAYS_TOLD = ("order", "quota", "shape")
"""Tiers that are said to be in order, if they are."""

PARTS = {
    "holds": "held by {}",
    "keeps": "kept idle by a lending limit: {}",
    "drains": "comes back once drained: {}",
    "safe": "safe within its quota: {}",
}

Answer = Mapping[str, Any]

_VERBOSE = click.option("-v", "--verbose", is_flag=True, help="Also changes by others, and all that was tried.")
_DEPTH = click.option(
    "--depth", type=click.IntRange(1, 2), default=1, help="2: also two changes of the owner's together."
)


@click.command(
    epilog=examples(
        "runrig why train-1", "runrig why train-1 train-2", "runrig why train-1 -t json", "runrig why --pool vision"
    )
)
@click.argument("ids", metavar="ID...", nargs=-1, shell_complete=completing.workflows)
@click.option(
    "--pool",
    shell_complete=completing.pools,
    help="Instead of IDs: everything that waits in this pool, by what it waits for.",
)
@_VERBOSE
@_DEPTH
@with_session
def why(session: Session, ids: Sequence[str], *, pool: str | None, verbose: bool, depth: int) -> None:
    """Why the workflows ID... wait: everything that blocks them, with the law and its numbers; who preempted them.

    With -t json one ID gives one document, several give a list; `changes` is what would start it.
    """
    if bool(ids) is (pool is not None):
        raise click.UsageError("give IDs of workflows, or --pool POOL")
    if pool is None:
        _explain(session, ids, verbose=verbose, depth=depth)
        return
    if verbose or depth > 1:
        raise click.UsageError(
            "--verbose and --depth are about what would let a workflow start: give its ID, not --pool"
        )
    answer = session.client.get(path("pools", pool, "why"))
    if not session.show(answer):
        say("\n".join(told_of_pool(answer)))
        say(f"\nOverview  {page(session.client.url, 'pool', pool)}")


@click.command(
    "why", epilog=examples("runrig workflow why train-1", "runrig workflow why train-1 -t json", "runrig why train-1")
)
@click.argument("ids", metavar="ID...", nargs=-1, required=True, shell_complete=completing.workflows)
@_VERBOSE
@_DEPTH
@with_session
def workflow_why(session: Session, ids: Sequence[str], *, verbose: bool, depth: int) -> None:
    """The same as `runrig why ID...`."""
    _explain(session, ids, verbose=verbose, depth=depth)


def _explain(session: Session, ids: Sequence[str], *, verbose: bool, depth: int) -> None:
    """As text why it waits is printed before what would start it is looked for."""
    # What others could change takes long to find where much runs; the owner's changes do not.
    search = {"by": "all" if verbose else "own", "depth": str(depth)}
    answers = [workflows.why(session.client.get(path("workflows", id, "why"))) for id in ids]
    if session.as_json:
        whole = [answer | {"changes": _changes(session, answer, search)} for answer in answers]
        session.show(whole if len(whole) > 1 else whole[0])
        return
    for number, answer in enumerate(answers):
        say(("\n" if number else "") + "\n".join(told(answer)))
        if (found := _changes(session, answer, search)) is not None:
            say("\n".join(("", *would_start.section(found, verbose=verbose))))
        say(f"\nOverview  {page(session.client.url, 'workflow', answer['workflow'])}")


def _changes(session: Session, why: Answer, search: Mapping[str, str]) -> Answer | None:
    """What would start it; None if nothing of it is in the queue, or with a warning: why it waits stays an answer without the rest."""
    if not any(group["position"] for group in why["groups"]):
        return None
    try:
        found: Answer = session.client.get(path("workflows", why["workflow"], "changes"), search)
    except Unavailable as error:
        warn(f"what would start it is not known now: {error.message}")
        return None
    return found


def told_of_pool(answer: Answer) -> Iterator[str]:
    on_hold = [held for held in answer["held"] if held["reason"]["law"] == "W3"]
    counts = []
    if answer["gangs"] or not on_hold:
        counts.append(_counted(answer["gangs"], answer["gpus"]))
    if on_hold:
        gangs, gpus = (sum(held[name] for held in on_hold) for name in ("gangs", "gpus"))
        counts.append(f"{gangs} on hold, for {_gpus(gpus)}")
    yield f"{answer['pool']}  {'; '.join(counts)}"
    for held in answer["held"]:
        yield ""
        reason, others = held["reason"], held["gangs"] - len(held["first"])
        yield from _wrapped(_sentence(reason), f"{held['gangs']:5}  {reason['law']:4}", 11)
        more = f" and {others} more" if others else ""
        yield from _wrapped(f"{', '.join(held['first'])}{more}", " " * 11, 11)
    if answer["unasked"]:
        yield f"\n{answer['unasked']:5}  not asked about: they are of too many kinds"


def _counted(gangs: int, gpus: int) -> str:
    return f"{gangs} {'waits' if gangs == 1 else 'wait'}, for {_gpus(gpus)}" if gangs else "nothing waits"


def _gpus(amount: int) -> str:
    return amount_in_words(GPU, amount)


def told(answer: Answer) -> Iterator[str]:
    yield f"{answer['workflow']}  {answer['status']}"
    yield from _wrapped(answer["sentence"], "", 0)
    yield from last_lines(answer["cause"])
    for group in answer["groups"]:
        alone = len(answer["groups"]) == 1
        waits = any(group[each] for each in ("reasons", "stops", "preempted", "waits_for"))
        if not waits and not (alone and group["position"]):
            continue  # of a workflow that runs in part only what waits is told
        yield ""
        yield from _group(group, alone=alone)


def _group(group: Answer, *, alone: bool) -> Iterator[str]:
    """*alone*: it is all of its workflow, which is named already."""
    yield ("" if alone else f"{group['group']}  ") + f"{group['state']}{_position(group)}"
    if group["stops"]:
        yield from _row("starts", "", f"once stopped: {', '.join(group['stops'])}")
    if group["blockers"]:
        yield from _tiers(group)
        if group["in_full"]:
            yield "  with all of its pods:"
            for each in group["in_full"]:
                told = _sentence(each["reason"]).partition("; held by ")[0]
                yield from _row(TIERS[each["tier"]], each["reason"]["law"], told)
    else:
        for reason in group["reasons"]:
            yield from _row("", reason["law"], _sentence(reason))
    for preemption in group["preempted"]:
        yield from _wrapped(preemption["sentence"], f"  {times.local(preemption['at'])}  {preemption['law']}  ", 4)


def _position(group: Answer) -> str:
    """Its place in the queue of the pool.  0: it has a place on nodes, and waits for others to stop."""
    if not group["position"]:
        return ""
    ahead = f", {group['ahead']} ahead in all pools" if group["ahead"] else ""
    return f"  number {group['position']} in its pool{ahead}"


def _tiers(group: Answer) -> Iterator[str]:
    """Per choice of flavors, if there are several, those that block it; what is in order is said only where all is looked at."""
    blockers: Sequence[Answer] = group["blockers"]
    choices = list(dict.fromkeys(tuple(each["flavors"]) for each in blockers if each["flavors"]))
    always = [each for each in blockers if not each["flavors"]]
    for each in always:
        yield from _blocker(each)
    for choice in choices:
        if len(choices) > 1:
            yield f"  with {', '.join(dict.fromkeys(choice))}:"
        here = [each for each in blockers if tuple(each["flavors"]) == choice]
        told = {each["tier"] for each in (*always, *here)}
        for tier in TIERS:
            if tier in _ALWAYS_TOLD and tier not in told:
                yield from _row(TIERS[tier], "ok", _met(tier, group))
            for each in here:
                if each["tier"] == tier:
                    yield from _blocker(each)


def _met(tier: str, group: Answer) -> str:
    """Tells the facts about a tier that is in order."""
    if tier == "order" and group["passed"]:
        passed = group["passed"]
        return f"{passed} {'gang' if passed == 1 else 'gangs'} submitted later started before it: STRICT_FIFO would hold its place"
    if tier == "quota":
        return "; ".join(map(_left, group["left"]))
    return ""


def _left(each: Answer) -> str:
    kind = str(each["resource"]).rpartition("/")[2]
    have, of = amount_in_a_sentence(kind, each["have"]), ""
    if each["of"] is not None:
        of = f" of {amount_in_a_sentence(kind, each['of'])}"
    return f"{each['where']} has {have}{of} {'' if kind == GPU else f'{kind} '}{'left' if of else 'idle'}"


def _blocker(blocker: Answer) -> Iterator[str]:
    reason = blocker["reason"]
    yield from _row(TIERS[blocker["tier"]], reason["law"], _sentence(reason))
    yield from _details(reason)


def _row(tier: str, law: str, text: str) -> Iterator[str]:
    first = f"  {tier:11}{law:4}"
    yield from _wrapped(text, first, 17) if text else [first.rstrip()]


def _wrapped(text: str, first: str, indent: int) -> list[str]:
    """Lines of *text*; *first* stands before it, and *indent* spaces before the others.  Names are never broken."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _sentence(reason: Answer) -> str:
    """Without the domains, which have lines of their own."""
    return str(reason["sentence"]).partition(". The best: ")[0]


def _details(reason: Answer) -> Iterator[str]:
    kind = str(reason["resource"]).rpartition("/")[2]
    for part, words in PARTS.items():
        amounts = [
            f"{each['name'] or 'other pools'} {amount_in_a_sentence(kind, each['amount'])}"
            for each in reason["concerned"]
            if each["part"] == part
        ]
        if amounts:
            yield from _row("", "", words.format(", ".join(amounts)))
    for each in reason["domains"]:
        lacks = [amount_in_words(*missing) for missing in each["missing"].items()]
        short = f"{' and '.join(lacks)} short" if lacks else "enough in all, not on single nodes"
        closed = (
            f", {each['closed']} {'node takes' if each['closed'] == 1 else 'nodes take'} no pods"
            if each["closed"]
            else ""
        )
        spoken = [amount_in_words(*amount) for amount in each["spoken"].items()]
        held = f", {' and '.join(spoken)} held for others that start there" if spoken else ""
        room = f"{'/'.join(each['domain'])}: {each['have']} of {reason['need']} pods, {short}{closed}{held}"
        yield from _row("", "", room)
