"""``python -m tests.load [--clients N] [--seconds S] [--past N] [--think S] [--profile]``: measure now."""

import argparse
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.load import crowd, sampler
from tests.load.field import house, measure
from tests.patience import PATIENCE_S
from tests.worlds.command_line import RUN


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.load")
    parser.add_argument("--clients", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--past", type=int, default=100_000, help="finished workflows in the store")
    parser.add_argument("--think", type=float, default=5.0, help="seconds between the rounds of a client")
    parser.add_argument("--profile", action="store_true", help="tell where the time of the server went")
    asked = parser.parse_args()
    with TemporaryDirectory() as folder:
        with house(Path(folder), past=asked.past, run=sampler.RUN if asked.profile else RUN) as target:
            found = measure(
                target, partial(crowd.run, clients=asked.clients, seconds=asked.seconds, think_s=asked.think)
            )
            target.process.terminate()
            target.process.wait(PATIENCE_S)
        print("\n".join(found.lines()))
        if asked.profile:
            print((Path(folder) / "stderr").read_text())


if __name__ == "__main__":
    main()
