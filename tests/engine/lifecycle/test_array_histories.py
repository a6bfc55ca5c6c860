"""Arrays over random histories: the limit is never exceeded, nothing is lost by a restart, every element ends (rule W4), and
those that wait for one element start or end when it has (rule W5)."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from runrig.domain.after import After, When
from runrig.domain.errors import RunrigError
from runrig.domain.workflows import UNDER_WAY, Array, GroupSpec, Status, WorkflowSpec
from runrig.engine.lifecycle.arrays import cancel_element, set_most
from runrig.engine.lifecycle.contradictions import contradiction
from runrig.engine.lifecycle.holds import end_hold, put_on_hold
from runrig.engine.state.state import State
from tests.exploring import tries
from tests.worlds.engine import LOW, World, task

ID, SIZE = "sweep-1", 6
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("end", "fail", "cancel")), st.integers(0, SIZE - 1)),
        st.tuples(st.just("most"), st.integers(1, SIZE)),
        st.tuples(st.sampled_from(("hold", "release", "firm", "restart", "rest")), st.just(0)),
    ),
    max_size=25,
)


def act(it: World, what: str, number: int) -> None:
    if what in ("end", "fail"):
        (latest,) = it.state.current_tasks((ID, str(number)))
        if latest.key in it.state.active:
            it.finish_task(ID, latest.name, int(what == "fail"))
    elif what == "firm":
        it.submit("firm", "b")
    elif what == "restart":
        it.state = State.load(it.state.rows())
    elif what != "rest":
        plans = {
            "cancel": lambda: cancel_element(it.state, ID, str(number), user="u"),
            "most": lambda: set_most(it.state, ID, number),
            "hold": lambda: put_on_hold(it.state, ID, user="u"),
            "release": lambda: end_hold(it.state, ID),
        }
        try:
            plan = plans[what]()
        except RunrigError:
            return
        it.do(*plan.actions)


def waits(it: World, id: str) -> bool:
    return id in it.state.workflows and it.status(id) == [Status.WAITING]


def expected(it: World) -> set[When]:
    """The waits for element 1 that are not over."""
    return set() if it.state.groups[ID, "1"].status.finished else set(When)


@settings(max_examples=tries(150), deadline=None)
@given(STEPS, st.one_of(st.none(), st.integers(1, SIZE)))
def test_in_any_history_the_limit_holds_and_every_element_ends(steps: list[tuple[str, int]], most: int | None) -> None:
    it = World({"a": 3, "b": 1}, {"n0": 4})
    array = Array(GroupSpec("runs", (task("main"),)), tuple(range(SIZE)), SIZE, most=most)
    it.submit("sweep", "a", LOW, spec=WorkflowSpec("sweep", array=array))
    for when in When:
        it.submit(when.value, "a", LOW, gpus=0, after=[After(ID, when, element="1")])
    for what, number in (*steps, ("release", 0)):
        before = it.state.groups.number(ID, Status.INITIALIZING, Status.RUNNING)
        act(it, what, number)
        it.cycle()
        limit = it.state.workflows[ID].most or SIZE
        assert it.state.groups.number(ID, Status.INITIALIZING, Status.RUNNING) <= max(limit, before)
        assert Counter(each.status for each in it.state.groups_of(ID)) == {
            each: it.state.groups.number(ID, each) for each in it.state.groups.statuses(ID)
        }
        assert {when for when in When if waits(it, f"{when.value}-1")} == expected(it)
        if it.state.workflows[ID].status.finished:
            break
        it.state.take_changes()
        assert contradiction(it.state.rows()) is None
        if it.state.groups.number(ID, Status.SCHEDULING):
            assert it.state.groups.number(ID, *UNDER_WAY) <= limit
    for _ in range(4 * SIZE):
        for name in ("firm", "sweep"):
            for id in [each for each in it.state.workflows if each.startswith(name)]:
                it.finish(id)
        it.cycle()
    assert all(status.finished for status in it.state.groups.statuses(ID))
    assert it.state.workflows[ID].status.finished
