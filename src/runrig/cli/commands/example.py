"""`runrig example`: the files of `examples/`, which are part of the package. Each names the command that runs it."""

import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import click

import runrig
from runrig.cli import options
from runrig.cli.lazy import command, group
from runrig.cli.rendering import sanitize
from runrig.cli.rendering.output import say, warn
from runrig.cli.rendering.tables import Column, Table, show
from runrig.domain.errors import NotFound
from runrig.domain.meant import suggested

PACKAGE = Path(runrig.__file__).parent
FOLDERS = [PACKAGE / "examples", PACKAGE.parent.parent / "examples"]
"""In a wheel, and in a clone of the repository."""
_KINDS = ("workflows", "simulate", "topology", "kueue", "clusters")
_PROGRAM, _WRITTEN_AS = "runrig ", "examples/"
_LISTED = (Column("Name"), Column("Description", importance=1, prose=True), Column("Command", importance=0))


@dataclass(frozen=True)
class Example:
    """A YAML file. Its first comment describes it, and the last line of that is the command that runs it."""

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def _comment(self) -> list[str]:
        lines = self.text.splitlines()
        end = next((at for at, line in enumerate(lines) if not line.startswith("#")), len(lines))
        return [line.lstrip("#").strip() for line in lines[:end]]

    @property
    def description(self) -> str:
        """Its first sentence."""
        words = " ".join(line for line in self._comment if line and not line.startswith((_PROGRAM, "python ")))
        first, _, _ = words.replace(".  ", ". ").partition(". ")
        return first.rstrip(".")

    @property
    def command(self) -> list[str] | None:
        """Arguments of runrig; None: other examples use this file."""
        line = next((line for line in self._comment if line.startswith(_PROGRAM)), None)
        return shlex.split(line)[1:] if line else None


def known() -> dict[str, Example]:
    """Returns the examples that come with this program by name, such as ``workflows/01-hello``."""
    folder = next((each for each in FOLDERS if each.is_dir()), FOLDERS[0])
    found = [path for kind in _KINDS for path in sorted((folder / kind).glob("*.yaml"))]
    names = {str(path.relative_to(folder).with_suffix("")): path for path in found}
    return {name: Example(name, path) for name, path in names.items()}


def named(name: str) -> Example:
    """Returns the example with this name; its folder, number and extension can be left out. Raises NotFound."""
    every = known()
    wanted = name.removesuffix(".yaml").removeprefix(_WRITTEN_AS)
    alike = [each for each in every if wanted in (each, each.partition("/")[2], _short(each))]
    if len(alike) == 1:
        return every[alike[0]]
    if alike:
        raise NotFound(f"{len(alike)} examples are named {wanted}: {', '.join(alike[:-1])} and {alike[-1]}")
    shorts = [*every, *map(_short, every)]
    raise NotFound(f"unknown example {wanted!r}{suggested(wanted, shorts, '. List them with `runrig example list`')}")


def _short(name: str) -> str:
    """``workflows/01-hello`` → ``hello``."""
    return name.partition("/")[2].lstrip("0123456789").removeprefix("-")


def _names(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    return [name for name in known() if name.startswith(begun)]


@group("runrig example list", "runrig example show hello > hello.yaml", "runrig example run hello")
def example() -> None:
    """Show and run the examples that come with runrig."""


@command("runrig example list", "runrig example list -t json", name="list", of=example)
@options.as_json()
def list_(as_json: bool) -> None:
    """List the examples, with the command that runs each of them."""
    rows = [(each.name, each.description, " ".join(each.command or [])) for each in known().values()]
    if as_json:
        keys = ("name", "description", "command")
        say(sanitize.as_json({"examples": [dict(zip(keys, row, strict=True)) for row in rows]}))
        return
    show(Table(_LISTED, [(name, words, _kind(command)) for name, words, command in rows]))


def _kind(command: str) -> str:
    """The words of *command* before its first option or file: ``workflow submit``; ``-`` if there is no command."""
    words = command.split()
    end = next((at for at, word in enumerate(words) if word.startswith(("-", _WRITTEN_AS))), len(words))
    return " ".join(words[:end]) or "-"


@command("runrig example show hello", "runrig example show clusters/two-pools > cluster.yaml", name="show", of=example)
@click.argument("name", shell_complete=_names)
def show_(name: str) -> None:
    """Print the file of an example.

    NAME: as listed; its folder and number can be left out.
    """
    click.echo(named(name).text, nl=False)


@command(
    "runrig example run hello",
    "runrig example run borrow-and-reclaim",
    "runrig example run lead --pool pool1",
    name="run",
    of=example,
    context_settings={"ignore_unknown_options": True},
)
@click.argument("name", shell_complete=_names)
@click.argument("more", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF ITS COMMAND]...")
@click.pass_context
def run_(context: click.Context, name: str, more: tuple[str, ...]) -> int:
    """Run the command that an example names, with more options if you like.

    Workflows are submitted to the server. Simulations and renderings need none.
    """
    found = named(name)
    if found.command is None:
        raise NotFound(
            f"{found.name} is used by other examples and has no command. Print it: runrig example show {found.name}"
        )
    folder = f"{found.path.parent.parent}/"
    args = [word.replace(_WRITTEN_AS, folder, 1) for word in found.command] + list(more)
    warn(f"$ runrig {shlex.join(args)}")
    root = context.find_root()
    same = [part for each in ("server", "data") if root.params.get(each) for part in (f"--{each}", root.params[each])]
    result = root.command.main(args=[*same, *args], prog_name="runrig", standalone_mode=False)
    return result if isinstance(result, int) else 0
