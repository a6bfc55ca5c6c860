"""Nodes that vanish under a running server, or while it is down: loop, store and simulated backend together."""

from pathlib import Path

from runrig.domain.nodes import Node
from runrig.domain.plan import Action, Replace
from runrig.domain.workflows import Status
from runrig.service.queries.events import in_words
from tests.replaying import replayed
from tests.worlds.service import T0, Desk, desk

RACKS = """
pools:
- name: pool1
  quota: 8
  topology_keys: [{key: rack, label: rack}]
"""

PAIR = """
workflow:
  name: pair
  tasks:
  - name: t
    image: any
    command: [sleep, '1']
    count: 2
    duration: 100
    exitActions: {RESCHEDULE: '3001'}
  resources:
    default: {gpu: 1, topology: [{key: rack}]}
"""


def nodes(drawn: str) -> tuple[Node, ...]:
    """``a:r0 b:r0``: nodes of one GPU, each with its rack."""
    return tuple(
        Node(name, {"gpu": 1}, labels={"rack": rack})
        for name, _, rack in (each.partition(":") for each in drawn.split())
    )


def attempts(one: Desk, id: str) -> dict[str, tuple[str, str | None, int | None]]:
    """Pod and attempt → status, node, exit code, as the store has them."""
    return {
        f"{task.name}/{task.retry_id}": (task.status.value, task.node, task.exit_code)
        for task in one.store.workflow(id).tasks
    }


def moves(one: Desk) -> list[str]:
    return [in_words(action) for action in one.actions() if isinstance(action, Replace)]


def test_pod_moves_within_its_rack_when_its_node_vanishes_and_the_workflow_completes(tmp_path: Path) -> None:
    """T1, W2."""
    with desk(tmp_path, nodes=nodes("a:r0 b:r0 c:r0 d:r1"), cluster=RACKS) as one:
        id = one.submit("pair", text=PAIR)
        one.later(10)
        one.backend.show(*nodes("b:r0 c:r0 d:r1"))
        one.later(10)
        assert {key.task: launch.node for key, launch in one.backend.desired.stop.items()} == {"t-1": "b"}
        one.later(2)
        assert moves(one) == ["pair-1/t-group lost nodes and moved to c (GPU 0), b (GPU 0) (Placement, rule T1)"]
        assert attempts(one, id) == {
            "t-0/0": ("RESCHEDULED", "a", 3001),
            "t-0/1": ("RUNNING", "c", None),
            "t-1/0": ("RESCHEDULED", "b", 143),
            "t-1/1": ("RUNNING", "b", None),
        }
        assert {key.task: launch.node for key, launch in one.backend.desired.run.items()} == {"t-0": "c", "t-1": "b"}
        assert replayed(one.store).rows() == one.store.load()
        one.later(200)
        assert one.status(id) == "COMPLETED"


def test_gang_restarts_in_another_rack_if_its_nodes_are_gone_after_a_restart(tmp_path: Path) -> None:
    """T1, W2: the server comes back with another cluster file."""
    with desk(tmp_path, nodes=nodes("a:r0 b:r0"), cluster=RACKS) as one:
        id = one.submit("pair", text=PAIR)
        one.later(10)
        assert one.status(id) == "RUNNING"
    with desk(tmp_path, nodes=nodes("b:r0 c:r1 d:r1"), cluster=RACKS, time=T0 + 20) as one:
        one.later(10)
        assert moves(one) == []
        assert attempts(one, id) == {
            "t-0/0": (Status.FAILED_BACKEND_ERROR.value, "a", 3001),
            "t-1/0": (Status.FAILED_BACKEND_ERROR.value, "b", 3001),
            "t-0/1": ("RUNNING", "c", None),
            "t-1/1": ("RUNNING", "d", None),
        }
        one.later(200)
        assert one.status(id) == "COMPLETED"
        assert one.store.workflow(id).workflow.failure_message == ""


def test_server_that_stops_right_after_a_move_completes_it_later(tmp_path: Path) -> None:
    """W2."""
    with desk(tmp_path, nodes=nodes("a:r0 b:r0 c:r0"), cluster=RACKS) as one:
        id = one.submit("pair", text=PAIR)
        one.later(10)
    with desk(tmp_path, nodes=nodes("b:r0 c:r0"), cluster=RACKS, time=T0 + 20) as one:
        moved: list[Action] = [action for action in one.actions() if isinstance(action, Replace)]
        assert len(moved) == 1
    with desk(tmp_path, nodes=nodes("b:r0 c:r0"), cluster=RACKS, time=T0 + 30) as one:
        one.later(10)
        assert [action for action in one.actions() if isinstance(action, Replace)] == moved
        assert attempts(one, id)["t-0/1"] == ("RUNNING", "c", None)
        one.later(200)
        assert one.status(id) == "COMPLETED"
