"""`runrig pool default`: the pool that your workflows go to without --pool."""

import click

from runrig.cli import completing
from runrig.cli.lazy import command
from runrig.cli.rendering.output import tell
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import Transport, path
from runrig.domain.quantities import GPU, amount_in_words


@command("runrig pool default", "runrig pool default vision", "runrig pool default --none")
@click.argument("name", required=False, metavar="[POOL]", shell_complete=completing.pools)
@click.option("--none", "removed", is_flag=True, help="Remove your default pool.")
@with_session
def default(session: Session, name: str | None, removed: bool) -> None:
    """Show or set your default pool.

    Commands use it if you omit --pool. The server stores it, and the osmo client uses the same one.
    """
    if name is not None and removed:
        raise click.UsageError("name a POOL or use --none, not both")
    client, route = session.client, path("me")
    changes = name is not None or removed
    me = client.call("PATCH", route, body={"default_pool": name}) if changes else client.get(route)
    if not session.show(me):
        tell(_sentence(client, me["default_pool"], me["pools"]))


def _sentence(client: Transport, default: str | None, pools: list[str]) -> str:
    if default is not None:
        gpus = client.get(path("pools", default))["gpus"]
        left = f"{max(0, gpus['available'] + gpus['shared_left']):,} left"
        return f"Your default pool is {default}: quota {amount_in_words(GPU, gpus['quota'])}, {left}."
    if pools:
        return f"You have no default pool. Set one with `runrig pool default POOL`: {', '.join(pools)}."
    return "You have no default pool, and no pool that you can submit to. Ask an administrator for a role."
