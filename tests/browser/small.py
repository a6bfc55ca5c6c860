"""A server of four nodes that has been in use for two days, for browsers; its clock stands still."""

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from runrig.api.app import create_app
from runrig.domain.access import role_named
from runrig.domain.credentials import CredentialKind
from runrig.domain.gangs import Priority
from runrig.domain.nodes import Node, Taint
from runrig.domain.observed import Phase, TaskFact
from runrig.domain.workflows import TaskKey
from runrig.ports.backend import LogFile, Output
from runrig.service.notices.webhook import Webhook
from runrig.web.install import install
from tests.browser.large import HERE, Large
from tests.service.notices.receiver import HERE as THIS_MACHINE
from tests.worlds.http import Client, listening
from tests.worlds.service import Desk, desk, one_task, submit

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)> \"'&"
"""What people may type."""
ODD = f"{HOSTILE} \u202egpj.\u202c \u200bzero\u200d {'long' * 75}"
"""What programs and clusters may write: with marks that turn the direction, characters without a width, and a very long word."""
DESCRIPTION = f"Pictures & films \"'&amp; {'long' * 75}"
"""The command line and files refuse < and > in it."""
CLUSTER = f"""
pools:
- {{name: vision, quota: 16, cohort: research, max_run_time: 1d, default_run_time: 4h, gpus_per_workflow: 24, user_waiting: 20,
   description: {json.dumps(DESCRIPTION)}}}
- {{name: nlp, quota: 16, cohort: research, subpools: [{{name: chat, quota: 4}}]}}
cohorts: [{{name: research}}]
"""
_LABELS = {"zone": ODD, HOSTILE: "z", "l" * 200: "v" * 200}
NODES = tuple(
    Node(f"n{number}", {"gpu": 8}, labels=_LABELS if number == 1 else {}, taints=(Taint(ODD, ODD, "PreferNoSchedule"),))
    for number in range(1, 5)
)
USERS = ("ann", "bob", "cy", "eve")
ARRAY = """
workflow:
  name: points
  groups:
  - {name: runs, array: {indices: 0-59, most: 2}, tasks: [{name: main, image: any, command: [run], duration: 9000000}]}
  resources: {default: {gpu: 0, cpu: 0}}
"""
STEP_S = 1200.0


@dataclass(frozen=True)
class Small(Large):
    """*token*: of the same user as *cookie*."""

    token: str = ""

    def api(self, path: str) -> Any:
        client = Client(f"{HERE}:{self.port}", {"Authorization": f"Bearer {self.token}"})
        try:
            return client.ok("GET", path)
        finally:
            client.close()

    def limits(self, kind: str) -> list[tuple[str | None, int]]:
        """(user, most) of each limit of this *kind*."""
        return [
            (each["user"], each["most"])
            for each in self.api("/api/v1/limits?limit=500")["items"]
            if each["limit"] == kind
        ]


@contextmanager
def small(folder: Path, steps: int = 144) -> Iterator[Small]:
    """*steps*: of 20 minutes each, in which somebody submits something."""
    with desk(folder, nodes=NODES, cluster=CLUSTER) as it:
        it.service.keeper.step()  # Recorded history begins here.
        _use(it, steps)
        _fail(it, folder)
        access = it.service.access
        for name in USERS[1:]:
            access.users.create(name, [role_named("vision-user")], actor="ann")
        access.users.create("root", [role_named("admin")], actor="ann")
        it.service.declarations.update_user_limits("eve", {"gpus": 4, "waiting": 9}, by="root", dry_run=False)
        it.service.declarations.pause_pool("nlp--chat", user="root", reason=HOSTILE)
        it.service.notices._webhook = Webhook(THIS_MACHINE)
        made = access.tokens.create("root", "laptop", None, actor="root", description=HOSTILE)
        access.credentials.set("root", "wandb", CredentialKind.GENERIC, {"api_key": "x"}, actor="root")
        cookie = access.browsers.enter(made.text, HERE)

        def application(port: int) -> FastAPI:
            app = create_app(it.service, port=port)
            install(app, it.service)
            return app

        with listening(application) as port:
            yield Small(it, port, cookie, "big-1", "train-1", made.text)


def _use(it: Desk, steps: int) -> None:
    chance = random.Random(5)
    for number in range(steps):
        pool, user = chance.choice(("vision", "vision", "nlp", "nlp--chat")), chance.choice(USERS)
        gpus = chance.choice((1, 2, 4)) if pool == "nlp--chat" else chance.choice((1, 2, 4, 4, 8))
        priority = chance.choice((Priority.NORMAL, Priority.NORMAL, Priority.LOW))
        text = one_task(
            f"{chance.choice(('train', 'eval', 'sweep'))}", gpus=gpus, duration=chance.choice((1e3, 9e3, 4e4))
        )
        submit(it.service, text, pool, user, priority)
        it.later(STEP_S)
        while number % 20 == 19 and it.service.usage.step():
            pass
    submit(it.service, one_task("big", gpus=8, duration=9e6), "vision", "bob", Priority.NORMAL)
    for user in (*USERS, *USERS):
        submit(it.service, one_task("longer-name-of-training", gpus=8, duration=9e6), "vision", user, Priority.NORMAL)
        it.later(1)
    while it.service.usage.step():
        pass
    it.later(1500)
    submit(it.service, one_task("late", gpus=1, duration=9e6), "nlp", "ann", Priority.LOW)
    submit(it.service, ARRAY, "nlp", "ann", Priority.LOW)
    it.later(600)
    it.service.usage.step()


def _fail(it: Desk, folder: Path) -> None:
    """odd-1 fails; its file, output, error and the message of its backend are hostile."""
    odd = one_task("odd", gpus=0).replace("image: any", "image: " + json.dumps(HOSTILE.replace(" ", "")))
    odd = odd.replace("command: [sleep, '1']", f"command: [sh, {json.dumps(HOSTILE + 'long' * 75)}]")
    key = TaskKey(submit(it.service, odd, "nlp", "bob", Priority.NORMAL), "main", 0)
    it.backend.facts = {key: TaskFact(Phase.RUNNING)}
    it.later(10)
    (folder / "odd.out").write_text(f"{ODD}\n\x1b[31m{HOSTILE}\x1b[0m\r{ODD}\n", encoding="utf-8")
    (folder / "odd.err").write_text(f'Traceback (most recent call last):\n  File "a.py"\nValueError: {ODD}\n')
    it.backend.written = {key: Output(LogFile(str(folder), "odd.out"), LogFile(str(folder), "odd.err"))}
    it.backend.facts = {key: TaskFact(Phase.ENDED, 1, ODD, by_itself=True)}
    it.later(10)
