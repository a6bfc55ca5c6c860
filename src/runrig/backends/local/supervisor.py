"""The supervisor of one attempt: runs its command to the end, whatever happens to the server, and records how it ended.

Started as ``python -I -S supervisor.py FOLDER``, in a session of its own.  It imports nothing of ours and little of the standard
library, because every task start pays for it.  Files of FOLDER that it knows:

    launch    read: the fields of `encode_launch`
    secrets   read and removed: variables from credentials
    credentials/NAME/KEY
              removed at the end: files from credentials
    door      a socket, while the server waits at it for a visitor
    claim     locked by the supervisor that lives; holds the pid of the one that ran it, or runs it
    stop      read: somebody wants it to end, with this grace in seconds; SIGTERM tells us to look
    started   written: pid and start ticks of the command, id of the boot
    order     written: how long stdout.log and stderr.log were at which time, so that readers can merge their lines
    ended     written, once: exit code, and BY_ITSELF if nothing had sent it SIGTERM before it ended; then a message

The command runs as the same user, so it can put anything in the place of these files.  Whatever is no regular file is no file, and
nothing here waits for one; what the server believes while a supervisor lives is that it lives.

An attempt runs at most once: a supervisor that holds the lock and finds the claim empty and no end may run it, and first writes
its pid there.  So any number of supervisors may be started for one attempt.  As child subreaper it inherits what its command
leaves behind (double forks, setsid), and it ends only when none of that is left.

SIGHUP asks it to start a visitor (``visitor.py``), which runs one more command for the server beside the first one, and is gone with it.
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
else:  # nothing of ours is on the path of a process started like this
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from log_order import LOGS, NOTE_S, Order  # type: ignore[import-not-found, no-redef]

WAKE_PIPE = "../../../../bell"  # its name on disk, which servers of other versions look for too
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
"""Bytes that are read of a file; a launch is smaller than the request that it came in."""

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
    """The orders for a supervisor, as fields that end in NUL: no argument or variable can hold one.

    Raises ValueError if one does anyway.
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
    """The variables from credentials, which are on disk no longer, as fields of `encode_launch`."""
    try:
        data = read(SECRETS)
    except FileNotFoundError:
        return NO_SECRETS
    os.unlink(SECRETS)
    return data


def forget_secrets(folder: str) -> None:
    """Removes what an attempt was handed of credentials.  Follows no link that the task has put there."""
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
    """Raises OSError also for what is no regular file; waits for nobody."""
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
    """Writes *data*, whole or not at all; *durable*: also across a power cut."""
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
    """Wakes the server, if one listens; a server that starts later reads the files."""
    with contextlib.suppress(OSError):
        pipe = os.open(WAKE_PIPE, os.O_WRONLY | os.O_NONBLOCK)
        os.write(pipe, b".")
        os.close(pipe)


def stat_of(pid: int) -> list[bytes]:
    """Fields of /proc/PID/stat from the third on (state, parent, process group, …, start ticks at 19); empty if it is gone."""
    try:
        text = read(f"/proc/{pid}/stat")
    except OSError:
        return []
    return text[text.rindex(b")") + 2 :].split()


# ---------------------------------------------------------------- the command


def start(command: list[bytes], environment: dict[bytes, bytes], prepare: Callable[[], None]) -> int:
    """The pid of the command, running.  *prepare* is called in it before.  Raises OSError if it could not be started."""
    parent = os.getpid()
    reader, writer = os.pipe()  # closed by exec, so end of file means that it runs
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
    """In the child: becomes the command, in a process group of its own, and dies with the supervisor."""
    die_with(parent)
    prepare()
    os.chdir("work")
    for ignored in (
        signal.SIGPIPE,
        signal.SIGXFSZ,
    ):  # Python ignores it, and an ignored signal stays ignored across exec
        signal.signal(ignored, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execvpe(command[0], command, environment)  # noqa: S606 - running a given command is what this is for


def die_with(parent: int) -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent died before the line above
        os._exit(127)


def into_logs() -> None:
    os.setpgid(0, 0)
    for target, path in enumerate(LOGS, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600), target)


def descendants() -> dict[int, int]:
    """The living processes below this one: pid → process group.  None leaves the tree while its subreaper lives."""
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
    """Sends SIGTERM once to each process group: a program may take a second one for impatience.  True if *main* had not ended before.

    *main* was not collected, so its number is not another's.
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
    """Collects what has ended: (is anything left, exit code of *main* if it was among them)."""
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
    """Waits until nothing of the command is left: (its exit code, it ended before SIGTERM was sent to it).  *secrets*: for visitors.

    What the command leaves behind when it ends by itself is killed at once; if asked to stop, all of it has the grace to end.
    *deadline*: when all of it is killed; None: it may go on.
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
            with contextlib.suppress(OSError):  # too many processes at present: the server waits in vain
                let_in(secrets)


def run() -> tuple[int, bool, str]:
    """(exit code, it ended by itself, message) of the attempt, once it is over."""
    if os.path.exists("stop"):  # the claim is written: from here on whoever stops us can find us
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
    except OSError as error:  # the disk is full, the folder is gone: the command must not go on unseen
        supervise(pid, grace_s, secrets, order, time.monotonic())
        return BACKEND_ERROR, False, f"its supervisor failed: {error}"


def report(code: int, by_itself: bool, message: str) -> None:
    """Records the end; while the disk is full it waits, because nobody else knows the exit code."""
    first = f"{code} {BY_ITSELF}" if by_itself else str(code)
    while True:
        try:
            return write("ended", f"{first}\n{message}".encode(errors="surrogateescape"), durable=True)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
        time.sleep(1)


def let_in(secrets: bytes) -> None:
    """Starts a visitor, which dies with us, and finds *secrets* on its stdin."""
    parent = os.getpid()
    if os.fork() == 0:
        try:
            die_with(parent)
            os.setsid()
            handed = os.memfd_create(SECRETS)  # on no disk
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
    os.close(claim)  # before it rings: while the claim is locked nobody believes the end
    ring()


if __name__ == "__main__":
    main(sys.argv[1])
    os._exit(0)  # the server waits for the end of this process
