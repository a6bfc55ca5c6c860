"""Several submissions in one request: each by itself, or all or nothing."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from runrig.domain.errors import Conflict, InvalidInput, RunrigError
from runrig.domain.limits import EVERYWHERE
from runrig.domain.plan import Plan
from runrig.domain.pools import top_level
from runrig.domain.shown.workflows import WorkflowSubmitted
from runrig.service.commands.submission import ParsedSubmission, Submission, key_in_batch, read
from runrig.service.commands.submissions import Submissions
from runrig.service.runtime.reconciler import Reconciler
from runrig.service.runtime.transactor import Transactor
from runrig.service.runtime.writing import Writing

MOST = 1_000
MOST_TOGETHER = 200
"""All-or-nothing batches are decided under the lock without a break."""
PART = 25
"""Submissions decided and stored together before others get a turn."""

Outcome = WorkflowSubmitted | RunrigError


class Batches:
    def __init__(self, submissions: Submissions, transactor: Transactor, reconciler: Reconciler) -> None:
        self._submissions = submissions
        self._transactor = transactor
        self._reconciler = reconciler

    def submit(self, batch: Sequence[Submission], *, key: str | None, together: bool) -> list[Outcome]:
        """Submits *batch*, all by one user; returns the results in order. *together*: if one is refused, none is
        submitted.

        *key*: a UUID. Repeating a batch with the same key submits nothing twice, and continues an interrupted batch.
        Raises InvalidInput if the batch is too long, Conflict if *key* was used for a single submission. With *together* it also
        raises Conflict if *key* was used for another batch, and errors of the store; without, those errors are results of single
        submissions.
        """
        most = MOST_TOGETHER if together else MOST
        if not 0 < len(batch) <= most:
            raise InvalidInput.one(
                f"invalid batch of {len(batch)} workflows. Send 1 to {most:,} in one{' all-or-nothing' if together else ''} batch",
                "workflows",
            )
        if key is not None and self._submissions.with_uuid(key) is not None:
            raise Conflict("this Idempotency-Key was used for a single submission. Use a new key for each request")
        read_ones = [_read(each) for each in _keyed(batch, key)]
        return self._together(read_ones) if together else list(self._each(read_ones))

    def _each(self, batch: Sequence[ParsedSubmission | RunrigError]) -> Iterator[Outcome]:
        for start in range(0, len(batch), PART):
            part = batch[start : start + PART]
            commands = [
                self._submissions.submitting(each, in_batch=True) for each in part if isinstance(each, ParsedSubmission)
            ]
            outcomes = iter(self._transactor.carry_out_all(commands))
            for each in part:
                yield _outcome(next(outcomes)) if isinstance(each, ParsedSubmission) else each

    # ------------------------------------------------------------ all or nothing

    def _together(self, batch: Sequence[ParsedSubmission | RunrigError]) -> list[Outcome]:
        parsed = [each for each in batch if isinstance(each, ParsedSubmission)]
        if len(parsed) < len(batch):
            return _withheld(batch)
        earlier = [self._submissions.entered(each, in_batch=True) for each in parsed]
        known = [each for each in earlier if each is not None]
        if 0 < len(known) < len(parsed):
            raise Conflict("this Idempotency-Key was used for another batch. Use a new key for each batch")
        if known:
            return [*known]
        with self._transactor.writing(parsed[0].user) as writing:
            found = self._commit_all(parsed, writing)
        self._reconciler.wake()
        if any(isinstance(each, RunrigError) for each in found):
            return _withheld(found)
        return [
            self._submissions.accepted(each, plan)
            for each, plan in zip(parsed, found, strict=True)
            if isinstance(plan, Plan)
        ]

    def _commit_all(self, batch: Sequence[ParsedSubmission], writing: Writing) -> list[Plan | RunrigError]:
        """Commits all plans together, unless one submission in *batch* is refused."""
        found: list[Plan | RunrigError] = []
        names: Counter[str] = Counter()
        pools: Counter[str] = Counter()
        for each in batch:
            name, pool = each.spec.spec.name, top_level(each.pool)
            try:
                found.append(self._submissions.plan(each, writing, before=names[name], ahead=pools))
            except RunrigError as error:
                found.append(error)
                writing.rejected.append(error)
            names[name] += 1
            pools.update((pool, EVERYWHERE))
        plans = [each for each in found if isinstance(each, Plan)]
        if len(plans) == len(batch):
            writing.commit(
                Plan(tuple(action for plan in plans for action in plan.actions)),
                *(each.spec_in(writing.state) for each in batch),
            )
        return found


def _keyed(batch: Sequence[Submission], key: str | None) -> Iterator[Submission]:
    """Gives each submission in *batch* its own key, derived from *key* and its position."""
    for at, each in enumerate(batch):
        yield each if key is None else replace(each, uuid=key_in_batch(key, at))


def _read(submission: Submission) -> ParsedSubmission | RunrigError:
    try:
        return read(submission)
    except RunrigError as error:
        return error


def _outcome(outcome: WorkflowSubmitted | Exception) -> Outcome:
    """Raises an error that must not be part of a response."""
    if isinstance(outcome, WorkflowSubmitted | RunrigError):
        return outcome
    raise outcome


def _withheld(found: Sequence[object]) -> list[Outcome]:
    """Returns the errors in *found*, with a Conflict for each submission that was valid itself."""
    first = next(at for at, each in enumerate(found, start=1) if isinstance(each, RunrigError))
    why = (
        f"not submitted: item {first} was refused, and the batch is all-or-nothing. Correct that item, or leave it out"
    )
    return [each if isinstance(each, RunrigError) else Conflict(why, {"refused": first}) for each in found]
