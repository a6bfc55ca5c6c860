"""A gang carries the outline of its constraint tree to the backend: made once, and again when the pool's keys change."""

from dataclasses import replace
from pathlib import Path

import pytest

from runrig.backends.kubernetes.pods import GangPods, Settings
from runrig.domain.gangs import Priority
from runrig.domain.observed import Observation
from runrig.domain.plan import PutPool
from runrig.domain.subgroups import Outline
from runrig.engine import cycle
from runrig.engine.state.state import State
from runrig.ports.backend import GangLaunch
from runrig.service.runtime.desired import Launches
from tests.backends.kubernetes.placed_by_engine import submitted

CLUSTER = """
nodes: [{name: a, resources: {gpu: 4}, labels: {rack: r0, host: h0}}]
pools: [{name: p, quota: 4, topology_keys: [{key: rack, label: rack}, {key: host, label: host}]}]
"""
WORKFLOW = """
workflow:
  name: w
  resources:
    default: {gpu: 1, topology: [{key: rack, group: r, sliceSize: 4}, {key: host, group: h, sliceSize: 2}]}
  tasks: [{name: t, image: i, command: [go], count: 4}]
"""


def test_outline_is_built_once_for_all_rounds(tmp_path: Path) -> None:
    state, launches = running(tmp_path), Launches(queues=True)
    first = gang(launches, state)
    assert isinstance(first.outline, Outline)
    again = gang(launches, state)
    assert again == first
    assert again.outline is first.outline


def test_keys_in_another_order_give_a_message_instead_of_the_outline(tmp_path: Path) -> None:
    state, launches = running(tmp_path), Launches(queues=True)
    gang(launches, state)
    pool = state.pools["p"]
    state.apply_all([PutPool(replace(pool, topology_keys=pool.topology_keys[::-1]))], 2.0)
    changed = gang(launches, state)
    assert changed.outline == (
        "task t has slices of 4 pods for topology key 'rack', which does not divide its slices of 2 pods for the coarser key "
        "'host'. Use a sliceSize for 'rack' that divides 2"
    )
    with pytest.raises(ValueError, match="divides 2"):
        GangPods(changed, Settings("jobs", state.flavors, {})).leaf("t", 0)


def running(tmp_path: Path) -> State:
    (tmp_path / "w.yaml").write_text(WORKFLOW)
    state = submitted(tmp_path / "w.yaml", CLUSTER, priority=Priority.NORMAL)
    cycle.run(state, Observation(), 1.0)
    return state


def gang(launches: Launches, state: State) -> GangLaunch:
    (found,) = launches.desired(state).gangs.values()
    return found
