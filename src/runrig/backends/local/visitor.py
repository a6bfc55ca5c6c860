"""A session in a running attempt: another command next to the first one, requested through the server.

Started by the supervisor as ``python -I -S visitor.py FOLDER``, so it ends with the attempt. The server waits at the
socket ``door`` in FOLDER, and sends the command and its files, a terminal or three pipes. The session ends when the
command ends, the server disconnects or dies, or at SIGTERM; then everything that the command started is killed.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import select
import signal
import socket
import sys
import termios
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runrig.backends.local import supervisor
else:  # Processes started like this do not have runrig on their path.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import supervisor

NOT_FOUND, NOT_STARTED = 127, 126
"""Exit codes of a shell for a command that does not exist, and for one that cannot be started."""
_PR_SET_CHILD_SUBREAPER = 36
_PAUSE_S = 0.002


def main(folder: str) -> None:
    os.closerange(3, 1 << 16)
    with open(0, "rb", closefd=False) as stdin:
        # Supervisors of older versions send none.
        secrets = supervisor.decode_launch(stdin.read() or supervisor.NO_SECRETS)[2]
    os.chdir(folder)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    told = wake_on(signal.SIGCHLD, signal.SIGTERM)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        door.connect(supervisor.DOOR)
        request, files, _, _ = socket.recv_fds(door, supervisor.LARGEST, 3)
        if not request:
            return
        for descriptor in files:  # The command gets copies of these, and nothing else.
            os.set_inheritable(descriptor, False)
        code, message = run(request, files, secrets, door.fileno(), told)
        with contextlib.suppress(OSError):
            door.send(b"%d\n%s" % (code, message))


def wake_on(*signals: int) -> int:
    """Returns a descriptor from which each received signal of *signals* can be read as a byte."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for number in signals:
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return reader


def run(request: bytes, files: list[int], secrets: dict[bytes, bytes], door: int, told: int) -> tuple[int, bytes]:
    """Returns (exit code, why it could not start). *request*: words and variables as in a launch, which override the
    task's.

    *secrets*: variables of the task from credentials.
    """

    def onto_files() -> None:
        os.setsid()
        for target in (0, 1, 2):
            os.dup2(files[min(target, len(files) - 1)], target)
        if len(files) == 1:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    _, command, variables = supervisor.decode_launch(request)
    try:
        pid = supervisor.start(command, secrets | supervisor.read_launch()[2] | variables, onto_files)
    except OSError as error:
        code = NOT_FOUND if error.errno == errno.ENOENT else NOT_STARTED
        return code, b"cannot start %s: %s" % (command[0], os.strerror(error.errno or 0).encode())
    finally:
        for descriptor in files:
            os.close(descriptor)
    return watch(pid, door, told), b""


def watch(pid: int, door: int, told: int) -> int:
    """Returns the exit code of command *pid*, once all of its processes have ended."""
    poll = select.poll()
    poll.register(door, select.POLLIN)
    poll.register(told, select.POLLIN)
    code: int | None = None
    left = True
    while left and code is None:
        ready = [descriptor for descriptor, _ in poll.poll()]
        signals = os.read(told, 1 << 10) if told in ready else b""
        left, code = supervisor.reap(pid)
        if door in ready or signal.SIGTERM in signals:
            break
    while left:
        supervisor.kill()
        time.sleep(_PAUSE_S)
        left, ended = supervisor.reap(pid)
        code = ended if code is None else code
    return supervisor.BACKEND_ERROR if code is None else code


if __name__ == "__main__":
    main(sys.argv[1])
