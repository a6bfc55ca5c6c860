"""The local backend: attempts as process groups on this machine, each under a supervisor that outlives the server.

All important state is in files, so the server can be killed between any two steps. Requires Linux.
"""

import asyncio
import contextlib
import logging
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from runrig.backends.local import datagrams, machine, owners, supervisor, task_ports, visits
from runrig.backends.local.attempt import NO_FILE, STARTING, Attempt, Live, is_folder_name, output_of, supervised
from runrig.backends.local.code import CodeFolders, NotCopied
from runrig.backends.local.gpus import GpuWatch, nvml_gpus, why_no_gpus
from runrig.backends.local.live import LiveFolder
from runrig.backends.local.prepare import prepare
from runrig.backends.local.processes import NO_DESCRIPTOR, kill_all, reaped, start_supervisor, supervisors
from runrig.backends.local.strays import Strays
from runrig.backends.local.wake_pipe import WakePipe
from runrig.domain.cluster import FLAT, LOCAL
from runrig.domain.errors import Conflict, NotFound, ServerFault
from runrig.domain.gpu_use import GpuMinute, GpuUse
from runrig.domain.observed import Observation, Phase, TaskFact
from runrig.domain.workflows import ExitCode, TaskKey
from runrig.ports.backend import Backend, Desired, Launch, Opens, Output, Passage, Program, Pulls, no_credentials
from runrig.ports.code import CodeOf
from runrig.ports.disk import identity

_POLL_S = 0.5
"""Maximum seconds until the end of a task is noticed if its supervisor could not wake the server."""

_LEAVES_S = 0.02
"""Seconds to wait for a supervisor to exit after it released its claim."""
_TRIES = 3
_LOST = "its supervisor was killed, and its processes with it; the exit code is unknown"
_REBOOTED = "the machine restarted while it was running"

_log = logging.getLogger(__name__)


class LocalBackend(Backend):
    """*folder*: for its exclusive use. *gpus*: see `machine.inspect`. Raises ServerFault if it cannot work here."""

    name = LOCAL
    fixed_nodes = True
    topology = LOCAL not in FLAT
    queues = False
    outputs = True
    datagrams = True
    largest_code: int | None = None

    def __init__(self, folder: Path, gpus: int | None, *, find_gpus: Callable[[], tuple[str, ...]] = nvml_gpus) -> None:
        if not sys.platform.startswith("linux"):
            raise ServerFault(f"the local backend requires Linux (this is {sys.platform}). Use --backend simulated")
        self._folder = folder.resolve()
        self._tasks = self._folder / "tasks"
        try:
            self._tasks.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._markers = LiveFolder(self._folder / "live")
            self._wake_pipe = WakePipe(self._folder / "bell")
            self._code = CodeFolders(self._folder / "code", self._wake_pipe.ring)
        except OSError as error:
            why = f"{folder} cannot be used for tasks ({error.strerror})"
            raise ServerFault(f"{why}. Choose another folder with --data") from error
        self._machine = machine.inspect(self._folder, gpus, find_gpus)
        self._gpus = GpuWatch(self._machine.visible) if self._machine.real else None
        self._nodes_told = False
        self._opens: Opens = no_credentials
        self._lock = threading.RLock()
        self._identity = identity(self._tasks)
        self._desired = Desired()
        self._behind = False  # Part of the desired state could not be applied yet.
        self._owners: dict[str, str] = {}  # Workflows that own their folder → their uuids.
        self._live: dict[TaskKey, Live] = {}
        self._doors: dict[TaskKey, asyncio.Lock] = {}  # One session at a time is opened.
        self._children: dict[int, Path] = {}  # Supervisors not known to have ended → folders of their attempts.
        self._load()

    # ------------------------------------------------------------ the port

    def use_credentials(self, opens: Opens, pulls: Pulls) -> None:  # noqa: ARG002 - nothing pulls images here
        self._opens = opens

    def use_code(self, code_of: CodeOf) -> None:
        self._code.code_of = code_of

    def observe(self) -> Observation:
        with self._lock:
            self._refresh()
            nodes = None if self._nodes_told else (self._machine.node,)
            self._nodes_told = True
            return Observation({key: live.fact for key, live in self._live.items()}, nodes)

    def sync(self, desired: Desired) -> None:
        """Applies *desired*; accesses files only for changes."""
        with self._lock:
            self._check_folder()
            self._desired = desired
            self._carry_out()

    def wait(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            if self._wake_pipe.wait(min(left, _POLL_S)):
                return
            with self._lock:
                if self._refresh():
                    return

    def wake(self) -> None:
        self._wake_pipe.ring()

    def output(self, key: TaskKey) -> Output | None:
        return output_of(self._tasks, key)

    def keeps_output(self, key: TaskKey) -> bool:
        return Attempt(self._tasks, key).output.is_dir()

    def gpu_use(self) -> Mapping[str, Sequence[GpuUse]] | str:
        measured = self._gpus.use() if self._gpus else f"this machine has no real GPUs ({why_no_gpus()})"
        return measured if isinstance(measured, str) else {self._machine.node.name: measured}

    def gpu_minutes(self, node: str, gpus: Sequence[int], since: float, until: float) -> tuple[GpuMinute, ...]:
        return self._gpus.minutes(gpus, since, until) if self._gpus and node == self._machine.node.name else ()

    async def enter(self, key: TaskKey, program: Program) -> Passage:
        folder, pid = self._supervisor_of(key)
        async with self._doors.setdefault(key, asyncio.Lock()):
            return await visits.visit(folder, pid, program)

    async def connect(self, key: TaskKey, port: int, *, udp: bool = False) -> Passage:
        way = datagrams.connect if udp else task_ports.connect
        return await way(f"{key.workflow}/{key.task}", self._supervisor_of(key)[1], port)

    def _supervisor_of(self, key: TaskKey) -> tuple[Path, int]:
        """Returns the folder and supervisor of a running attempt. Takes no lock, because the event loop calls it."""
        live = self._live.get(key)
        pid = None if live is None or live.fact.phase is not Phase.RUNNING else live.attempt.supervisor_pid()
        if live is None or pid is None:
            raise Conflict(f"{key.workflow}/{key.task} is not running. See `runrig workflow query {key.workflow}`")
        return live.attempt.folder, pid

    def discard(self, workflow: str) -> None:
        with self._lock:
            alive = any(key.workflow == workflow for key in self._live)
        # An attempt that is alive has not ended, whatever the caller believes, so its folder stays.
        if not alive and is_folder_name(workflow):
            shutil.rmtree(self._tasks / workflow, ignore_errors=True)

    def close(self) -> None:
        self._code.close()
        self._wake_pipe.close()
        if self._gpus is not None:
            self._gpus.close()

    # ------------------------------------------------------------ what is

    def _load(self) -> None:
        there = supervisors(self._tasks)
        self._children = {pid: folder for folder, pid in there.items()}
        for key, of_this_boot in self._markers.load():
            live = self._live[key] = Live(Attempt(self._tasks, key))
            live.child = there.get(live.attempt.folder)
            if not of_this_boot and live.attempt.ended() is None:
                live.attempt.end(ExitCode.BACKEND_ERROR, _REBOOTED)
        known = {live.attempt.folder for live in self._live.values()}
        self.strays = Strays(self._tasks, lambda folder: folder in known and (folder in there or supervised(folder)))
        self.strays.end()
        self._refresh()

    def _check_folder(self) -> None:
        """Raises ServerFault if the folder was deleted or replaced, possibly by that of another server."""
        found = identity(self._tasks)
        if found != self._identity:
            raise ServerFault(
                f"{self._tasks} was {'replaced' if found else 'deleted'} while the server used it, so no task can be started or "
                "stopped. Restart the server"
            )

    def _refresh(self) -> bool:
        """Reads the files of unfinished attempts; returns True if anything changed."""
        self._check_folder()
        self._collect()
        if self._behind:
            self._carry_out()
        lost = []
        changed = False
        for live in self._live.values():
            if live.ended:
                continue
            before = live.fact
            if self._alone(self._look, live):
                lost.append(live)
            changed |= live.fact != before
        return self._bury(lost) or changed

    def _look(self, live: Live) -> bool:
        """Updates the fact; returns True if the supervisor died without recording a readable end."""
        attempt = live.attempt
        try:
            claimed = attempt.claimed
            if self._lives(live, claimed):
                if live.fact is STARTING and attempt.running():
                    live.fact = TaskFact(Phase.RUNNING)
                return False
            ended = attempt.ended()  # Read after checking the supervisor, which writes it last.
        except OSError as error:
            if error.errno not in NO_FILE:
                raise
            # A damaged folder must not harm other attempts.
            return live.child not in self._children
        if ended is not None:
            live.fact = ended
        elif claimed or live.fact is not STARTING:
            return True
        elif live.tries and attempt.key in self._desired.run:
            self._supervise(live)
        return False

    def _lives(self, live: Live, claimed: bool) -> bool:
        """Returns True while its supervisor is alive: it has the claim, or its process exists even without the file."""
        if claimed and live.attempt.supervised():
            return True
        end = time.monotonic() + _LEAVES_S
        while live.child in self._children:
            if not claimed or time.monotonic() > end:
                return True
            time.sleep(_LEAVES_S / 20)  # The supervisor released the claim, so it is about to exit.
            self._collect()
        return False

    def _bury(self, lost: list[Live]) -> bool:
        """Ends attempts whose supervisor was killed, once their processes are gone. Returns True if all were."""
        if not lost:
            return False
        folders = {live.attempt.folder for live in lost}
        left = kill_all(lambda _pid, folder: folder in folders)
        for live in lost:
            if live.attempt.folder not in left:
                live.fact = live.attempt.settle(ExitCode.BACKEND_ERROR, _LOST)
        return len(left) < len(lost)

    def _collect(self) -> None:
        """Reaps supervisors that have ended."""
        self._children = {pid: folder for pid, folder in self._children.items() if not reaped(pid, folder)}

    # ------------------------------------------------------------ the desired state

    def _carry_out(self) -> None:
        desired = self._desired
        taken_on, room = self._take_on(desired), self.strays.end()
        self._behind = not (taken_on and room)
        for key, launch in desired.run.items() if room else ():
            live = self._live.get(key)
            if live is not None and live.fact is STARTING and live.tries == 0:
                self._alone(self._begin, live, launch)
        for key, launch in desired.stop.items():
            if key in self._live:
                self._alone(self._stop, self._live[key], launch.grace_s)
        for key in [key for key in self._live if key not in desired.run and key not in desired.stop]:
            self._alone(self._finish, self._live[key])
        self._code.keep({launch.code for launch in desired.run.values()})

    def _alone(self, act: Callable[..., Any], live: Live, *args: Any) -> Any:
        """Returns the result of *act*; None if it fails for this attempt, which does not stop the others and is retried."""
        try:
            return act(live, *args)
        except Exception as error:
            if isinstance(error, OSError) and error.errno in NO_DESCRIPTOR:  # It would fail for every attempt.
                raise
            if not live.failed:
                _log.exception("event=attempt_failed task=%s", live.attempt.folder)
            live.failed = self._behind = True
            return None

    def _take_on(self, desired: Desired) -> bool:
        """Marks new attempts as live; returns False if some were not: the disk is full, or their folder is still in use."""
        wanted: dict[str, list[Launch]] = {}
        for launch in (*desired.run.values(), *desired.stop.values()):
            wanted.setdefault(launch.key.workflow, []).append(launch)
        uuids, known = {id: launches[0].workflow_uuid for id, launches in wanted.items()}, self._owners
        self._owners = {id: uuid for id, uuid in uuids.items() if known.get(id) == uuid or self._own(id, wanted[id])}
        owned = [launch.key for id in self._owners for launch in wanted[id] if launch.key not in self._live]
        try:
            self._markers.add(owned)
        except OSError:
            return False
        self._live.update((key, Live(Attempt(self._tasks, key))) for key in owned)
        return len(self._owners) == len(wanted)

    def _own(self, id: str, launches: list[Launch]) -> bool:
        """Ensures that the folder of workflow *id* belongs to *launches*; returns False if it does not yet."""
        uuid = launches[0].workflow_uuid
        alive = [live for live in self._live.values() if live.attempt.key.workflow == id]
        try:
            if not owners.belongs_to(self._tasks, id, uuid, [each.key for each in launches], alive=bool(alive)):
                folder = self._tasks / id
                if kill_all(lambda _pid, attempt: folder in attempt.parents):
                    return False
                self._collect()
                for live in alive:
                    self._forget(live)
                _log.warning("event=tasks_moved_aside workflow=%s folder=%s", id, owners.put_aside(self._tasks, id))
            if owners.owner_of(self._tasks, id) != uuid:
                owners.own(self._tasks, id, uuid)
        except OSError:
            return False
        return True

    def _begin(self, live: Live, launch: Launch) -> None:
        """Starts the attempt, unless an earlier server process did."""
        attempt = live.attempt
        if live.child in self._children or attempt.claimed:
            return
        ended = attempt.ended()
        if ended is not None:
            self._see(live, ended)
            return
        try:
            if not attempt.prepared:
                prepare(attempt, self._tasks, launch, self._machine.visible, self._opens, self._code)
        except NotCopied:
            self._behind = True
        except (ValueError, NotFound) as error:
            self._see(live, attempt.settle(ExitCode.START_ERROR, str(error)))
        except OSError as error:
            if error.errno in NO_DESCRIPTOR:
                raise
            why = f"its folder could not be created: {error.strerror}"
            self._see(live, attempt.settle(ExitCode.BACKEND_ERROR, why))
        else:
            self._supervise(live)

    def _supervise(self, live: Live) -> None:
        live.tries += 1
        if live.tries > _TRIES:
            log = live.attempt.folder / "supervisor.log"
            self._forbid(live, ExitCode.BACKEND_ERROR, f"its supervisor did not start; see {log}")
            return
        with contextlib.suppress(OSError):  # Too many processes at present.
            live.child = start_supervisor(live.attempt.folder)
            self._children[live.child] = live.attempt.folder

    def _stop(self, live: Live, grace_s: float) -> None:
        if live.ended or (live.grace_s is not None and live.grace_s <= grace_s):
            return
        if live.fact is STARTING:
            self._forbid(live, supervisor.STOPPED, "stopped before it started")
        if not live.ended and live.attempt.prepared:
            live.attempt.ask_to_stop(grace_s, live.child if live.child in self._children else None)
            live.grace_s = grace_s

    def _forbid(self, live: Live, code: int, message: str) -> None:
        """Ends the attempt if it has not begun; if the disk is full, a later call retries."""
        if (ended := live.attempt.forbid(code, message)) is not None:
            self._see(live, ended)

    def _see(self, live: Live, fact: TaskFact) -> None:
        """Records a fact that no supervisor will report."""
        live.fact = fact
        self._wake_pipe.ring()

    def _finish(self, live: Live) -> None:
        """Removes the attempt if it has ended; else kills it, and a later call removes it."""
        self._stop(live, 0.0)
        if live.ended:
            self._forget(live)

    def _forget(self, live: Live) -> None:
        supervisor.forget_secrets(str(live.attempt.folder))
        self._markers.remove(live.attempt.key)
        self._doors.pop(live.attempt.key, None)
        self._code.forget(live.attempt.key)
        del self._live[live.attempt.key]
