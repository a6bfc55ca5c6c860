"""``python -m bench [NAME ...] [--runs N] [--json]``; without names everything but what takes minutes."""

import argparse
import json
import signal
import sys
from collections.abc import Sequence

from bench import report


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="How fast runrig decides, and how that grows.")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"what to run: {', '.join(report.NAMES)} (default: all{' but ' + ', '.join(report.LONG) if report.LONG else ''})",
    )
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="runs of each measurement (default: 5)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.names if name not in report.NAMES]
    if unknown or chosen.runs < 1:
        parser.error(
            f"no scenario {unknown[0]!r}: there are {', '.join(report.NAMES)}" if unknown else "--runs starts at 1"
        )
    sections = report.run(chosen.names or report.DEFAULT, chosen.runs)
    if chosen.json:
        json.dump({section.name: section.rows() for section in sections}, sys.stdout, indent=1)
        print()
    else:
        for section in sections:
            print(section.text(), flush=True)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that folders and servers go with us
    sys.exit(main())
