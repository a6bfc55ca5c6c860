"""`runrig backup` and `runrig restore`: a server's state as one file."""

from pathlib import Path

import click

from runrig.cli import options
from runrig.cli.lazy import command
from runrig.cli.rendering import sanitize
from runrig.cli.rendering.output import say
from runrig.cli.transport.config_file import read_config
from runrig.client.server_address import ServerAddress
from runrig.domain.errors import InvalidInput
from runrig.domain.quantities import counted


@command("runrig backup --config /etc/runrig/serve.yaml -o runrig-monday.backup", "runrig backup -o laptop.backup")
@options.config()
@options.data
@click.option("-o", "--output", required=True, metavar="OUT", help="Output file. Must not exist.")
@click.option("--no-logs", is_flag=True, help="Exclude task output.")
@click.pass_obj
def backup(address: ServerAddress, config: str | None, data: str | None, output: str, no_logs: bool) -> None:
    """Back up a server to one file.

    You can run this while the server is up. Keep the file as safe as your secrets: it contains environment
    variables of workflows and hashes of tokens.
    """
    from runrig.wiring.backup import in_words, write_backup

    database, folder = place(address, config, data)
    contents = write_backup(database, folder, Path(output), log_files=not no_logs)
    say(f"{output}: {in_words(contents)}")


@command(
    "runrig restore runrig-monday.backup --check",
    "runrig restore runrig-monday.backup --config /etc/runrig/serve.yaml",
    "runrig restore laptop.backup --data ~/restored",
)
@click.argument("file", type=click.Path(path_type=Path))
@options.config()
@options.data
@click.option("--check", is_flag=True, help="Verify the backup and print a summary.")
@click.pass_obj
def restore(address: ServerAddress, file: Path, config: str | None, data: str | None, check: bool) -> None:
    """Restore a backup into an empty database.

    Backups of SQLite and PostgreSQL work with both. The restore is all or nothing, and no server may use the
    database.
    """
    from runrig.wiring.backup import check_backup, in_words, missing, restore_backup

    if check:
        contents = check_backup(file)
        say(f"{file} is whole: {in_words(contents)}")
    else:
        moved: list[Path] = []
        contents = restore_backup(file, *place(address, config, data), moved.extend)
        say(f"restored {in_words(contents)}")
        if moved:
            whose = counted(len(moved), "workflow that is", "workflows that are")
            say(f"moved the tasks of {whose} not in the backup to {moved[0].parent}")
    if (lost := missing(contents)) is not None:
        say(sanitize.line(lost))


def place(address: ServerAddress, config: str | None, data: str | None) -> tuple[str | Path, Path]:
    """Returns the database and the data folder."""
    if config is None:
        address = address.or_else(data=data)
        return address.database(), address.data_folder()
    if data is not None:
        raise InvalidInput.one("--config already sets the data folder. Omit --data.")
    spec = read_config(config)
    return spec.database, spec.data
