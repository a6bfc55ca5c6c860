"""A researcher's day at a real server in this process, on a terminal of 80 columns: each command with all that it prints.

``python -m tests.cli.day`` records it anew; read it aloud before it is kept.
"""

import os
import shlex
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from runrig.domain.gpu_use import GpuUse
from runrig.domain.observed import Phase, TaskFact
from runrig.domain.workflows import TaskKey
from runrig.ports.backend import LogFile, Output
from runrig.ports.store import WorkflowQuery
from runrig.spec.cluster import read_cluster
from tests.patience import until
from tests.service.notices.mailbox import Mailbox, mailbox
from tests.worlds.served import Served, served

RECORDED = Path(__file__).with_name("day.txt")
_WIDTH = 80
_CLUSTER = """
backend: {name: lab, type: simulated}
nodes: [{name: "n{1..4}", resources: {gpu: 8, cpu: 64, memory: 512Gi}}]
cohorts: [{name: lab}]
pools:
- {name: vision, cohort: lab, quota: 16}
- {name: nlp, cohort: lab, quota: 16}
"""
_OF_BOB = """
workflow:
  name: NAME
  tasks: [{name: main, image: any, command: [x], duration: SECONDS, resource: node}]
  resources: {node: {gpu: 8}}
"""
_FAILURE = """step 0  loading ckpt/base.pt
Traceback (most recent call last):
  File "train.py", line 88, in <module>
    net.load_state_dict(ckpt["state_dict"])
KeyError: 'state_dict'
"""
_STOPPED = 143
_ROLES = ("vision-user", "nlp-user")


class Day:
    """*screen*: what stands on it so far."""

    def __init__(self, server: Served, folder: Path, midnight: float, mailbox: Mailbox) -> None:
        self.ann = server.by("anna", *_ROLES)
        self.bob = server.by("bob", *_ROLES)
        self.screen = ""
        self._desk = server.desk
        self._folder = folder
        self._mailbox = mailbox
        self._midnight = midnight
        self.date = datetime.fromtimestamp(midnight, UTC).date().isoformat()

    def at(self, clock: str) -> None:
        """Moves the clock of the server to HH:MM or HH:MM:SS, in small steps at its end, so that what is due happens."""
        hours, minutes, *seconds = map(int, clock.split(":"))
        self._desk.time[0] = self._midnight + 3600 * hours + 60 * minutes + sum(seconds)
        self._desk.later(0)
        self._desk.later(0)
        self.screen += f"# {clock}\n"

    def type(self, line: str, meanwhile: Callable[[], None] = lambda: None, answer: str = "") -> None:
        """Rounds of the server go on meanwhile, as its own thread would do.  *meanwhile*: what happens before the command ends.
        *answer*: to its question.
        """
        with ThreadPoolExecutor(1) as typing:
            running = typing.submit(self.ann.runrig, *shlex.split(line), typed=answer, width=_WIDTH)
            meanwhile()
            while not running.done():
                self._desk.service.settle()
                wait([running], timeout=0.01)
        self._desk.service.settle()  # Changes made by the command happen before the clock advances.
        done = running.result()
        out = done.out.replace(self.ann.url, "http://server").replace(self.date, "2026-01-31")
        err = done.err.replace(str(self._folder), "/home/anna")
        self.screen += f"$ runrig {line.replace(self.date, '2026-01-31')}\n{err}{out}"
        self.screen += f"[exit code {done.code}]\n" if done.code else ""

    def submits(self, name: str, pool: str, seconds: int = 90_000) -> str:
        """Bob's work of 8 GPUs; returns its id."""
        return self.bob.submit(_OF_BOB.replace("NAME", name).replace("SECONDS", str(seconds)), "--pool", pool)

    def writes(self, id: str, task: str, text: str, attempt: int = 0) -> None:
        """The task has written *text* so far."""
        name = f"{id}-{task}-{attempt}.log"
        (self._folder / name).write_text(text, encoding="utf-8")
        output = Output(LogFile(str(self._folder), name))
        self._desk.backend.written = {**self._desk.backend.written, TaskKey(id, task, attempt): output}

    def measures(self, node: str, busy: int) -> None:
        """Each of the 8 GPUs of the node is so busy, in percent."""
        uses = [GpuUse(index, busy, 61 << 30, 79 << 30, 640.0) for index in range(8)]
        self._desk.backend.gpus = {**(self._desk.backend.gpus or {}), node: uses}

    def edits(self, name: str, text: str) -> None:
        """Changes a file of anna's project, the folder in which she types."""
        Path(name).write_text(text, encoding="utf-8")

    def runs(self, id: str, *tasks: str, attempt: int = 0) -> None:
        """The tasks run until they end."""
        self._see(TaskFact(Phase.RUNNING), id, tasks, attempt)

    def finishes(self, id: str, *tasks: str, after_s: int, attempt: int = 0, text: str = "") -> None:
        """Each task writes *text* when the workflow runs, and all end well *after_s* later."""
        for task in tasks if text else ():
            self.writes(
                id, task, text, attempt
            )  # Before it can run, because the command might look too early otherwise.
        while id not in self._ids() or self._desk.status(id) != "RUNNING":
            self._desk.service.settle()
        self._desk.time[0] += after_s
        self._see(TaskFact(Phase.ENDED, 0, by_itself=True), id, tasks, attempt)
        self._desk.later(0)

    def reads_mail(self) -> None:
        """The mail that has come by now."""
        notices, store = self._desk.service.notices, self._desk.store.notices
        notices.collect()

        def arrived() -> bool:
            notices.send()
            return not store.waiting("anna")

        until(arrived)
        for _, mail in self._mailbox.got:
            text = "\n".join(mail.get_content().splitlines()).replace(self.date, "2026-01-31")
            self.screen += f"(mail) {mail['Subject']}\n{text}\n"

    def counts_usage(self) -> None:
        """As the server's own thread does it."""
        while self._desk.service.usage.step():
            pass

    def _ids(self) -> set[str]:
        return {each.id for each in self._desk.store.workflows(WorkflowQuery(limit=100))[0]}

    def ends(self, id: str, *tasks: str, code: int) -> None:
        self._see(TaskFact(Phase.ENDED, code, by_itself=code != _STOPPED), id, tasks, 0)

    def _see(self, fact: TaskFact, id: str, tasks: tuple[str, ...], attempt: int) -> None:
        facts = {TaskKey(id, task, attempt): fact for task in tasks}
        self._desk.backend.facts = {**self._desk.backend.facts, **facts}


def the_day(day: Day) -> str:
    """Returns the transcript."""
    day.at("09:00")
    day.submits("detr", "vision")
    day.submits("lm", "nlp")
    day.at("09:01")
    day.type("pool default")
    day.type("pool default vison")
    day.type("pool default vision")
    day.at("09:04")
    day.type("run --gpus 8 -- torchrun train.py")
    day.at("09:05")
    day.type("run --gpus 8 --time 4h --code none -d -- torchrun train.py --lr 1e-4")
    day.at("09:05:04")
    day.writes("train-1", "main", _FAILURE)
    day.runs("train-1", "main")
    day.ends("train-1", "main", code=1)
    day.at("09:08:45")
    day.type("logs")
    day.type("wait train-1")
    day.at("09:10")
    day.type("run -g 8 -N 2 --time 8h --code none -d -- torchrun train.py --lr 1e-4")
    day.at("09:10:01")
    day.type("why trian-2")
    day.type("why train-2")
    day.at("09:14")
    day.type("workflow reprioritise train-2 --priority LOW --dry-run")
    day.type("workflow reprioritise train-2 --priority LOW")
    day.runs("train-2", "main-0", "main-1")
    day.at("09:14:01")
    day.writes("train-2", "main-0", "epoch 0  step 20  loss 7.9120  lr 1.0e-06\nepoch 0  step 40  loss 7.4018\n")
    day.writes("train-2", "main-1", "W dataloader: worker 5 was slow (2.1 s)\n")
    day.type("logs --tail 1")
    day.measures("n3", busy=96)
    day.measures("n4", busy=94)
    day.type("top")
    day.type("notify --to anna --when fail,preempt")
    day.type("notify --to anna@example.org --when fail,preempt")
    day.at("12:30")
    day.type("status")
    other = day.submits("lm", "nlp", seconds=3000)
    day.at("12:30:05")
    day.ends("train-2", "main-0", "main-1", code=_STOPPED)
    day.reads_mail()
    day.at("12:30:20")
    day.runs("train-2", "main-0", "main-1", attempt=1)
    day.type("why train-2")
    day.type("status")
    day.at("13:20:41")
    day.at("13:20:42")
    day.writes("train-2", "main-0", "resuming from ckpt/60223.pt\n", attempt=1)
    day.writes("train-2", "main-1", "resuming from ckpt/60223.pt\n", attempt=1)
    day.type("logs train-2 --attempt all --grep resuming")
    day.at("14:42")
    day.bob.runrig("cancel", "detr-1")
    day.at("14:42:40")
    day.at("14:43")
    day.runs("sweep-1", *(f"main-{each}" for each in range(10)))  # each as soon as it exists
    day.type("run --array 0-9%3 --name sweep --code none -d -- python eval.py --seed '{{array_index}}'")
    day.type("run -g 0 --after train-2 --name final --code none -d -- python final.py")
    day.at("14:50")
    day.ends("sweep-1", "main-0", "main-1", code=0)
    day.at("14:55")
    day.ends("sweep-1", "main-3", code=1)
    day.at("15:00")
    day.type("array sweep-1 --most 4")
    day.at("15:31")
    day.type("status")
    day.type("workflow query train-2")
    day.type("why sweep-1/9")
    day.type("why final-1")
    day.ends("sweep-1", *(f"main-{each}" for each in (2, 4, 5, 6, 7, 8, 9)), code=0)
    day.at("15:31:10")
    day.at("15:31:20")
    day.at("15:31:30")
    day.type("wait sweep-1 train-1")
    day.runs("sweep-2", "main-3")
    day.type("restart sweep-1 --failed")
    day.type("cancel sweep-2/3")
    day.edits("train.py", 'net.load_state_dict(ckpt["model"])\n')
    day.type("restart train-1 --failed --code .")
    day.at("15:32")
    day.type("cancel train-3")
    day.at("15:40")
    day.runs("report-1", "main")  # as soon as it exists
    reported = partial(day.finishes, "report-1", "main", after_s=241, text="wrote report.pdf\n")
    day.type("run -g 0 --code none -- python report.py", reported)
    day.at("16:05")
    day.type("attach report-1")
    day.type("run -g 0 --after train-2 --name draft --code none -d -- python draft.py")
    day.type("cancel", answer="y\n")
    day.type("logs -f train-2", partial(day.finishes, "train-2", "main-0", "main-1", after_s=6900, attempt=1))
    day.type("workflow query train-2")
    day.counts_usage()
    day.type(f"usage --by user,pool --since {day.date}")
    day.type(f"usage --by flavor --since {day.date}")
    assert other == "lm-2"
    return day.screen


@contextmanager
def morning() -> Iterator[Day]:
    """A server whose clock stands at midnight of today, in UTC, the zone of this process meanwhile."""
    zone, before = os.environ.get("TZ"), Path.cwd()
    os.environ["TZ"] = "UTC"
    time.tzset()
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
    nodes = read_cluster(_CLUSTER).nodes
    try:
        with (
            TemporaryDirectory() as folder,
            served(Path(folder), nodes=nodes, cluster=_CLUSTER, time=midnight) as it,
            mailbox(Path(folder)) as (letters, sends),
        ):
            it.desk.service.notices._mail = sends
            project = Path(folder, "project")
            project.mkdir()
            os.chdir(project)
            yield Day(it, Path(folder), midnight, letters)
    finally:
        os.chdir(before)
        os.environ.pop("TZ") if zone is None else os.environ.update(TZ=zone)
        time.tzset()


if __name__ == "__main__":
    with morning() as today:
        RECORDED.write_text(the_day(today), encoding="utf-8")
