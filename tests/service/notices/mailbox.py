"""A real mail server on this machine."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult

from runrig.domain.notices import Security, Smtp
from runrig.service.notices.mail import Mail
from tests.service.notices.receiver import certificates

PASSWORD = "correct-horse"


@dataclass
class Mailbox:
    """*got*: (recipients, mail). *refuses*: address → the answer to it. *free*: while it is not set, mail to slow@ is not answered."""

    port: int = 0
    got: list[tuple[list[str], EmailMessage]] = field(default_factory=list)
    refuses: dict[str, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    arrived: threading.Condition = field(default_factory=threading.Condition)
    free: threading.Event = field(default_factory=threading.Event)
    connections: int = 0
    stop: Callable[[], object] = print

    def smtp(self, security: Security = Security.TLS, **more: Any) -> Smtp:
        return Smtp("localhost", self.port, security, "runrig@example.org", ("example.org",), **more)

    @property
    def subjects(self) -> list[str]:
        return [str(mail["Subject"]) for _, mail in self.got]

    # ------------------------------------------------------------ what aiosmtpd asks

    async def handle_RCPT(  # noqa: N802
        self, server: Any, session: Any, envelope: Any, address: str, options: Any
    ) -> str:
        if address in self.refuses:
            self.refused.append(address)
            return self.refuses[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        if envelope.rcpt_tos == ["slow@example.org"]:
            await asyncio.to_thread(self.free.wait, 30)
        with self.arrived:
            mail = message_from_bytes(envelope.content, policy=default)
            self.got.append((envelope.rcpt_tos, mail))
            self.arrived.notify_all()
        return "250 OK"


@contextmanager
def mailbox(folder: Path, security: Security = Security.TLS, *, login: bool = False) -> Iterator[tuple[Mailbox, Mail]]:
    """The server, and what sends mail to it and trusts it."""
    serves, trusts = certificates(folder)
    there = Mailbox()
    ready, ended = threading.Event(), asyncio.Event()
    clients: list[SMTP] = []

    def answers() -> SMTP:
        there.connections += 1
        made = SMTP(
            there,
            hostname="localhost",
            tls_context=serves if security is Security.STARTTLS else None,
            require_starttls=security is Security.STARTTLS,
            auth_required=login,
            authenticator=lambda *seen: AuthResult(success=seen[-1].password == PASSWORD.encode(), handled=False),
        )
        clients.append(made)
        return made

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        tls = serves if security is Security.TLS else None
        server = await loop.create_server(answers, "127.0.0.1", 0, ssl=tls)
        there.port = server.sockets[0].getsockname()[1]
        there.stop = lambda: loop.call_soon_threadsafe(ended.set)
        ready.set()
        await ended.wait()
        server.close()
        for each in clients:
            if isinstance(each.transport, asyncio.WriteTransport):
                each.transport.abort()
        await asyncio.sleep(0)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield there, Mail(there.smtp(security), trusts)
    finally:
        there.free.set()
        there.stop()
        thread.join(10)
