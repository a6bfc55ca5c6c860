"""What is measured of the lock is what it says: each question is answered, and each look tells what has changed."""

from bench.questions import World

from bench import holds


def test_each_query_runs_in_steps_and_every_step_is_reported() -> None:
    world = World(nodes=20, pools=10, running=100, waiting=30)
    found = [*holds.questions_in_steps(2, nodes=125, many=300), *holds.looks(3, world)]
    assert [(each.what, len(each.whole)) for each in found] == [
        ("why", 8),
        ("the headlines of 4 in a list", 2),
        ("why a pool waits", 2),
        ("the owner's dials, look by look", 8),
        ("a look of the page, 5 gangs have changed", 3),
        ("its layout, after a node has changed (not locked)", 1),
    ]
    assert all(min(each.whole) > 0 and max(each.held) <= max(each.whole) for each in found)
