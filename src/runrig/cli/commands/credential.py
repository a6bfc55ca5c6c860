"""`runrig credential`: secrets for tasks, such as keys of other services."""

import click

from runrig.cli import options
from runrig.cli.confirm import confirmed
from runrig.cli.lazy import command, group
from runrig.cli.rendering import sanitize, times
from runrig.cli.rendering.output import say
from runrig.cli.rendering.tables import Column, Table, show_any
from runrig.cli.transport.files import read_text, shown
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path
from runrig.domain.credentials import CredentialKind
from runrig.domain.errors import InvalidInput

_COLUMNS = (Column("Name"), Column("Type", 1), Column("Keys", prose=True), Column("For", 2), Column("Changed", 0))


@group("runrig credential list", "runrig credential set wandb api_key=key.txt")
def credential() -> None:
    """Manage secrets for your tasks.

    Tasks can use the values; no command shows them.
    """


@command("runrig credential list", "runrig credential list -t json", name="list", of=credential)
@with_session
def list_credentials(session: Session) -> None:
    """List your credentials with types and keys, without values."""
    found = list(session.client.items(path("credentials")))
    if session.show({"credentials": found}):
        return
    rows = [
        (each["name"], each["type"], ", ".join(each["keys"]), each["profile"] or "-", times.local(each["changed_at"]))
        for each in found
    ]
    show_any(Table(_COLUMNS, rows), "no credentials")
    if lost := [each["name"] for each in found if each["lost"]]:
        say(sanitize.line(f"values missing after a restore; set them again: {', '.join(lost)}"))


@command(
    "runrig credential set wandb api_key=key.txt",
    "pass show wandb | runrig credential set wandb api_key=-",
    "runrig credential set bucket --type DATA -f bucket.yaml",
    "runrig credential set ngc --type REGISTRY -f ngc.yaml",
    name="set",
    of=credential,
)
@click.argument("name")
@click.argument("values", metavar="[KEY=FILE ...]", nargs=-1)
@click.option(
    "--type", "kind", type=click.Choice([*CredentialKind], case_sensitive=False), default="GENERIC", show_default=True
)
@options.file(help="YAML file with lines KEY: VALUE; - reads stdin.")
@with_session
def set_credential(session: Session, name: str, values: tuple[str, ...], kind: str, file: str | None) -> None:
    """Create or replace a credential.

    Each KEY gets the content of FILE, without the final line break; - reads stdin. Values are never arguments,
    because other users of the machine can see those.

    A REGISTRY credential pulls the images of your workflows on Kubernetes. The local and the simulated backend
    pull no images.
    """
    from runrig.spec.credentials import read_values

    sent = {} if file is None else read_values(read_text(file), f"file {shown(file)}")
    for each in values:
        key, equals, source = each.partition("=")
        if not (key and equals and source):
            raise InvalidInput.one(
                f"{sanitize.line(key)!r} is not KEY=FILE. Use for example api_key=key.txt, or KEY=- for stdin."
            )
        if key in sent:
            raise InvalidInput.one(f"the key {sanitize.line(key)!r} has two values. Keep one of them.")
        sent[key] = read_text(source).rstrip("\r\n")
    if not sent:
        raise InvalidInput.one("no value given. Use KEY=FILE or -f FILE.")
    body = {"type": kind.upper(), "values": sent}
    answer = session.client.call("PUT", path("credentials", name), body=body)
    session.say(answer, sanitize.line(f"credential {answer['name']} is set: {', '.join(answer['keys'])}"))


@command("runrig credential delete wandb", "runrig credential delete wandb --yes", of=credential)
@click.argument("name")
@options.yes
@with_session
def delete(session: Session, name: str, yes: bool) -> None:
    """Delete a credential.

    Running tasks keep its values; tasks that start later fail without it.
    """
    confirmed(f"Delete credential {sanitize.line(name)}?", yes=yes)
    session.client.call("DELETE", path("credentials", name))
    session.say({"name": name}, sanitize.line(f"credential {name} is deleted"))
