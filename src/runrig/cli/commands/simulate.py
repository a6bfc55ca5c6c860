"""`runrig simulate`: runs scenarios on this machine, without a server."""

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runrig.cli import completing, options
from runrig.cli.lazy import command
from runrig.cli.rendering import sanitize
from runrig.cli.rendering.output import warn
from runrig.cli.transport.files import read_bytes, read_text, shown
from runrig.client.localpath import KEY, inlined
from runrig.domain.errors import InvalidInput, RunrigError
from runrig.domain.quantities import counted

if TYPE_CHECKING:
    from runrig.service.simulate.simulate import Options, Run
    from runrig.wire.simulate import Outcome

LARGEST_FILE = 256 * 1024 * 1024
_TEXTS = (".yaml", ".yml", ".json")
_FAIR, _FAILED = "--fair-sharing", 2
_SILENT_S, _BETWEEN_S = 2.0, 0.2


class _OptionalValue(click.Command):
    """``--fair-sharing`` takes a value only after ``=``, so that a FILE can follow it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        return super().parse_args(ctx, [f"{_FAIR}=" if arg == _FAIR else arg for arg in args[:end]] + args[end:])


@command(
    "runrig simulate cohort.yaml",
    "runrig simulate --cycles 0 manifests/*.yaml",
    "runrig simulate --fair-sharing=LessThanInitialShare --feature-gates PartialAdmission=false cohort.yaml",
    "kubectl get clusterqueues,cohorts,localqueues,resourceflavors,workloads -A -o json | runrig simulate - -t json",
    "runrig simulate -f manifests -f new-job.yaml",
    cls=_OptionalValue,
)
@click.argument("files", nargs=-1, metavar="FILE...", shell_complete=completing.files)
@click.option(
    "-f",
    "--together",
    multiple=True,
    metavar="PATH",
    shell_complete=completing.files,
    help=("Kubernetes manifests: a file, or a folder with all its files. All -f together form one cluster."),
)
@click.option(
    "--cycles",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of cycles; 0: until they repeat.",
)
@click.option(
    _FAIR,
    metavar="[=STRATEGY,...]",
    help=("Use Kueue's fair sharing instead of classical preemption. Default: both of its strategies."),
)
@click.option(
    "--feature-gates", metavar="NAME=true,...", multiple=True, help="Kueue feature gates, by their Kueue names."
)
@click.option(
    "--as-peer",
    is_flag=True,
    help=(
        "Treat preemptors, and nodes of several flavors, exactly as Kueue does, even where that "
        "never settles; preempted work keeps its quota."
    ),
)
@options.as_json(help="json: one line per FILE on stdout.")
def simulate(
    files: tuple[str, ...],
    together: tuple[str, ...],
    cycles: int,
    fair_sharing: str | None,
    feature_gates: tuple[str, ...],
    as_peer: bool,
    as_json: bool,
) -> None:
    """Simulate what would be admitted, preempted or kept waiting.

    Each FILE (- reads stdin) is a separate scenario: Kueue manifests, or a cluster file with workflows that
    arrive. Needs no server and changes nothing.
    """
    from runrig.cli.rendering.simulate_text import tell
    from runrig.wire.simulate import as_line, error_line

    if not files and not together:
        raise click.UsageError("Name a FILE, or a file or folder with -f.")
    chosen = _options(cycles, fair_sharing, feature_gates, as_peer=as_peer)
    failed = told = False
    scenarios: list[tuple[str, Callable[[str, Options], Outcome]]] = [
        (_named(file), partial(_run, file)) for file in files
    ]
    if together:
        scenarios.append((", ".join(map(_named, together)), partial(_run_together, together)))
    for scenario, run in scenarios:
        try:
            outcome = run(scenario, chosen)
        except RunrigError as error:
            failed = True
            problems = _problems(scenario, error)
            if as_json:
                click.echo(error_line(scenario, "; ".join(problems)))
            else:
                warn("\n".join(problems))
            continue
        if as_json:
            click.echo(as_line(outcome))
            continue
        if told:
            click.echo()
        tell(outcome)
        told = True
    if failed:
        raise click.exceptions.Exit(_FAILED)


def _named(path: str) -> str:
    """Returns the last part of *path*, or all of it if that is empty, as of ``/``."""
    return (path != "-" and Path(path).name) or shown(path)


def _options(cycles: int, strategies: str | None, gates: tuple[str, ...], *, as_peer: bool) -> "Options":
    from runrig.domain.kueue import Settings
    from runrig.service.simulate.simulate import Options, parse_gates, parse_strategies

    chosen = None if strategies is None else parse_strategies(strategies)
    return Options(cycles, Settings(chosen, parse_gates(",".join(gates)), as_peer))


def _run(file: str, scenario: str, options: "Options") -> "Outcome":
    from runrig.service.simulate.simulate import start

    folder = Path() if file == "-" else Path(file).parent
    run = start(_bytes(file), scenario, options, lambda name: _workflow(folder, name))
    return _outcome(run, scenario)


def _run_together(paths: tuple[str, ...], scenario: str, options: "Options") -> "Outcome":
    from runrig.service.simulate.simulate import start_together

    files = [file for path in paths for file in _files(path)]
    if not files:
        raise InvalidInput.one(f"no file in {', '.join(paths)} ends in {', '.join(_TEXTS)}")
    return _outcome(
        start_together(((shown(file), _bytes(file)) for file in dict.fromkeys(files)), scenario, options), scenario
    )


def _outcome(run: "Run", scenario: str) -> "Outcome":
    """Runs it, and shows the number of cycles so far on stderr after a while."""
    started = told = time.monotonic()
    try:
        for cycles in run.steps():
            now = time.monotonic()
            if now - started > _SILENT_S and now - told > _BETWEEN_S and sys.stderr.isatty():
                told = now
                click.echo(f"\r\x1b[K{sanitize.line(scenario)}: {counted(cycles, 'cycle')}", err=True, nl=False)
    finally:
        if told != started:
            click.echo("\r\x1b[K", err=True, nl=False)
    return run.outcome()


def _problems(scenario: str, error: RunrigError) -> list[str]:
    if isinstance(error, InvalidInput):
        return [problem.located(scenario) for problem in error.problems]
    return [f"{scenario}: {error.message}"]


# ---------------------------------------------------------------- files


def _files(path: str) -> list[str]:
    """Returns *path*, or all manifests in the folder *path* and its subfolders, sorted by name."""
    if not Path(path).is_dir():
        return [path]
    return [str(file) for file in sorted(Path(path).rglob("*")) if file.suffix in _TEXTS and file.is_file()]


def _bytes(name: str) -> bytes:
    """Raises InvalidInput if *name* cannot be read or is too large for a scenario."""
    try:
        raw = read_bytes(name, LARGEST_FILE)
    except FileNotFoundError:
        raise InvalidInput.one("no such file") from None
    except IsADirectoryError:
        raise InvalidInput.one("this is a folder. Use -f to read it as one cluster, or name a file in it.") from None
    except (OSError, ValueError) as error:
        raise InvalidInput.one(f"it cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(raw) > LARGEST_FILE:
        raise InvalidInput.one(f"larger than {LARGEST_FILE // 1024 // 1024} MiB. Check that it is the right file.")
    return raw


def _workflow(folder: Path, name: str) -> str:
    """Returns the workflow file *name* of a scenario in *folder*, with its local files included."""
    file = folder / name
    text = read_text(str(file))
    if KEY not in text:
        return text
    from runrig.spec.template import render

    return inlined(render(text), file.parent)
