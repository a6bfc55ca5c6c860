"""Replaces names of hidden pools' work with amounts: in reasons, events, messages, and on the map of nodes."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

from runrig.domain.plan import Action, MoveGroup, MoveTask, MoveWorkflow, Nominate, Preempt, Submit
from runrig.domain.quantities import GPU, amount_in_words
from runrig.domain.reasons import Code, Concerned, Part, Reason
from runrig.domain.records import Event
from runrig.domain.shown.topology import DomainReport, Others, TopologyMap
from runrig.domain.shown.why import GroupWhy
from runrig.engine.explain.headlines import Headline
from runrig.ports.store import StoredWorkflow
from runrig.service.queries.visibility import Visibility

ANOTHER = "work of another pool"


def preemptors(events: Iterable[Event]) -> set[str]:
    """Returns the preemptors in the `Preempt` actions among *events*, and the workflows that submitted ones wait for."""
    return {name for event in events for name in _others(event.action)}


def _others(action: Action) -> Iterator[str]:
    if isinstance(action, Preempt):
        yield action.by
    elif isinstance(action, Submit):
        yield from (each.what for each in action.workflow.after)


class Names:
    """Replaces names of gangs outside *visibility*.

    *pool_of*: workflow → its pool, None if it was deleted. *preemptors*: gangs that preempted the work shown; stored
    messages can name these, but no other gang of another workflow. *gpus*: of gangs and workflows, shown in place of
    hidden names. *alone*: whether a workflow has one group; its gang is then called by the name of the workflow.
    """

    def __init__(
        self,
        visibility: Visibility,
        pool_of: Callable[[str], str | None],
        preemptors: Iterable[str] = (),
        *,
        gpus: Mapping[str, int] | None = None,
        alone: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._visibility = visibility
        self._gpus = gpus or {}
        self._alone = cache(alone)
        self._pool_of = cache(pool_of)
        gangs = tuple(preemptors)
        self._mentioned = _any_mention(gangs) if gangs else None

    def shows(self, gang: str) -> bool:
        if self._visibility.whole:
            return True
        pool = self._pool_of(gang.partition("/")[0])
        return pool is not None and self._visibility.sees(pool)

    def one(self, gang: str) -> str:
        return self.name_of(gang) if self.shows(gang) else ANOTHER

    def name_of(self, gang: str) -> str:
        """Returns the displayed name of *gang*, which is visible."""
        workflow, slash, _ = gang.partition("/")
        return workflow if slash and self._alone(workflow) else gang

    def several(self, gangs: Sequence[str]) -> tuple[str, ...]:
        """Returns the visible names in their order, then the number of the others."""
        seen = tuple(self.name_of(gang) for gang in gangs if self.shows(gang))
        others = [gang for gang in gangs if not self.shows(gang)]
        if not others:
            return seen
        amount = sum(self._gpus.get(gang, 0) for gang in others)
        held = f" ({amount_in_words(GPU, amount)})" if amount else ""
        return (*seen, (ANOTHER if len(others) == 1 else f"{len(others):,} gangs of other pools") + held)

    def text(self, message: str) -> str:
        """Returns a stored message with the displayed names of preemptors, without hidden ones."""
        return message if self._mentioned is None else self._mentioned.sub(lambda match: self.one(match[0]), message)

    # ------------------------------------------------------------ workflows

    def event(self, event: Event) -> Event:
        """Removes hidden names from *event*, which belongs to a visible workflow."""
        action = event.action
        match action:
            case Preempt(spared=spared):
                others = tuple(dict.fromkeys((self.one(gang), law) for gang, law in spared))
                return replace(event, action=replace(action, by=self.one(action.by), spared=others))
            case Nominate(targets=targets):
                return replace(event, action=replace(action, targets=self.several(targets)))
            case MoveTask() | MoveGroup() | MoveWorkflow():
                return replace(event, action=replace(action, message=self.text(action.message)))
        return event

    def why(self, group: GroupWhy) -> GroupWhy:
        of_blockers = {id(each.reason): self.reason(each.reason) for each in (*group.blockers, *group.in_full)}
        return replace(
            group,
            reasons=tuple(of_blockers.get(id(reason)) or self.reason(reason) for reason in group.reasons),
            blockers=tuple(replace(each, reason=of_blockers[id(each.reason)]) for each in group.blockers),
            in_full=tuple(replace(each, reason=of_blockers[id(each.reason)]) for each in group.in_full),
            waits_for=self.several(group.waits_for),
            stops=self.several(group.stops),
            preempted_by=None if group.preempted_by is None else self.one(group.preempted_by),
            stopping=None if group.stopping is None else self.text(group.stopping),
        )

    def headline(self, found: Headline) -> Headline:
        reason = None if found.reason is None else self._hidden(found.reason)
        ending = None if found.ending is None else self.why(found.ending)
        return Headline(found.verdict, reason, self.several(found.stops), ending)

    def reason(self, reason: Reason) -> Reason:
        """Removes hidden names from *reason*. The sentence is created last, so it does not have them either."""
        hidden = self._hidden(reason)
        return replace(hidden, sentence=str(hidden))

    def _hidden(self, reason: Reason) -> Reason:
        """An UPSTREAM reason remains unchanged: it names groups of the workflow itself."""
        if reason.code is Code.UPSTREAM:
            return reason
        older = tuple(replace(each, gangs=self.several(each.gangs)) for each in reason.older)
        return replace(
            reason,
            holders=self.several(reason.holders),
            older=older,
            concerned=tuple(self._concerned(reason.concerned)),
        )

    def _concerned(self, concerned: Iterable[Concerned]) -> Iterator[Concerned]:
        """Yields the visible ones; then, for each part, the sum of the others without a name."""
        others: dict[Part, int] = {}
        for each in concerned:
            if each.name is not None and self._visibility.sees(each.name):
                yield each
            else:
                others[each.part] = others.get(each.part, 0) + each.amount
        yield from (Concerned(part, None, amount) for part, amount in others.items())

    def workflow(self, stored: StoredWorkflow) -> StoredWorkflow:
        """Removes the ids of the workflows that it repeats or waits for, if they are in hidden pools."""
        workflow = stored.workflow
        parent = workflow.parent if workflow.parent is not None and self.shows(workflow.parent) else None
        after = tuple(
            each if self.shows(each.workflow) else replace(each, workflow=ANOTHER, element="")
            for each in workflow.after
        )
        return StoredWorkflow(
            replace(workflow, failure_message=self.text(workflow.failure_message), parent=parent, after=after),
            tuple(replace(group, failure_message=self.text(group.failure_message)) for group in stored.groups),
            tuple(replace(task, failure_message=self.text(task.failure_message)) for task in stored.tasks),
            self.several(stored.preemptors),
        )


def _any_mention(gangs: Iterable[str]) -> re.Pattern[str]:
    """Matches each of *gangs* and its workflow as a word. Longest first, because a name can be part of another."""
    longest_first = sorted(gangs, key=lambda gang: (-len(gang), gang))
    workflows = dict.fromkeys(gang.partition("/")[0] for gang in longest_first)
    words = [rf"(?<![\w-]){re.escape(name)}(?![\w-])" for name in workflows]
    return re.compile("|".join([*map(re.escape, longest_first), *words]))


# ---------------------------------------------------------------- the map of nodes


def survey(found: TopologyMap, sees: Callable[[str], bool], most: int) -> TopologyMap:
    """Returns *found* with at most *most* holders in each domain, all from visible pools; the rest are counted as
    others.
    """
    return replace(
        found,
        all=_view(found.all, sees, most),
        apart=tuple(replace(each, node=_view(each.node, sees, most)) for each in found.apart),
    )


def _view(view: DomainReport, sees: Callable[[str], bool], most: int) -> DomainReport:
    shown = tuple(each for each in view.holders if sees(each.pool))[:most]
    named = {each.gang for each in shown}
    hidden = [holder for holder in view.holders if holder.gang not in named]
    others = Others(view.others.gangs + len(hidden), view.others.gpus + sum(each.gpus for each in hidden))
    return replace(
        view,
        holders=shown,
        others=others,
        domains=tuple(_view(each, sees, most) for each in view.domains),
    )
