"""A submission: as it was sent, and as it was read. Reading renders templates, which is slow, and needs no state."""

import uuid
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache

from runrig.domain.after import After
from runrig.domain.gangs import Priority
from runrig.domain.plan import Plan, Submit
from runrig.domain.shown.workflows import WorkflowSubmitted
from runrig.domain.workflows import Workflow, WorkflowSpec
from runrig.engine.lifecycle import submission_gate
from runrig.engine.lifecycle.gangs import first_gangs
from runrig.engine.lifecycle.limits import NOBODY
from runrig.engine.state.state import State
from runrig.ports.store import SpecText
from runrig.service.commands.backend_limits import warnings_of
from runrig.service.mirror.turns import Turns
from runrig.service.queries.visibility import ALL, Visibility
from runrig.spec import template, workflow
from runrig.spec.arrays import NO_ARRAY, Given
from runrig.spec.labels import with_labels
from runrig.spec.overrides import with_after, with_retry
from runrig.spec.yamltree import checked_text

_SENT = ("text", "variables", "string_variables", "template", "environment", "priority", "labels")
SENT_LETTERS = 32
"""Length of the part of a specification's key that identifies the submitted text."""

MOST_KEPT, LARGEST_KEPT = 128, 8 * 1024
"""Number of recently read files that are cached, and the maximum characters of each."""

_templates = Turns("template renderings", ", or send rendered files")
"""One for the process, because templates use its processors and memory."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A submission as sent. *text* may be a template; *template*: what the client rendered *text* from, if it did.

    *variables*, *string_variables*: ``k=v`` for the template; *environment*: ``K=V`` for every task; *labels*:
    ``KEY=VALUE``. *priority* None: that of the file, else NORMAL. *uuid*: of the workflow, so that a client without a
    response can repeat the request without submitting twice; None: a random one.
    """

    text: str
    pool: str
    user: str
    variables: tuple[str, ...] = ()
    string_variables: tuple[str, ...] = ()
    template: str | None = None
    environment: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    priority: Priority | None = None
    uuid: str | None = None
    retry: str | None = None
    """``N[:CODES]``: restart every task after these exit codes, at most N times; None: as in the file."""
    after: tuple[str, ...] = ()
    """``ID[/INDEX][:ok|any|fail]``: in addition to those of the file."""
    given: Given = NO_ARRAY
    """An array that the file does not have."""
    visibility: Visibility = ALL
    """The user's: only visible workflows can be waited for."""


@dataclass(frozen=True, slots=True)
class ParsedSubmission:
    """A submission that has been read. *numbered*: as in the gate. *after*: workflows that it waits for, as they are now."""

    spec: SpecText
    pool: str
    user: str
    priority: Priority
    parent: str | None = None
    uuid: str | None = None
    numbered: bool = True
    visibility: Visibility = ALL
    after: tuple[After, ...] = ()

    def plan(self, state: State, now: float, *, before: int = 0, ahead: Mapping[str, int] = NOBODY) -> Plan:
        """Returns the plan that submits it to *state*, with the specification from `spec_in`. *before*, *ahead*: as in the gate.

        Raises NotFound (pool) and Refused (rules P3, P6, S7, W5, W6).
        """
        spec = self.spec_in(state)
        return submission_gate.submit(
            state,
            spec.spec,
            spec_hash=spec.hash,
            pool=self.pool,
            priority=self.priority,
            user=self.user,
            uuid=self.uuid or str(uuid.uuid4()),
            now=now,
            parent=self.parent,
            before=before,
            ahead=ahead,
            numbered=self.numbered,
            after=self.after,
        )

    def spec_in(self, state: State) -> SpecText:
        """Returns the specification; if it sets no run time, with that of the pool (rule P6) and its own key."""
        pool = state.pools.get(self.pool)
        usual = None if pool is None else pool.usual_run_time_s
        if usual is None or self.spec.spec.exec_timeout_s is not None:
            return self.spec
        rest = workflow.spec_hash(self.spec.hash, str(usual))[SENT_LETTERS:]
        return replace(
            self.spec,
            hash=self.spec.hash[:SENT_LETTERS] + rest,
            spec=replace(self.spec.spec, exec_timeout_s=usual),
        )

    def sent_again(self, stored: Workflow) -> bool:
        """Whether *stored* comes from the same request. The key of its specification includes the file's
        priority.
        """
        same = (self.user, self.pool, self.parent, self.spec.hash[:SENT_LETTERS])
        if same != (stored.submitted_by, stored.pool, stored.parent, stored.spec_hash[:SENT_LETTERS]):
            return False
        return self.parent is None or self.priority is stored.priority

    def accepted(self, plan: Plan, backend: str) -> WorkflowSubmitted:
        """*plan*: from `plan`; *backend*: the kind of backend that runs it."""
        submit = plan.actions[0]
        assert isinstance(submit, Submit), "the first action of the gate is the submission"
        spec = self.spec.spec
        warnings, gangs = tuple(warnings_of(backend, spec)), first_gangs(submit.workflow, spec)
        return WorkflowSubmitted(submit.workflow.id, warnings, self.spec.text, gangs, elements_of(spec))


def key_in_batch(key: str, at: int) -> str:
    """Returns the uuid of the workflow at this position of a batch with the Idempotency-Key *key*."""
    return str(uuid.uuid5(uuid.UUID(key), str(at)))


def elements_of(spec: WorkflowSpec) -> int:
    """Returns the number of elements of its array; 0: it is not one."""
    return 0 if spec.array is None else len(spec.array.indices)


def read(submission: Submission) -> ParsedSubmission:
    """Raises InvalidInput with all problems of the file."""
    text = filled_in(submission)
    spec = workflow.with_environment(_read(text, submission.given), workflow.parse_environment(submission.environment))
    spec = with_after(with_retry(with_labels(spec, submission.labels), submission.retry), submission.after)
    source = submission.text if submission.template is None else submission.template
    priority = submission.priority or spec.priority or Priority.NORMAL
    return ParsedSubmission(
        SpecText(_hash(submission, text), text, source, spec),
        submission.pool,
        submission.user,
        priority,
        uuid=submission.uuid,
        visibility=submission.visibility,
    )


def is_soon_read(submission: Submission) -> bool:
    """Whether `read` is fast enough not to delay others: a short file that is not a template."""
    return _is_short(submission.text) and not template.is_template(submission.template or submission.text)


def _is_short(text: str) -> bool:
    """Returns False also for a short text with aliases, which can expand to a long one."""
    return len(text) <= LARGEST_KEPT and not ("&" in text and "*" in text)


def _read(text: str, given: Given) -> WorkflowSpec:
    """As `read_workflow`, with a cache of recent short files."""
    return _kept(text, given) if _is_short(text) else workflow.read_workflow(text, given)


_kept = lru_cache(MOST_KEPT)(workflow.read_workflow)


def _hash(submission: Submission, text: str) -> str:
    """Returns the key of the specification: the hash of what was sent, then that of *text*, because a template with
    `random` renders differently each time.
    """
    fields = [getattr(submission, name) for name in _SENT]
    options = (submission.retry, submission.after, submission.given if any(submission.given) else None)
    fields += [said for said in options if said]  # Keys of submissions without options stay the same.
    return workflow.spec_hash(repr(tuple(fields)))[:SENT_LETTERS] + workflow.spec_hash(text)[SENT_LETTERS:]


def filled_in(submission: Submission) -> str:
    """Returns its text, rendered if it is a template. Raises InvalidInput; Unavailable if too many are waiting.

    If the text differs from its template, the client rendered it: only the template has the variables that can be set.
    """
    text, source = submission.text, submission.template or submission.text
    with _templates.turn(submission.user) if template.is_template(source) else nullcontext():
        if text == source:
            return template.render(text, submission.variables, submission.string_variables)
        template.check_settings(source, submission.variables, submission.string_variables)
        return checked_text(text, "workflow file")
