"""Dry runs of commands: what they would commit."""

from runrig.domain.errors import NotFound
from runrig.domain.gangs import Gang
from runrig.domain.plan import Queue
from runrig.service.runtime.transactor import Transactor
from runrig.service.runtime.writing import Command, Trial


def tried(transactor: Transactor, command: Command[str]) -> tuple[Gang, ...]:
    """Returns what *command*, on a workflow, would queue, without storing anything. Raises as it does."""
    job = next(command)
    with transactor.writing(job.actor) as writing:
        trial = Trial(writing.state, writing.now, writing.actor)
        try:
            job.decide(trial)
        except NotFound as error:
            command.throw(error)
    return tuple(each.gang for each in trial.plan.actions if isinstance(each, Queue))
