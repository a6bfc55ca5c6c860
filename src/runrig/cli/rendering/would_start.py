"""What would let a workflow start, as text for 80 columns: who can do it, the change, and what happens instead."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

WIDTH = 80
_WHO = {"owner": "you", "admin": "admin", "wait": "wait"}

Answer = Mapping[str, Any]


def section(answer: Answer, *, verbose: bool) -> Iterator[str]:
    """Lines; none if nothing of it waits in the queue.  *verbose*: every dial that was tried, with its numbers."""
    if not answer["tried"]:
        return
    if answer["would_start"]:
        yield "WOULD START IF"
    elif any(each["who"] != "owner" for each in answer["tried"]):
        yield "No single change was found with which it would start."
    else:
        yield "No single change of yours was found with which it would start."
    several = len({each["group"] for each in answer["tried"]}) > 1
    before = ""
    for each in answer["would_start"]:
        who = _WHO[each["who"]]
        yield from _row(who if who != before else "", _change(each, several=several))
        before = who
    yield from _none(
        [each for each in answer["tried"] if each["verdict"] == "WAITS"], "not", "all values tried, none starts it"
    )
    unproven = [each for each in answer["tried"] if each["verdict"] == "NOT_PROVEN"]
    yield from _none(unproven, "?", "not every value was tried: the search has a budget")
    if not answer["at_rest"]:
        yield from _row("", "The next cycle has more to decide, so this may change at once.")
    for each in answer["tried"] if verbose else ():
        values = f"{each['values']} {'value' if each['values'] == 1 else 'values'}"
        numbers = f"{values}, {each['refuted']} ruled out, {each['run']} run: {each['verdict']}"
        yield from _row("", f"{each['dial']}: {numbers}")


def _change(each: Answer, *, several: bool) -> str:
    text = " and ".join(each["changes"])
    if several:
        text = f"{each['group']}: {text}"
    if each["stops"]:
        text += f"; once {_listed(each['stops'])} {'has' if len(each['stops']) == 1 else 'have'} stopped"
    if each["instead_of"]:
        text += "; instead " + _listed([f"{other['gang']} {other['becomes']}" for other in each["instead_of"]])
    return text


def _none(dials: Sequence[Answer], label: str, why: str) -> Iterator[str]:
    if dials:
        yield from _row(label, f"{_listed(list(dict.fromkeys(each['dial'] for each in dials)))}: {why}")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def _row(label: str, text: str) -> Iterator[str]:
    lines = textwrap.wrap(text, WIDTH - 9, break_long_words=False, break_on_hyphens=False)
    for number, line in enumerate(lines):
        yield f"  {label if number == 0 else '':6} {line}"
