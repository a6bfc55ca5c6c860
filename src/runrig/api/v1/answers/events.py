"""Events as answers."""

from collections.abc import Iterable, Iterator

from runrig.domain.observed import ClusterEvent
from runrig.domain.records import Event
from runrig.service.queries.events import each_in_words, in_words
from runrig.service.queries.feed import FeedEvent
from runrig.wire import v1

Place = tuple[float, int, int, int]
"""Where an event of a workflow lies among all of them, whatever the cluster notes later."""


def placed(found: Iterable[Event | ClusterEvent]) -> list[tuple[Place, v1.WorkflowEvent]]:
    """In order.  Ours are in that of the log, even where the clock was put back."""
    return sorted(_placed(found), key=lambda each: each[0])


def _placed(found: Iterable[Event | ClusterEvent]) -> Iterator[tuple[Place, v1.WorkflowEvent]]:
    latest = 0.0
    for each, text in each_in_words(found):
        if isinstance(each, ClusterEvent):
            yield (each.latest, 1, each.version, 0), _noted(each, text)
        else:
            latest = max(latest, each.time)
            yield (latest, 0, each.revision, each.seq), _ours(each, text)


def _ours(each: Event, text: str) -> v1.WorkflowEvent:
    return v1.WorkflowEvent(
        revision=each.revision,
        seq=each.seq,
        time=v1.at(each.time),
        actor=each.actor,
        kind=type(each.action).__name__,
        law=each.law,
        text=text,
    )


def _noted(each: ClusterEvent, text: str) -> v1.WorkflowEvent:
    return v1.WorkflowEvent(
        revision=None, seq=None, time=v1.at(each.time), actor=each.source, kind=each.reason, law="", text=text
    )


def cluster_event(found: FeedEvent) -> v1.ClusterEvent:
    event = found.event
    return v1.ClusterEvent(
        revision=event.revision,
        seq=event.seq,
        time=v1.at(event.time),
        actor=event.actor,
        kind=type(event.action).__name__,
        law=event.law,
        text=in_words(event.action),
        workflow=found.workflow,
        pool=found.pool,
    )
