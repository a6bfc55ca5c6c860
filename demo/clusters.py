"""``python -m demo.clusters``: prints a cluster file of the requested size, and writes workflows that fill it (demo/generator.py)."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from demo.generator import NVL72_GPUS, NVL72_NODES, Filling, Shape, Spread, cluster, filling

SCENARIO = "scenario.yaml"

EXAMPLES = """\
examples:
  python -m demo.clusters -o cluster.yaml
  python -m demo.clusters --nvl72 --cordoned 2 -o cluster.yaml
  python -m demo.clusters --racks 3-6 --nodes 12-18 --seed 7 -o cluster.yaml
  python -m demo.clusters --fill 60 --workflows work -o cluster.yaml
  runrig simulate work/scenario.yaml
  runrig up --cluster cluster.yaml
"""


def _spread(text: str) -> Spread:
    least, dash, most = text.partition("-")
    if not (least.isdecimal() and (most.isdecimal() or not dash)):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor a range. Use for example 4 or 3-6")
    return (int(least), int(most)) if dash else int(least)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m demo.clusters",
        description="Prints a cluster file for the simulated backend. The same options give the same file.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--zones", type=int, metavar="N", help="default: 2")
    add("--spines", type=int, metavar="N", help="in each zone; default: 2")
    add("--racks", type=_spread, metavar="N|N-N", help="in each spine; default: 4. A range gives uneven spines")
    add("--nodes", type=_spread, metavar="N|N-N", help="in each rack; default: 16. A range gives uneven racks")
    add("--gpus", type=int, metavar="N", help="of each node; default: 8")
    add("--nvl72", action="store_true", help="racks are NVLink cliques; default: 18 nodes with 4 GPUs")
    add("--cpu", type=int, metavar="N", help="cores of each node; default: 96")
    add("--memory", type=str.strip, metavar="SIZE", help="of each node; default: 1Ti")
    add("--cordoned", type=int, metavar="N", help="nodes that accept no pods, chosen at random; default: 0")
    add("--pools", type=int, metavar="N", help="pools, which share all GPUs evenly; default: 3")
    add("--host-key", action="store_true", help="add the node itself as the finest topology key of the pools")
    add("--seed", type=int, metavar="N", help="seed of the random choices; default: 1")
    add("--fill", type=int, metavar="PERCENT", help="also write LOW workflows that use PERCENT of the GPUs")
    add("--workflows", type=Path, metavar="DIR", help="folder for them: new or empty")
    add("-o", "--output", type=Path, metavar="FILE", help="default: standard output")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    chosen = parser.parse_args(arguments)
    sizes = {field.name: getattr(chosen, field.name) for field in fields(Shape) if hasattr(chosen, field.name)}
    if "nvl72" in sizes:
        sizes = {"nodes": NVL72_NODES, "gpus": NVL72_GPUS} | sizes
    fill, folder = getattr(chosen, "fill", None), getattr(chosen, "workflows", None)
    if (fill is None) != (folder is None):
        parser.error("--fill and --workflows require each other")
    try:
        shape = Shape(**sizes)
        text = cluster(shape)
        work = None if fill is None else filling(shape, fill)
        if hasattr(chosen, "output"):
            chosen.output.write_text(text, encoding="utf-8")
        if folder is not None and work is not None:
            _write(folder, work)
    except ValueError as error:
        parser.error(str(error))
    except OSError as error:
        parser.error(f"{error.filename} cannot be written ({error.strerror})")
    if not hasattr(chosen, "output"):
        sys.stdout.write(text)
    if folder is not None and work is not None:
        # Stdout is for the cluster file.
        print(_told(folder, shape, work), file=sys.stderr)
    return 0


def _write(folder: Path, work: Filling) -> None:
    """Raises ValueError if there is anything in *folder*: the printed loop would also submit files of an earlier run."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty. Use a new folder")
    for name, text in (work.files | {SCENARIO: work.scenario}).items():
        (folder / name).write_text(text, encoding="utf-8")


def _told(folder: Path, shape: Shape, work: Filling) -> str:
    """What was written, and the commands to run next."""
    held = f"{work.gangs:,} LOW gangs that use {work.gpus:,} GPUs, in {len(work.files):,} workflow files"
    here = shlex.quote(str(folder))
    loop = f'for pool in {" ".join(shape.pool_names)}; do for file in {here}/"$pool"-*.yaml; do'
    return "\n".join(
        (
            f"{folder}: {held}. To simulate them, or to submit them to a server:",
            f"runrig simulate {shlex.quote(str(folder / SCENARIO))}",
            f'{loop} runrig workflow submit "$file" --pool "$pool"; done; done',
        )
    )


if __name__ == "__main__":
    sys.exit(main())
