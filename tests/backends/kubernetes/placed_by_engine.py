"""Gangs as the engine places them: what a backend with queues is told, attempt by attempt, until a workflow has ended."""

import uuid
from collections.abc import Iterator
from pathlib import Path

from runrig.domain.gangs import Priority
from runrig.domain.observed import Observation, Phase, TaskFact
from runrig.domain.plan import PutNode
from runrig.engine import cycle
from runrig.engine.lifecycle import pools, submission_gate
from runrig.engine.state.state import State
from runrig.ports.backend import Desired
from runrig.service.runtime.desired import Launches
from runrig.spec.cluster import read_cluster
from runrig.spec.template import render
from runrig.spec.workflow import read_workflow

_IDS = uuid.UUID("5b0c0f3e-6c0a-4b0e-9b8e-1f2d3c4b5a69")
_MOST = 20


def rounds(workflow: Path, cluster: str, *, priority: Priority, pool: str | None = None) -> Iterator[Desired]:
    """What is to run, each time until all of that has ended well, on the nodes that the text *cluster* has.

    *pool* None: the first of the file.
    """
    state = submitted(workflow, cluster, priority=priority, pool=pool)
    launches, ended = Launches(queues=True), Observation()
    for now in range(1, _MOST):
        cycle.run(state, ended, float(now))
        desired = launches.desired(state)
        if not desired.run:
            return
        yield desired
        ended = Observation({key: TaskFact(Phase.ENDED, 0) for key in state.active})
    raise AssertionError(f"{workflow.name} does not end")


def submitted(workflow: Path, cluster: str, *, priority: Priority, pool: str | None = None) -> State:
    """The cluster of the text *cluster* with *workflow* submitted at time 0, before the first cycle."""
    state, declared = State(place=True), read_cluster(cluster)
    state.apply_all(pools.declare(state, declared).actions, 0.0)
    state.apply_all([PutNode(node) for node in declared.nodes], 0.0)
    spec = read_workflow(render(workflow.read_text()))
    state.specs["hash"] = spec
    plan = submission_gate.submit(
        state,
        spec,
        spec_hash="hash",
        pool=pool or declared.pools[0].name,
        priority=priority,
        user="ada@example.com",
        uuid=str(uuid.uuid5(_IDS, spec.name)),
        now=0.0,
    )
    state.apply_all(plan.actions, 0.0)
    return state
