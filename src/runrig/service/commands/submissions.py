"""Commands about workflows: submit, check, restart, cancel, hold. Each is stored before the response (rule W2)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from runrig.domain.cluster import KUBERNETES
from runrig.domain.errors import Conflict, NotFound, Refused
from runrig.domain.gangs import Gang, Priority
from runrig.domain.plan import Plan, Queue, Unqueue
from runrig.domain.shown.workflows import WorkflowSubmitted
from runrig.domain.tags import Expected
from runrig.domain.value import utc
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Workflow
from runrig.engine.lifecycle import arrays, holds, workflows
from runrig.engine.lifecycle.limits import NOBODY
from runrig.engine.lifecycle.reassignments import effect_on_nodes, gangs_again, reassign, reassigned
from runrig.engine.state.state import State
from runrig.ports.backend import Backend, Blueprint
from runrig.ports.store import Store
from runrig.service.access.credentials import Credentials
from runrig.service.commands.backend_limits import NO_IMAGES, warnings_of, with_images, without_inputs
from runrig.service.commands.code import Codes
from runrig.service.commands.credential_checks import check_credentials, check_repeated
from runrig.service.commands.dependencies import as_they_are, of_restart
from runrig.service.commands.restarts import AS_IT_WAS, Changes, changed, check_linked
from runrig.service.commands.submission import ParsedSubmission, Submission, filled_in, key_in_batch, read
from runrig.service.queries.pool_deletions import pool_deletions
from runrig.service.runtime import rendering
from runrig.service.runtime.reconciler import Reconciler
from runrig.service.runtime.transactor import Transactor
from runrig.service.runtime.writing import Command, Job, Trial, Writing
from runrig.spec.labels import read_tags

UUID_LETTERS = 36
"""A workflow can also be named by its uuid."""

MOST_TAGS = 16
"""Maximum tags of a workflow."""


@dataclass(eq=False)
class Submissions:
    _transactor: Transactor
    _store: Store
    _backend: Backend
    _reconciler: Reconciler
    _credentials: Credentials
    _codes: Codes
    _know_of_images: set[str] = field(default_factory=set)

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
    ) -> tuple[tuple[Gang, ...], str]:
        """Returns what would wait there for its turn, without storing anything, and the effect on groups on nodes in words.

        No gangs: it is on hold. Raises as `reassigning`.
        """
        with self._transactor.writing(user) as writing:
            plan = reassign(writing.state, id, pool=pool, priority=priority)
            after = reassigned(writing.state.workflows[id], pool=pool, priority=priority)
            gangs = () if after.held_by is not None else tuple(gangs_again(writing.state, after))
            return gangs, effect_on_nodes(writing.state, plan)

    def check_most(self, id: str, most: int, *, user: str) -> tuple[int, int]:
        """Returns how many elements `setting_most` would put into the queue, and how many would leave it. Raises as it does."""
        with self._transactor.writing(user) as writing:
            actions = arrays.set_most(writing.state, id, most).actions
        return sum(isinstance(each, Queue) for each in actions), sum(isinstance(each, Unqueue) for each in actions)

    def tried(self, command: Command[str]) -> tuple[Gang, ...]:
        """Returns what *command*, on a workflow, would queue, without storing anything. Raises as it does."""
        job = next(command)
        with self._transactor.writing(job.actor) as writing:
            trial = Trial(writing.state, writing.now, writing.actor)
            try:
                job.decide(trial)
            except NotFound as error:
                command.throw(error)
        return tuple(each.gang for each in trial.plan.actions if isinstance(each, Queue))

    # ------------------------------------------------------------ commands that may be carried out together

    def submitting(
        self, submission: Submission | ParsedSubmission, *, in_batch: bool = False
    ) -> Command[WorkflowSubmitted]:
        """Stores the workflow. *in_batch*: as in `entered`. Raises InvalidInput, NotFound (pool), Refused (rule P3), Unavailable."""
        parsed = read(submission) if isinstance(submission, Submission) else submission
        known = self.entered(parsed, in_batch=in_batch)
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
        spec = of_restart(spec, old, self._store)
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

    def cancelling_element(self, id: str, element: str, *, user: str, message: str = "") -> Command[str]:
        """Cancels one element of an array; returns the id of the array. Raises NotFound; Conflict if it has ended."""
        return self._changing(id, user, partial(arrays.cancel_element, element=element, user=user, message=message))

    def setting_most(self, id: str, most: int, *, user: str) -> Command[str]:
        """Lets *most* elements of an array run at a time (rule W4). Raises NotFound, Conflict, InvalidInput, Refused."""
        return self._changing(id, user, partial(arrays.set_most, most=most))

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

    def entered(self, parsed: ParsedSubmission, *, in_batch: bool = False) -> WorkflowSubmitted | None:
        """Returns the response to an identical earlier submission, or None. Raises Conflict if another request had its key.

        *in_batch*: its uuid is derived from the key of a batch.
        """
        if parsed.uuid is None:
            return None
        stored = self.with_uuid(parsed.uuid)
        if stored is None:
            if not in_batch and self.with_uuid(key_in_batch(parsed.uuid, 0)) is not None:
                raise Conflict("this Idempotency-Key was used for a batch. Use a new key for each request")
            return None
        if not parsed.sent_again(stored):
            raise Conflict("this Idempotency-Key was used for another submission. Use a new key for each submission")
        spec = self._store.spec(stored.spec_hash)
        return WorkflowSubmitted(stored.id, tuple(warnings_of(self._backend.name, spec.spec)), spec.text)

    def with_uuid(self, uuid: str) -> Workflow | None:
        try:
            stored = self._store.head(uuid)
        except NotFound:
            return None
        return stored if stored.uuid == uuid else None

    def resolved(self, parsed: ParsedSubmission, state: State) -> ParsedSubmission:
        """Returns *parsed* with the workflows that it waits for. Raises NotFound."""
        return replace(parsed, after=as_they_are(parsed.spec.spec.after, state, self._store, parsed.visibility))

    def plan(
        self, parsed: ParsedSubmission, writing: Writing, *, before: int = 0, ahead: Mapping[str, int] = NOBODY
    ) -> Plan:
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
            resolved = self.resolved(parsed, writing.state)
            return resolved.plan(writing.state, writing.now, before=before, ahead=ahead)
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
