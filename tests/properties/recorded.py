"""Recorded histories: what people, backends and time did to an engine, and the plan that each cycle gave.

A file of histories is gzip of JSON lines, one history a line: {"name", "options", "steps"}.  A step is one of

    {"do": actions, "at": time}                        a command, as the event log has it
    {"submit": text of the hash, "spec", "pool", "priority", "at", "plan" or "refused": law}
    {"cycle": plan, "at", "tasks", "nodes", "refused"}  what the backend shows that it did not show before: null is gone
    {"why": {workflow: lines}}                         for each workflow of which something waits, a line per group
    {"reload": true}                                   the state is made anew from its rows, as a restart does

Actions are those of the event log: [name of the class, fields].  Nothing here names a module of the engine.
"""

import gzip
import json
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from runrig.domain.errors import Refused
from runrig.domain.gangs import Priority
from runrig.domain.nodes import Node
from runrig.domain.observed import Observation, Phase, TaskFact
from runrig.domain.plan import Action
from runrig.domain.workflows import Status, TaskKey, WorkflowSpec
from runrig.engine import cycle
from runrig.engine.explain.why import why
from runrig.engine.lifecycle import submission_gate
from runrig.engine.state.state import State
from runrig.store.codec import decode, decode_action, dumps, encode, encode_action

DATA = Path(__file__).parent / "data" / "recorded-plans.jsonl.gz"

WAITING = (Status.WAITING, Status.SCHEDULING)

Plain = dict[str, Any]


def read(family: str = "") -> Iterator[Plain]:
    """Yields the plans whose names start with *family* and a dash; all for "".  The name is what a line begins with."""
    start = f'{{"name":"{family}-' if family else ""
    with gzip.open(DATA, "rt", encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines if line.startswith(start))


def write(histories: Iterable[Plain]) -> None:
    """Equal histories give equal bytes."""
    text = "".join(f"{dumps(history)}\n" for history in histories)
    DATA.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def encoded(actions: Iterable[Action]) -> list[list[Any]]:
    return [list(encode_action(action)) for action in actions]


class Player:
    """An engine to which the steps of a history happen.  *facts* and *nodes*: all that the backend shows now."""

    def __init__(self, options: Plain) -> None:
        self.options = options
        self.state = State(**options)
        self.facts: dict[TaskKey, TaskFact] = {}
        self.nodes: dict[str, Node] | None = None

    def play(self, step: Plain) -> Plain:
        """*step* as it happens to this engine: what was decided or answered is its own."""
        match step:
            case {"cycle": _}:
                return step | {"cycle": self._cycle(step)}
            case {"do": actions, "at": at}:
                self._do([decode_action(*each) for each in actions], at)
                return step
            case {"submit": _}:
                return self._submit(step)
            case {"why": _}:
                waiting = sorted({each.workflow for each in self.state.groups.values() if each.status in WAITING})
                return {"why": {name: self.why(name) for name in waiting}}
            case {"reload": _}:
                self.state = State.load(self.state.rows(), **self.options)
                return step
        raise AssertionError(f"no such step: {sorted(step)}")

    def _do(self, actions: Iterable[Action], at: float) -> None:
        self.state.apply_all(actions, at)
        self.state.take_changes()

    def _submit(self, step: Plain) -> Plain:
        spec_hash, spec = step["submit"], decode(WorkflowSpec, step["spec"])
        known = spec_hash in self.state.specs
        self.state.specs[spec_hash] = spec
        priority = Priority(step["priority"])
        asked = {key: value for key, value in step.items() if key not in ("plan", "refused")}
        try:
            plan = submission_gate.submit(
                self.state,
                spec,
                spec_hash=spec_hash,
                pool=step["pool"],
                priority=priority,
                user="u",
                uuid="",
                now=step["at"],
            )
        except Refused as refused:
            if not known:
                del self.state.specs[spec_hash]
            return asked | {"refused": refused.law}
        self._do(plan.actions, step["at"])
        return asked | {"plan": encoded(plan.actions)}

    def _cycle(self, step: Plain) -> list[list[Any]]:
        for text, fact in step["tasks"].items():
            workflow, task, retry = text.split("/")
            key = TaskKey(workflow, task, int(retry))
            if fact is None:
                del self.facts[key]
            else:
                phase, code, message = fact
                self.facts[key] = TaskFact(Phase(phase), code, message)
        if step["nodes"] is not None:
            changed = {name: node and decode(Node, node) for name, node in step["nodes"].items()}
            both = (self.nodes or {}) | changed
            self.nodes = {name: node for name, node in sorted(both.items()) if node is not None}
        nodes = None if self.nodes is None else tuple(self.nodes.values())
        plan = cycle.run(self.state, Observation(self.facts, nodes, step["refused"]), step["at"])
        self.state.take_changes()
        return encoded(plan.actions)

    def why(self, workflow: str) -> list[str]:
        """A line per group, for people."""
        return [
            f"{each.group} {each.state.value} position {each.position}, {each.ahead} ahead, "
            f"waits for {', '.join(each.waits_for) or 'nobody'}, preempted by {each.preempted_by or 'nobody'}: "
            f"{' | '.join(f'{reason.law} {reason}' for reason in each.reasons) or 'nothing blocks it'}"
            for each in why(self.state, workflow)
        ]


def told(player: Player, facts: dict[TaskKey, TaskFact], nodes: dict[str, Node] | None) -> Plain:
    """What of *facts* and *nodes* is new to *player*: two fields of a step."""
    gone: Plain = {str(key): None for key in player.facts if key not in facts}
    fresh = {
        str(key): [fact.phase.value, fact.exit_code, fact.message]
        for key, fact in facts.items()
        if player.facts.get(key) != fact
    }
    if nodes is None:
        return {"tasks": gone | fresh, "nodes": None}
    known = player.nodes or {}
    changed = {name: encode(Node, node) for name, node in nodes.items() if known.get(name) != node}
    return {"tasks": gone | fresh, "nodes": changed | {name: None for name in known if name not in nodes}}


def difference(history: Plain) -> str | None:
    """Where an engine of today first decides otherwise than *history* says, or None."""
    player = Player(history["options"])
    for number, step in enumerate(history["steps"]):
        played = player.play(step)
        if dumps(played) != dumps(step):
            return f"{history['name']}, step {number}: {_first(step, played)}"
    return None


def _first(recorded: Plain, played: Plain) -> str:
    for field in ("cycle", "plan"):
        for index, (was, now) in enumerate(zip_longest(recorded.get(field) or (), played.get(field) or ())):
            if was != now:
                return f"action {index} of its {field} was {dumps(was)}, and is {dumps(now)}"
    if "why" in recorded:
        was, now = recorded["why"], played["why"]
        names = [name for name in sorted({*was, *now}) if was.get(name) != now.get(name)]
        return f"why {names[0]} waits was {was.get(names[0])}, and is {now.get(names[0])}"
    return f"it was {dumps(recorded)}, and is {dumps(played)}"
