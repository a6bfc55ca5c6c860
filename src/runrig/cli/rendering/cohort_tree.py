"""The quota tree as a table, and a single cohort."""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from runrig.cli.rendering import balances
from runrig.cli.rendering.output import say
from runrig.cli.rendering.tables import Column, Table, facts, show
from runrig.cli.rendering.tree import tree
from runrig.domain.laws import cited

Node = Mapping[str, Any]

ROOT = "(cluster)"


def show_tree(answer: Mapping[str, Any]) -> None:
    """Prints a row per node, flavor and resource, then problems."""
    rows: list[tuple[str, ...]] = []
    for name, node in [(ROOT, answer["root"]), *_drawn(answer["cohorts"])]:
        lines = balances.rows(node["balances"]) or [("-",) * len(balances.COLUMNS)]
        rows += [((name, _kind(node)) if at == 0 else ("", "")) + line for at, line in enumerate(lines)]
    show(Table((Column("Name"), Column("Kind", 2), *balances.COLUMNS), rows))
    notes = [note for node in (answer["root"], *answer["cohorts"]) for note in _notes(node)]
    notes += [f"quotas exceed capacity by {balances.shown(*each)}" for each in sorted(answer["overpromised"].items())]
    if notes:
        say("\n" + "\n".join(notes))


def _kind(node: Node) -> str:
    marks = (
        ("only named", not node["declared"]),
        ("in a cycle", not node["active"]),
        ("over-committed", bool(balances.over(node["balances"]))),
    )
    said = ", ".join(mark for mark, holds in marks if holds)
    return f"{node['kind']} ({said})" if said else str(node["kind"])


def _notes(node: Node) -> Iterator[str]:
    who = f"{node['kind']} {node['name']}".strip()
    if not node["active"]:
        yield f"the parents of {who} form a cycle; nothing in it can start until the cycle is broken {cited('Q5')}"
    if beyond := balances.over(node["balances"]):
        yield (
            f"{who} is over-committed by {beyond}: running workflows continue, and new ones wait "
            f"until enough have finished {cited('Q4')}"
        )


def _drawn(nodes: Sequence[Node]) -> Iterator[tuple[str, Node]]:
    def parent(node: Node) -> tuple[str, str]:
        return node["parent_kind"] or "cohort", node["parent"]

    for lines, node in tree(nodes, itemgetter("kind", "name"), parent, below_a_root=True):
        yield lines + node["name"], node


def show_node(node: Node) -> None:
    """Prints one cohort with all its numbers."""
    facts(
        (
            ("Cohort", node["name"]),
            ("Declared", None if node["declared"] else f"no, but others refer to it {cited('Q6')}"),
            ("Parent", node["parent"]),
            ("Children", ", ".join(node["children"]) or None),
            ("Weight", node["weight"]),
        )
    )
    if node["balances"]:
        say("")
        show(Table(balances.ALL_COLUMNS, balances.rows(node["balances"], full=True)))
    if notes := list(_notes(node)):
        say("\n" + "\n".join(notes))


def question(node: Node, *, leave_children: bool) -> str:
    """Returns the question before a cohort is deleted, with the effects."""
    quotas = [
        balances.shown(f"{flavor}/{resource}", quota["nominal"])
        for flavor, of_flavor in sorted(node["quotas"].items())
        for resource, quota in sorted(of_flavor.items())
        if quota["nominal"]
    ]
    sentences = [f"Delete cohort {node['name']}?"]
    if quotas:
        sentences.append(f"Its quota is removed: {', '.join(quotas)}.")
    if node["children"] and leave_children:
        below = ", ".join(node["children"])
        sentences.append(f"{below} stay below its name at the top of the tree, without its quota and limits.")
    return " ".join(sentences)
