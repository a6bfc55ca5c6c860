"""A plan as text in 80 columns: the edit, a table old -> new, and the affected gangs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from runrig.cli.rendering import changes
from runrig.cli.rendering.output import say
from runrig.cli.rendering.tables import Column, Table, show, wrapped
from runrig.cli.rendering.times import local
from runrig.domain.laws import OF_PREEMPTIONS, cited
from runrig.domain.quantities import GPU, amount_in_words, counted, few

Answer = Mapping[str, Any]

MOST_NAMED = 10
"""Maximum lines in a list."""

_COLUMNS = (
    Column("Pool"),
    Column("Quota", 6),
    Column("Guaranteed used", 4),
    Column("Held", 1),
    Column("Free of quota", 3),
    Column("Waiting", 5),
    Column("Never starts", 2),
)
_FIELDS = ("quota", "used", "total", "available", "waiting")
_THEN = {"queued": "returns to the queue", "elsewhere": "restarts elsewhere"}


def print_plan(answer: Answer) -> None:
    edited = [change for change in answer["changes"] if change["action"] in changes.SIGNS]
    for change in edited:
        say("\n".join(changes.lines(change)))
    if answer["nodes"]:
        say("\n".join(wrapped(", ".join(answer["nodes"]), "- nodes  ", 9)))
    if answer["pools"]:
        _gap(bool(edited or answer["nodes"]))
        show(_table(answer))
    found = list(_lists(answer))
    if found:
        _gap(bool(edited or answer["nodes"] or answer["pools"]))
        say("\n".join(found))
    if not (found or answer["pools"]):
        say("No workflow or pool is affected.")
    if answer.get("budget"):
        say("\n".join(wrapped(f"Budget: {answer['budget']['sentence']}.")))
    if not answer["rests"]:
        say(
            f"Stopped after {counted(answer['cycles'], 'cycle')}, before the cluster settled. Later effects are not shown."
        )


def _gap(needed: bool) -> None:
    if needed:
        say("")


def _table(answer: Answer) -> Table:
    never: dict[str, int] = {}
    for each in answer["never"]:
        never[each["pool"]] = never.get(each["pool"], 0) + 1
    rows = [
        (each["pool"], *(_turned(each, field) for field in _FIELDS), str(never.get(each["pool"], "-")))
        for each in answer["pools"]
    ]
    return Table(_COLUMNS, rows)


def _turned(pool: Answer, field: str) -> str:
    old, new = (pool[when][field] for when in ("before", "after"))
    return str(new) if old == new else f"{old} -> {new}"


# ---------------------------------------------------------------- labels of workflows and pools


def _lists(answer: Answer) -> Iterator[str]:
    kinds: Sequence[tuple[str, str, Callable[[Answer], str]]] = (
        ("starts", "starts", _start),
        ("waits", "waits", who),
        ("preempted", "preempted", _preempted),
        ("kept", "spared", _preempted),
        ("moves", "moves", who),
        ("stopped", "loses", _loss),
        ("cancelled", "cancels", who),
        ("keeps running", "stays", _stays),
        ("preemptible", "exposed", _exposed),
        ("can never start", "never", _never),
        ("drains", "drains", _drain),
    )
    for label, name, told in kinds:
        items = [told(each) for each in answer[name][:MOST_NAMED]]
        left = len(answer[name]) - MOST_NAMED
        items += [f"and {left} more (use -t json to see all)"] if left > 0 else []
        items += [_others(answer["others"][name])] if name in answer["others"] else []
        for at, item in enumerate(items):
            yield from wrapped(item, f"{'' if at else label:15} ", 16)


def who(gang: Answer) -> str:
    return f"{gang['gang']} ({gang['pool']}, {gang['priority']}, {_gpus(gang['gpus'])})"


def _start(gang: Answer) -> str:
    return who(gang) + (f" on {few(gang['nodes'], 3)}" if gang["nodes"] else "")


def _preempted(gang: Answer) -> str:
    again = "; restarts elsewhere" if gang["again"] else ""
    return f"{who(gang)} by {gang['by']} {cited(OF_PREEMPTIONS[gang['law']])}{again}"


def _loss(gang: Answer) -> str:
    return f"{who(gang)}: {_THEN.get(gang['then'], gang['then'])}"


def _stays(gang: Answer) -> str:
    return f"{who(gang)}: until it finishes; use --force to stop it"


def _exposed(excess: Answer) -> str:
    gangs = excess["gangs"]
    named = few([each["gang"] for each in gangs], 3)
    total = _gpus(sum(each["gpus"] for each in gangs))
    held, quota = (amount_in_words(excess["resource"].partition("/")[2], excess[name]) for name in ("held", "nominal"))
    return f"{named} (LOW, {total}): {excess['pool']} uses {held}, more than its quota of {quota}"


def _never(gang: Answer) -> str:
    return f"{who(gang)}: {gang['why']}"


def _drain(pool: Answer) -> str:
    work = f"{counted(pool['workflows'], 'workflow')}, {_gpus(pool['gpus'])}"
    end = f", until {local(pool['until'])}" if pool["until"] else "; end unknown, because some have no time limit"
    return f"{pool['pool']}: {work}{end}"


def _others(amount: Answer) -> str:
    return f"{counted(amount['gangs'], 'gang')} of other pools ({_gpus(amount['gpus'])})"


def _gpus(amount: int) -> str:
    return amount_in_words(GPU, amount)
