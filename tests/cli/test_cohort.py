"""`runrig cohort`: the tree, the page of one cohort, and what is asked of the server."""

# ruff: noqa: E501 - tables are as wide as they are printed

from typing import Any

from runrig.cli.rendering.cohort_tree import question
from runrig.domain.shown import Balance, Cohort, QuotaTree
from runrig.wire.base import example_of
from tests.cli.canned_server import answered, at, serving
from tests.worlds.command_line import lines


def balance(**numbers: int | None) -> dict[str, Any]:
    return dict(example_of(Balance) | numbers)


def node(name: str, parent: str | None = None, *, kind: str = "cohort", **fields: Any) -> dict[str, Any]:
    place = {"name": name, "kind": kind, "parent": parent, "parent_kind": "cohort" if parent else None}
    return dict(example_of(Cohort) | place | fields)


def tree(*nodes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return dict(example_of(QuotaTree) | {"nodes": list(nodes)} | fields)


def listed(answer: dict[str, Any]) -> list[str]:
    done = answered({"GET /api/v1/quota-tree": answer}, "cohort", "list")
    assert (done.code, done.err) == (0, "")
    return list(lines(done.out))


def test_cohort_list_draws_the_tree_with_pools_as_leaves() -> None:
    limited = {"default/gpu": balance(nominal=0, lending_limit=2, borrowing_limit=0)}
    memory = {"default/memory": balance(nominal=2**40, subtree=2**40, used=0, total=0, lent=0, headroom=2**39)}
    answer = tree(
        node("org", children=["research"], declared=False, balances={}),
        node("research", "org", balances=limited | memory),
        node("vision", "research", kind="pool"),
        node("alone", kind="pool"),
        root=node("", kind="root", balances={"default/gpu": balance(nominal=4)}),
    )
    assert listed(answer) == [
        "Name             Kind                 Resource        Quota  Subtree  Guaranteed used  Preemptible used  Borrowed  Lent  Headroom  Limits",
        "---------------  -------------------  --------------  -----  -------  ---------------  ----------------  --------  ----  --------  ------------------",
        "(cluster)        root                 default/gpu     4      8        4                2                 0         2     10        none",
        "├─ org           cohort (only named)  -               -      -        -                -                 -         -     -         -",
        "│  └─ research   cohort               default/gpu     0      8        4                2                 0         2     10        borrows 0, lends 2",
        "                                      default/memory  1Ti    1Ti      0                0                 0         0     512Gi     none",
        "│     └─ vision  pool                 default/gpu     8      8        4                2                 0         2     10        none",
        "└─ alone         pool                 default/gpu     8      8        4                2                 0         2     10        none",
    ]  # fmt: skip


def test_excess_usage_and_quota_are_reported_below_the_tree() -> None:
    answer = tree(
        node("lab", balances={"default/gpu": balance(over=2, headroom=-2), "default/memory": balance(over=2**30)}),
        overpromised={"default/gpu": 3},
    )
    shown = listed(answer)
    assert shown[3].split(maxsplit=4)[1:4] == ["lab", "cohort", "(over-committed)"]
    assert shown[-3:] == [
        "",
        "cohort lab is over-committed by 2 GPUs, 1Gi memory: running workflows continue, "
        "and new ones wait until enough have finished (Headroom, rule Q4)",
        "quotas exceed capacity by 3 GPUs",
    ]


def test_cycle_of_cohorts_is_listed_and_reported() -> None:
    """Q5."""
    shown = listed(tree(*(node(*pair, active=False) for pair in (("a", "b"), ("b", "a"), ("c", "c")))))
    assert [line.split()[:4] for line in shown[3:6]] == [[name, "cohort", "(in", "a"] for name in "abc"]
    assert shown[-1] == (
        "the parents of cohort c form a cycle; nothing in it can start until the cycle is broken (No cycles, rule Q5)"
    )


def test_json_has_the_whole_tree() -> None:
    answer = tree(node("a"))
    assert answered({"GET /api/v1/quota-tree": answer}, "cohort", "list", "-t", "json").json == {
        "cohorts": [node("a")],
        "root": answer["root"],
        "overpromised": {},
    }


def test_a_cohort_is_shown_with_all_its_numbers() -> None:
    done = answered({"GET /api/v1/cohorts/lab": node("lab", "org", declared=False)}, "cohort", "show", "lab")
    assert lines(done.out) == [
        "Cohort    lab",
        "Declared  no, but others refer to it (Implicit cohorts, rule Q6)",
        "Parent    org",
        "Children  batch, vision",
        "Weight    1",
        "",
        "Resource     Quota  Subtree  Guaranteed used  Preemptible used  Borrowed  Lent  Headroom  Drawn  Local  Balance  Potential  Limits",
        "-----------  -----  -------  ---------------  ----------------  --------  ----  --------  -----  -----  -------  ---------  ------",
        "default/gpu  8      8        4                2                 0         2     10        0      0      2        16         none",
    ]


def test_cohort_commands_send_their_options() -> None:
    answers: dict[str, Any] = {"DELETE /api/v1/cohorts/c": (204, "")}
    for route in ("POST /api/v1/cohorts", "PATCH /api/v1/cohorts/c", "GET /api/v1/cohorts/c"):
        answers[route] = example_of(Cohort)
    with serving(answers) as server:
        assert at(server, "cohort", "create", "c", "--parent", "org", "--quota", "h100=8,cpu=none").code == 0
        assert at(server, "cohort", "update", "c", "--no-parent", "--borrowing-limit", "none", "-t", "json").code == 0
        assert at(server, "cohort", "show", "c").out.startswith("Cohort    research\nParent    org\n")
        assert at(server, "cohort", "delete", "c").out == "cohort c is deleted\n"
        assert at(server, "cohort", "delete", "c", "-t", "json").json == {"name": "c"}
        assert at(server, "cohort", "delete", "c", "--leave-children").code == 0
    assert server.asked == [
        ("POST /api/v1/cohorts", [], {"name": "c", "parent": "org", "quota": "h100=8,cpu=none"}),
        ("PATCH /api/v1/cohorts/c", [], {"parent": None, "borrowing_limit": None}),
        ("GET /api/v1/cohorts/c", [], None),
        ("DELETE /api/v1/cohorts/c", [], None),
        ("DELETE /api/v1/cohorts/c", [], None),
        ("DELETE /api/v1/cohorts/c", [("leave_children", "True")], None),
    ]


def test_cohort_create_and_update_report_what_changed() -> None:
    before = node("lab", "org")
    after = node("lab", quotas={"default": {"gpu": {"nominal": 4, "borrowing_limit": 2, "lending_limit": None}}})
    answers = {"POST /api/v1/cohorts": after, "GET /api/v1/cohorts/lab": before, "PATCH /api/v1/cohorts/lab": after}
    made = answered(answers, "cohort", "create", "lab", "--quota", "4")
    assert lines(made.out)[0] == "cohort lab: created with quota 4, borrowing limit 2"
    changed = answered(answers, "cohort", "update", "lab", "--quota", "4")
    assert lines(changed.out)[0] == "cohort lab: quota 8 → 4, borrowing limit none → 2, parent org → none"


def test_confirmation_of_a_delete_shows_its_effects() -> None:
    assert question(node("lab", children=[], quotas={}), leave_children=False) == "Delete cohort lab?"
    assert question(node("lab"), leave_children=True) == (
        "Delete cohort lab? Its quota is removed: 8 GPUs. "
        "batch, vision stay below its name at the top of the tree, without its quota and limits."
    )
