"""A server as far as the local backend is concerned: takes on one task after another, and is there to be killed.

``python -m …server FOLDER``: goes on where the last one was killed; what it wants is on the disk before it asks for it.
"""

import sys
from pathlib import Path

from runrig.backends.local import LocalBackend
from runrig.ports.backend import Desired, Launch

from .launches import launch

TASKS = 24


def task(folder: Path, number: int) -> Launch:
    """Every fourth would run for ever; the others end with their number.  Each says once that it ran."""
    last = "sleep 3600" if number % 4 == 3 else f"exit {number}"
    return launch("sh", "-c", f"echo {number} >> {folder}/ran; {last}", task=f"t{number}")


def desired(folder: Path, step: int) -> Desired:
    """After *step* steps: so many tasks shall have been started, and those without an end, but for the last few, stopped."""
    tasks = {number: task(folder, number) for number in range(min(step, TASKS))}
    stopped = {number for number in tasks if number % 4 == 3 and number < step - 5}
    return Desired(
        run={each.key: each for number, each in tasks.items() if number not in stopped},
        stop={each.key: each for number, each in tasks.items() if number in stopped},
    )


def main(folder: Path) -> None:
    progress = folder / "progress"
    step = int(progress.read_text()) if progress.exists() else 0
    backend = LocalBackend(folder / "data", 0)
    print("up", flush=True)
    while True:
        backend.sync(desired(folder, step))
        backend.observe()
        step += 1
        (folder / "progress.new").write_text(str(step))
        (folder / "progress.new").replace(progress)
        backend.wait(0.01)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
