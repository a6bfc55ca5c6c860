"""Which text and numbers are kept, in which order, and how they are searched: on each database the same."""

from dataclasses import replace

import pytest

from runrig.domain.errors import InvalidInput, NotFound
from runrig.domain.nodes import Node
from runrig.domain.plan import PutNode
from runrig.domain.pools import Cohort, Pool
from runrig.domain.records import RowChange
from runrig.ports.store import SpecText, Store, WorkflowQuery

from ..values import TEAM, TRAIN, commit, put, workflow

NUL = "a\0b"
HALF = "\ud800"
AWKWARD = ("%", "_", "'; DROP TABLE pools; --", "\\", "\\u0000", "<b>", "🦉", "ﬀ", "\u202e", "\x1b[1m", "\n\t\r", "")


def unstorable(text: str) -> list[tuple[RowChange, ...]]:
    return [
        (put(Pool("p", description=text)),),
        (put(Cohort(text)),),
        (put(Node("n", {}, labels={"l": text})),),
        (put(Node("n", {}, labels={text: "l"})),),
    ]


@pytest.mark.parametrize(("text", "why"), [(NUL, "contains a NUL character"), (HALF, "not valid Unicode")])
@pytest.mark.parametrize("place", range(4))
def test_text_that_some_database_cannot_store_is_refused(store: Store, text: str, why: str, place: int) -> None:
    with pytest.raises(InvalidInput, match=why):
        commit(1, (), put(Cohort("never")), *unstorable(text)[place]).to(store)
    with pytest.raises(InvalidInput, match=why):
        commit(1, (PutNode(Node(text, {})),)).to(store)
    with pytest.raises(InvalidInput, match=why):
        commit(1, (), spec=SpecText("h", text, "", TRAIN.spec)).to(store)
    assert (store.load().revision, store.load().cohorts, store.log.events()) == (0, (), ())


@pytest.mark.parametrize("text", [NUL, HALF])
def test_one_such_text_among_many_rows_is_refused_with_all_of_them(store: Store, text: str) -> None:
    many = [put(Cohort(f"c{number}")) for number in range(20)]
    with pytest.raises(InvalidInput, match="contains a NUL character" if text == NUL else "not valid Unicode"):
        commit(1, (), *many, put(Cohort(text))).to(store)
    assert (store.load().revision, store.load().cohorts) == (0, ())


def test_query_with_such_text_is_refused_and_not_a_fault(store: Store) -> None:
    for ask in (
        lambda: store.workflow(NUL),
        lambda: store.workflows(WorkflowQuery(name=NUL)),
        lambda: store.workflows(WorkflowQuery(statuses=(NUL,))),
        lambda: store.workflows(WorkflowQuery(users=(HALF,))),
        lambda: store.log.events(pool=NUL),
    ):
        with pytest.raises(InvalidInput):
            ask()


@pytest.mark.parametrize("text", AWKWARD)
def test_any_other_text_is_read_back_unchanged(store: Store, text: str) -> None:
    node, pool = Node(f"n{text}", {}, labels={text: text}), replace(TEAM, cohort=None, description=text)
    commit(1, (PutNode(node),), put(node), put(pool)).to(store)
    assert (store.load().nodes, store.load().pools) == ((node,), (pool,))
    assert [event.action for event in store.log.events()] == [PutNode(node)]
    with pytest.raises(NotFound):
        store.workflow(text)


def test_number_beyond_64_bits_is_refused_in_a_column_and_stored_in_json(store: Store) -> None:
    with pytest.raises(InvalidInput, match="numbers above 64 bits"):
        commit(1, (), put(Cohort("c", weight=2**63))).to(store)
    node = Node("n", {"memory": 2**70})
    commit(1, (), put(node), put(Cohort("c", weight=2**63 - 1))).to(store)
    assert (store.load().nodes, store.load().cohorts[0].weight) == ((node,), 2**63 - 1)


def test_workflows_of_one_moment_are_sorted_by_code_points(store: Store) -> None:
    """As Python sorts, whatever the collation of the database says: capitals first, umlauts last."""
    ids = ["a-b", "B", "a", "Z", "ä", "_", "ab", "Ä", "a b", "z", "🦉", "ﬀ"]
    rows = [put(replace(workflow(id, 1, spec_hash="hash-of-train"), id=id)) for id in ids]
    commit(1, (), put(replace(TEAM, cohort=None)), *rows, spec=TRAIN).to(store)
    page, _ = store.workflows(WorkflowQuery(limit=50))
    assert [each.id for each in page] == sorted(ids)
    assert [each.id for each in store.load().workflows] == sorted(ids)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("GRÖSSE", []),  # only ASCII letters are compared without case here
        ("größe", ["größe-1"]),
        ("GRöß", ["größe-1"]),
        ("straße", ["STRAße-1", "straße-1"]),
        ("Ä", ["Ä-1"]),
        ("_", ["_-1"]),
        ("/", ["/-1"]),
        ("\\", ["\\-1"]),
    ],
)
def test_search_by_name_finds_the_same_on_each_database(store: Store, asked: str, found: list[str]) -> None:
    names = ["größe", "STRAße", "straße", "Ä", "ä", "_", "/", "\\", "%"]
    rows = [put(workflow(name, 1, spec_hash="hash-of-train")) for name in names]
    commit(1, (), put(replace(TEAM, cohort=None)), *rows, spec=TRAIN).to(store)
    page, _ = store.workflows(WorkflowQuery(name=asked, limit=50))
    assert sorted(each.id for each in page) == found
