"""Prints the table of docs/placement.md: ``python -m tests.engine.placement.report [N]``, for the instances 0 … N-1."""

import sys
import time

from tests.engine.placement.comparison import Rates, judge, rates_of
from tests.engine.placement.instances import FAMILIES


def main(count: int) -> None:
    started = time.perf_counter()
    verdicts = [judge(seed) for seed in range(count)]
    took = time.perf_counter() - started
    print("| family | instances | have a place | levels | and domains | and nodes |\n|---|---|---|---|---|---|")
    for family in FAMILIES:
        print(_row(family, rates_of(each for each in verdicts if each.instance.family == family)))
    print(_row("all", rates_of(verdicts)))
    wrong = [sentence for each in verdicts for sentence in each.wrong]
    print(f"\n{len(wrong)} disagreements; {took:.0f} s", *wrong, sep="\n")


def _row(name: str, rates: Rates) -> str:
    shares = " | ".join(f"{100 * rates.rate(count):.1f} %" for count in (rates.near, rates.few, rates.same))
    return f"| {name} | {rates.of} | {rates.feasible} | {shares} |"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
