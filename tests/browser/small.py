"""A server of four nodes that has been in use for two days, for browsers; its clock stands still."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fastapi import FastAPI

from runrig.api.app import create_app
from runrig.domain.access import role_named
from runrig.domain.credentials import CredentialKind
from runrig.domain.gangs import Priority
from runrig.domain.nodes import Node
from runrig.web.install import install
from tests.browser.large import HERE, Large
from tests.worlds.http import listening
from tests.worlds.service import Desk, desk, one_task, submit

CLUSTER = """
pools:
- {name: vision, quota: 16, cohort: research, max_run_time: 1d, default_run_time: 4h, gpus_per_workflow: 24, user_waiting: 20,
   description: "Pictures & films"}
- {name: nlp, quota: 16, cohort: research, subpools: [{name: chat, quota: 4}]}
cohorts: [{name: research}]
"""
NODES = tuple(Node(f"n{number}", {"gpu": 8}) for number in range(1, 5))
USERS = ("ann", "bob", "cy", "eve")
HOSTILE = "<img src=x onerror=alert(1)> \"'&"
ARRAY = """
workflow:
  name: points
  groups:
  - {name: runs, array: {indices: 0-59, most: 2}, tasks: [{name: main, image: any, command: [run], duration: 9000000}]}
  resources: {default: {gpu: 0, cpu: 0}}
"""
STEP_S = 1200.0


@contextmanager
def small(folder: Path, steps: int = 144) -> Iterator[Large]:
    """*steps*: of 20 minutes each, in which somebody submits something."""
    with desk(folder, nodes=NODES, cluster=CLUSTER) as it:
        _use(it, steps)
        access = it.service.access
        for name in USERS[1:]:
            access.users.create(name, [role_named("vision-user")], actor="ann")
        access.users.create("root", [role_named("admin")], actor="ann")
        it.service.declarations.update_user_limits("eve", {"gpus": 4, "waiting": 9}, by="root", dry_run=False)
        it.service.declarations.pause_pool("nlp--chat", user="root", reason=HOSTILE)
        token = access.tokens.create("root", "laptop", None, actor="root", description=HOSTILE)
        access.credentials.set("root", "wandb", CredentialKind.GENERIC, {"api_key": "x"}, actor="root")
        cookie = access.browsers.enter(token.text, HERE)

        def application(port: int) -> FastAPI:
            app = create_app(it.service, port=port)
            install(app, it.service)
            return app

        with listening(application) as port:
            yield Large(it, port, cookie, "big-1", "train-1")


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
