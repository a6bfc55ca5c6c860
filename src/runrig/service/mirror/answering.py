"""The mirror's process: answers questions one at a time, and forks a branch for each that changes the state.

Each question has its own connection, which also carries the answer. Hanging up ends the branch that works on it.
"""

import os
import selectors
import signal
import socket
import traceback
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Generic, NamedTuple, TypeVar, cast

from runrig.engine.state.state import State
from runrig.service.mirror.replica import Replica

T = TypeVar("T")

Call = tuple[Callable[..., T], tuple[Any, ...]]
"""A function of a state, identified by module and name, and its other arguments."""

READY = b"ready"
KEEPS_UP_S = 1.0
"""Seconds between updates of the replica while no question arrives."""
LOOKS = 100
"""Gangs evaluated before the next question gets its turn: about 30 ms."""


class Question(NamedTuple, Generic[T]):
    """*ask*: a pure function of a state and *args*, identified by module and name. *at_least*: the oldest acceptable
    revision.

    *branch*: it changes the state.
    """

    ask: Callable[..., T]
    args: tuple[Any, ...]
    at_least: int = 0
    branch: bool = False


class Answer(NamedTuple, Generic[T]):
    """*value*: as of *revision*; None after a *fault*, which describes how the function failed."""

    value: T | None
    revision: int
    fault: str = ""


class Answering:
    """*door*: receives questions, one descriptor each, until the other end is closed."""

    def __init__(self, door: socket.socket, replica: Replica) -> None:
        self._door = door
        self._replica = replica
        self._selector = selectors.DefaultSelector()
        self._selector.register(door, selectors.EVENT_READ)
        # Descriptor of the process → (its pid, the asker's connection).
        self._branches: dict[int, tuple[int, Connection]] = {}

    def run(self) -> None:
        """Returns when the server has ended. Raises what the store raises."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._replica.catch_up()
        with suppress(BrokenPipeError):
            self._door.send(READY)
        while True:
            ready = self._selector.select(KEEPS_UP_S if self._replica.settled else 0)
            if not ready:
                self._idle()
            for key, _ in ready:
                if key.fileobj is self._door:
                    if not self._take():
                        self._end_branches()
                        return
                elif key.fd in self._branches:
                    self._ended(key.fd)
                elif key.data in self._branches:
                    self._kill(key.data)

    def _idle(self) -> None:
        if self._replica.settled:
            self._replica.catch_up()
        else:
            self._replica.settle(LOOKS)

    def _take(self) -> bool:
        """Receives a question; returns False if no more will come."""
        try:
            _, descriptors, *_ = socket.recv_fds(self._door, len(READY), 1)
        except ConnectionResetError:  # The server stopped before it read the ready message.
            return False
        if not descriptors:
            return False
        asker = Connection(descriptors[0])
        try:
            question: Question[Any] = asker.recv()
        except (EOFError, OSError):
            asker.close()
            return True
        if self._replica.state.revision < question.at_least:
            self._replica.catch_up()
        if not self._replica.settled:
            self._replica.settle(LOOKS)
        if question.branch:
            self._branch(asker, question)
        else:
            with closing(asker), suppress(OSError):
                asker.send(answer(self._replica.state, question))
        return True

    def _branch(self, asker: Connection, question: Question[Any]) -> None:
        self._replica.make_ready()
        number = os.fork()
        if number == 0:
            try:
                os.setpgid(0, 0)  # So that it can be killed together with its own branches.
                self._hang_up_others()
                asker.send(answer(self._replica.state, question))
            finally:
                os._exit(0)
        process = os.pidfd_open(number)
        self._branches[process] = number, asker
        self._selector.register(process, selectors.EVENT_READ)
        self._selector.register(asker, selectors.EVENT_READ, process)

    def _hang_up_others(self) -> None:
        """Closes a branch's copies of the mirror's other descriptors."""
        self._door.close()
        for _, asker in self._branches.values():
            asker.close()

    def _kill(self, process: int) -> None:
        """Kills a branch whose asker hung up. Its end is handled like any other."""
        number, asker = self._branches[process]
        self._selector.unregister(asker)
        _end(number)

    def _ended(self, process: int) -> None:
        number, asker = self._branches.pop(process)
        os.waitpid(number, 0)
        self._selector.unregister(process)
        with suppress(KeyError):
            self._selector.unregister(asker)
        os.close(process)
        asker.close()

    def _end_branches(self) -> None:
        for number, _ in self._branches.values():
            _end(number)


def _end(branch: int) -> None:
    """Kills *branch* and its own branches; it may not have a process group yet."""
    os.kill(branch, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.killpg(branch, signal.SIGKILL)


def in_branches(state: State, calls: Sequence[Call[T]]) -> list[T]:
    """Returns the result of each of *calls* in its own *state*, all but the last in another process. Only for branches."""
    pipes = []
    for call in calls[:-1]:
        ours, theirs = Pipe(duplex=False)
        if os.fork() == 0:
            try:
                theirs.send(answer(state, Question(*call)))
            finally:
                os._exit(0)
        theirs.close()
        pipes.append(ours)
    last = [ask(state, *args) for ask, args in calls[-1:]]
    answers: list[Answer[T]] = [each.recv() for each in pipes]
    for fault in filter(None, (each.fault for each in answers)):
        raise RuntimeError(fault)
    return [cast(T, each.value) for each in answers] + last


def answer(state: State, question: Question[T]) -> Answer[T]:
    try:
        return Answer(question.ask(state, *question.args), state.revision)
    except Exception:  # noqa: BLE001 - the server logs it, and uses its own state
        return Answer(None, state.revision, traceback.format_exc())
