"""`runrig why`: the summary first, then all blockers, tier by tier, then earlier preemptions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from runrig.cli import completing, options
from runrig.cli.lazy import command
from runrig.cli.rendering import times, would_start
from runrig.cli.rendering.array_text import parts
from runrig.cli.rendering.output import say, warn
from runrig.cli.rendering.run_text import last_output
from runrig.cli.rendering.tables import wrapped
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path
from runrig.domain.errors import Unavailable
from runrig.domain.laws import cited
from runrig.domain.quantities import GPU, amount_in_a_sentence, amount_in_words, counted, listed
from runrig.domain.reason_lines import domain_line, part_line
from runrig.domain.reasons import CLOSEST, IN_USE_BY, Code, Part
from runrig.osmo.shape import naive, page

TIERS = {
    "submission": "submitted",
    "order": "order",
    "quota": "quota",
    "shape": "nodes",
    "preemption": "preempt",
    "waiting_for": "waits for",
}
"""The first column of each tier."""

_ALWAYS_TOLD = ("order", "quota", "shape")
"""Tiers that are listed as ok without a blocker."""

Answer = Mapping[str, Any]


@command(
    "runrig why",
    "runrig why train-1 train-2",
    "runrig why sweep-4/7",
    "runrig why train-1 -t json",
    "runrig why --pool vision",
)
@click.argument("ids", metavar="[ID...]", nargs=-1, shell_complete=completing.workflows)
@options.pool(help="Explain all waiting workflows of this pool instead of IDs.")
@click.option("-v", "--verbose", is_flag=True, help="Also show changes by others, and everything that was tried.")
@click.option(
    "--depth", type=click.IntRange(1, 2), metavar="N", default=1, help="Maximum number of your changes to combine."
)
@with_session
def why(session: Session, ids: Sequence[str], *, pool: str | None, verbose: bool, depth: int) -> None:
    """Explain why workflows are waiting: everything that blocks them, and who preempted them.

    Without IDs: your latest workflow. ID/INDEX is one element of an array.

    With -t json, one ID prints an object and several IDs print a list.
    `changes` lists what would start it.
    """
    if ids and pool is not None:
        raise click.UsageError("IDs and --pool exclude each other. Use one or the other.")
    if pool is None:
        _explain(session, ids or (session.or_latest(None),), verbose=verbose, depth=depth)
        return
    if verbose or depth > 1:
        raise click.UsageError("--verbose and --depth need a workflow ID: they cannot be used with --pool")
    answer = session.client.get(path("pools", pool, "why"))
    if not session.show(answer):
        say("\n".join(pool_lines(answer)))
        say(f"\nOverview  {page('pool', pool, session.client.url)}")


def _explain(session: Session, ids: Sequence[str], *, verbose: bool, depth: int) -> None:
    """Prints the reasons before the search for changes begins."""
    # On a busy cluster a search for others' changes is slow; a search for the owner's is not.
    search = {"by": "all" if verbose else "own", "depth": str(depth)}
    answers = [_why(session, *parts(id)) for id in ids]
    if session.as_json:
        whole = [answer | {"changes": _changes(session, answer, search)} for answer in answers]
        session.show(whole if len(whole) > 1 else whole[0])
        return
    for number, answer in enumerate(answers):
        say(("\n" if number else "") + "\n".join(lines(answer)))
        if (found := _changes(session, answer, search)) is not None:
            say("\n".join(("", *would_start.section(found, verbose=verbose, limited=_limited(answer)))))
        say(f"\nOverview  {page('workflow', answer['workflow'], session.client.url)}")


def _limited(why: Answer) -> bool:
    """Whether a limit of its user stops it now (rule W6), and it fits within the limit."""
    blockers = [blocker for group in why["groups"] for blocker in group["blockers"]]
    return any(each["reason"]["code"] == Code.USER_LIMIT and each["tier"] == "quota" for each in blockers)


def _why(session: Session, id: str, element: str | None) -> dict[str, Any]:
    return printed(session.client.get(path("workflows", id, "why"), {"element": element}))


def printed(answer: Answer) -> dict[str, Any]:
    """Times without zone, and in another order."""
    groups = [{**each, "preempted": [_at("at", of) for of in each["preempted"]]} for each in answer["groups"]]
    return {
        "workflow": answer["id"],
        "status": answer["status"],
        "groups": groups,
        "sentence": answer["sentence"],
        "cause": answer["cause"],
        "ending": _at("at", answer["ending"]),
        "standstill": _at("since", answer["standstill"]),
        "changes": answer["changes"],
    }


def _at(name: str, answer: Answer | None) -> Answer | None:
    return answer and {**answer, name: naive(answer[name])}


def _changes(session: Session, why: Answer, search: Mapping[str, str]) -> Answer | None:
    """Returns what would start it. None if nothing of it is queued, or, with a warning, if that is not known now."""
    if not any(group["position"] for group in why["groups"]):
        return None
    try:
        found: Answer = session.client.get(path("workflows", why["workflow"], "changes"), search)
    except Unavailable as error:
        warn(f"cannot show what would start it: {error.message}")
        return None
    return found


def pool_lines(answer: Answer) -> Iterator[str]:
    counts = [_counted(answer["gangs"], answer["gpus"])] if answer["gangs"] else []
    for law, words in (("W3", "on hold"), ("S8", "not queued because the pool is paused")):
        outside = [held for held in answer["held"] if held["reason"]["law"] == law]
        gangs, gpus = (sum(held[name] for held in outside) for name in ("gangs", "gpus"))
        if outside:
            counts.append(f"{gangs} {words} ({'needs' if gangs == 1 else 'need'} {_gpus(gpus)})")
    counts = counts or [_counted(0, 0)]
    yield f"{answer['pool']}  {'; '.join(counts)}"
    for held in answer["held"]:
        yield ""
        reason, others = held["reason"], held["gangs"] - len(held["first"])
        yield from wrapped(f"{_sentence(reason)} {cited(reason['law'])}", f"{held['gangs']:5}  ", 7)
        more = f" and {others} more" if others else ""
        yield from wrapped(f"{', '.join(held['first'])}{more}", " " * 7, 7)
    if answer["unasked"]:
        yield f"\n{answer['unasked']:5}  not evaluated: too many different gangs"


def _counted(gangs: int, gpus: int) -> str:
    if not gangs:
        return "nothing is waiting"
    return f"{counted(gangs, 'gang is', 'gangs are')} waiting ({'needs' if gangs == 1 else 'need'} {_gpus(gpus)})"


def _gpus(amount: int) -> str:
    return amount_in_words(GPU, amount)


def lines(answer: Answer) -> Iterator[str]:
    yield f"{answer['workflow']}  {answer['status']}"
    yield from wrapped(answer["sentence"])
    yield from last_output(answer["cause"])
    for group in answer["groups"]:
        alone = len(answer["groups"]) == 1
        waits = any(group[each] for each in ("reasons", "stops", "preempted", "waits_for"))
        if not waits and not (alone and group["position"]):
            continue  # If part of the workflow is running, only pending groups are shown.
        yield ""
        yield from _group(group, alone=alone)


def _group(group: Answer, *, alone: bool) -> Iterator[str]:
    """*alone*: the workflow has no other group."""
    yield ("" if alone else f"{group['group']}  ") + f"{group['state']}{_position(group)}"
    if group["stops"]:
        have = "has" if len(group["stops"]) == 1 else "have"
        yield from _row("starts", f"when {listed(group['stops'])} {have} stopped")
    if group["blockers"]:
        yield from _tiers(group)
        if group["in_full"]:
            yield "  with all of its pods:"
            for each in group["in_full"]:
                told = _sentence(each["reason"]).partition(IN_USE_BY)[0]
                yield from _row(TIERS[each["tier"]], f"{told} {cited(each['reason']['law'])}")
    else:
        for reason in group["reasons"]:
            yield from _row("", f"{_sentence(reason)} {cited(reason['law'])}")
    for preemption in group["preempted"]:
        yield from wrapped(preemption["sentence"], f"  {times.local(preemption['at'])}  ", 4)


def _position(group: Answer) -> str:
    """Returns its queue position. 0: nodes are reserved for it until others stop."""
    if not group["position"]:
        return ""
    ahead = f", {group['ahead']} ahead in all pools" if group["ahead"] else ""
    return f"  position {group['position']} in its pool{ahead}"


def _tiers(group: Answer) -> Iterator[str]:
    """Yields the blockers, per choice of flavors if there are several. Shows tiers that are ok only below a choice."""
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
                met = _met(tier, group)
                yield from _row(TIERS[tier], f"ok: {met}" if met else "ok")
            for each in here:
                if each["tier"] == tier:
                    yield from _blocker(each)


def _met(tier: str, group: Answer) -> str:
    """Returns the facts about a tier that is ok."""
    if tier == "order" and group["passed"]:
        passed = group["passed"]
        return f"{counted(passed, 'gang')} submitted later started first; STRICT_FIFO would prevent that"
    if tier == "quota":
        return "; ".join(map(_left, group["left"]))
    return ""


def _left(each: Answer) -> str:
    kind, where = str(each["resource"]).rpartition("/")[2], each["where"]
    if each["of"] is None:
        return f"{where} has {amount_in_words(kind, each['have'])} idle"
    return f"{where} has {amount_in_a_sentence(kind, each['have'])} of {amount_in_words(kind, each['of'])} left"


def _blocker(blocker: Answer) -> Iterator[str]:
    reason = blocker["reason"]
    yield from _row(TIERS[blocker["tier"]], f"{_sentence(reason)} {cited(reason['law'])}")
    yield from _details(reason)


def _row(tier: str, text: str) -> list[str]:
    return wrapped(text, f"  {tier:11}", 13)


def _sentence(reason: Answer) -> str:
    """Omits the domains, which have their own lines."""
    return str(reason["sentence"]).partition(CLOSEST)[0]


def _details(reason: Answer) -> Iterator[str]:
    kind = str(reason["resource"]).rpartition("/")[2]
    for part in Part:
        pools = [(each["name"], each["amount"]) for each in reason["concerned"] if each["part"] == part]
        if pools:
            yield from _row("", part_line(part, pools, kind))
    for each in reason["domains"]:
        need, spoken = reason["need"], each["spoken"]
        line = domain_line(each["domain"], each["have"], need, each["missing"], each["closed"], spoken)
        yield from _row("", line)
