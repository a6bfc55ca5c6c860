"""Shows what would start a workflow, as text in 80 columns: who can make the change, the change, and its effect."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runrig.cli.rendering.tables import wrapped
from runrig.domain.quantities import counted, listed
from runrig.domain.reason_lines import WHO

Answer = Mapping[str, Any]


def section(answer: Answer, *, verbose: bool, limited: bool = False) -> Iterator[str]:
    """Yields lines; none if nothing of it is queued. *verbose*: every change that was tried, with its numbers.

    *limited*: a limit of its user stops it, so it starts when other work of the user has ended.
    """
    if not answer["tried"]:
        return
    starts = answer.get("starts", ())
    if answer["would_start"] or starts:
        yield "WOULD START IF"
    elif any(each["who"] != "owner" for each in answer["tried"]):
        yield "No single change would start it."
    elif limited:
        yield "It can start as your other work ends, or with a higher limit: see `runrig limits show`."
    else:
        yield "You cannot make any single change that would start it."
    several = len({each["group"] for each in answer["tried"]}) > 1
    before = ""
    for each in answer["would_start"]:
        who = WHO[each["who"]]
        yield from _row(who if who != before else "", _change(each, several=several))
        before = who
    for each in starts:
        yield from _row(WHO["wait"] if before != "wait" else "", _start(each, several=several))
        before = "wait"
    yield from _none([each for each in answer["tried"] if each["verdict"] == "WAITS"], "not", "no value would start it")
    unproven = [each for each in answer["tried"] if each["verdict"] == "NOT_PROVEN"]
    yield from _none(unproven, "?", "not fully searched (search limit)")
    if not answer["at_rest"]:
        yield from _row("", "The scheduler is still working; this answer may change in the next cycle.")
    for each in answer["tried"] if verbose else ():
        values = counted(each["values"], "value")
        numbers = f"{values}, {each['refuted']} ruled out, {each['run']} run: {each['verdict']}"
        yield from _row("", f"{each['dial']}: {numbers}")


def _change(each: Answer, *, several: bool) -> str:
    text = " and ".join(each["changes"])
    if several:
        text = f"{each['group']}: {text}"
    if each["stops"]:
        text += f" (stops {listed(each['stops'])})"
    if each["instead_of"]:
        others = [f"{other['gang']} {other['becomes']}" for other in each["instead_of"]]
        text += f"; {listed(others)} instead"
    return text


def _start(each: Answer, *, several: bool) -> str:
    return f"{each['group']}: {each['sentence']}" if several else str(each["sentence"])


def _none(dials: Sequence[Answer], label: str, why: str) -> Iterator[str]:
    if dials:
        yield from _row(label, f"{', '.join(dict.fromkeys(each['dial'] for each in dials))}: {why}")


def _row(label: str, text: str) -> list[str]:
    return wrapped(text, f"  {label:6} ", 9)
