"""Notices of a server: settings, and a thread that turns events of the log into deliveries.

Events and the position up to which the log was searched are stored in one transaction, so that a restart loses nothing.
It repeats at most the delivery that was on its way, with the same id.
"""

import json
import logging
import secrets
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from runrig.domain.access import Identity, User
from runrig.domain.errors import Conflict, InvalidInput, NotFound, Unavailable
from runrig.domain.notices import DELIVERED, Delivery, NoticeSetting, When
from runrig.domain.plan import Abandon, Admit, MoveWorkflow, Preempt
from runrig.domain.records import Event
from runrig.domain.shown.notices import NoticeSettings
from runrig.domain.subjects import workflow_of
from runrig.domain.value import at
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Workflow
from runrig.ports.store import Store
from runrig.service.notices.mail import Final, Letter, Mail, letter_of
from runrig.service.notices.webhook import Webhook
from runrig.service.queries.events import preempted_in_words
from runrig.service.queries.lookup import pool_of
from runrig.service.queries.redaction import Names, preemptors
from runrig.service.queries.visibility import ALL, Visibility
from runrig.service.runtime import logs
from runrig.service.runtime.background import Background
from runrig.service.runtime.metrics import Metrics
from runrig.service.runtime.transactor import Listener

PAUSES_S = (1.0, 5.0, 30.0, 300.0, 1800.0)
"""Before the second and later attempts; after the last one the notice is given up."""
LOOK_S = 1.0
PAGE = 500
SENDERS = 16
"""Deliveries at the same time, at most one for each user."""
MOST_IN_BATCH = 20
"""Mails on one connection."""
MOST_IN_MAIL = 100
"""Notices in one mail."""
MOST_MAILS, MAILS_S = 10, 300.0
"""At most *MOST_MAILS* go to one user within *MAILS_S* seconds. Further notices wait, and then share a mail."""
LONGEST_RUN_S = 86_400 * 365
_ACTIONS = tuple(action.__name__ for action in (Abandon, Admit, MoveWorkflow, Preempt))

Send = Callable[[list[tuple[Delivery, NoticeSetting]]], None]

_log = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class Notices:
    """*user_named*: finds a user; None: unknown. *listening*: reports commits. *address*: of this server's pages."""

    _store: Store
    _user_named: Callable[[str], User | None]
    _listening: Callable[[Listener], AbstractContextManager[None]]
    _metrics: Metrics
    _webhook: Webhook
    _mail: Mail
    _address: str
    _mailed: dict[str, deque[float]] = field(default_factory=dict)
    _sending: set[str] = field(default_factory=set)
    _testing: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while settings change."""
    _searched: int = 0
    """All notices up to this revision are stored."""

    def __post_init__(self) -> None:
        self.thread = Background("notices", self._step, lambda *_: LOOK_S / 4, idle_s=LOOK_S, listening=self._listening)
        # Threads of its own for each delivery, because the process would wait at its end for those of a pool. The next server repeats
        # what was on its way. A slow mail server delays mail only, not webhooks.
        self._senders, self._mailers = threading.BoundedSemaphore(SENDERS), threading.BoundedSemaphore(1)
        self._settings = {each.user: each for each in self._store.notices.settings()}

    # ------------------------------------------------------------ settings

    def shown(self, user: str, *, secret: str | None = None) -> NoticeSettings:
        found = next((each for each in self._store.notices.settings() if each.user == user), None)
        return NoticeSettings.of(found, self._store.notices.waiting(user), secret=secret)

    def set(self, user: str, to: str, when: tuple[When, ...], min_run_s: int, revision: int) -> NoticeSettings:
        """Sends notices of events after *revision* to *to*, an https or a mail address. A new https address gets a new secret,
        which is shown once.

        Raises InvalidInput.
        """
        (self._mail if _is_mail(to) else self._webhook).check(to)
        if not when:
            raise InvalidInput.one(f"choose when to send notices:  {', '.join(When)}", "when")
        if not 0 <= min_run_s <= LONGEST_RUN_S:
            raise InvalidInput.one(f"min_run_s must be from 0 to {LONGEST_RUN_S} (a year)", "min_run_s")
        before = self._settings.get(user)
        same = before is not None and before.to == to
        secret = before.secret if before is not None and same else "" if _is_mail(to) else secrets.token_urlsafe(32)
        chosen = tuple(each.value for each in When if each in when)
        setting = NoticeSetting(user, to, chosen, min_run_s, secret, revision)
        with self._lock:
            self._store.notices.put(setting)
            self._settings = {**self._settings, user: setting}
        return self.shown(user, secret=None if same else secret or None)

    def turn_off(self, user: str) -> None:
        with self._lock:
            self._store.notices.delete(user)
            self._settings = {name: each for name, each in self._settings.items() if name != user}

    def test(self, user: str) -> str:
        """Sends a test notice, and returns the result. Takes a few seconds, so a user has one at a time. Raises Conflict."""
        setting = self._settings.get(user)
        if setting is None:
            return "notices are off. Turn them on with `runrig notify --to https://HOST/PATH`, or your mail address"
        body = _body({"event": "test", "user": user, "at": at(time.time()).isoformat()})
        with self._lock:
            if user in self._testing:
                raise Conflict("your last test notice is still being delivered. Wait a few seconds, and try again")
            self._testing.add(user)
        try:
            if _is_mail(setting.to):
                if self._has_many(user):
                    raise Conflict(f"you got {MOST_MAILS} mails within {MAILS_S / 60:.0f} minutes. Try again later")
                self._note_mail(user)
                return self._mail.send([letter_of(setting.to, str(uuid.uuid4()), [body])])[0] or ""
            return self._webhook.send(setting.to, body, setting.secret, str(uuid.uuid4()))
        finally:
            self._testing.discard(user)

    # ------------------------------------------------------------ from the log

    def collect(self) -> None:
        """Stores a delivery for each event that a user wants to know of. O(events since the last call)."""
        settings = self._settings
        if not settings:
            return
        position = max(self._searched, min(each.position for each in settings.values()))
        while True:
            found = self._store.log.events(after=position, actions=_ACTIONS, limit=PAGE)
            if not found:
                return
            position = found[-1].revision
            deliveries = [each for event in found for each in self._safely(event, settings)]
            if deliveries or len(found) >= PAGE:
                self._store.notices.collected(position, deliveries)
            self._searched = position

    def _safely(self, event: Event, settings: Mapping[str, NoticeSetting]) -> list[Delivery]:
        """As `_deliveries`; an event that raises an error gives none."""
        try:
            return list(self._deliveries(event, settings))
        except (Unavailable, OSError):
            raise  # The store does not answer: the same page is read again.
        except Exception as error:  # noqa: BLE001
            logs.failure(_log, "notice_skipped", error, revision=event.revision)
            return []

    def _deliveries(self, event: Event, settings: Mapping[str, NoticeSetting]) -> Iterator[Delivery]:
        id = workflow_of(event.action)
        assert id is not None, "only actions on workflows are read"
        try:
            workflow = self._store.head(id)
        except NotFound:  # Retention deleted it in the meantime.
            return
        setting = settings.get(workflow.submitted_by)
        if setting is None or (found := _happened(event)) is None:
            return
        happened, status = found
        if happened not in setting.when:
            return
        if event.revision <= setting.position or _too_short(workflow, happened, setting.min_run_s):
            return
        body = _body(self._told(event, happened, status, workflow))
        yield Delivery(str(uuid.uuid4()), setting.user, body, 0, time.time())

    def _told(self, event: Event, happened: When, status: WorkflowStatus, workflow: Workflow) -> dict[str, Any]:
        owner = self._user_named(workflow.submitted_by)
        # Only the owner of `up`, who sees everything, and users for whom they act have no row.
        visibility = ALL if owner is None else Visibility(Identity(owner.name, owner.grants))
        action, cause, pool = event.action, "", partial(pool_of, self._store)
        if isinstance(action, Preempt):
            shown = Names(visibility, pool).event(event).action
            assert isinstance(shown, Preempt)
            cause = preempted_in_words(shown)
        elif isinstance(action, MoveWorkflow | Abandon):
            found = self._store.log.events(workflow=workflow.id, actions=(Preempt.__name__,))
            cause = Names(visibility, pool, preemptors(found)).text(action.message)
        return {
            "event": happened.value,
            "id": workflow.id,
            "pool": workflow.pool,
            "user": workflow.submitted_by,
            "status": status.value,
            "cause": cause,
            "law": event.law,
            "at": at(event.time).isoformat(),
            "address": f"{self._address}/workflow/{workflow.id}",
        }

    # ------------------------------------------------------------ to the receivers

    def send(self) -> None:
        """Starts the deliveries that are due; a user's are sent one after the other."""
        busy = set(self._sending)  # Before searching for new ones, because a delivery can end during the search.
        mails: list[Delivery] = []
        now = time.time()
        for delivery in self._store.notices.due(now, now + PAUSES_S[-1]):
            setting = self._settings.get(delivery.user)
            if delivery.user in busy or (
                (by_mail := setting is not None and _is_mail(setting.to))
                and (len(mails) == MOST_IN_BATCH or self._has_many(delivery.user))
            ):
                continue
            if by_mail:
                mails.append(delivery)
            else:
                self._start(self._senders, [delivery], self._post)
        if mails:
            self._start(self._mailers, mails, self._send_mails)

    def _start(self, turns: threading.BoundedSemaphore, deliveries: list[Delivery], send: Send) -> None:
        """Delivers them in a new thread. Without a free turn, they are still due when another delivery has ended."""
        if turns.acquire(blocking=False):
            users = {each.user for each in deliveries}
            self._sending.update(users)
            try:
                threading.Thread(
                    target=self._deliver, args=(turns, deliveries, send), daemon=True, name="notice"
                ).start()
            except RuntimeError:  # The machine has no thread left: they are due again at the next look.
                self._sending.difference_update(users)
                turns.release()
                raise

    def _has_many(self, user: str) -> bool:
        """Whether *user* got as many mails as allowed for now."""
        sent = self._mailed.get(user, deque())
        while sent and sent[0] <= time.monotonic() - MAILS_S:
            sent.popleft()
        return len(sent) >= MOST_MAILS

    def _note_mail(self, user: str) -> None:
        self._mailed.setdefault(user, deque()).append(time.monotonic())

    def _deliver(self, turns: threading.BoundedSemaphore, deliveries: list[Delivery], send: Send) -> None:
        """*deliveries*: the oldest of each of their users."""
        try:
            known = []
            for delivery in deliveries:
                setting, user = self._settings.get(delivery.user), self._user_named(delivery.user)
                if setting is None or (user is not None and user.disabled):
                    self._store.notices.delete(delivery.user)
                elif _is_mail(setting.to) == (send == self._send_mails):
                    # Otherwise the user has switched between mail and webhook.
                    known.append((delivery, setting))
            if known:
                send(known)
        except Exception as error:  # noqa: BLE001 - a failed delivery stays due
            if not self.thread.stopped.is_set():
                logs.failure(_log, "notice_failed", error)
                self.thread.stopped.wait(LOOK_S)
        finally:
            self._sending.difference_update(each.user for each in deliveries)
            turns.release()
            self.thread.wake()

    def _post(self, deliveries: list[tuple[Delivery, NoticeSetting]]) -> None:
        for each, setting in deliveries:
            self._tried([each], self._webhook.send(setting.to, each.body, setting.secret, each.id))

    def _send_mails(self, deliveries: list[tuple[Delivery, NoticeSetting]]) -> None:
        """Also sends what waits behind the deliveries, in the same mails."""
        waiting = []
        letters: list[Letter] = []
        for each, setting in deliveries:
            notices = self._store.notices.of(each.user, MOST_IN_MAIL) or (each,)
            try:
                letters.append(letter_of(setting.to, notices[0].id, [one.body for one in notices]))
            except Exception as error:  # noqa: BLE001 - a damaged row of one user may not stop the mail of others
                self._tried(notices, f"an internal error ({type(error).__name__})")
            else:
                waiting.append(notices)
        for notices, result in zip(waiting, self._mail.send(letters), strict=True):
            if result is not None:
                self._tried(notices, result)
            if result == DELIVERED:
                self._note_mail(notices[0].user)

    def _tried(self, notices: Sequence[Delivery], result: str) -> None:
        attempt = notices[0].attempt
        delivered = result == DELIVERED
        over = delivered or isinstance(result, Final) or attempt >= len(PAUSES_S)
        if not delivered:
            result += " (given up)" if over else f" (attempt {attempt + 1} of {len(PAUSES_S) + 1})"
        due = None if over else time.time() + PAUSES_S[attempt]
        self._store.notices.tried(notices, time.time(), result, due)
        self._metrics.notices.labels("delivered" if delivered else "given_up" if over else "failed").inc()

    def _step(self) -> None:
        self.collect()
        if self._settings:
            self.send()


def _body(told: Mapping[str, Any]) -> str:
    return json.dumps(told, separators=(",", ":"))


def _is_mail(to: str) -> bool:
    return ("@" in to and "://" not in to) or to.casefold() == "mail"


def _happened(event: Event) -> tuple[When, WorkflowStatus] | None:
    """Returns what happened, and the status of the workflow after it, for which the row of the workflow can be too new."""
    match event.action:
        case Admit():
            return When.START, WorkflowStatus.RUNNING
        case Preempt():
            return When.PREEMPT, WorkflowStatus.PENDING
        case Abandon():
            return When.FAIL, WorkflowStatus.FAILED_CANCELED
        case MoveWorkflow(status=status) if status.finished:
            return When.DONE if status is WorkflowStatus.COMPLETED else When.FAIL, status
    return None


def _too_short(workflow: Workflow, happened: When, min_run_s: int) -> bool:
    if happened not in (When.DONE, When.FAIL) or not min_run_s:
        return False
    start, end = workflow.start_time, workflow.end_time
    return start is None or end is None or end - start < min_run_s
