"""What the supervisor notes about the output of an attempt, whatever is done to the clock of the machine."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from runrig.backends.local import log_order
from runrig.backends.local.log_order import LOOK_S, Order


def test_output_is_noted_without_delay_after_the_system_clock_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment, at = 100.0, 1_800_000_000.0
    clock = SimpleNamespace(monotonic=lambda: moment, time=lambda: at)
    monkeypatch.setattr(log_order, "time", clock)
    monkeypatch.setattr(log_order, "_libc", SimpleNamespace(inotify_init1=lambda _: -1))  # It would send signals.
    monkeypatch.chdir(tmp_path)
    order = Order()
    for size, back_s in ((1, 0), (2, 3600), (3, 0)):
        Path("stdout.log").write_text("x" * size)
        order.look()
        moment, at = moment + 2 * LOOK_S, at - back_s
        order.look()
    assert Path("order").read_text() == "1800000000000000 1 0\n1800000000000000 2 0\n1799996400000000 3 0\n"
