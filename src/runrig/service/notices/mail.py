"""Sends notices as mail, through the one server that the operator chose."""

import json
import smtplib
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any, BinaryIO

from runrig.domain.errors import InvalidInput
from runrig.domain.notices import DELIVERED, Security, Smtp, When, mail_domain
from runrig.domain.quantities import listed
from runrig.domain.value import utc
from runrig.domain.workflow_status import WorkflowStatus

TIMEOUT_S = 10.0
LARGEST = 64 * 1024
"""Maximum bytes of an answer of the mail server."""
LONGEST_ANSWER = 200
_WORDS = {When.START: "started", When.DONE: "completed", When.FAIL: "failed", When.PREEMPT: "was preempted"}
_TOO_LONG = "the answer is too long"
_TEST = "This is the test notice that you asked for."


@dataclass(frozen=True, slots=True)
class Letter:
    """*id*: the same in each attempt."""

    to: str
    id: str
    subject: str
    text: str


def letter_of(to: str, id: str, bodies: Sequence[str]) -> Letter:
    """One mail with the notices *bodies*, oldest first."""
    told = [json.loads(body) for body in bodies]
    if len(told) == 1:
        return Letter(to, id, _subject(told[0]), _text(told[0]))
    sums = Counter(map(_words, told))
    subject = f"{len(told)} notices: {', '.join(f'{count} {words}' for words, count in sums.items())}"
    return Letter(to, id, subject, "\n".join(map(_line, told)) + "\n")


class _Answers:
    """Lines of a mail server, of at most *left* bytes."""

    def __init__(self, lines: BinaryIO) -> None:
        self._lines = lines
        self.left = 0
        self.close = lines.close

    def readline(self, size: int) -> bytes:
        line = self._lines.readline(min(size, self.left + 1))
        self.left -= len(line)
        if self.left < 0:
            raise OSError(_TOO_LONG)
        return line


class _Limited(smtplib.SMTP):
    """An answer must arrive within `TIMEOUT_S` as a whole, and have at most `LARGEST` bytes: smtplib limits only its parts."""

    _late = False

    def getreply(self) -> tuple[int, bytes]:
        connected = self.sock
        assert connected is not None, "it is connected before it reads"
        if self.file is None:
            self.file = _Answers(connected.makefile("rb"))
        self.file.left = LARGEST
        late = threading.Timer(TIMEOUT_S, self._hang_up, (connected,))
        late.daemon = True
        late.start()
        try:
            found = super().getreply()
        except smtplib.SMTPServerDisconnected:
            if not self._late:
                raise
        finally:
            late.cancel()
        if self._late:  # What was cut off can look complete.
            raise TimeoutError
        return found

    def _hang_up(self, connected: socket.socket) -> None:
        self._late = True
        with suppress(OSError):
            socket.socket.shutdown(connected, socket.SHUT_RDWR)


class _LimitedTls(_Limited, smtplib.SMTP_SSL):
    """From its beginning over TLS."""


class Final(str):
    """A result that another attempt would not change."""

    __slots__ = ()


class Mail:
    """*smtp* None: this server sends no mail. *tls*: what trusts its certificate; None: the usual authorities."""

    def __init__(self, smtp: Smtp | None, tls: ssl.SSLContext | None = None) -> None:
        self._smtp = smtp
        self._tls = tls

    def check(self, address: str) -> None:
        """Raises InvalidInput unless mail can be sent to *address*, which may be the word ``mail``."""
        if self._smtp is None:
            raise InvalidInput.one(
                "this server sends no mail. Use https://HOST/PATH, or ask an administrator to set notify.smtp in serve.yaml",
                "to",
            )
        domain = mail_domain(address)
        if domain is None:
            raise InvalidInput.one(
                f"{address!r:.80} is not a mail address. Use for example NAME@{self._smtp.domains[0]}", "to"
            )
        if domain not in self._smtp.domains:
            raise InvalidInput.one(
                f"this server sends no mail to {domain}, only to {listed(self._smtp.domains)}. Use another address",
                "to",
            )

    def send(self, letters: Sequence[Letter]) -> list[str | None]:
        """Sends *letters* on one connection. For each, returns DELIVERED, why it was not, or None if it was not tried, because
        the connection broke before.
        """
        if self._smtp is None:  # An earlier server file had one.
            return ["this server no longer sends mail"] * len(letters)
        results: list[str | None] = []
        connected = False
        try:
            with self._connected(self._smtp) as server:
                connected = True
                for letter in letters:
                    results.append(_answer(self._smtp, server, letter))
        except (OSError, smtplib.SMTPException) as error:  # QUIT can fail too, after all mails were accepted.
            left = len(letters) - len(results)
            results += [_why(self._smtp.host, error)] * (min(left, 1) if connected else left)
        return results + [None] * (len(letters) - len(results))

    @contextmanager
    def _connected(self, smtp: Smtp) -> Iterator[smtplib.SMTP]:
        # Otherwise smtplib looks up a name for this machine, however long that takes.
        name = mail_domain(smtp.sender) or "localhost"
        tls = self._tls or ssl.create_default_context()
        if smtp.security is Security.TLS:
            made: smtplib.SMTP = _LimitedTls(smtp.host, smtp.port, name, timeout=TIMEOUT_S, context=tls)
        else:
            made = _Limited(smtp.host, smtp.port, name, timeout=TIMEOUT_S)
        with made as server:
            if smtp.security is Security.STARTTLS:
                server.starttls(context=tls)
            if smtp.user:
                server.login(smtp.user, smtp.password)
            yield server


def _answer(smtp: Smtp, server: smtplib.SMTP, letter: Letter) -> str:
    """Sends *letter*; returns DELIVERED or why it was refused, `Final` if for good.

    Raises OSError and SMTPServerDisconnected.
    """
    try:
        server.send_message(_message(smtp, letter), smtp.sender, [letter.to])
    except smtplib.SMTPRecipientsRefused as error:
        code, text = next(iter(error.recipients.values()))
        return _refusal(code, f"{smtp.host} refused {letter.to}: {_said(code, text)}")
    except smtplib.SMTPDataError as error:
        return _refusal(error.smtp_code, f"{smtp.host} refused the mail: {_said(error.smtp_code, error.smtp_error)}")
    except smtplib.SMTPResponseException as error:
        return f"{smtp.host} refused the mail: {_said(error.smtp_code, error.smtp_error)}"
    except ValueError:  # A damaged row: what users enter is checked.
        return Final(f"{letter.to!r:.80} is not a mail address")
    return DELIVERED


def _refusal(code: int, result: str) -> str:
    """A refusal with a code from 500 is permanent (RFC 5321, 4.2.1)."""
    return Final(result) if code >= 500 else result


def _message(smtp: Smtp, letter: Letter) -> EmailMessage:
    """Raises ValueError for what no header can have."""
    message = EmailMessage(SMTP)
    message["From"], message["To"], message["Subject"] = smtp.sender, letter.to, " ".join(letter.subject.split())
    message["Message-ID"] = f"<{letter.id}@{mail_domain(smtp.sender)}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content("".join(each for each in letter.text if each.isprintable() or each == "\n"))
    return message


def _why(host: str, error: Exception) -> str:
    if isinstance(error, TimeoutError) or isinstance(error.__context__, TimeoutError):  # smtplib wraps it
        return f"{host} did not answer within {TIMEOUT_S:.0f} s"
    if _TOO_LONG in str(error):
        return f"{host} answered with more than {LARGEST // 1024} KiB"
    match error:
        case smtplib.SMTPNotSupportedError():
            return f"{host} offers no encryption or no login. An admin can change notify.smtp in serve.yaml"
        case smtplib.SMTPAuthenticationError():
            return f"{host} refused the login of this server. An admin can change notify.smtp in serve.yaml"
        case smtplib.SMTPResponseException():
            return f"{host} refused the connection: {_said(error.smtp_code, error.smtp_error)}"
        case smtplib.SMTPServerDisconnected():
            return f"{host} closed the connection"
    return f"{host} cannot be reached ({getattr(error, 'strerror', None) or type(error).__name__})"


def _said(code: int, text: bytes | str) -> str:
    plain = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return "".join(each for each in f"{code} {' '.join(plain.split())}" if each.isprintable())[:LONGEST_ANSWER]


def _words(told: Mapping[str, Any]) -> str:
    if told.get("status") == WorkflowStatus.FAILED_CANCELED.value:
        return "was cancelled"
    return _WORDS.get(told["event"], "")


def _subject(told: Mapping[str, Any]) -> str:
    return f"{told['id']} {_words(told)}" if "id" in told else "runrig: test notice"


def _text(told: Mapping[str, Any]) -> str:
    if "id" not in told:
        return f"{_TEST}\n"
    cause = f"\nReason: {_cause(told)}\n" if told["cause"] else ""
    return f"{told['id']} in pool {told['pool']} {_words(told)} at {_at(told)}.\n{cause}\n{told['address']}\n"


def _line(told: Mapping[str, Any]) -> str:
    cause = f": {_cause(told)}" if told["cause"] else ""
    return f"{_at(told)}  {told['id']} {_words(told)}{cause}"


def _cause(told: Mapping[str, Any]) -> str:
    return str(told["cause"]).removeprefix("was ")


def _at(told: Mapping[str, Any]) -> str:
    return utc(datetime.fromisoformat(told["at"]))
