"""A server that dies just before the n-th thing that it asks of the operating system, and one that takes over; for each n in turn.

``python -m …crash_points FOLDER FIRST STEP``: n = FIRST, FIRST + STEP, … until the first server lives to its end.  Prints one line per
n: how the second server found the two tasks, and how often each ran.
"""

import os
import signal
import sys
from functools import partial
from pathlib import Path

from runrig.backends.local import LocalBackend
from runrig.domain.observed import Phase
from runrig.ports.backend import Desired
from tests.patience import until

from .launches import launch, processes_of, until_phase

STAGES = 3


def desired(folder: Path, stage: int) -> Desired:
    """Both tasks run; then the second is stopped; then both are finished business."""
    first = launch("sh", "-c", f"echo first >> {folder}/ran; exit 3", task="first")
    second = launch("sh", "-c", f"echo second >> {folder}/ran; sleep 3600", task="second")
    if stage == 0:
        return Desired(run={first.key: first, second.key: second})
    return Desired(run={first.key: first}, stop={second.key: second}) if stage == 1 else Desired()


def serve(folder: Path, stage: int, *, write_down: bool) -> str:
    """From *stage* to the end: exit codes of the tasks when the last stage begins."""
    backend = LocalBackend(folder / "data", 0)
    codes = ""
    for current in range(stage, STAGES):
        wanted = desired(folder, current)
        if write_down:
            (folder / "stage").write_text(str(current))
        backend.sync(wanted)
        if current == 0:
            until_phase(backend, Phase.ENDED, *(each for each in wanted.run.values() if each.key.task == "first"))
        if current == 1:
            facts = until_phase(backend, Phase.ENDED, *wanted.run.values(), *wanted.stop.values())
            codes = " ".join(str(facts[key].exit_code) for key in sorted(facts))
    backend.close()
    return codes


def die_at(point: int) -> None:
    """From here on counts what Python asks of the system: files, locks, signals, processes.  Looking into /proc does not count."""
    count = 0

    def ask(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event == "open" or event.startswith(("os.", "fcntl.", "shutil.")):
            count += not str(arguments[0] if arguments else "").startswith("/proc")
        if count >= point:
            signal.raise_signal(signal.SIGKILL)

    sys.addaudithook(ask)


def crash(folder: Path, point: int) -> bool:
    """Whether the server died before its end."""
    folder.mkdir()
    pid = os.fork()
    if pid == 0:
        (folder / "stage").write_text("0")
        die_at(point)
        serve(folder, 0, write_down=True)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == signal.SIGKILL


def all_gone(folder: Path) -> bool:
    return not processes_of(folder)


def main(root: Path, first: int, step: int) -> None:
    point = first
    while crash(folder := root / str(point), point):
        stage = int((folder / "stage").read_text() or 0)
        codes = serve(folder, stage, write_down=False)
        until(partial(all_gone, folder))
        ran = (folder / "ran").read_text().split() if (folder / "ran").exists() else []
        print(point, stage, codes or "seen before", "/", *sorted(ran), flush=True)
        point += step


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
