"""``python -m bench [NAME ...] [--runs N] [--json]`` runs the named sections, or all, one after the other.

If a section fails, the others still run, and the exit status is 1.  A missed goal is not a failure, because it depends on the
machine.
"""

import argparse
import json
import signal
import sys
import traceback
from collections.abc import Sequence
from time import perf_counter

from bench import report
from bench.section import Cell, Section
from bench.timing import processor_s


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="How fast runrig decides, and how that grows.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"what to run: {', '.join(report.NAMES)} (default: everything)"
    )
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="runs of each measurement (default: 5)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.names if name not in report.NAMES]
    if unknown or chosen.runs < 1:
        parser.error(
            f"no scenario {unknown[0]!r}: there are {', '.join(report.NAMES)}" if unknown else "--runs starts at 1"
        )
    jobs = list(report.jobs(chosen.names or report.NAMES, chosen.runs))
    told: list[Section] = []
    summary = Section(
        "summary", "all sections; seconds on the clock, and of processors, servers and databases included"
    )
    for at, job in enumerate(jobs, 1):
        print(f"[{at}/{len(jobs)}] {job.name} ...", file=sys.stderr, flush=True)
        row = _carried_out(job, told, as_text=not chosen.json)
        print(f"[{at}/{len(jobs)}] {job.name}: {row['s']:.0f} s {row['is']}", file=sys.stderr, flush=True)
        summary.table.append(row)
    if chosen.json:
        json.dump({section.name: section.rows() for section in [*told, summary]}, sys.stdout, indent=1)
        print()
    else:
        print(summary.text(), flush=True)
    return int(any(row["is"] == "FAILED" for row in summary.table))


def _carried_out(job: report.Job, told: list[Section], *, as_text: bool) -> dict[str, Cell]:
    """Runs *job* and returns its line of the summary; adds its sections to *told*, and prints each as soon as it is complete."""
    began, used, before = perf_counter(), processor_s(), len(told)
    failed = False
    try:
        for section in job.run():
            told.append(section)
            if as_text:
                print(section.text(), flush=True)
    except Exception:  # noqa: BLE001 - one section that fails does not stop the others
        traceback.print_exc()
        failed = True
    verdicts = [verdict for section in told[before:] for verdict in section.verdicts()]
    missed = verdicts.count(False)
    outcome = "FAILED" if failed else f"{missed} MISSED" if missed else ""
    row: dict[str, Cell] = {"section": job.name, "s": perf_counter() - began, "processor s": processor_s() - used}
    return row | {"goals": len(verdicts), "met": verdicts.count(True), "is": outcome}


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that folders and servers are removed with this process
    sys.exit(main())
