"""`runrig admin`: administers a running server."""

import os
import secrets
from pathlib import Path

import click

from runrig.cli.commands.admin_usage import usage
from runrig.cli.lazy import command, group
from runrig.cli.rendering import times
from runrig.cli.rendering.output import say
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path
from runrig.domain.credentials import KEY_BYTES, read_keys, written_keys
from runrig.domain.errors import InvalidInput
from runrig.domain.quantities import counted
from runrig.osmo.shape import naive
from runrig.spec.regular_file import regular_file


@group(
    "runrig admin accept-clock", "runrig admin credential-key /etc/runrig/credential.key", "runrig admin usage check"
)
def admin() -> None:
    """Administer a server."""


admin.add_command(usage)


@command("runrig admin accept-clock", "runrig admin accept-clock -t json", of=admin)
@with_session
def accept_clock(session: Session) -> None:
    """Accept the system clock after it was changed.

    Check first that the clock is right: if the server's time jumps forward, running workflows may reach their
    time limit and old data is deleted sooner. The server's time never goes back; if the clock is behind, the
    difference is no longer reported.
    """
    found = session.client.call("POST", path("clock", "accept"))
    answer = found | {name: naive(found[name]) for name in ("before", "now")}
    before, now = times.local(answer["before"]), times.local(answer["now"])
    trust = answer["doubt"] or "the system clock was already trusted"
    session.say(answer, f"the server's time was {before} and is {now}; {trust}")


@command(
    "runrig admin credential-key /etc/runrig/credential.key",
    "runrig admin credential-key /etc/runrig/credential.key --drop-old",
    of=admin,
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--drop-old", is_flag=True, help="Remove all keys except the newest. Run `reseal-credentials` first.")
def credential_key(file: Path, drop_old: bool) -> None:
    """Create the key file for credentials, or add a new key at its top.

    Older keys still decrypt what they encrypted. The server reads the file at each use. All servers of a
    database need the same file.
    """
    old = _keys_of(file)
    if drop_old and not old:
        raise InvalidInput.one(f"{file} does not exist, so it has no keys to drop")
    keys = old[:1] if drop_old else (secrets.token_bytes(KEY_BYTES), *old)
    _replace(file, written_keys(keys))
    say(f"{file} has {counted(len(keys), 'key')}" + ("" if drop_old or not old else f"; {_NEXT}"))


_NEXT = "next, run `runrig admin reseal-credentials`, then this command with --drop-old"


def _keys_of(file: Path) -> tuple[bytes, ...]:
    """Returns no keys if the file does not exist. Raises InvalidInput."""
    try:
        return read_keys(regular_file(file).read_text(encoding="ascii", errors="replace"))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise InvalidInput.one(f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InvalidInput.one(f"{file} is not a key file: {error}. Name another file.") from None


def _replace(file: Path, text: str) -> None:
    """Writes *file* atomically, readable only by its owner."""
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(file)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise InvalidInput.one(f"{file} cannot be written: {error.strerror}") from None


@command("runrig admin reseal-credentials", of=admin)
@with_session
def reseal_credentials(session: Session) -> None:
    """Encrypt all credentials with the newest key.

    After that, you can remove older keys from the key file with `credential-key --drop-old`.
    """
    answer = session.client.call("POST", "/api/v1/credentials:reseal")
    left = f"; {answer['unread']} could not be decrypted and stay unchanged" if answer["unread"] else ""
    session.say(
        answer, f"{counted(answer['count'], 'credential is', 'credentials are')} encrypted with the newest key{left}"
    )
