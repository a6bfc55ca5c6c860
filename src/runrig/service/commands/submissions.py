"""Commands about workflows: submit, check, restart, cancel, hold. Each is stored before the response (rule W2)."""

import uuid
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from runrig.domain.cluster import KUBERNETES
from runrig.domain.errors import Conflict, NotFound, Refused
from runrig.domain.gangs import Gang, Priority
from runrig.domain.plan import Plan, Submit
from runrig.domain.shown.workflows import WorkflowSubmitted
from runrig.domain.tags import Expected
from runrig.domain.value import utc
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Workflow, WorkflowSpec
from runrig.engine.lifecycle import holds, submission_gate, workflows
from runrig.engine.lifecycle.gangs import first_gangs
from runrig.engine.lifecycle.reassignments import gangs_again, reassign, reassigned
from runrig.engine.state.state import State
from runrig.ports.backend import Backend, Blueprint
from runrig.ports.store import SpecText, Store
from runrig.service.access.credentials import Credentials
from runrig.service.commands.backend_limits import NO_IMAGES, warnings_of, with_images, without_inputs
from runrig.service.commands.code import Codes
from runrig.service.commands.credential_checks import check_credentials, check_repeated
from runrig.service.commands.restarts import AS_IT_WAS, Changes, changed, check_linked
from runrig.service.queries.pool_deletions import pool_deletions
from runrig.service.runtime import rendering
from runrig.service.runtime.reconciler import Reconciler
from runrig.service.runtime.transactor import Transactor
from runrig.service.runtime.turns import Turns
from runrig.service.runtime.writing import Command, Job, Writing
from runrig.spec import template, workflow
from runrig.spec.labels import read_tags, with_labels
from runrig.spec.overrides import with_retry
from runrig.spec.yamltree import checked_text

_SENT = ("text", "variables", "string_variables", "template", "environment", "priority", "labels")
SENT_LETTERS = 32
"""Length of the part of a specification's key that identifies the submitted text."""

UUID_LETTERS = 36
"""A workflow can also be named by its uuid."""

MOST_KEPT, LARGEST_KEPT = 128, 8 * 1024
"""Number of recently read files that are cached, and the maximum characters of each."""

MOST_TAGS = 16
"""Maximum tags of a workflow."""

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


@dataclass(frozen=True, slots=True)
class ParsedSubmission:
    """A submission that has been read. *numbered*: as in the gate."""

    spec: SpecText
    pool: str
    user: str
    priority: Priority
    parent: str | None = None
    uuid: str | None = None
    numbered: bool = True

    def plan(self, state: State, now: float, *, before: int = 0, ahead: int = 0) -> Plan:
        """Returns the plan that submits it to *state*, with the specification from `spec_in`. *before*, *ahead*: as in the gate.

        Raises NotFound (pool) and Refused (rules P3, P6, S7, W6).
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
        """Returns True if *stored* comes from the same request. The key of its specification includes the file's
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
        gangs = first_gangs(submit.workflow, self.spec.spec)
        return WorkflowSubmitted(submit.workflow.id, tuple(warnings_of(backend, self.spec.spec)), self.spec.text, gangs)


def read(submission: Submission) -> ParsedSubmission:
    """Raises InvalidInput with all problems of the file."""
    text = filled_in(submission)
    spec = workflow.with_environment(_read(text), workflow.parse_environment(submission.environment))
    spec = with_retry(with_labels(spec, submission.labels), submission.retry)
    source = submission.text if submission.template is None else submission.template
    priority = submission.priority or spec.priority or Priority.NORMAL
    return ParsedSubmission(
        SpecText(_hash(submission, text), text, source, spec),
        submission.pool,
        submission.user,
        priority,
        uuid=submission.uuid,
    )


def is_soon_read(submission: Submission) -> bool:
    """Returns True if `read` is fast enough not to delay others: a short file that is not a template."""
    return _is_short(submission.text) and not template.is_template(submission.template or submission.text)


def _is_short(text: str) -> bool:
    """Returns False also for a short text with aliases, which can expand to a long one."""
    return len(text) <= LARGEST_KEPT and not ("&" in text and "*" in text)


def _read(text: str) -> WorkflowSpec:
    """As `read_workflow`, with a cache of recent short files."""
    return _kept(text) if _is_short(text) else workflow.read_workflow(text)


_kept = lru_cache(MOST_KEPT)(workflow.read_workflow)


def _hash(submission: Submission, text: str) -> str:
    """Returns the key of the specification: the hash of what was sent, then that of *text*, because a template with
    `random` renders differently each time.
    """
    fields = [getattr(submission, name) for name in _SENT]
    fields += [said for said in (submission.retry,) if said]  # Keys of submissions without options stay the same.
    return workflow.spec_hash(repr(tuple(fields)))[:SENT_LETTERS] + workflow.spec_hash(text)[SENT_LETTERS:]


class Submissions:
    def __init__(
        self,
        transactor: Transactor,
        store: Store,
        backend: Backend,
        reconciler: Reconciler,
        credentials: Credentials,
        codes: Codes,
    ) -> None:
        self._credentials, self._codes = credentials, codes
        self._transactor = transactor
        self._store = store
        self._backend = backend
        self._reconciler = reconciler
        self._know_of_images: set[str] = set()

    def check(self, submission: Submission) -> WorkflowSubmitted:
        """Returns what `submitting` would return, without storing anything."""
        return self._checked(read(submission))

    def check_again(self, id: str, *, pool: str, user: str, priority: Priority | None = None) -> WorkflowSubmitted:
        """Returns what `submitting_again` would return, without storing anything."""
        return self._checked(self._repeated(id, pool=pool, user=user, priority=priority))

    def _checked(self, parsed: ParsedSubmission) -> WorkflowSubmitted:
        with self._transactor.writing(parsed.user) as writing:
            return self.accepted(parsed, self.plan(replace(parsed, numbered=False), writing))

    def blueprint(self, submission: Submission, namespace: str) -> Blueprint:
        """Returns the values for its Kubernetes objects. Raises as `rendering.blueprint`; InvalidInput for the file."""
        parsed = read(submission)
        with self._transactor.reading() as state:
            return rendering.blueprint(
                state, parsed.spec.spec, pool=parsed.pool, priority=parsed.priority, namespace=namespace
            )

    def rendered(self, submission: Submission) -> WorkflowSubmitted:
        """Returns the rendered text. Also checks the result, unless the client still has to insert files."""
        text = filled_in(submission)
        if "localpath" in text:
            return WorkflowSubmitted("", (), text)
        return self.check(submission)

    def check_reassignment(
        self, id: str, *, user: str, pool: str | None, priority: Priority | None
    ) -> tuple[Gang, ...]:
        """Returns what would wait there for its turn, without storing anything; empty if it is on hold. Raises as
        `reassigning`.
        """
        with self._transactor.writing(user) as writing:
            reassign(writing.state, id, pool=pool, priority=priority)
            after = reassigned(writing.state.workflows[id], pool=pool, priority=priority)
            return () if after.held_by is not None else tuple(gangs_again(writing.state, after))

    # ------------------------------------------------------------ commands that may be carried out together

    def submitting(self, submission: Submission | ParsedSubmission) -> Command[WorkflowSubmitted]:
        """Stores the workflow. Raises InvalidInput, NotFound (pool), Refused (rule P3), Unavailable."""
        parsed = read(submission) if isinstance(submission, Submission) else submission
        known = self.entered(parsed)
        if known is not None:
            return known
        plan = yield Job(parsed.user, partial(self.commit, parsed))
        self._reconciler.wake()
        return self.accepted(parsed, plan)

    def submitting_again(
        self, id: str, *, pool: str, user: str, priority: Priority | None = None, uuid: str | None = None
    ) -> Command[WorkflowSubmitted]:
        """Submits the specification of workflow *id* again, with the same priority unless another is given."""
        return (yield from self.submitting(self._repeated(id, pool=pool, user=user, priority=priority, uuid=uuid)))

    def _repeated(
        self,
        id: str,
        *,
        pool: str,
        user: str,
        priority: Priority | None = None,
        uuid: str | None = None,
        changes: Changes = AS_IT_WAS,
    ) -> ParsedSubmission:
        old = self._store.head(id)
        whole = self._store.spec(old.spec_hash)
        check_repeated(old, whole.spec, user)
        if changes.code is None:
            self._codes.adopt(user, old.submitted_by, whole.spec.code)
        spec = changed(whole, changes, self._store.workflow(old.id)) if changes is not AS_IT_WAS else whole
        check_linked(spec.spec, old.id, self._backend, whole=not whole.spec.linked)
        return ParsedSubmission(spec, pool, user, priority or old.priority, parent=old.id, uuid=uuid)

    def restarting(
        self, id: str, *, pool: str, user: str, uuid: str | None = None, changes: Changes = AS_IT_WAS
    ) -> Command[WorkflowSubmitted]:
        """As `submitting_again`, for a failed workflow, with *changes*. Raises Conflict for a workflow that has not failed,
        and if outputs that are needed were removed; InvalidInput if *user* has not sent the code.
        """
        old = self._store.head(id)
        if not old.status.finished or old.status is WorkflowStatus.COMPLETED:
            raise Conflict(
                f"{old.id} is {old.status.value}. Only failed workflows can be restarted; submit its file to run it again"
            )
        return (yield from self.submitting(self._repeated(old.id, pool=pool, user=user, uuid=uuid, changes=changes)))

    def cancelling(self, id: str, *, user: str, message: str = "") -> Command[str]:
        """Cancels a workflow; returns its id. Raises NotFound; Conflict if it has ended."""
        return self._changing(id, user, partial(workflows.cancel, user=user, message=message))

    def holding(self, id: str, *, user: str) -> Command[str]:
        """Holds a workflow: its groups that have not started cannot start (rule W3). Raises NotFound, Conflict."""
        return self._changing(id, user, partial(holds.put_on_hold, user=user))

    def releasing(self, id: str, *, user: str) -> Command[str]:
        """Ends the hold. Raises NotFound, Conflict."""
        return self._changing(id, user, holds.end_hold)

    def reassigning(self, id: str, *, user: str, pool: str | None, priority: Priority | None) -> Command[str]:
        """Moves a workflow that has not started to another pool, or changes its priority. Raises NotFound, Refused,
        Conflict.
        """
        return self._changing(id, user, partial(reassign, pool=pool, priority=priority))

    def _changing(self, id: str, user: str, plan: Callable[[State, str], Plan]) -> Command[str]:
        """Commits *plan* for a workflow; returns its id. The state knows live workflows by id; others are looked up in
        the store.
        """
        name = self._unfinished(id).id if len(id) == UUID_LETTERS else id

        def decide(writing: Writing) -> None:
            writing.commit(plan(writing.state, name))

        try:
            yield Job(user, decide)
        except NotFound:  # It has ended, perhaps through a command stored in the same batch, or it never existed.
            self._unfinished(id)
            raise
        self._reconciler.wake()
        return name

    def tag(self, id: str, *, add: Sequence[str], remove: Sequence[str], expected: Expected = None) -> tuple[str, ...]:
        """Returns the new tags of workflow *id*, which may have ended.

        Raises NotFound, InvalidInput; Conflict if there are too many; Changed if the old tags are not as *expected*.
        """
        return self._store.tags.change(self._store.head(id).id, read_tags(add), read_tags(remove), MOST_TAGS, expected)

    # ------------------------------------------------------------ steps

    def _unfinished(self, id: str) -> Workflow:
        workflow = self._store.head(id)
        if workflow.status.finished:
            raise Conflict(f"{workflow.id} is already {workflow.status.value} and can no longer be changed")
        return workflow

    def commit(self, parsed: ParsedSubmission, writing: Writing) -> Plan:
        plan = self.plan(parsed, writing)
        writing.commit(plan, parsed.spec_in(writing.state))
        return plan

    def accepted(self, parsed: ParsedSubmission, plan: Plan) -> WorkflowSubmitted:
        """*plan*: from `plan`. Each user is warned once per server start that images are not used."""
        found = parsed.accepted(plan, self._backend.name)
        if parsed.user in self._know_of_images:
            return replace(found, warnings=tuple(each for each in found.warnings if each != NO_IMAGES))
        if NO_IMAGES in found.warnings:
            self._know_of_images.add(parsed.user)
        return found

    def entered(self, parsed: ParsedSubmission) -> WorkflowSubmitted | None:
        """Returns the response to an identical earlier submission; None if there is none. Raises Conflict if a
        different submission has the uuid.
        """
        if parsed.uuid is None:
            return None
        try:
            stored = self._store.head(parsed.uuid)
        except NotFound:
            return None
        if stored.uuid != parsed.uuid or not parsed.sent_again(stored):
            raise Conflict("this Idempotency-Key was used for another submission. Use a new key for each submission")
        spec = self._store.spec(stored.spec_hash)
        return WorkflowSubmitted(stored.id, tuple(warnings_of(self._backend.name, spec.spec)), spec.text)

    def plan(self, parsed: ParsedSubmission, writing: Writing, *, before: int = 0, ahead: int = 0) -> Plan:
        """Returns the gate's plan. If the pool is closed, the refusal says who closed it and when. *before*, *ahead*: as in
        the gate.
        """
        if not self._backend.outputs:
            without_inputs(parsed.spec.spec, self._backend.name)
        if self._backend.name == KUBERNETES:
            with_images(parsed.spec.spec)
        check_credentials(parsed.spec.spec, parsed.user, self._credentials)
        self._codes.check(parsed.user, parsed.spec.spec.code)
        try:
            return parsed.plan(writing.state, writing.now, before=before, ahead=ahead)
        except Refused as error:
            deletions = pool_deletions(self._store, parsed.pool) if "state" in error.details else ()
            if not deletions:
                raise
            last = deletions[-1]
            details = {name: value for name, value in error.details.items() if name != "law"}
            told = {"deleted_by": last.by, "deleted_at": utc(last.at)}
            raise Refused(
                f"{error.message}. {parsed.pool} was deleted by {last.by} at {utc(last.at)}", error.law, details | told
            ) from None


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
