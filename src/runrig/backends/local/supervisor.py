"""The supervisor of one attempt: runs its command to the end, whatever happens to the server, and records how it ended.

Started as ``python -I -S supervisor.py FOLDER`` in a new session. Imports nothing else of runrig but `log_order`, and little of
the standard library, because every task start pays for it. Files in FOLDER:

    launch    read: the fields of `encode_launch`
    secrets   read and removed: variables from credentials
    credentials/NAME/KEY
              removed at the end: files from credentials
    door      a socket, while the server waits for a session process
    claim     locked while the supervisor is alive; contains its pid
    stop      read: a stop request with the grace period in seconds; SIGTERM announces it
    started   written: pid and start ticks of the command, id of the boot
    order     written: sizes of stdout.log and stderr.log over time, so that readers can merge their lines
    ended     written once: exit code, and BY_ITSELF if it ended before any SIGTERM; then a message

The command runs as the same user, so it can replace these files by anything. Only regular files are read, and reading never
blocks. While a supervisor is alive, the server trusts only that.

An attempt runs at most once. A supervisor may run it if it holds the lock and finds an empty claim and no end; it first writes
its pid to the claim. So any number of supervisors can be started. As child subreaper it inherits the processes that its command
leaves behind (double forks, setsid), and it exits only when none of them is left.

SIGHUP asks it to start a session process (``visitor.py``), which runs another command and ends with the attempt.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import signal
import stat
import sys
import time
from collections.abc import Callable

if __package__:
    from runrig.backends.local.log_order import LOGS, NOTE_S, Order
else:  # Processes started like this do not have runrig on their path.
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from log_order import LOGS, NOTE_S, Order  # type: ignore[import-not-found, no-redef]

WAKE_PIPE = "../../../../bell"  # Its name on disk, which servers of other versions use too.
DOOR = "door"
SECRETS = "secrets"
NO_SECRETS = b"0\x000\x00"
CREDENTIALS = "credentials"
STOPPED = 128 + signal.SIGTERM
BY_ITSELF = "by-itself"
VISITOR = os.path.join(os.path.dirname(__file__), "visitor.py")
BACKEND_ERROR = 3001
START_ERROR = 3003
LARGEST = 16 * 1024 * 1024
"""Maximum bytes read from a file; a launch is smaller than its request."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_HANDLED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGIO)
_HINTS = {
    errno.ENOENT: "command not found on this machine (the local backend does not use images)",
    errno.EACCES: "not executable. Start the file with #!, or name its interpreter in the command",
    errno.ENOEXEC: "neither a program nor a script. Start the file with #!, or name its interpreter in the command",
}
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_libc = ctypes.CDLL(None, use_errno=True)


# ---------------------------------------------------------------- files


def encode_launch(grace_s: float, command: tuple[str, ...], environment: dict[str, str]) -> bytes:
    """Encodes the orders for a supervisor as fields that end in NUL, which arguments and variables cannot contain.

    Raises ValueError if one does.
    """
    fields = [str(grace_s), str(len(command)), *command, *(f"{name}={value}" for name, value in environment.items())]
    if any("\0" in field for field in fields):
        raise ValueError("the command or its environment contains a NUL character")
    return b"".join(os.fsencode(field) + b"\0" for field in fields)


def read_launch() -> tuple[float, list[bytes], dict[bytes, bytes]]:
    return decode_launch(read("launch"))


def decode_launch(data: bytes) -> tuple[float, list[bytes], dict[bytes, bytes]]:
    grace, count, *rest = data.split(b"\0")[:-1]
    words = int(count)
    variables = (field.partition(b"=") for field in rest[words:])
    return float(grace), rest[:words], {name: value for name, _, value in variables}


def take_secrets() -> bytes:
    """Removes the variables from credentials from disk, and returns them as fields of `encode_launch`."""
    try:
        data = read(SECRETS)
    except FileNotFoundError:
        return NO_SECRETS
    os.unlink(SECRETS)
    return data


def forget_secrets(folder: str) -> None:
    """Removes the attempt's credentials. Follows no link that the task created."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(folder, SECRETS))
    with contextlib.suppress(OSError):
        top = os.open(os.path.join(folder, CREDENTIALS), _FOLDER)
        try:
            for name in os.listdir(top):
                _empty(top, name)
        finally:
            os.close(top)


def _empty(top: int, name: str) -> None:
    with contextlib.suppress(OSError):
        inner = os.open(name, _FOLDER, dir_fd=top)
        try:
            for key in os.listdir(inner):
                with contextlib.suppress(OSError):
                    os.unlink(key, dir_fd=inner)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=top)


def read(path: str) -> bytes:
    """Never blocks. Raises OSError also for anything but a regular file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.ENXIO, "it is not a regular file", path)
        data = b""
        while len(data) < LARGEST and (part := os.read(descriptor, 1 << 16)):
            data += part
        return data
    finally:
        os.close(descriptor)


def write(path: str, data: bytes, *, durable: bool) -> None:
    """Writes *data* atomically; *durable*: also across a power failure."""
    temporary = path + ".new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    os.replace(temporary, path)
    if durable:
        folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def ring() -> None:
    """Wakes the server, if it is listening; a server that starts later reads the files."""
    with contextlib.suppress(OSError):
        pipe = os.open(WAKE_PIPE, os.O_WRONLY | os.O_NONBLOCK)
        os.write(pipe, b".")
        os.close(pipe)


def stat_of(pid: int) -> list[bytes]:
    """Returns the fields of /proc/PID/stat from the third on, with the start ticks at 19; empty if it ended."""
    try:
        text = read(f"/proc/{pid}/stat")
    except OSError:
        return []
    return text[text.rindex(b")") + 2 :].split()


# ---------------------------------------------------------------- the command


def start(command: list[bytes], environment: dict[bytes, bytes], prepare: Callable[[], None]) -> int:
    """Starts the command and returns its pid. *prepare*: called in the child first. Raises OSError if it cannot be started."""
    parent = os.getpid()
    reader, writer = os.pipe()  # Closed by exec, so end of file means that it runs.
    pid = os.fork()
    if pid == 0:
        try:
            become(parent, command, environment, prepare)
        except OSError as error:
            os.write(writer, b"%d" % (error.errno or errno.EINVAL))
        finally:
            os._exit(127)
    os.close(writer)
    failure = os.read(reader, 16)
    os.close(reader)
    if failure:
        os.waitpid(pid, 0)
        raise OSError(int(failure), os.strerror(int(failure)))
    return pid


def become(parent: int, command: list[bytes], environment: dict[bytes, bytes], prepare: Callable[[], None]) -> None:
    """In the child: executes the command in its own process group, which dies with the supervisor."""
    die_with(parent)
    prepare()
    os.chdir("work")
    # Python ignores it, and an ignored signal stays ignored across exec.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execvpe(command[0], command, environment)  # noqa: S606 - its purpose is to run a given command


def die_with(parent: int) -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # The parent died before the line above.
        os._exit(127)


def into_logs() -> None:
    os.setpgid(0, 0)
    for target, path in enumerate(LOGS, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600), target)


def descendants() -> dict[int, int]:
    """Returns the live processes below this one: pid → process group. None leaves the tree while its subreaper is alive."""
    children: dict[int, list[tuple[int, int]]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := stat_of(int(entry))) and fields[0] not in (b"Z", b"X"):
            children.setdefault(int(fields[1]), []).append((int(entry), int(fields[2])))
    below: dict[int, int] = {}
    queue = [os.getpid()]
    while queue:
        for pid, group in children.pop(queue.pop(), ()):
            below[pid] = group
            queue.append(pid)
    return below


def terminate(main: int) -> bool:
    """Sends SIGTERM once per process group: a second one can mean "abort". Returns True if *main* was still running.

    *main* has not been collected, so its pid is not reused.
    """
    groups = set(descendants().values()) - {os.getpgrp()}
    alive = os.waitid(os.P_PID, main, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGTERM)
    return alive


def kill() -> None:
    for pid in descendants():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def reap(main: int) -> tuple[bool, int | None]:
    """Collects ended processes. Returns (whether any are left, exit code of *main* if it has ended)."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False, code
        if pid == 0:
            return True, code
        if pid == main:
            code = os.waitstatus_to_exitcode(status)
            code = 128 - code if code < 0 else code


def asked_grace(default: float) -> float:
    try:
        return float(read("stop"))
    except (OSError, ValueError):
        return default


def supervise(
    main: int, grace_s: float, secrets: bytes, order: Order, deadline: float | None = None
) -> tuple[int, bool]:
    """Waits until all processes of the command have ended. Returns (its exit code, whether it ended before SIGTERM).

    Processes left when the command ends by itself are killed immediately; after a stop, all have the grace period.
    *secrets*: for sessions. *deadline*: when everything is killed; None: no limit.
    """
    code: int | None = None
    by_itself = deadline is None
    pause = 0.005
    while True:
        left, ended = reap(main)
        code = ended if code is None else code
        if not left:
            return (BACKEND_ERROR, False) if code is None else (code, by_itself)
        now = time.monotonic()
        if code is not None and deadline is None:
            deadline = now
        patience = order.look()
        timeout = patience if deadline is None else deadline - now
        if timeout <= 0:
            kill()
            timeout = pause = min(pause * 2, 0.2)
        received = signal.sigtimedwait(_HANDLED, min(timeout, patience))
        if received is not None and received.si_signo == signal.SIGIO:
            time.sleep(NOTE_S)
        if received is not None and received.si_signo in (signal.SIGTERM, signal.SIGINT):
            if deadline is None:
                by_itself = not terminate(main)
            latest = time.monotonic() + asked_grace(grace_s)
            deadline = latest if deadline is None else min(deadline, latest)
        elif received is not None and received.si_signo == signal.SIGHUP and deadline is None:
            with contextlib.suppress(OSError):  # Too many processes at present: the server's wait times out.
                let_in(secrets)


def run() -> tuple[int, bool, str]:
    """Runs the attempt. Returns (exit code, whether it ended by itself, message)."""
    if os.path.exists("stop"):  # From here on the claim contains the pid, so a stop request can find this process.
        return STOPPED, False, "stopped before it started"
    grace_s, command, environment = read_launch()
    secrets = take_secrets()
    environment = decode_launch(secrets)[2] | environment
    try:
        order = Order()
        pid = start(command, environment, into_logs)
    except OSError as error:
        why = _HINTS.get(error.errno or 0, error.strerror)
        return START_ERROR, True, f"cannot start {os.fsdecode(command[0])!r}: {why}"
    try:
        fields = stat_of(pid)
        ticks = fields[19] if fields else b"0"
        boot = read("/proc/sys/kernel/random/boot_id").strip()
        write("started", b"%d %s %s\n" % (pid, ticks, boot), durable=False)
        ring()
        ended = supervise(pid, grace_s, secrets, order)
        order.end()
        return *ended, ""
    except OSError as error:  # The disk is full or the folder was deleted: the command must not run unmonitored.
        supervise(pid, grace_s, secrets, order, time.monotonic())
        return BACKEND_ERROR, False, f"its supervisor failed: {error}"


def report(code: int, by_itself: bool, message: str) -> None:
    """Records the end. Waits while the disk is full, because the exit code is not stored anywhere else."""
    first = f"{code} {BY_ITSELF}" if by_itself else str(code)
    while True:
        try:
            return write("ended", f"{first}\n{message}".encode(errors="surrogateescape"), durable=True)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
        time.sleep(1)


def let_in(secrets: bytes) -> None:
    """Starts a session process, which dies with this one and reads *secrets* from stdin."""
    parent = os.getpid()
    if os.fork() == 0:
        try:
            die_with(parent)
            os.setsid()
            handed = os.memfd_create(SECRETS)  # kept in memory, on no disk
            with open(os.dup(handed), "wb") as file:
                file.write(secrets)
            os.lseek(handed, 0, os.SEEK_SET)
            os.dup2(handed, 0)
            os.execv(sys.executable, [sys.executable, "-I", "-S", "-B", VISITOR, sys.argv[1]])  # noqa: S606
        finally:
            os._exit(127)


def main(folder: str) -> None:
    os.closerange(3, 1 << 16)
    signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
    os.chdir(folder)
    claim = os.open("claim", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    if os.fstat(claim).st_size or os.path.exists("ended"):
        return
    os.write(claim, b"%d" % os.getpid())
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    end = run()
    forget_secrets(".")
    report(*end)
    os.close(claim)  # Before waking the server, which ignores the end while the claim is locked.
    ring()


if __name__ == "__main__":
    main(sys.argv[1])
    os._exit(0)  # The server waits for the end of this process.
