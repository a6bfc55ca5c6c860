"""`runrig completion`: prints the shell script that completes commands and names."""

import click
from click.shell_completion import get_completion_class

from runrig.cli.lazy import command


@command(
    "runrig completion bash > ~/.local/share/bash-completion/completions/runrig",
    "runrig completion zsh > ~/.zfunc/_runrig",
    "runrig completion fish > ~/.config/fish/completions/runrig.fish",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of SHELL.

    It completes commands, options, files, and the names of pools, workflows, tasks, nodes, cohorts and users.
    Names come from the server; one that does not respond within 0.08 s is skipped. For a remote server, set
    RUNRIG_COMPLETION_S to a longer time in seconds.
    """
    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(click.get_current_context().find_root().command, {}, "runrig", "_RUNRIG_COMPLETE").source())
