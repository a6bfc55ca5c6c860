"""What the tests cost, in processor seconds: of each test with the processes that it waited for, and of the whole run.

    pytest -n 2 -m "not slow" --budget fast

With ``--budget`` the twenty most expensive tests are listed at the end, and the total is compared with the budget of the tier
(BUDGETS).  The total is divided by a calibration loop that each worker runs at its start and end, so that a slow or busy machine
does not count.  In CI, a run above MOST times its budget fails.  ``--costs FILE`` writes what each test cost, tab-separated.
"""

import os
import resource
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from bench import calibration
from tests.worlds import warm

BUDGETS = {"fast": 750, "slow": 950}
"""Calibrated processor seconds of each tier, collecting and all processes included."""
MOST = 1.3
_LISTED = 20


def used_s() -> float:
    """Processor seconds of this process, of all those that it waited for, and of the servers that have ended."""
    times = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in times) + warm.used_s()


def slowness() -> float:
    """How many times longer than nominal the calibration loop takes here and now."""
    return calibration.once(time.process_time) / calibration.NOMINAL_S


@dataclass(eq=False)  # pytest keeps plugins in sets
class Costs:
    """*tests*: seconds by test and phase.  *loops*: see `slowness`.  *total_s*: of the workers that have ended."""

    tests: dict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    loops: list[float] = field(default_factory=list)
    total_s: float = 0.0
    _before: float = 0.0

    def pytest_collection_finish(self) -> None:
        self.loops.append(slowness())
        self._before = used_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Any:
        report = yield
        now = used_s()
        report.cost_s, self._before = now - self._before, now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.tests[report.nodeid][report.when or ""] = getattr(report, "cost_s", 0.0)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.loops.append(slowness())
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["costs"] = {"loops": self.loops, "total_s": used_s()}
        elif self._is_too_dear(session.config) and os.environ.get("CI"):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        told = getattr(node, "workeroutput", {}).get("costs")
        if told is not None:
            self.loops += told["loops"]
            self.total_s += told["total_s"]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        for line in self._lines(config):
            terminalreporter.write_line(line)
        if config.option.costs:
            rows = [
                f"{test}\t{when}\t{cost:.4f}\n" for test, phases in self.tests.items() for when, cost in phases.items()
            ]
            Path(config.option.costs).write_text("".join(rows))

    def _lines(self, config: pytest.Config) -> list[str]:
        if not config.option.budget:
            return []
        dearest = sorted(self.tests.items(), key=lambda each: -sum(each[1].values()))[:_LISTED]
        lines = [f"The {_LISTED} most expensive tests, in processor seconds, with their processes:"]
        lines += [f"{sum(phases.values()):7.2f}  {test}" for test, phases in dearest]
        lines.append(
            f"{self._calibrated_s():.0f} calibrated processor seconds ({self._slowness():.2f} times as slow as nominal)"
        )
        budget = config.option.budget
        if budget:
            share = self._calibrated_s() / BUDGETS[budget]
            lines.append(f"{share:.2f} of the budget of the {budget} tier, {BUDGETS[budget]} s; CI fails above {MOST}")
        return lines

    def _slowness(self) -> float:
        return median(self.loops)

    def _calibrated_s(self) -> float:
        return (self.total_s or used_s()) / self._slowness()

    def _is_too_dear(self, config: pytest.Config) -> bool:
        return bool(config.option.budget) and self._calibrated_s() > MOST * BUDGETS[config.option.budget]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("costs")
    group.addoption("--budget", choices=sorted(BUDGETS), help="compare what the run cost with the budget of this tier")
    group.addoption("--costs", metavar="FILE", help="write what each test cost")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Costs(), "costs of tests")
